"""Zope sites (ZPublisher), unchanged: the steps of ``ZPublisher.WSGIPublisher`` as elements of a pipeline.

==================  ===============================================================================
path.py             ``zope_path``: the path as Zope reads it, and the port for WebDAV sources
request.py          ``zope_request``: request and response of Zope, success and failure, the end
errors.py           ``zope_errors``: skin, interaction, exception views
failures.py         exception views, further attempts, exceptions that are raised
traverse.py         ``zope_traverse``: inputs, Zope's own walk, the user
publisher.py        ``zope_publisher``: the object is called
short.py            short ways of the request and the response, and the rule that keeps them safe
application.py      all of these in one WSGI application
site.py             the site of a zope.conf, loaded by Zope's own packages
items.py            ``zope_items``: users and policy for new views beside the old ones
explaining.py       the steps of a request for ``pipeline explain``
publishing.py       ``publish_module``, for the test layers of Zope and Plone
==================  ===============================================================================
"""

from pipeline.zope.publishing import publish_module
from pipeline.zope.site import database

__all__ = ["database", "publish_module"]
