"""``assert_order``: the place of an element is declared."""

from __future__ import annotations

from pipeline.composition import Element
from pipeline.order import objection, reasons_of


def assert_order(outer: Element, inner: Element, *, because: str = "") -> None:
    """Check that one element must stand outside another: the reverse is refused at load, and this order is not.

    outer    the element that must stand outside
    inner    the element that must stand inside of it
    because  words of the declared reason

    Raises AssertionError, which quotes what the elements declare.
    """
    pair = f"{outer.name} outside {inner.name}"
    refusal = objection(outer.contract, inner.contract, ())
    if refusal is not None:
        raise AssertionError(f"{pair} is refused: {refusal}")
    reasons = list(reasons_of(outer.contract, inner.contract))
    if not reasons:
        raise AssertionError(
            f"{pair} is not declared: {inner.name} outside {outer.name} is accepted as well. Declare it by inside, "
            f"outside or requires of one of the two"
        )
    if not any(because in reason for reason in reasons):
        raise AssertionError(f"{pair} is declared, but no reason says {because!r}: {'; '.join(reasons)}")
