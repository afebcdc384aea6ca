"""How a calibration campaign goes, on a terminal as a bar and elsewhere as plain lines."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from precice_lb.calibrate import Event
from precice_lb.report.text import visible


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
