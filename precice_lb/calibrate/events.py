"""What a campaign tells while it runs: typed events, each with a plain line of its own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from precice_lb.calibrate.other_load import NOTICEABLE
from precice_lb.calibrate.state import RunRecord
from precice_lb.plural import plural

__all__ = [
    "CampaignEnded",
    "CampaignStarted",
    "CampaignWarned",
    "Event",
    "Report",
    "RunFinished",
    "RunResumed",
    "RunStarted",
    "logged",
    "print_event",
]

LOG_FILE = "campaign.log"


def _ranks(split: dict[str, int]) -> str:
    return ", ".join(f"{name} {ranks}" for name, ranks in split.items())


@dataclass(frozen=True)
class CampaignStarted:
    """A campaign began or went on.

    Attributes
    ----------
    directory : Path
        Where it lives.
    total : int
        Runs at most.
    finished : int
        Runs that are there already.
    set_aside : int
        Runs that were cut short and are done anew.
    outdated : int
        Runs that failed before the study was changed, and no longer count.
    """

    directory: Path
    total: int
    finished: int
    set_aside: int
    outdated: int = 0

    def __str__(self) -> str:
        text = f"calibration in {self.directory}: {plural(self.total, 'run')}"
        if self.finished:
            text += f", {self.finished} finished before"
        if self.set_aside:
            text += f", {self.set_aside} cut short and set aside"
        if self.outdated:
            text += f", {self.outdated} failed before the study was changed, which no longer count"
        return text


@dataclass(frozen=True)
class RunStarted:
    """A run begins.

    Attributes
    ----------
    number, total : int
        Which run of how many.
    run : RunRecord
        With its split, and the reason for it.
    """

    number: int
    total: int
    run: RunRecord

    def __str__(self) -> str:
        return f"run {self.number} of {self.total}: {_ranks(self.run.split)} ranks ({self.run.reason})"


@dataclass(frozen=True)
class RunFinished:
    """A run ended.

    Attributes
    ----------
    number, total : int
        Which run of how many.
    run : RunRecord
        With its outcome, and what there is to say of a failure.
    budget : str
        What of the campaign's limits is used.
    """

    number: int
    total: int
    run: RunRecord
    budget: str = ""

    def __str__(self) -> str:
        run = self.run
        text = f"run {self.number} of {self.total}: {run.outcome} after {run.seconds:.1f} s"
        if self.budget:
            text += f" ({self.budget})"
        if run.other_load is not None and run.other_load >= NOTICEABLE:
            text += f"; other programs kept {run.other_load:.1f} cores busy, which this run may have measured too"
        return text if run.error is None else f"{text}: {' | '.join((run.error, *run.reasons))}"


@dataclass(frozen=True)
class RunResumed:
    """A run that an interrupted campaign had submitted is waited for.

    Attributes
    ----------
    run : RunRecord
        With its job's number in the batch system.
    """

    run: RunRecord

    def __str__(self) -> str:
        return f"waiting for job {self.run.job} of the interrupted campaign: {_ranks(self.run.split)} ranks"


@dataclass(frozen=True)
class CampaignWarned:
    """Something speaks against the runs that are to come.

    Attributes
    ----------
    text : str
        What, and what to do.
    """

    text: str

    def __str__(self) -> str:
        return f"warning: {self.text}"


@dataclass(frozen=True)
class CampaignEnded:
    """No other run is worth it.

    Attributes
    ----------
    runs : int
        Finished runs.
    reason : str
        Why none is worth it.
    """

    runs: int
    reason: str

    def __str__(self) -> str:
        return f"calibration ends after {plural(self.runs, 'finished run')}: {self.reason}"


Event = CampaignStarted | CampaignWarned | RunStarted | RunFinished | RunResumed | CampaignEnded
Report = Callable[[Event], None]


def logged(report: Report, directory: Path) -> Report:
    """Give a report that also adds each event as a line with its time (UTC) to ``campaign.log``.

    A log that cannot be written, such as on a full disk, stops no campaign.
    """

    def tell(event: Event) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with contextlib.suppress(OSError), (directory / LOG_FILE).open("a", encoding="utf-8") as file:
            file.write(f"{now} {event}\n")
        report(event)

    return tell


def print_event(event: Event) -> None:
    """Print an event as one plain line on standard error, so that standard output stays free for results.

    Parameters
    ----------
    event : Event
        What happened.
    """
    print(event, file=sys.stderr, flush=True)
