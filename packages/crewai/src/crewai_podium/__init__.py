"""Podium for CrewAI."""
