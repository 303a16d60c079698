"""The front page, by the publisher of the pipeline."""

from typing import Any

from persistent.mapping import PersistentMapping

from pipeline import Request, view


@view(context=PersistentMapping)
def index(context: Any, request: Request) -> str:
    """List the journal."""
    lines = "".join(f"<li>{line}</li>" for line in context.get("journal", ()))
    links = "".join(
        f'<a href="{request.application_url}/{app}/">{app}</a> ' for app in ("pyramid", "flask", "django")
    )
    return f"<!DOCTYPE html><title>Journal</title><p>{links}</p><ul>{lines}</ul>"
