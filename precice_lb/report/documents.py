"""``recommendation.json``, ``recommendation.md`` and the figure: a recommendation as files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precice_lb.exceptions import DataError
from precice_lb.plain import plain
from precice_lb.report.attempt import attempted
from precice_lb.report.markdown import blocks_markdown
from precice_lb.report.recommendation import recommendation_blocks

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.report.truth import Truth

__all__ = ["JSON_NAME", "json_text", "report_markdown", "write_documents", "write_files"]

JSON_NAME = "recommendation.json"
"""Written first: whatever becomes of the others, the result is there."""

_MARKDOWN_NAME = "recommendation.md"
_FIGURE_STEM = "scaling"
_PLAN_STEM = "budget"


def json_text(value: Any) -> str:
    """Write a value as JSON that every reader takes."""
    return json.dumps(plain(value), indent=2, allow_nan=False) + "\n"


def report_markdown(recommendation: Recommendation, *, truth: Truth | None = None) -> str:
    """Write a recommendation as Markdown, with formulas in full."""
    pictures = {f"{_FIGURE_STEM}.svg": "Scaling curves, measured points and the recommended split"}
    if recommendation.plan is not None:
        pictures[f"{_PLAN_STEM}.svg"] = "Window time and core-hours over the budget"
    names = {who: who for who in recommendation.split}
    blocks = recommendation_blocks(recommendation, names, truth=truth, brief=False, pictures=pictures)
    return blocks_markdown("Recommended split", blocks)


def write_documents(
    recommendation: Recommendation,
    directory: str | Path,
    *,
    truth: Truth | None = None,
) -> list[Path]:
    """Write ``recommendation.json``, ``recommendation.md`` and the figures (SVG and PNG) into a directory.

    Each file is replaced as a whole, so that a reader never sees half of one. JSON comes first, before anything is
    rendered; a figure or text that cannot be made is a line on standard error, and the others are written.
    """
    values = dict(recommendation.to_dict())
    if truth is not None:
        values["emulation"] = truth.to_dict()
    written = write_files(directory, {JSON_NAME: json_text(values).encode()}, "the report")
    text = attempted(_MARKDOWN_NAME, lambda: report_markdown(recommendation, truth=truth).encode())
    if text is not None:
        written += write_files(directory, {_MARKDOWN_NAME: text}, "the report")
    figures = (_FIGURE_STEM, _PLAN_STEM) if recommendation.plan is not None else (_FIGURE_STEM,)
    for stem in figures:
        drawn = attempted(f"the figure {stem}", partial(_drawn, recommendation, stem))
        if drawn is not None:
            written += write_files(directory, drawn, "the report")
    return written


def _drawn(recommendation: Recommendation, stem: str) -> dict[str, bytes]:
    # Drawing loads matplotlib, which takes longer than everything else here.
    from precice_lb.report.figure import draw_recommendation
    from precice_lb.report.plan_figure import draw_plan
    from precice_lb.report.style import figure_files

    draw = draw_plan if stem == _PLAN_STEM else draw_recommendation
    return figure_files(stem, draw(recommendation))


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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
