"""Remedies for the exceptions that a user of the pipeline meets, by the name of their class."""

from __future__ import annotations

REMEDIES = {
    "AlreadyInTransaction": "Leave out transaction.begin(): the pipeline has begun the transaction of the request, "
    "and to begin it again would drop what was changed before.",
    "DoomedTransaction": "The view commits by itself, and nothing is committed here: add --commit.",
    "ResultError": "Return one of these, or add pipeline.publishing.json to scan for dicts and lists.",
    "ConflictError": "Requests change this object at the same time. Let each change an object of its own (an item "
    "of a BTree), or give the class _p_resolveConflict. More attempts: the option attempts of retry.",
    "LockError": "Stop the other process (its number is in the file .lock beside the database), or use a database "
    "server: zeo:// or postgres:// (docs/howto/data.rst).",
    "Damaged": "Stop the server, keep a copy of the file, and restore it from a backup (repozo), or save what can "
    "be read (python -m ZODB.fsrecover).",
    "FileNotFoundError": "Make that directory or file, or correct its path. A path that does not begin with / is "
    "looked for in the working directory of the server: in an ini write %(here)s/ before it.",
    "Unavailable": "Start that server, or correct its address.",
    "NotStorable": "Keep numbers, texts, lists, dicts and persistent objects in it, and not functions, open files, "
    "locks or requests.",
    "ReadOnlyError": "Stop the process that has the database open, such as the server, or ask without --commit.",
    "Unsupported": "A blob needs a place: end the URI of a Data.fs with ?blobstorage_dir=/path/to/blobs. "
    "For zeo:// and postgres:// see docs/howto/data.rst.",
    "TemplateNotFound": "Put the template beside the module that calls render(), or into templates of one of its "
    "packages. A package that is installed must list it in package_data.",
    "UndefinedError": "Give the template that name, or correct the name in the template.",
    "TemplateSyntaxError": "Correct that line of the template.",
    "ReadOnlyTransaction": "Put transaction into the pipeline, inside of errors, and write in the view; not while "
    "the body is sent.",
}
"""The remedy, by the name of a class of exceptions: the name, since the package of the class may be missing."""


def remedy_of(error: BaseException | None) -> str:
    """Return what to do about an exception, first of all about its cause; "" if that is not known."""
    if error is None:
        return ""
    noted = [note.partition(":")[0] for note in getattr(error, "__notes__", ())]  # of an outage that lasts
    names = [*noted, *(kind.__name__ for kind in type(error).__mro__)]
    return remedy_of(error.__cause__) or next((REMEDIES[name] for name in names if name in REMEDIES), "")
