"""Search a folder and all below it. Every word must be in the title or the text, in upper or lower case."""

from __future__ import annotations

from collections.abc import Iterator

from webob.exc import HTTPBadRequest

from pipeline import Response, view
from pipeline_demo.models import Document, Folder, Item
from pipeline_demo.request import PageRequest
from pipeline_demo.text import excerpt, fold, plain_text
from pipeline_demo.views.page import answer, page_of, url_of

MAX_WORDS = 10
MAX_LENGTH = 200
"""Characters of a query."""
SHOWN = 50
"""Results on the page."""


@view(context=Folder, name="search")
def search(context: Folder, request: PageRequest, response: Response, q: str = "") -> object:
    query = q.strip()
    words = list(dict.fromkeys(fold(query).split()))
    if len(query) > MAX_LENGTH or len(words) > MAX_WORDS:
        raise HTTPBadRequest(f"A search takes {MAX_WORDS} words and {MAX_LENGTH} characters at most.")
    found = sorted(find(context, words), key=lambda result: result[0])[: SHOWN + 1]
    results = [
        {"item": item, "excerpt": excerpt(text, words), "url": page_of(request, item)}
        for _, item, text in found[:SHOWN]
    ]
    data = {
        "query": query,
        "results": [
            {"type": item.kind, "title": item.title, "url": url_of(request, item)} for _, item, _ in found[:SHOWN]
        ],
        "more": len(found) > SHOWN,
    }
    return answer(
        request,
        response,
        "search.html",
        data,
        context,
        more=len(found) > SHOWN,
        query=query,
        results=results,
    )


def find(folder: Folder, words: list[str]) -> Iterator[tuple[tuple[bool, str], Item, str]]:
    """Yield the items with all the folded ``words``: a key that sorts hits in the title first, the item, and its
    text."""
    if not words:
        return
    for item in folder.walk():
        title = fold(f"{item.title} {item.__name__}")
        text, folded = _text_of(item)
        if all(word in title or word in folded for word in words):
            yield (not all(word in title for word in words), title), item, text


def _text_of(item: Item) -> tuple[str, str]:
    """Return the text to search, and the same text folded. They are kept with the document until it changes."""
    if not isinstance(item, Document):
        return "", ""
    kept = getattr(item, "_v_search", None)
    if kept is None or kept[0] is not item.text or kept[1] != item.format:
        text = plain_text(item.text, item.format)
        kept = item._v_search = (item.text, item.format, text, fold(text))
    return kept[2], kept[3]
