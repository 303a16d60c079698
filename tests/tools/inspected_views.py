"""Views for the tests of the inspector in a browser: one is slow, one fails, one has a conflict at first."""

from __future__ import annotations

import logging
import time
from typing import Any

from webob.exc import HTTPNotFound
from ZODB.POSException import ConflictError

from pipeline import view
from pipeline_demo.models import Site

log = logging.getLogger("inspected")


@view(context=Site, name="slow", permission="public")
def slow(site: Any, request: Any) -> str:
    time.sleep(0.6)
    return "slow"


@view(context=Site, name="fails", permission="public")
def fails(site: Any, request: Any) -> str:
    prices = {"tea": 2}
    try:
        return str(prices["coffee"])
    except KeyError as error:
        raise ValueError("there is no price for coffee") from error


@view(context=Site, name="conflicting", permission="public")
def conflicting(site: Any, request: Any) -> str:
    log.warning("attempt %d with password=%s", request.attempt, "swordfish")
    if request.attempt < 3:
        raise ConflictError("for the test")
    return "stored"


@view(context=ValueError)
@view(context=HTTPNotFound)
def without_a_page(error: Exception, request: Any) -> str:
    """Decline: the page is the one for developers, and not that of the site."""
    raise error
