"""``paster serve etc/deploy.ini``, the first of the three ways of use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
PASTER = Path(sys.executable).with_name("paster")


def test_the_site_under_paster_serve(
    start: Callable[..., Any],
    get: Callable[..., Any],
    visit: Callable[[str, Any], set[str]],
    use: Callable[[str, Any], None],
    free_port: int,
    tmp_path: Path,
) -> None:
    data = [
        f"zodb_uri=file://{tmp_path}/Data.fs?blobstorage_dir={tmp_path}/blobs",
        f"session_keys={tmp_path}/session_keys",
    ]
    command = [PASTER, "serve", TOP / "etc" / "deploy.ini", f"http_port={free_port}", *data]
    site = f"http://127.0.0.1:{free_port}/"

    server = start(command, free_port)
    first = get(site)
    assert first.status == 200
    assert first.headers.get_content_type() == "text/html"
    assert "<h1" in first.text
    assert len(visit(site, server)) > 3
    use(site, server)
    assert "Traceback" not in server.said()
    server.stop()
    assert (tmp_path / "Data.fs").exists()

    # What was stored is there after a restart.
    start(command, free_port)
    assert get(site).status == 200
