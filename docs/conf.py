"""Sphinx configuration. ``make docs`` builds the pages with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
# The tree it stands in, before any copy that is installed.
sys.path[:0] = [str(HERE.parent), str(HERE)]

import generated  # noqa: E402

generated.write_pages()

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "precice_lb"
author = "the precice_lb authors"
VERSION = (HERE.parent / "precice_lb" / "_version.py").read_text(encoding="utf-8")
release = re.findall(r'^VERSION = "(.+)"', VERSION, re.MULTILINE)[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 4

html_theme = "furo"
html_title = "precice_lb"
html_theme_options = {"navigation_with_keys": True}

# Names in single backticks are links where the page exists; what names nothing at all is an error.
default_role = "py:obj"
nitpicky = True
# Types of other packages: their inventories would have to be fetched at each build.
nitpick_ignore_regex = [
    (r"py:class", r"(?!precice_lb\.).*|.*\.Annotated"),
    (r"py:.*", r"(numpy|sklearn|pydantic|typing)\..*"),
]
autodoc_typehints = "signature"
autodoc_typehints_format = "fully-qualified"
python_use_unqualified_type_names = True
smartquotes = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# What scikit-learn and pydantic add to every class of theirs.
autodoc_default_options = {"exclude-members": "set_score_request, set_fit_request, set_predict_request, model_config"}
napoleon_google_docstring = False
# Types in NumPy sections are prose ("sequence of path"): no links are to be made of their words.
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

# Only `make linkcheck` needs a network.
linkcheck_ignore = [r"http://localhost.*"]
linkcheck_timeout = 20


def setup(app: Sphinx) -> None:
    """Fill the parts of pages that are generated, and leave names of internal things without a link."""
    app.connect("source-read", generated.fill)
    app.connect("missing-reference", generated.unlinked)
