"""The requests of the demo: what the elements of etc/deploy.ini add to them."""

from __future__ import annotations

from pipeline.auth.authentication import AuthRequest
from pipeline.elements.errors import ErrorsRequest
from pipeline.elements.retry import RetryRequest
from pipeline.elements.zodb import ZodbRequest
from pipeline.forms.request import FormsRequest


class DemoRequest(AuthRequest, ErrorsRequest, FormsRequest, RetryRequest, ZodbRequest):
    """What the views of the demo may read of a request."""
