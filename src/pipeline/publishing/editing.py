"""Pages that list, add, edit and delete the items of a container, by the form of a model. They need Jinja2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webob.exc import HTTPException

from pipeline.forms.converters import to_text
from pipeline.forms.inputs import MISSING, inputs_of
from pipeline.forms.models import ModelError
from pipeline.http.redirects import redirect
from pipeline.interfaces import ViewError
from pipeline.publishing.items import Items
from pipeline.publishing.jinja import page_of
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import Views, noting

VERSION = "form-version"
"""Field with the version of the item that the visitor has seen. A member of a model has no such name."""
BOXES = "form-boxes"
"""Field with the name of a checkbox that a form has, since a browser does not send one that is off."""


class Editing:
    """Pages for the items of a container. A subclass in a module that is scanned names the classes::

        class Books(Editing, container=Library, item=StoredBook, model=Book, permission="edit"):
            "The pages of the library."

    container   class of a mapping from names to items. If it has ``add(item)``, that gives a new item its name
    item        class of the items. Called without arguments, it makes one, and then the attributes are set
    model       class of a scanned library, such as pydantic. Its fields have the names of the attributes
    permission  permission to add, edit and delete; None leaves the decision to the security policy
    read        permission to see the list; None leaves the decision to the security policy
    index       name of the view with the list; default: the list is the default view of the container
    title       heading of the list; default: the name of the model

    The other views are ``add`` of the container, and ``edit`` and ``delete`` of an item. Raises ViewError at load
    if no scanned library knows the model, or if a form has no input for one of its fields.
    """

    def __init_subclass__(
        cls, *, container: Any, item: type, model: type, permission: str | None, read: str | None = None,
        index: str = "", title: str = "",
    ) -> None:
        def register(views: Views, target: type) -> None:
            pages = _Pages(views, target, container, item, model)
            pages.list_name, pages.title = index, title or model.__name__
            for view, context, name, method, needed in (
                (pages.index, container, index, "GET", read),
                (pages.begin, container, "add", "GET", permission),
                (pages.store, container, "add", "POST", permission),
                (pages.edit, item, "edit", "GET", permission),
                (pages.change, item, "edit", "POST", permission),
                (pages.ask, item, "delete", "GET", permission),
                (pages.delete, item, "delete", "POST", permission),
            ):
                views.add(view, context, name, (method,), None, needed)

        noting(register)(cls)


class _Pages(Items):
    """The views of an Editing."""

    list_name: str
    title: str

    def __init__(self, views: Views, target: type, container: Any, item: type, model: type) -> None:
        super().__init__(views, target, container, item, model)
        try:
            self.inputs = inputs_of(self.whole | {"$defs": self.parts, "properties": self.members})
        except TypeError as error:
            raise ViewError(f"{self.who}: {error}. Leave it out of the model") from None
        self.shown_first = {one.name: one.text_of(one.default) for one in self.inputs}

    def index(self, context: Any, request: Request, page: int = 1) -> str:
        """List the items."""
        items, further = self.listed(context, page)
        rows = [(item, self.label(item), request.absolute_url(item)) for item in items]
        add = f"{request.absolute_url(context, '')}@@add"
        return self.page(request, "list.html", context, rows=rows, add=add, number=page, further=further)

    def begin(self, context: Any, request: Request) -> str:
        """Show a form with the defaults of the model."""
        return self.form(request, context, self.shown_first, {})

    def store(self, context: Any, request: Any, response: Response) -> str | HTTPException:
        """Add an item."""
        value, texts, problems = self.judge(request.form)
        if problems:
            response.status = 422
            return self.form(request, context, texts, problems)
        self.add(context, value)
        return redirect(self.url(request, context), 303)

    def edit(self, context: Any, request: Request) -> str:
        """Show the form of an item."""
        return self.form(request, context.__parent__, self.texts(context), {}, context)

    def change(self, context: Any, request: Any, response: Response) -> str | HTTPException:
        """Change an item, unless it was changed since the visitor has seen it. A field that the form does not have
        stays as it is: a page of the site shows some, and a later release may have more."""
        value, texts, problems = self.judge(request.form, context)
        is_late = request.form.get(VERSION) != self.version(context)
        if is_late or problems:
            response.status = 409 if is_late else 422
            return self.form(request, context.__parent__, texts, problems, context, is_late)
        self.set(context, value)
        return redirect(self.url(request, context.__parent__), 303)

    def ask(self, context: Any, request: Request) -> str:
        """Ask whether to delete an item."""
        return self.page(request, "delete.html", context.__parent__, context, is_late=False)

    def delete(self, context: Any, request: Any, response: Response) -> str | HTTPException:
        """Delete an item, unless it was changed since the visitor has seen it."""
        if request.form.get(VERSION) != self.version(context):
            response.status = 409
            return self.page(request, "delete.html", context.__parent__, context, is_late=True)
        container = context.__parent__
        self.remove(context)
        return redirect(self.url(request, container), 303)

    def judge(self, form: Mapping[str, Any], item: Any = None) -> tuple[Any, dict[str, str], dict[str, list[str]]]:
        """Return the value of a form, the texts that were sent, and what is wrong by the names of the fields. The
        name "" stands for the whole. A field that comes back as the form has shown it stays as it is: its text may
        not say all of it, as that of a list whose items have line breaks.

        item  the item that is changed; None for a new one
        """
        boxes = form.get(BOXES)
        boxes = boxes if isinstance(boxes, (list, tuple)) else [boxes]
        form = {one.name: "" for one in self.inputs if one.name in boxes} | dict(form)
        texts = {one.name: one.text_of(form.get(one.name)) for one in self.inputs}
        stored, shown = ({}, self.shown_first) if item is None else (self.fields(item), self.texts(item))
        given = {name: to_text(one) for name, one in form.items() if isinstance(one, str)}
        same = {name for name in stored if given.get(name) == to_text(shown[name])}
        value, problems = None, dict[str, list[str]]()
        for one in self.inputs:
            if one.kind == "checkbox" and one.name not in form and shown[one.name]:
                problems[one.name] = [f"The form does not say whether it has this box, by a field {BOXES}"]
        try:
            kept = {name: one for name, one in stored.items() if name not in form or name in same}
            sent = {one.name: one.value_in(form) for one in self.inputs if one.name not in same}
            value = self.read(kept | {name: one for name, one in sent.items() if one is not MISSING})
        except ModelError as error:
            for place, rule in error.errors:
                item = f"{place[1] + 1}: " if len(place) > 1 and isinstance(place[1], int) else ""
                problems.setdefault(str(place[0]) if place and place[0] in texts else "", []).append(item + rule)
        return value, texts, problems

    def texts(self, item: Any) -> dict[str, str]:
        """Return what a form shows of an item. An attribute that it does not have yet has its default."""
        values = self.values(item)
        return {one.name: one.text_of(values.get(one.name)) for one in self.inputs}

    def label(self, item: Any) -> str:
        """Return the first field of an item, or its name."""
        return next(iter(self.texts(item).values()), "").strip() or str(item.__name__)

    def url(self, request: Request, container: Any) -> str:
        """Return the address of the list."""
        return request.absolute_url(container, *filter(None, [self.list_name]))

    def form(
        self, request: Request, container: Any, texts: Mapping[str, str], problems: Mapping[str, list[str]],
        item: Any = None, is_late: bool = False,
    ) -> str:
        """Return the form with texts, and with what is wrong with them or was changed meanwhile."""
        stored = self.texts(item) if is_late else texts
        values = {"texts": texts, "problems": problems, "stored": stored, "is_late": is_late}
        return self.page(request, "form.html", container, item, inputs=self.inputs, **values)

    def page(self, request: Request, template: str, container: Any, item: Any = None, **values: Any) -> str:
        """Return a page by a template of the site, or else by ours."""
        values |= {"title": self.title, "back": self.url(request, container)}
        values |= {"version_field": VERSION, "boxes_field": BOXES}
        label, version = ("", "") if item is None else (self.label(item), self.version(item))
        values |= {"label": label, "version": version}
        return page_of(self.target.__module__, f"editing/{template}", values, request)
