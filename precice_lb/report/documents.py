"""Recommendations and reports as files; what cannot be rendered costs nothing but itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from precice_lb.exceptions import DataError, PreciceLBError
from precice_lb.names import say
from precice_lb.plain import plain
from precice_lb.report.blocks import Page

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation

JSON_NAME = "recommendation.json"
"""Written first: whatever becomes of the others, the result is there."""
HTML_NAME = "report.html"

_FIGURES = "figures"

Made = TypeVar("Made")


def attempted(what: str, make: Callable[[], Made]) -> Made | None:
    """Make something that the results do not depend on."""
    try:
        return make()
    except BrokenPipeError:
        # Nobody reads any more: that ends the command, which is no failure.
        raise
    except Exception as error:
        if os.environ.get("PRECICE_LB_DEBUG") == "1":
            raise
        known = isinstance(error, PreciceLBError | OSError)
        cause = f"{error}" if known else f"{type(error).__name__}: {error}"
        remedy = "" if known else "; please report this defect, PRECICE_LB_DEBUG=1 shows where it is"
        say(f"precice-lb: warning: {what} could not be made: {cause}{remedy}", sys.stderr)
        return None


def json_text(value: Any) -> str:
    """Write a value as JSON that every reader takes."""
    return json.dumps(plain(value), indent=2, allow_nan=False) + "\n"


def _figures(recommendation: Recommendation) -> list[str]:
    """Names of the charts that lie beside it."""
    names = ["scaling", "landscape" if len(recommendation.split) == 2 else "comparison"]
    return names if recommendation.plan is None else [*names, "budget", "cost"]


def write_documents(recommendation: Recommendation, directory: str | Path) -> list[Path]:
    """Write ``recommendation.json`` and the figures as SVG into a directory.

    Each file is replaced as a whole, so that a reader never sees half of one. JSON comes first, before anything is
    rendered; a figure that cannot be made is a line on standard error, and the others are written.
    """
    written = write_files(directory, {JSON_NAME: json_text(recommendation.to_dict()).encode()}, "the report")
    for name in _figures(recommendation):
        drawn = attempted(f"the figure {name}", partial(_drawn, recommendation, name))
        if drawn is not None:
            written += write_files(directory, {f"{name}.svg": drawn}, "the report")
    return written


def _drawn(recommendation: Recommendation, name: str) -> bytes:
    # Drawing loads matplotlib, which takes longer than everything else here.
    from precice_lb.report.charts import CHARTS

    return CHARTS[name](recommendation).svg


def write_report(page: Page, directory: str | Path) -> list[Path]:
    """Write a report and its figures into a directory; the page is the first of what was written."""
    from precice_lb.report.page.html import page_html

    target = Path(directory)
    html = page_html(page).encode()
    figures = {f"{chart.name}.svg": chart.svg for chart in page.charts}
    # The page last: where it is new, what it names is too.
    written = write_files(target / _FIGURES, figures, "the figures")
    return write_files(target, {HTML_NAME: html}, "the report") + written


def write_files(directory: str | Path, contents: Mapping[str, bytes], what: str) -> list[Path]:
    """Write files into a directory, one after the other, each under its name only once it is complete."""
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            _replace(target / name, content)
    except OSError as error:
        raise DataError(
            f"{target}: expected a directory to write {what} to, found: {error.strerror}; name another one"
        ) from error
    return [target / name for name in contents]


def _replace(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():  # a device or a pipe, such as /dev/stdout
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
