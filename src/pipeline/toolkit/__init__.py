"""The parts that ``pipeline.ztk`` and ``pipeline.zope`` share. They need only packages that both have.

===========  ===============================================================================================
manager.py   the transaction manager, implicit as Zope's, in the place of the manager of the thread
events.py    no event object without a subscriber
memory.py    answers that are kept until an interface or a registration changes
answers.py   the answer of a response of Zope, put on ours
site.py      the zope.conf of a site, loaded once a process, and what an operator must know of it
pages.py     the browser pages that are registered, and the classes behind them
walks.py     the steps of a request, noted for ``explain``
===========  ===============================================================================================
"""
