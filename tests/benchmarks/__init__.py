"""Ratios against a floor measured in the same run, by hand: ``python -m tests.benchmarks``. CI looks at no clock."""
