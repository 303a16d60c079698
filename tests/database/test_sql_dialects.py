"""SQL databases that another package adds."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from pipeline.database import sql_dialects
from pipeline.database.sql_dialects import GROUP, Dialect, Errors, codes, dialect_of, dialects, time_outs
from pipeline.database.sql_drivers import PYSQLITE
from pipeline.database.sql_errors import means
from pipeline.interfaces import ConfigurationError

OTHER = Dialect(
    {"otherdb": PYSQLITE}, lock_timeout="SET WAIT {whole}", errors=Errors(transient=frozenset({"OT001"}))
)


class Deadlock(Exception):
    sqlstate = "OT001"


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    point = EntryPoint("other", f"{__name__}:OTHER", GROUP)
    monkeypatch.setattr(sql_dialects, "entry_points", lambda group: [point] if group == GROUP else [])
    for kept in (dialects, codes):
        kept.cache_clear()
    yield
    for kept in (dialects, codes):
        kept.cache_clear()


def test_another_package_adds_a_database(other: None) -> None:
    assert dialect_of("other", "otherdb")[0] is OTHER
    assert means(Deadlock(), "transient") and not means(Deadlock(), "gone")
    assert list(time_outs(OTHER, "other", None, 1.6)) == ["SET WAIT 2"]
    with pytest.raises(ConfigurationError, match="statement_timeout': other does not have it"):
        list(time_outs(OTHER, "other", 1.0, None))
    with pytest.raises(ConfigurationError, match=r"the driver mystery does not tell .* Use one of .*otherdb"):
        dialect_of("other", "mystery")


def test_no_code_has_two_databases() -> None:
    """So that the code of an error tells its meaning, whatever the database."""
    of = {name: dialect for name, dialect in dialects().items() if name != "mariadb"}
    for meaning in Errors.__dataclass_fields__:
        found = [code for dialect in of.values() for code in getattr(dialect.errors, meaning)]
        assert len(found) == len(set(found))


def test_without_the_package_its_codes_mean_nothing() -> None:
    assert not means(Deadlock(), "transient")
