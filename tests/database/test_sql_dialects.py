"""SQL databases that another package adds."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from pipeline.database import sql_dialects
from pipeline.database.sql_dialects import GROUP, Dialect, Errors, dialect_of, dialects, time_outs
from pipeline.database.sql_drivers import PYSQLITE
from pipeline.database.sql_errors import Judge
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
    dialects.cache_clear()
    yield
    dialects.cache_clear()


def test_another_package_adds_a_database(other: None) -> None:
    assert dialect_of("other", "otherdb")[0] is OTHER
    judge = Judge(OTHER.errors, Deadlock)
    assert judge.means(Deadlock(), "transient") and not judge.means(Deadlock(), "gone")
    assert not judge.was_refused(Deadlock()), "at COMMIT only what the package declares is an answer"
    assert list(time_outs(OTHER, "other", None, 1.6)) == ["SET WAIT 2"]
    with pytest.raises(ConfigurationError, match="statement_timeout': other does not have it"):
        list(time_outs(OTHER, "other", 1.0, None))
    with pytest.raises(ConfigurationError, match=r"the driver mystery does not tell .* Use one of .*otherdb"):
        dialect_of("other", "mystery")


def test_a_code_means_what_its_own_database_says(other: None) -> None:
    """The codes of a package that is installed beside it change nothing for another database."""
    for name, dialect in dialects().items():
        assert Judge(dialect.errors, Deadlock).means(Deadlock(), "transient") is (name == "other")
