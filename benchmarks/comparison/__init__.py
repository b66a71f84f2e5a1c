"""What the same job costs under Podium and under the hosts' own orchestrators.

`python -m benchmarks.comparison` prints calls, tokens and seconds for each arm and number of units.
N units of work do not depend on each other; one more step joins them. The models are scripted, on a
loopback server: orchestrators make no mistake, and every arm's workers write the same outputs.
"""
