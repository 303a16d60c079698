"""Zope Toolkit sites, unchanged: the steps of ``zope.publisher.publish`` as elements of a pipeline."""

from pipeline.ztk.application import WSGIPublisherApplication
from pipeline.ztk.site import database

__all__ = ["WSGIPublisherApplication", "database"]
