"""The requests that run now in each process of a site: for ``pipeline top``, for probes and for the log."""
