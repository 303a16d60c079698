"""The parts that ``pipeline.ztk`` and ``pipeline.zope`` share. They need only packages that both have."""
