"""Sites that import nothing, so that they load at once."""

from __future__ import annotations

from typing import Any


def different(global_conf: Any) -> Any:
    """A site that answers otherwise in a pipeline, and forgets what it is sent."""

    def different(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"in a pipeline" if "pipeline.request" in environ else b"alone"]

    return different


def same(global_conf: Any) -> Any:
    """A site that forgets what it is sent."""

    def same(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"the same"]

    return same


def of_a_set(global_conf: Any) -> Any:
    """A site with a header that is made of a set."""

    def of_a_set(environ: Any, start_response: Any) -> list[bytes]:
        methods = ", ".join({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})
        start_response("200 OK", [("Content-Type", "text/plain"), ("Allow", methods)])
        return [b"the same"]

    return of_a_set
