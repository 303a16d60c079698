"""The views of the site, by task."""
