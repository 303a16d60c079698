"""Zope Toolkit sites, unchanged: the steps of ``zope.publisher.publish`` as elements of a pipeline.

==================  ===============================================================================
request.py          ``ztk_request``: request factories, skins, end-request event, held objects
errors.py           ``ztk_errors``: error views, in a transaction that is theirs
authenticate.py     ``ztk_authenticate``: inputs, start-request event, principal, interaction
traverse.py         ``ztk_traverse``: traversal events, adapters, namespaces, proxies
publisher.py        ``ztk_publisher``: checkers, ``mapply``, results
application.py      all of these in one WSGI application
site.py             the site of a zope.conf, loaded by Zope's own packages
known.py            the rule that keeps short ways safe
policy.py           short ways of the security policy
users.py            principals and policy for new views beside the old ones
explaining.py       what ``pipeline explain`` says of the steps, adapters and checkers
==================  ===============================================================================
"""

from pipeline.ztk.application import WSGIPublisherApplication
from pipeline.ztk.site import database

__all__ = ["WSGIPublisherApplication", "database"]
