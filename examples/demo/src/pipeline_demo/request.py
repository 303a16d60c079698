"""The requests of the demo: each view names a class with the attributes that it uses, and no more."""

from __future__ import annotations

from pipeline.auth.authentication import AuthRequest
from pipeline.elements.errors import ErrorsRequest
from pipeline.elements.forms import FormsRequest
from pipeline.elements.retry import RetryRequest
from pipeline.elements.session import SessionRequest


class PageRequest(AuthRequest, SessionRequest):
    """A request for a page of the site, with the login and the messages of the visitor."""


class FormRequest(PageRequest, FormsRequest):
    """A request that sends a form."""


class CounterRequest(PageRequest, RetryRequest):
    """A request for the next number of a counter."""


class ErrorRequest(AuthRequest, ErrorsRequest):
    """A request that is answered by an error page. The session may be what has failed."""
