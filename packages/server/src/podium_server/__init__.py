"""A server whose models are teams of models."""

__version__ = "0.1.0"
