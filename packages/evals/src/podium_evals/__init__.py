"""Measures on recorded answers of real models whether plans over several models are worth their cost."""

__version__ = "0.1.0"
