"""Podium for AutoGen and Microsoft Agent Framework."""
