"""What a campaign tells while it runs: typed events, each with a plain line of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CampaignStarted", "Event", "Report", "RunFinished", "RunStarted", "print_event"]


def _ranks(split: dict[str, int]) -> str:
    return ", ".join(f"{name} {ranks}" for name, ranks in split.items())


@dataclass(frozen=True)
class CampaignStarted:
    """A campaign began or went on: ``finished`` of ``total`` runs are there already; ``set_aside`` were cut short."""

    directory: Path
    total: int
    finished: int
    set_aside: int

    def __str__(self) -> str:
        text = f"calibration in {self.directory}: {self.total} runs"
        if self.finished:
            text += f", {self.finished} finished before"
        if self.set_aside:
            text += f", {self.set_aside} cut short and set aside"
        return text


@dataclass(frozen=True)
class RunStarted:
    """Run ``number`` of ``total`` begins; ``split`` is in ranks, ``reason`` why this split."""

    number: int
    total: int
    split: dict[str, int]
    reason: str
    directory: Path

    def __str__(self) -> str:
        return f"run {self.number} of {self.total}: {_ranks(self.split)} ranks ({self.reason})"


@dataclass(frozen=True)
class RunFinished:
    """Run ``number`` of ``total`` ended after ``seconds`` of wall time.

    ``outcome`` is ``finished``, ``failed`` or ``timeout``; for the last two ``error`` says what happened.
    """

    number: int
    total: int
    split: dict[str, int]
    outcome: str
    seconds: float
    error: str | None

    def __str__(self) -> str:
        text = f"run {self.number} of {self.total}: {self.outcome} after {self.seconds:.1f} s"
        return text if self.error is None else f"{text}: {self.error}"


Event = CampaignStarted | RunStarted | RunFinished
Report = Callable[[Event], None]


def print_event(event: Event) -> None:
    """Print an event as one plain line on standard error, so that standard output stays free for results."""
    print(event, file=sys.stderr, flush=True)
