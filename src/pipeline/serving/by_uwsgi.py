"""The site under uWSGI that speaks HTTP itself: what its own module ``uwsgi`` lets an application correct."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: the kernel resets the connection when it is closed, in place of ending it."""


def by_http(application: App) -> App:
    """Return the application for ``http-socket``, where uWSGI has no proxy in front of it.

    uWSGI believes the X-Forwarded-Proto of every client (S13). It ends no TLS here, so the scheme is http. The
    element `vhost` believes the proxies that it trusts.
    """
    server = sys.modules.get("uwsgi")  # only there in a process of uWSGI, not where the site is loaded as a try

    def site(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.url_scheme"] = "http"
        blocks = application(environ, start_response)
        return Stream(blocks, server) if server is not None and isinstance(blocks, Iterator) else blocks

    return site


@dataclass(eq=False)
class Stream:
    """Blocks of a body. If they fail, the connection of the client is reset.

    uWSGI would end the connection as it does after a complete answer. A client that was told no length would take
    the part that it has for all of it.
    """

    blocks: Iterator[bytes]
    server: Any

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self.blocks)
        except StopIteration:
            raise
        except BaseException:
            with socket.socket(fileno=os.dup(self.server.connection_fd())) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            raise

    def close(self) -> None:
        if hasattr(self.blocks, "close"):
            self.blocks.close()
