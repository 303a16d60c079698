"""Benchmarks of the pipeline beside its peers; ``python -m bench --help``."""
