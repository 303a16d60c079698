"""The views of the site, by what people do with it."""
