"""Rehearse: the newest requests of visitors, asked of the code that is served and of that which is to be."""
