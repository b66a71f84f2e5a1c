"""Measures the performance of Podium and of other frameworks: `overhead`, `durability`, `parsing`, `route`.

Run a benchmark from the root of the repository, as in `python -m benchmarks.overhead --quick`. The other
frameworks are in the dependency group `benchmarks`.
"""
