"""Uploading files, and downloading them whole or in part."""

from __future__ import annotations

from urllib.parse import quote

from pipeline import Request, Response, view
from pipeline.demo.content import Content, TooLarge, store
from pipeline.demo.filing import content_type_of
from pipeline.demo.models import File, Folder
from pipeline.demo.names import BadText, clean_name
from pipeline.demo.views.forms import MAX_UPLOAD, Problems, Upload, read_form
from pipeline.demo.views.page import answer, describe, done, wants_json


@view(context=Folder, name="upload", permission="edit")
def upload_form(context: Folder, request: Request, response: Response) -> str:
    return _form(context, request, response, Problems(), replace=False)


@view(context=Folder, name="upload", methods=("POST",), permission="edit")
def upload(context: Folder, request: Request, response: Response) -> str:
    """Take all the files of the form, or none of them."""
    form = read_form(request)
    replace = bool(form.get("replace"))
    if not form.uploads:
        form.problems["file"] = "Please choose a file."
    taken = [_take(context, upload, replace, form.problems) for upload in form.uploads if not form.problems]
    if form.problems:
        return _form(context, request, response, form.problems, replace)
    if wants_json(request):
        response.status_int = 201
        data = {"files": [describe(request, file) for file in taken if file is not None]}
        return answer(request, response, "", data)
    return done(request, response, context)


def _take(folder: Folder, upload: Upload, replace: bool, problems: Problems) -> File | None:
    # Some browsers on some systems send the whole path.
    filename = upload.filename.replace("\\", "/").rpartition("/")[2]
    try:
        name = clean_name(filename)
    except BadText as error:
        problems["file"] = f"{filename}: {error}"
        return None
    there = folder.get(name)
    if there is not None and not (replace and isinstance(there, File)):
        problems.conflict("file", f"{name}: there is something of this name already.")
        return None
    try:
        content: Content = store(upload.stream, folder._p_jar, MAX_UPLOAD)
    except TooLarge as error:
        problems["file"] = f"{name}: {error}."
        problems.status = 413
        return None
    if isinstance(there, File):
        there.replace(content, content_type_of(name))
        return there
    folder[name] = file = File(name, content, content_type_of(name))
    return file


def _form(context: Folder, request: Request, response: Response, problems: Problems, replace: bool) -> str:
    if problems:
        response.status_int = problems.status
    return answer(
        request,
        response,
        "upload.html",
        {"errors": problems},
        context,
        limit=MAX_UPLOAD,
        problems=problems,
        replace=replace,
    )


@view(context=File)
def download(context: File, request: Request, response: Response) -> object:
    """The bytes. What a browser could run, or take for a page of the site, is only ever saved (S7)."""
    if wants_json(request):
        return answer(request, response, "", describe(request, context))
    content = context.content
    response.content_type = context.content_type
    response.charset = None
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["Content-Disposition"] = _disposition(context)
    response.headers["Cache-Control"] = "no-cache"
    response.headers["Vary"] = "Accept"
    response.accept_ranges = "bytes"
    response.etag = content.sha256
    response.last_modified = context.modified
    response.conditional_response = True
    response.app_iter = content.read()
    response.content_length = content.size  # of which the line above has lost sight
    return None


def _disposition(file: File) -> str:
    kind = "inline" if file.kind == "image" else "attachment"
    name = file.__name__ or "file"
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in name)
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"  # RFC 6266
