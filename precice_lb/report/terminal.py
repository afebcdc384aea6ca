"""Blocks on a terminal, or in a pipe, as plain text."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from precice_lb.calibrate import Event
from precice_lb.names import visible
from precice_lb.report.blocks import Block, DefinitionList, Paragraph, Table

_STYLES = {"lead": "bold", "warning": "yellow", "missing": "yellow"}


def console(stream: TextIO | None = None) -> Console:
    """Make a console for standard output or another stream that shows texts as they are: no markup, no emoji."""
    return _Console(file=stream, markup=False, emoji=False, highlight=False)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line, instead of ending the program with exit code 1."""
        raise BrokenPipeError


def rendered(blocks: Iterable[Block]) -> RenderableType:
    """Make a screen of blocks: what speaks against them comes last, where the eye is."""
    parts: list[RenderableType] = []
    for block in sorted(blocks, key=lambda each: isinstance(each, Paragraph) and each.role == "warning"):
        if isinstance(block, Table):
            # Of several parts of text, a table stands apart.
            blank = [Text()] if parts and not (isinstance(parts[-1], Text) and not parts[-1].plain) else []
            parts += [*blank, *_table(block), Text()]
        elif isinstance(block, DefinitionList):
            parts += [_line(key, text) for key, text in block.pairs]
        elif isinstance(block, Paragraph):
            parts.append(_line(block.heading, block.text, _STYLES.get(block.role, "")))
    while parts and isinstance(parts[-1], Text) and not parts[-1].plain:
        parts.pop()
    return Group(*parts)


def _table(block: Table) -> list[RenderableType]:
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for head, numeric in zip(block.header, block.numeric, strict=True):
        table.add_column(Text(head), justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in block.rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return [Text(visible(block.title), style="bold", overflow="fold"), table]


def _line(head: str, text: str, style: str = "") -> Text:
    if not head:
        return Text(visible(text), style=style, overflow="fold")
    return Text.assemble((f"{visible(head)}: ", "bold"), (visible(text), style), overflow="fold")


class CampaignProgress:
    """Shows the events of a campaign; use it as a context manager and give it as ``report``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> CampaignProgress:
        if self._console.is_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Show one event of the campaign: of runs that end well, the bar and ``campaign.log`` tell."""
        in_bar = ("run started", "run finished")
        if event.notable or event.kind not in (in_bar if self._progress is not None else in_bar[1:]):
            self._console.print(Text(visible(str(event)), overflow="ignore", no_wrap=True), soft_wrap=True)
        if self._progress is None:
            return
        if event.kind == "started":
            self._task = self._progress.add_task("runs", total=event.total, completed=event.number)
        elif self._task is not None and event.kind == "run started" and event.run is not None:
            split = " + ".join(str(count) for count in event.run.split.values())
            self._progress.update(self._task, description=f"run {event.number}: {split} {event.unit}s")
        elif self._task is not None and event.kind == "run finished":
            self._progress.update(self._task, completed=event.number, description=event.budget)
