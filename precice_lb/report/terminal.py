"""Recommendations and summaries on a terminal, or in a pipe, as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from precice_lb.report import plan_view, summary_text, view
from precice_lb.report.text import short_names, visible

if TYPE_CHECKING:
    from precice_lb.recommend import Recommendation
    from precice_lb.report.summary import RunSummary
    from precice_lb.report.truth import Truth

__all__ = ["console", "grid_view", "recommendation_view", "summary_view"]

_NAME_WIDTH = 24


def console(stream: TextIO | None = None) -> Console:
    """Make a console that shows texts as they are: no markup, no emoji, no guessed highlights.

    Parameters
    ----------
    stream
        Where to write; standard output by default.
    """
    return _Console(file=stream, markup=False, emoji=False, highlight=False)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line, instead of ending the program with exit code 1."""
        raise BrokenPipeError


def grid_view(grid: view.Grid) -> RenderableType:
    """Set a table of plain text under its title, a blank line below."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for head, numeric in zip(grid.header, grid.numeric, strict=True):
        table.add_column(Text(head), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return Group(Text(visible(grid.title), style="bold", overflow="fold"), table, Text())


def recommendation_view(
    recommendation: Recommendation, *, truth: Truth | None = None, evidence: bool = False
) -> RenderableType:
    """Build the screen of a recommendation.

    Parameters
    ----------
    recommendation
        The recommendation.
    truth
        For an emulated load: the comparison with its law.
    evidence
        Whether to list every measurement beside the model.

    Returns
    -------
    rich.console.RenderableType
        Two sentences first, then tables, facts and warnings; printed with :func:`console`.
    """
    names = short_names(recommendation.split, _NAME_WIDTH)
    parts: list[RenderableType] = []
    parts += [Text(sentence, style="bold") for sentence in view.statement(recommendation, names)]
    parts += [Text(), grid_view(view.split_grid(recommendation, names))]
    if recommendation.alternatives:
        parts.append(grid_view(view.comparison_grid(recommendation)))
    parts += [grid_view(grid) for grid in plan_view.plan_grids(recommendation)]
    if recommendation.comparisons:
        parts.append(grid_view(view.measured_grid(recommendation)))
    parts += [grid_view(grid) for grid in view.failed_grids(recommendation, names)]
    if evidence:
        parts.append(grid_view(view.evidence_grid(recommendation, names)))
    if truth is not None:
        parts += [grid_view(view.truth_grid(truth)), Text(view.truth_statement(truth)), Text()]
    parts += _pairs(view.facts(recommendation, names, brief=True))
    parts += _pairs(plan_view.plan_facts(recommendation, names))
    parts += [_pair("warning: ", warning, "yellow") for warning in recommendation.warnings]
    return Group(*parts)


def summary_view(runs: Sequence[RunSummary], *, per_rank: bool = False) -> RenderableType:
    """Build the screen of ``summary``.

    Parameters
    ----------
    runs
        The runs, in the order to show them.
    per_rank
        Whether to list every rank.

    Returns
    -------
    rich.console.RenderableType
        A table and what follows from it per run.
    """
    parts: list[RenderableType] = []
    for run in runs:
        names = short_names([each.participant for each in run.participants], _NAME_WIDTH)
        parts.append(grid_view(summary_text.run_grid(run, names)))
        if per_rank:
            parts += [grid_view(summary_text.rank_grid(run, each, names)) for each in run.participants]
        parts += _pairs(summary_text.notes(run, names))
        parts.append(Text())
    return Group(*parts[:-1])


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[RenderableType]:
    return [_pair(f"{visible(key)}: ", text) for key, text in pairs]


def _pair(head: str, text: str, style: str = "") -> Text:
    return Text.assemble((head, "bold"), (visible(text), style), overflow="fold")
