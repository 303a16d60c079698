"""One view, as ``pipeline views`` lists it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zope.interface import Interface


class Row(NamedTuple):
    """One view. Its texts are "" where there is nothing to tell."""

    kind: Any
    """The class or interface, or what they are specified by, of the objects that it is for."""
    context: str
    name: str
    function: str
    where: str
    permission: str
    methods: str = ""
    request: str = ""
    wants: str = ""
    fields: Sequence[str] = ()
    is_error: bool = False

    def is_for(self, wanted: Any) -> bool:
        """Return whether objects with a specification have this view; None stands for any."""
        return wanted is None or self.kind in (None, Interface) or wanted.isOrExtends(self.kind)

    def as_dict(self) -> dict[str, Any]:
        """Return the facts of the view."""
        path = f"{{{self.context}}}/{self.name and '@@' + self.name}"
        told = self._asdict()
        del told["kind"], told["is_error"]
        return {"path": f"({self.context} is raised)" if self.is_error else path, **told}
