"""A view that works, and then meets a transient error in its first two attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def fails_twice(work: Callable[[Any], object], error: Exception) -> tuple[Callable[..., None], list[int]]:
    """Return a view that works, and meets a transient error in its first two attempts; and its attempts."""
    attempts: list[int] = []

    def view(request: Any, response: Any) -> None:
        attempts.append(request.attempt)
        work(request)
        if len(attempts) < 3:
            raise error

    return view, attempts
