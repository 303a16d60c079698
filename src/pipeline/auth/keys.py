"""Files of secret keys, one key a line."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from pipeline.interfaces import ConfigurationError


def read_keys(path: str, option: str = "keys") -> list[str]:
    """Return the keys in a file, one a line, the newest last. A missing file is made, with one key.

    option  name of the option that has the path, for errors

    Raises ConfigurationError if the file cannot be read, has no key, or may be read by others.
    """
    file = Path(path)
    try:
        if not file.exists():
            _make_keys(file)
    except OSError as error:
        raise ConfigurationError(f"{option}: {path} cannot be made: {error.strerror}") from error
    try:
        if file.stat().st_mode & 0o077:
            raise ConfigurationError(f"{option}: {path} can be read by others; chmod 600 {path}")
        keys = file.read_text(encoding="ascii").split()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"{option}: {path} cannot be read: {error}") from error
    if not keys or any(len(key) < 32 for key in keys):
        raise ConfigurationError(f"{option}: {path} must have a key on each line, of 32 characters or more")
    return keys


def _make_keys(file: Path) -> None:
    """Make the file with one key, for its owner alone. The file appears as a whole: of several processes that
    start at the same time one makes it, and none reads half of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}-") as new:  # mode 0600
        new.write(secrets.token_urlsafe(32) + "\n")
        new.flush()
        os.fsync(new.fileno())
        with suppress(FileExistsError):
            os.link(new.name, file)
