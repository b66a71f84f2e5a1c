"""Measures a journal with many runs: the time of every query, and its growth with the number of runs."""
