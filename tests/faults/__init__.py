"""Fault experiments: what SAFETY promises, under faults, on real engines.

Each experiment has a positive control: with a bug put back (``faults.bugs``) it fails. Each says its
figures in one line. Short by default; with ``PIPELINE_FAULTS=full`` at full length, as ``make faults``
runs them.
"""
