"""What the demo does not need by itself: a skin, namespaces, a default step, a converter. An ini scans it."""

from __future__ import annotations

from persistent import Persistent
from zope.interface import Interface, implementer

from pipeline import Request, Response, view
from pipeline.forms.converters import IFieldConverter
from pipeline.forms.upload import Upload
from pipeline.interfaces import PUBLIC, IDefaultSteps, IEtc, INamespace, IRequest
from pipeline.publishing.namespaces import skin
from pipeline.views import adapter, utility
from pipeline_demo.models import Document, Folder, Item


class Album(Folder):
    """Its page is that of its cover."""


@adapter(Album, IDefaultSteps)
@implementer(IDefaultSteps)
class Cover:
    def __init__(self, album: Album) -> None: ...

    def default_steps(self, request: Request) -> tuple[str, ...]:
        return ("cover",)


class Address(Persistent):
    def __init__(self, city: str) -> None:
        self.city = city


class Person(Item):
    """Published is the address, and not the diary."""

    published_attributes = ("address",)

    def __init__(self, name: str, city: str) -> None:
        super().__init__(name)
        self.address = self.diary = Address(city)


@view(context=Address)
def show_address(address: Address, request: Request) -> str:
    return f"lives in {address.city}"


class IPlain(IRequest):
    """For those who want text, and nothing around it."""


skin(IPlain, "plain")


@view(context=Document, request_type=IPlain)
def plain(document: Document, request: Request, response: Response) -> str:
    response.content_type = "text/plain"
    return f"{document.text} [{request.absolute_url(document)}]"


@view(context=Folder, name="greeting")
def greeting(folder: Folder, request: Request) -> str:
    language = request.accept_language.lookup(["en", "de"], default="en")
    return f'<p lang="{language}">{ {"en": "Welcome", "de": "Willkommen"}[language] }</p>'


@utility(IEtc, name="about")
class About:
    """What there is to say of the site as a whole."""


@view(context=About)
def about(about: About, request: Request) -> str:
    return f"served at {request.application_url}"


@view(context=Folder, name="flags")
def flags(folder: Folder, request: Request) -> str:
    return " ".join(request.debug_flags)


@view(context=Interface, name="where", permission=PUBLIC)
def where(item: Item, request: Request, response: Response) -> str:
    response.content_type = "text/plain"
    return f"{request.absolute_url(item)} for {request.client_addr}"


@utility(IFieldConverter, name="isbn")
@implementer(IFieldConverter)
class Isbn:
    """The last figure is a check on the others."""

    def __call__(self, text: str) -> str:
        figures = text.replace("-", "")
        if not (len(figures) == 13 and figures.isascii() and figures.isdigit()):
            raise ValueError("it is not an ISBN of 13 figures")
        if sum(int(figure) * weight for figure, weight in zip(figures, (1, 3) * 6 + (1,), strict=True)) % 10:
            raise ValueError("its last figure is wrong")
        return figures


@view(context=Folder, name="catalogue", methods=("POST",), permission=PUBLIC)
def catalogue(folder: Folder, request: Request, isbn: str, scan: Upload, tags: list[str], pages: int = 0) -> str:
    return f"{isbn}, {pages} pages, {scan.filename} of {scan.length} bytes, {tags}"


@adapter(Folder, INamespace, name="newest")
@implementer(INamespace)
class Newest:
    """``++newest++2``: the second newest item."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def step(self, request: Request, name: str) -> Item:
        if not name.isdecimal() or name == "0":
            raise KeyError(name)
        return sorted(self.folder.items(), key=lambda item: item.modified, reverse=True)[int(name) - 1]
