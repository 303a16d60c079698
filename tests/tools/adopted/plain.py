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
