"""Measures whether orchestrating pays for a pool of models, on recorded answers of real models."""

__version__ = "0.1.0"
