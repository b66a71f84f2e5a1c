"""Measures how long the viewer of `podium serve` takes to react to input while a run writes many pieces."""
