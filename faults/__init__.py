"""The fault campaign: attacks on every door by which something hostile or broken can come into localspec.

`python -m faults` runs it (docs/reliability.md says what it found); the tests run a short part. Each attack is a
generator of cases, reproducible, in a folder of its own. Knows localspec from outside, and the tests' tiny models.
"""
