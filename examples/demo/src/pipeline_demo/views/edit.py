"""Views that create, edit, rename and delete.

Every form carries the revision that it was made from. If another author was faster, the answer is 409 with both
versions, and nothing is stored. Every refusal returns the text that was typed.
"""

from __future__ import annotations

from webob.exc import HTTPForbidden

from pipeline import Response, view
from pipeline_demo.models import FORMATS, Counter, Document, Folder, Format, Item, Site
from pipeline_demo.names import BadText, clean_name, clean_text, clean_title, name_from_title
from pipeline_demo.reading import readable
from pipeline_demo.request import FormRequest, PageRequest
from pipeline_demo.text import difference, to_html
from pipeline_demo.views.forms import Form, Problems, read_form
from pipeline_demo.views.page import answer, describe, done

SAVED = "Saved."
STALE = "This was changed by another author in the meantime. Your changes are not stored yet."
TAKEN = "This folder already has an item of this name."


@view(context=Folder, name="add-document", permission="edit")
def add_document_form(context: Folder, request: PageRequest, response: Response) -> object:
    return _document_form(context, request, response, {"format": "markdown"}, Problems())


@view(context=Folder, name="add-document", methods=("POST",), permission="edit")
def add_document(context: Folder, request: FormRequest, response: Response) -> object:
    form = read_form(request)
    title = form.problems.check("title", clean_title, form.get("title"))
    text = form.problems.check("text", clean_text, form.get("text"))
    format = _format(form, "markdown")
    name = _new_name(form, context, title)
    if form.problems or form.get("preview"):
        return _document_form(context, request, response, form.fields, form.problems)
    context[name] = document = Document(title, text, format, request.principal)
    return done(request, response, document, "The document was made.", 201)


@view(context=Folder, name="add-folder", permission="edit")
def add_folder_form(context: Folder, request: PageRequest, response: Response) -> object:
    return _form(context, request, response, "folder_form.html", {}, Problems())


@view(context=Folder, name="add-folder", methods=("POST",), permission="edit")
def add_folder(context: Folder, request: FormRequest, response: Response) -> object:
    form = read_form(request)
    title = form.problems.check("title", clean_title, form.get("title"))
    name = _new_name(form, context, title)
    if form.problems:
        return _form(context, request, response, "folder_form.html", form.fields, form.problems)
    context[name] = folder = Folder(title)
    return done(request, response, folder, "The folder was made.", 201)


@view(context=Document, name="edit", permission="edit")
def edit_form(context: Document, request: PageRequest, response: Response) -> object:
    return _document_form(context, request, response, _fields_of(context), Problems())


@view(context=Document, name="edit", methods=("POST",), permission="edit")
def edit(context: Document, request: FormRequest, response: Response) -> object:
    form = read_form(request)
    title = form.problems.check("title", clean_title, form.get("title", context.title))
    text = form.problems.check("text", clean_text, form.get("text", context.text))
    format = _format(form, context.format)
    if form.get("preview"):
        return _document_form(context, request, response, _fields_of(context) | form.fields, form.problems)
    if not form.problems and context.same(title, text, format):
        return done(request, response, context, SAVED)  # sent twice, or both had the same idea
    check_revision(form, context)
    if form.problems.status == 409:
        return _conflict(context, request, response, form, title, text, format)
    if form.problems:
        return _document_form(context, request, response, _fields_of(context) | form.fields, form.problems)
    context.edit(title, text, format, request.principal)
    return done(request, response, context, SAVED)


@view(context=Item, name="rename", permission="edit")
def rename_form(context: Item, request: PageRequest, response: Response) -> object:
    folder_of(context)
    return _form(context, request, response, "rename.html", _fields_of(context), Problems())


@view(context=Item, name="rename", methods=("POST",), permission="edit")
def rename(context: Item, request: FormRequest, response: Response) -> object:
    folder, old = folder_of(context)
    form = read_form(request)
    title = form.problems.check("title", clean_title, form.get("title", context.title))
    name = form.problems.check("name", clean_name, form.get("name", old))
    if "name" not in form.problems and name != old and name in folder:
        form.problems.conflict("name", TAKEN)
    check_revision(form, context)
    if form.problems:
        values = form.fields | {"revision": str(context.revision)}
        return _form(context, request, response, "rename.html", _fields_of(context) | values, form.problems)
    context.hold()
    context.title = title
    if name != old:
        folder.rename(old, name)
    context.touch()
    return done(request, response, context, "Renamed.")


@view(context=Item, name="delete", permission="edit")
def delete_form(context: Item, request: PageRequest, response: Response) -> object:
    folder_of(context)
    return _delete_form(context, request, response, Problems())


@view(context=Item, name="delete", methods=("POST",), permission="edit")
def delete(context: Item, request: FormRequest, response: Response) -> object:
    folder, name = folder_of(context)
    form = read_form(request)
    check_revision(form, context)
    if form.problems:
        return _delete_form(context, request, response, form.problems)
    del folder[name]
    return done(request, response, folder, f"“{context.title}” was deleted.")


def folder_of(context: Item) -> tuple[Folder, str]:
    """Return the folder and the name of an item. The site and its counter cannot be moved."""
    if context.__parent__ is None or context.__name__ is None or isinstance(context, (Site, Counter)):
        raise HTTPForbidden("This can be neither renamed nor deleted.")
    return context.__parent__, context.__name__


def _fields_of(item: Item) -> dict[str, str]:
    fields = {"title": item.title, "name": item.__name__ or "", "revision": str(item.revision)}
    if isinstance(item, Document):
        fields |= {"text": item.text, "format": item.format}
    return fields


def _format(form: Form, default: Format) -> Format:
    asked = form.get("format", default)
    for format in FORMATS:
        if format == asked:
            return format
    form.problems["format"] = f"The format is one of {', '.join(FORMATS)}."
    return default


def _new_name(form: Form, folder: Folder, title: str) -> str:
    """Return the name in the form, or a free name made from the title."""
    asked = form.get("name").strip()
    if asked:
        name = form.problems.check("name", clean_name, asked)
        if "name" not in form.problems and name in folder:
            form.problems.conflict("name", TAKEN)
        return name
    if form.problems:
        return ""
    name = base = name_from_title(title)
    number = 2
    while name in folder:
        name, number = f"{base}-{number}", number + 1
    try:
        return clean_name(name)
    except BadText:
        form.problems["name"] = "No name can be made of this title: please give one."
        return ""


def check_revision(form: Form, item: Item) -> None:
    revision = form.number("revision")
    if revision is None:
        form.problems["revision"] = "The number of the revision that this is based on is missing."
    elif revision != item.revision:
        form.problems.conflict("", STALE)


def _form(
    context: Item,
    request: PageRequest,
    response: Response,
    template: str,
    values: dict[str, str],
    problems: Problems,
    **more: object,
) -> object:
    """Answer with a form, its values and its problems. A client that wants JSON gets only the problems."""
    if problems:
        response.status_int = problems.status
    data = {"errors": problems}
    return answer(request, response, template, data, context, values=values, problems=problems, **more)


def _document_form(
    context: Item, request: PageRequest, response: Response, values: dict[str, str], problems: Problems
) -> object:
    """Answer with the form of a document, below a preview of the text if the visitor wants to see it."""
    preview = None
    if values.get("preview") and not problems:
        preview = readable(to_html(values.get("text", ""), values["format"], values.get("title", ""))).html
    return _form(
        context, request, response, "document_form.html", values, problems, formats=FORMATS, preview=preview
    )


def _delete_form(context: Item, request: PageRequest, response: Response, problems: Problems) -> object:
    count = context.count() if isinstance(context, Folder) else 0
    values = {"revision": str(context.revision)}
    return _form(context, request, response, "delete.html", values, problems, count=count)


def _conflict(
    context: Document,
    request: PageRequest,
    response: Response,
    form: Form,
    title: str,
    text: str,
    format: Format,
) -> object:
    """Answer with both versions, the difference, and a form that stores a merged text."""
    response.status_int = form.problems.status
    values = {"title": title, "text": text, "format": format, "revision": str(context.revision)}
    data = {"errors": form.problems, "stored": describe(request, context), "yours": values}
    return answer(
        request,
        response,
        "conflict.html",
        data,
        context,
        difference=difference(context.text, text),
        formats=FORMATS,
        problems=form.problems,
        values=values,
    )
