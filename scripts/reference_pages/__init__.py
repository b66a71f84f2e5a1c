"""Writes the reference pages of the documentation site into `docs/reference/`, which git ignores."""
