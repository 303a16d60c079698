"""The sites that we ship are proved: the demo, a new site, and the example of an element."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inis import ini_of
from pipeline.database import forks
from pipeline.proving.proof import Proof
from pipeline.testing.plugin import prove as prove
from pipeline.tools.new import make

TOP = Path(__file__).resolve().parents[2]
Prove = Callable[..., Proof]


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What a site imports from its own directory is not there for the next test."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield
    forks.close_all()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.once
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ini", ["deploy.ini", "all.ini"])
def test_the_demo(ini: str, tmp_path: Path, prove: Prove, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"zodb_uri=file://{tmp_path}/Data.fs", f"session_keys={tmp_path}/keys"]
    proof = prove(str(TOP / "etc" / ini), words, user="admin").faults().attack().links()
    assert proof.report.tried > 20
    assert proof.report.runs > 3_000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ini", ["development.ini", "production.ini"])
def test_a_new_site(ini: str, tmp_path: Path, prove: Prove) -> None:
    assert list(make(tmp_path / "my-blog", "my_blog"))
    proof = prove(str(tmp_path / "my-blog" / ini)).faults().attack().links().sequences().growth()
    assert (proof.report.tried, proof.report.runs > 500) == (6, True)


STORE = ini_of(
    ["retry", "store", "errors", "transaction", "forms", "traverse"],
    "proving.numbers",
    store="paste.filter_factory = filestore:filestore\npath = %(here)s/store.json",
    traverse="root = proving.numbers:Numbers",
)


@pytest.mark.once
def test_an_element_of_others(tmp_path: Path, prove: Prove) -> None:
    """The database of examples/element is a file. Nothing of prove knows it: its facts name the file."""
    (tmp_path / "site.ini").write_text(STORE)
    proof = prove(str(tmp_path / "site.ini")).faults(depth=2).attack().links().crash().pairs(60)
    assert proof.report.runs > 3_000
    assert [path.name for path in tmp_path.iterdir()] == ["site.ini"]


def test_a_fault_of_an_element_of_others(
    tmp_path: Path, prove: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It replaces the file when it votes, before the others have voted."""
    import filestore

    def vote(self: filestore.Store, transaction: object) -> None:
        self.file.write_text('{"number": 99}')

    monkeypatch.setattr(filestore.Store, "tpc_vote", vote)
    monkeypatch.setattr(filestore.Store, "tpc_finish", lambda self, transaction: self.undo.close())
    (tmp_path / "site.ini").write_text(STORE)
    with pytest.raises(AssertionError, match="R4: it is answered 500 and is stored"):
        prove(str(tmp_path / "site.ini")).faults()
