"""Zope Toolkit sites, unchanged: the steps of ``zope.publisher.publish`` as elements of a pipeline.

==================  ===============================================================================
request.py          ``ztk_request``: request factories, skins, end-request event, held objects
errors.py           ``ztk_errors``: error views, in a transaction that is theirs
authenticate.py     ``ztk_authenticate``: inputs, start-request event, principal, interaction
traverse.py         ``ztk_traverse``: traversal events, adapters, namespaces, proxies
publisher.py        ``ztk_publisher``: checkers, ``mapply``, results
manager.py          the transaction manager, implicit as Zope's
application.py      all of these in one WSGI application
==================  ===============================================================================
"""

from pipeline.ztk.application import WSGIPublisherApplication

__all__ = ["WSGIPublisherApplication"]
