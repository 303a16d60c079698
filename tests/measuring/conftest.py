"""The fixtures are those of ``tests/small_sites.py``."""

from small_sites import call, environ, module, publish

__all__ = ["call", "environ", "module", "publish"]
