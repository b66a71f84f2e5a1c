"""What Podium costs, measured beside its peers: `overhead`, `durability`, `parsing`, `route`.

Run from the root of the repository, as in `python -m benchmarks.overhead --quick`. The peers
are in the dependency group `benchmarks`.
"""
