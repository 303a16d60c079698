"""Views that take uploads of files, and send files whole or in part."""

from __future__ import annotations

from pipeline import Response, view
from pipeline.forms.upload import Upload
from pipeline.http.files import serve
from pipeline_demo.content import Content, TooLarge, store
from pipeline_demo.filing import content_type_of
from pipeline_demo.models import File, Folder
from pipeline_demo.names import BadText, clean_name
from pipeline_demo.request import FormRequest, PageRequest
from pipeline_demo.views.forms import MAX_UPLOAD, Problems, read_form
from pipeline_demo.views.page import answer, describe, done, wants_json


@view(context=Folder, name="upload", permission="edit")
def upload_form(context: Folder, request: PageRequest, response: Response) -> object:
    return _form(context, request, response, Problems(), replace=False)


@view(context=Folder, name="upload", methods=("POST",), permission="edit")
def upload(context: Folder, request: FormRequest, response: Response) -> object:
    """Store all files of the form, or none of them."""
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
    return done(request, response, context, f"Files stored: {len(taken)}.")


def _take(folder: Folder, upload: Upload, replace: bool, problems: Problems) -> File | None:
    try:
        name = clean_name(upload.filename)
    except BadText as error:
        problems["file"] = f"{upload.filename}: {error}"
        return None
    there = folder.get(name)
    if there is not None and not (replace and isinstance(there, File)):
        problems.conflict("file", f"{name}: this folder already has an item of this name.")
        return None
    try:
        content: Content = store(upload.file, folder._p_jar, MAX_UPLOAD)
    except TooLarge as error:
        problems["file"] = f"{name}: {error}."
        problems.status = 413
        return None
    if isinstance(there, File):
        there.replace(content, content_type_of(name))
        return there
    folder[name] = file = File(name, content, content_type_of(name))
    return file


def _form(context: Folder, request: PageRequest, response: Response, problems: Problems, replace: bool) -> object:
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
def download(context: File, request: PageRequest, response: Response) -> object:
    """Send the bytes. A browser must save every file that could run scripts or imitate a page of the site (S7)."""
    if wants_json(request):
        return answer(request, response, "", describe(request, context))
    content = context.content
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["Cache-Control"] = "no-cache"
    response.headers["Vary"] = "Accept"
    serve(
        request,
        response,
        content.open(),
        content_type=context.content_type,
        name=context.__name__,
        etag=content.sha256,
        modified=context.modified,
        inline=context.kind == "image",
    )
    return None
