"""Tracebacks as text, of bounded length. The text of each frame is kept: to make it takes longer than a request."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter
from types import CodeType, TracebackType

from pipeline.ini import parsed

LONGEST_TRACEBACK = 50_000
"""Characters of a traceback that are shown or logged."""
MOST_FRAMES = 100
"""Frames of a traceback that is put together from known ones. A longer one mostly repeats itself."""
MOST_CAUSES = 20
"""Causes of an error of which the same holds."""
OUR_CODE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
"""The directory of the pipeline's own code."""
MOST_KEPT = 1_000
"""Texts of frames that are kept."""

CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
"""Lines that Python writes between two errors."""

_kept: dict[tuple[int, int], tuple[CodeType, str]] = {}
"""The text of a frame, by the id of its code and the place in it. The code is kept, so that no other has its id."""


def traceback_of(error: BaseException, *, is_short: bool = False) -> str:
    """Return the traceback of an error, with those of its causes, as the module ``traceback`` writes it.

    is_short  whether frames of the pipeline that follow one another are one line
    """
    try:
        text = "".join(_known(error, is_short) or traceback.format_exception(error))
    except Exception as failure:
        text = f"<{type(error).__name__}, of which {type(failure).__name__} prevents a traceback>"
    return shortened(text.rstrip("\n"), LONGEST_TRACEBACK)


def _known(error: BaseException, is_short: bool) -> list[str] | None:
    """Return the parts of a traceback, or None if it is not made of frames and causes alone."""
    parts: list[str] = []
    between = ""
    for number, one in enumerate(chain_of(error, has_hidden=False)):
        if number == MOST_CAUSES or isinstance(one, BaseExceptionGroup):
            return None
        frames = list(islice(frames_of(one), MOST_FRAMES + 1))
        texts = [_text_of(frame) for frame in frames]
        if len(frames) > MOST_FRAMES or len(frames) - len(set(texts)) > 2:  # it repeats itself: told in one line
            return None
        if is_short:
            files = [frame.tb_frame.f_code.co_filename for frame in frames]
            texts = list(_folded(texts, [file.startswith(OUR_CODE) for file in files]))
        first = ["Traceback (most recent call last):\n"] if frames else []
        only = traceback.TracebackException(type(one), one, one.__traceback__, limit=0, compact=True)
        parts[:0] = [*first, *texts, *only.format_exception_only(), between]
        between = DURING if one.__cause__ is None else CAUSED
    return parts


def _folded(texts: list[str], are_ours: list[bool]) -> Iterator[str]:
    """Yield the texts of frames, with one line for those of ours that follow one another. The last one, which has
    raised the error, is always told."""
    for is_ours, group in groupby(zip(texts[:-1], are_ours, strict=False), itemgetter(1)):
        found = [text for text, _ in group]
        yield from [f"  ... {len(found)} frames of the pipeline\n"] if is_ours and len(found) > 1 else found
    yield from texts[-1:]


def frames_of(error: BaseException) -> Iterator[TracebackType]:
    """Yield the frames that an error has passed, the outermost first."""
    found = error.__traceback__
    while found is not None:
        yield found
        found = found.tb_next


def chain_of(error: BaseException | None, has_hidden: bool = True) -> Iterator[BaseException]:
    """Yield an exception, and those that were raised before it and led to it.

    has_hidden  whether those count that ``raise ... from None`` hides
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (error.__context__ if has_hidden or not error.__suppress_context__ else None)


def _text_of(frame: TracebackType) -> str:
    code = frame.tb_frame.f_code
    key = id(code), frame.tb_lasti
    known = _kept.get(key)
    if known is None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        alone = TracebackType(None, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
        known = _kept[key] = code, "".join(parsed(traceback.format_tb, alone))
    return known[1]


def shortened(text: str, longest: int) -> str:
    """Return the beginning and the end of a text that is longer than ``longest`` characters."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}[... {len(text) - 2 * half} characters ...]{text[-half:]}"
