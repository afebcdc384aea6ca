"""Compared learners as files: errors, models and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from precice_lb.report.documents import json_text, write_files
from precice_lb.report.fit import ParticipantFit, fit_dict
from precice_lb.report.text import file_stem

__all__ = ["write_fits"]


def write_fits(
    fits: Sequence[ParticipantFit], directory: str | Path, conditions: Sequence[str] = (), level: float = 0.8
) -> list[Path]:
    """Write fit.json, and per participant its models and figure, into a directory."""
    from precice_lb.report.fit_figure import draw_fit
    from precice_lb.report.style import figure_files

    contents = {"fit.json": json_text(fit_dict(fits, conditions)).encode()}
    for fit in fits:
        stem = file_stem(fit.participant)
        for each in fit.fits:
            if each.model is not None:
                # What the columns of X are, in their order, is not the model's to know.
                stored = {**each.model.to_dict(), "participant": fit.participant, "columns": list(fit.columns)}
                contents[f"{stem}-{each.learner}.json"] = json_text(stored).encode()
        if any(each.model is not None for each in fit.fits):
            contents |= figure_files(stem, draw_fit(fit, level))
    return write_files(directory, contents, "models")
