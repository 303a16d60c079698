"""S21: sessions that have ended in an SQL database stay so, whatever ends at the same time (authentication.rst)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.auth.ended import end_session, end_sessions, has_ended
from pipeline.request import TransientError
from recipes import module_of

pytestmark = [pytest.mark.once, pytest.mark.servers]


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
@pytest.mark.parametrize("earlier", [True, False])
def test_a_logout_at_the_same_time_does_not_undo_a_new_password__S21(
    server: str,
    earlier: bool,
    request: pytest.FixtureRequest,
    new_name: Callable[[], str],
    need_packages: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A logout reads what has ended. A new password ends all sessions then, and is stored first."""
    need_packages("sqlalchemy")
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import Session

    kind = module_of("authentication.rst", "mysite/ended.py", monkeypatch, "mysite_ended").EndedSessions
    running: Any = request.getfixturevalue(server)
    name = new_name()
    running.create(name)
    engine = create_engine(running.url(name))
    until = int(time.time()) + 100

    class Meanwhile(kind):  # type: ignore[misc, valid-type]
        def __setitem__(self, principal: str, value: str) -> None:
            with Session(engine) as other:
                end_sessions(kind(other), principal)
                other.commit()
            super().__setitem__(principal, value)

    with Session(engine) as session:
        session.execute(text("CREATE TABLE ended (principal VARCHAR(80) PRIMARY KEY, text TEXT)"))
        session.commit()
        if earlier:
            end_session(kind(session), "ann", "earlier", until)
            session.commit()
        assert not has_ended(kind(session), "ann", "stolen", 0)
        with pytest.raises(TransientError):
            end_session(Meanwhile(session), "ann", "left", until)
        session.rollback()
        end_session(kind(session), "ann", "left", until)  # as ``retry`` does
        session.commit()
        assert has_ended(kind(session), "ann", "stolen", 0)
    engine.dispose()
