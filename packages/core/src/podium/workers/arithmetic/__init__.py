"""Arithmetic in plain English: `tokens` cuts a text, `grammar` finds expressions, `exact` works them out."""
