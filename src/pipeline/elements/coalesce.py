"""``coalesce``: small blocks of a streamed body are joined, as long as they come fast."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.composition import element
from pipeline.http.joining import join
from pipeline.interfaces import Handler, OptionError
from pipeline.request import Request
from pipeline.response import LIVE, Response

SIZE = 120 * 1024
"""Bytes of a joined block. Smaller blocks cost a server more calls. Blocks of 128 bytes, joined to 64 KiB, took 1.8
(waitress) and 2.0 (gunicorn) times as long as blocks of 64 KiB. Joined to 120 KiB, they took 1.6 and 1.7 times as
long; 240 KiB was not faster."""


@element(
    inside={
        "errors": "a filter that cannot be set up is an error page too",
        "compress": "blocks are joined before they are compressed, since each block is flushed: the other way "
        "round, a page in blocks of 128 bytes takes three to five times as long and becomes twice as large",
    }
)
def coalesce(next: Handler, *, size: int = SIZE, threshold: float = 0.005) -> Handler:
    """Join the blocks of a streamed body, so that many small blocks cost as little as a few large ones.

    size       bytes at which a joined block is sent; default 120 KiB; 0 turns this element off
    threshold  seconds after the last block was sent, after which all blocks that are held are sent

    The first block is sent at once. If the producer takes longer than ``threshold`` to make a block, that block and
    all that are held are sent at once. No block waits longer than that, unless the producer pauses.
    Nothing can be sent while the producer makes the next block, so blocks of a burst before the pause, up to
    ``size`` bytes, wait for its end.

    Bodies in memory, files and event streams pass unchanged.
    """
    if size < 0 or threshold < 0:
        raise OptionError(f"the options size and threshold must not be negative: {size}, {threshold}")
    if not size:
        return next

    def joined(chunks: Iterator[bytes]) -> Iterator[bytes]:
        return join(chunks, size, threshold)

    def coalesce(request: Request, response: Response) -> None:
        next(request, response)
        if response.in_memory:
            return
        is_file = hasattr(response.blocks, "app_iter_range") and not response.filters
        if not is_file and response.content_type not in LIVE:
            response.add_delivery_filter(joined, rewrites=False)

    return coalesce
