"""The test kit, for tests of sites, views and elements. It needs the extra ``testing``.

``site`` is a WebTest application of a pipeline or an ini. ``make_request`` and ``make_response`` are what a view or
a handler is called with. ``check_element`` checks that an element keeps the element protocol, and ``assert_order``
that its place is declared::

    client = site("etc/site.ini")
    client.get("/wiki").mustcontain("Front page")

    request = make_request("/wiki?a=1", adds=AuthRequest, principal="ada")
    assert page(Wiki(), request) == "..."

    check_element(my_element(option=1))
    assert_order(retry, my_element, because="every attempt reads the file anew")

``FakeDataManager`` and the element ``fault`` fail where a test wants it. The element ``guard_environ`` finds the
element that changes the environ in place. ``Ledger`` tells whether a write was lost::

    app = Pipeline(retry(), transaction(), fault(error=ConflictError, at="exit", times=2), publisher(...))

    stored = []
    FakeDataManager(request.tm, stored, "a value", fails={"tpc_vote": ConflictError}).join()

    ledger = Ledger()
    id = ledger.send()
    answer = requests.post(url, params={"id": id})
    ledger.answered(id, answer.status_code, answer.headers.get("X-Outcome", ""))
    assert ledger.judge(ids_in_the_database) == []

    app = Pipeline(retry(), guard_environ(), my_element(), publisher(...))

``prove`` asks a site for every view, with every failure at every point::

    assert prove("etc/site.ini", user="admin").found == []

``pipeline.testing.plugin`` has fixtures for pytest. It is loaded only by a ``conftest.py`` that names it.
"""

from pipeline.testing.clients import log_in, make_request, make_response, prove, site
from pipeline.testing.conformance import NotConforming, check_element
from pipeline.testing.declarations import assert_order
from pipeline.testing.faults import FakeDataManager, fault
from pipeline.testing.guard import guard_environ
from pipeline.testing.ledger import Ledger

__all__ = [
    "FakeDataManager",
    "Ledger",
    "NotConforming",
    "assert_order",
    "check_element",
    "fault",
    "guard_environ",
    "log_in",
    "make_request",
    "make_response",
    "prove",
    "site",
]
