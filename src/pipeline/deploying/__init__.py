"""The files that ``pipeline deploy`` writes for each server: a folder of templates for each target."""
