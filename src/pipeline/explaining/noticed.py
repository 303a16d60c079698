"""Mistakes that no error tells of: the changes of several parts show them, or a header that is set too late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GeneratorType
from typing import Any

from pipeline.between import Step
from pipeline.explaining.changes import BODY, COOKIE, GONE, header_key
from pipeline.explaining.recording import Part

SHARED = {"Allow", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "ETag"}
SHARED |= {"Link", "Server-Timing", "Vary", "WWW-Authenticate"}
"""Headers that several parts may set: lists, and those that follow from a body that is changed on the way."""


def readers(parts: Sequence[Part]) -> Iterator[tuple[str, str, str]]:
    """Yield the parts outside of the element of forms that have read of the body: place, why, and remedy."""
    for number, part in enumerate(parts):
        reader = next((one for one in parts[number + 1 :] if reads_forms(one.step)), None)
        read = part.inward.get(BODY)
        if read is not None and reader is not None and not reads_forms(part.step):
            why = f"{part.step} read the body of the request ({read}), and {reader.step} found only the rest"
            remedy = f"Read request.body, which leaves the body for others, or stand inside of {reader.step}."
            yield part.place, why, remedy


def reads_forms(step: Step) -> bool:
    """Return whether a part reads the forms of requests."""
    return step.element is not None and "form" in step.element.contract.provides


def set_twice(parts: Sequence[Part]) -> Iterator[tuple[str, str, str]]:
    """Yield each header and cookie that two parts set: place, why, and remedy."""
    first: dict[str, Part] = {}
    for part in reversed(parts):
        for name, value in part.answered.items():
            if not name[:1].isupper() or name in SHARED or value == GONE:  # "body" is not a header
                continue
            inner = first.setdefault(name, part)
            if inner is not part:
                what = f"the cookie {name.removeprefix(COOKIE).strip()}" if name.startswith(COOKIE) else name
                why = f"{inner.step} set {what}, and {part.step} ({part.place}) set it again: a browser takes one"
                yield inner.place, why, "Let one of the two set it."


def lost_headers(where: str, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the headers that were set too late: place, why, and remedy."""
    if told := ", ".join(names):
        why = f"{told} was set when the body had begun to be sent, so no visitor gets it"
        yield where, why, "Set headers and cookies before the first block of the body."


def watch_stream(response: Any, lose: Callable[[list[str]], None]) -> None:
    """Have a streamed body watched: the headers that are set behind its first block are told to ``lose``."""
    if type(response.app_iter) is GeneratorType:
        response.app_iter = _watched(response.app_iter, response, lose)


def _watched(body: Any, response: Any, lose: Callable[[list[str]], None]) -> Iterator[bytes]:
    sent: list[tuple[str, str]] | None = None
    try:
        for block in body:
            yield block
            if sent is None:
                sent = [*response.headerlist]
    finally:
        body.close()
        late = [pair for pair in response.headerlist if sent is not None and pair not in sent]
        lose([header_key(*pair) for pair in late])
