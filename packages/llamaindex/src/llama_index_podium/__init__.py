"""Podium for LlamaIndex."""
