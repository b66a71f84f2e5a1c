"""Compares the calls, tokens and time of one job with Podium and with the frameworks' own orchestrators.

`python -m benchmarks.comparison` prints calls, tokens and seconds for each arm and number of units. The job
has N independent units of work and one step that joins them. The models are scripted, on a loopback server:
orchestrators make no mistakes, and the workers of all arms write the same outputs.
"""
