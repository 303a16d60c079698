"""Puts the pages of docs/ into the package, whose site imports them. The rest stands in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DOCS = Path(__file__).resolve().parents[2] / "docs"


class BuildWithPages(build_py):
    """Copies the pages of the checkout. An editable install reads them where they are."""

    def run(self):
        super().run()
        if not self.editable_mode and DOCS.is_dir():
            pages = Path(self.build_lib) / "pipeline_demo" / "docs"
            shutil.rmtree(pages, ignore_errors=True)
            shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("_*", "*.py", "*.txt"))


setup(cmdclass={"build_py": BuildWithPages})
