"""Zope sites (ZPublisher), unchanged: the steps of ``ZPublisher.WSGIPublisher`` as elements of a pipeline."""

from pipeline.zope.publishing import publish_module
from pipeline.zope.site import database

__all__ = ["database", "publish_module"]
