"""Compared learners on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from precice_lb.report.fit import ParticipantFit, fit_grid, formulas, variables
from precice_lb.report.terminal import grid_view
from precice_lb.report.text import listed, short_names, visible

__all__ = ["fit_view"]


def fit_view(fits: Sequence[ParticipantFit], level: float) -> RenderableType:
    """Build the screen of ``fit``: per participant a table of errors, then the formulas.

    Parameters
    ----------
    fits
        The participants.
    level
        Of the intervals.
    """
    names = short_names([each.participant for each in fits], 24)
    parts: list[RenderableType] = []
    for each in fits:
        parts.append(grid_view(fit_grid(each, names[each.participant], level)))
        for learner, text in formulas(each):
            parts.append(Text.assemble((f"{learner}: ", "bold"), visible(text), overflow="fold"))
        if len(each.columns) > 1:
            parts.append(Text(", ".join(f"{letter}: {visible(name)}" for letter, name in variables(each).items())))
        if each.left_aside:
            columns = listed(visible(column) for column in each.left_aside)
            parts.append(Text(f"warning: not modelled, because it is not numbers throughout: {columns}", "yellow"))
        parts.append(Text())
    return Group(*parts[:-1])
