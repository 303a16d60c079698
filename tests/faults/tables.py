"""The views of the experiments on the tables of an SQL database."""

from __future__ import annotations

from sqlalchemy import text

from faults.site import Tables, Trigger, poison_of
from pipeline import Request, view


@view(context=Tables)
def index(root: Tables, request: Request) -> str:
    return str(request.sql.execute(text("SELECT count(*) FROM ledger")).scalar_one())


@view(context=Tables, name="has")
def has(root: Tables, request: Request) -> str:
    found = request.sql.execute(text("SELECT count(*) FROM ledger WHERE id = :id"), {"id": request.GET["id"]})
    return str(found.scalar_one())


@view(context=Tables, name="seen")
def seen(root: Tables, request: Request) -> str:
    """As ``has``, on PostgreSQL; and which server was read."""
    recovers = request.sql.execute(text("SELECT pg_is_in_recovery()")).scalar_one()
    return f"{has(root, request)} {'replica' if recovers else 'primary'}"


@view(context=Tables, name="write", methods=("POST",))
def write(root: Tables, request: Request) -> str:
    request.sql.execute(text("INSERT INTO ledger VALUES (:id)"), {"id": request.GET["id"]})
    return "written"


@view(context=Tables, name="count", methods=("POST",))
def count(root: Tables, request: Request) -> str:
    """Write, and answer how many writes there are."""
    write(root, request)
    return index(root, request)


@view(context=Tables, name="broken", methods=("POST",))
def broken(root: Tables, request: Request) -> str:
    """As ``write``; ahead of a statement or at a step of the commit, the connection is poisoned."""
    step, poison = poison_of(request)
    if step == "statement":
        request.sql.connection()
        poison()
    elif step != "begin":
        Trigger(request.tm, step, poison).join()
    return write(root, request)
