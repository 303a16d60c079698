"""The files that ``pipeline deploy`` writes for each server."""
