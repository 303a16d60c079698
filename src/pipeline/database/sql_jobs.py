"""The queue of jobs in a table of ``sql``. ``pipeline work INI --create`` makes the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, String, Table, Text, delete, insert, select
from sqlalchemy.dialects.mysql import LONGTEXT

from pipeline.jobs import Stored

TABLE = Table(
    "pipeline_jobs",
    MetaData(),
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("name", String(250), nullable=False),
    Column("arguments", Text().with_variant(LONGTEXT, "mysql", "mariadb"), nullable=False),  # TEXT has 64 KiB
    Column("due", Float(53), index=True),
    Column("failed", Integer, nullable=False),
    Column("error", String(250), nullable=False),
)
"""The table. A site with Alembic copies it into its own metadata: ``TABLE.to_metadata(Base.metadata)``."""


class InSql:
    """The queue in the table, by the session of a request."""

    refusal = ""

    def __init__(self, session: Any) -> None:
        self.session = session

    def create(self) -> None:
        TABLE.create(self.session.connection(), checkfirst=True)

    def add(self, stored: Stored) -> None:
        values = {**vars(stored), "error": stored.error[:250]}
        if not stored.id:
            del values["id"]
        self.session.execute(insert(TABLE).values(values))

    def due(self, now: float, most: int) -> list[int]:
        due = select(TABLE.c.id).where(TABLE.c.due <= now).order_by(TABLE.c.due, TABLE.c.id).limit(most)
        return list(self.session.scalars(due))

    def take(self, id: int) -> Stored | None:
        mine = TABLE.c.id == id
        row = self.session.execute(select(TABLE).where(mine).with_for_update(skip_locked=True)).first()
        if row is None or not self.session.execute(delete(TABLE).where(mine)).rowcount:
            return None
        return Stored(*row)

    def all(self) -> Iterator[Stored]:
        return (Stored(*row) for row in self.session.execute(select(TABLE).order_by(TABLE.c.id)))
