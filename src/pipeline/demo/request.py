"""The requests of the demo, with the attributes that the elements of etc/deploy.ini add."""

from __future__ import annotations

from pipeline.auth.authentication import AuthRequest
from pipeline.elements.errors import ErrorsRequest
from pipeline.elements.retry import RetryRequest
from pipeline.elements.session import SessionRequest
from pipeline.elements.zodb import ZodbRequest
from pipeline.forms.request import FormsRequest


class DemoRequest(AuthRequest, ErrorsRequest, FormsRequest, RetryRequest, SessionRequest, ZodbRequest):
    """The request as the views of the demo see it."""
