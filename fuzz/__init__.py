"""Fuzzing by atheris: ``python -m fuzz.path -max_total_time=60 -max_len=4096``, from the top of the checkout.

A target holds if what it sends is answered with a status below 500 and takes no more than a thousand times
what a plain input of its length takes.
"""
