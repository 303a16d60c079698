"""The table of ``tests/database/test_r13_table.py`` on PostgreSQL: RelStorage, and tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from database.table import axes
from database.table.on_postgres import ON_POSTGRES
from database.table.run import Bench
from servers.postgres import Postgres

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("who", axes.WHO)
@pytest.mark.parametrize("engine", ON_POSTGRES)
def test_r13_each_row_is_allowed_or_raised_and_thrown_away(
    engine: str, who: str, postgres: Postgres, new_name: Callable[[], str]
) -> None:
    with Bench(lambda: ON_POSTGRES[engine](postgres, new_name)) as bench:
        assert bench.red(row for row in axes.rows_of(bench.kit.kind) if row.who == who) == []
