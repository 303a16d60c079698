"""The Sphinx configuration: ``make docs``."""

import sys
import tomllib
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

SETTINGS = Path(__file__).parents[1] / "pyproject.toml"
ADDRESSES = tomllib.loads(SETTINGS.read_text("utf-8"))["tool"]["wsgi-pipeline"]
REPOSITORY = ADDRESSES["repository"]

project = "wsgi-pipeline"
author = "the wsgi-pipeline contributors"
version = release = version_of("wsgi-pipeline")

extensions = ["sphinx.ext.autodoc", "repoze.sphinx.autointerface", "sphinx_copybutton", "from_the_code"]
exclude_patterns = ["_build"]
nitpicky = True
# Types in signatures: not each of them is for users, and those of other packages need the internet.
nitpick_ignore_regex = [(r"py:class", r".*")]

add_module_names = False
autodoc_inherit_docstrings = False  # those of WebOb have links of their own
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False, "exclude-members": "__init__"}
python_use_unqualified_type_names = True
smartquotes = False
highlight_language = "text"

# The button copies the commands, without the prompt and what they print.
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = f"wsgi-pipeline {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_baseurl = ADDRESSES["documentation"]
if REPOSITORY:  # a link "Edit this page"
    html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": "docs/"}
html_show_copyright = False
html_show_sphinx = False


def link_reports(app, name, source):
    """Link the way to report a security problem, if the address of the repository is known."""
    if REPOSITORY and name == "safety":
        report = "private reporting of GitHub"
        source[0] = source[0].replace(report, f"`{report} <{REPOSITORY}/security/advisories/new>`__", 1)


def setup(app):
    app.connect("source-read", link_reports)
