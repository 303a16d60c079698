"""The fixtures are those of the plug-in. pytest lets only the topmost ``conftest.py`` name a plug-in."""

from pipeline.testing.plugin import (
    assert_order,
    check_element,
    log_in,
    make_request,
    make_response,
    site,
    sql_url,
    zodb_uri,
)

__all__ = [
    "assert_order",
    "check_element",
    "log_in",
    "make_request",
    "make_response",
    "site",
    "sql_url",
    "zodb_uri",
]
