"""The subcommand that shows a running simulation."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from precice_lb.cli.app import app, named_values
from precice_lb.cli.flow import print_result
from precice_lb.exceptions import CalibrationError, DataError
from precice_lb.text import say

if TYPE_CHECKING:
    from precice_lb.report.blocks import Block, Story
    from precice_lb.watch import Observer, Snapshot

REACHED = 3
"""Exit code where a threshold was reached."""

_MEASURES = ("gain", "waiting", "drift")
# A poll must not take more than this share of a core, but for searches, which have one of their own.
_SHARE = 0.02
# Beside a solver on the same core it gets a quarter of that.
_NICENESS = 5


@app.command
def watch(
    directory: Path,
    *,
    measurements: list[Path] | None = None,
    restart_cost: float | None = None,
    threshold: list[str] | None = None,
    once: bool = False,
    every: float = 5.0,
    wait: float = 60.0,
    format: Literal["table", "json"] = "table",
    warmup: int | None = None,
) -> int:
    """Watch a simulation while it runs: waiting, drift, convergence, and whether a restart with another split pays.

    It reads the files that the run writes (stores, preCICE's profiling files for waits and for solvers without a
    recorder, and its logs of convergence), locks nothing, and may run on another node. On a terminal the view is live;
    in a pipe each poll is a line. It ends when the run has ended, or of a chain of jobs, whose segments it shows one
    after the other, with the chain. Exit code 3 says that a threshold was reached.

    Example: precice-lb watch precice-lb-store --measurements demo --restart-cost 600

    Example: precice-lb watch . --once --format json --threshold gain=0.1

    Parameters
    ----------
    directory
        A directory of stores, of the case, or of a chain, searched with everything below it; the latest run counts.
    measurements
        Directory of stores, or CSV file, of earlier runs (given again, several): how the participants scale. Without it
        that is assumed, and said so.
    restart_cost
        Seconds that a restart costs, with lost work and the time in the queue; by default what this run took to start.
    threshold
        End with exit code 3 when the gain of another split, the share of core time that waits, or the change of a
        participant's load reaches this share: gain=0.1 (10 %), waiting=0.3, drift=0.2; given again, any one will do.
    once
        Poll once and end.
    every
        Seconds between two polls, at least.
    wait
        Seconds to wait for a run to begin; then it is an error that there is none.
    format
        A table to read, or JSON: one object, and without --once one per poll and line.
    warmup
        Time windows to leave out; by default what the run says, else 1.
    """
    from precice_lb.watch import Observer

    limits = _limits(threshold or [])
    if not every >= 0.1:
        raise DataError(f"--every: expected at least 0.1 seconds, found {every:g}")
    if not wait >= 0:
        raise DataError(f"--wait: expected at least 0 seconds, found {wait:g}")
    observer = Observer(directory, measurements=measurements or (), restart_cost=restart_cost, warmup=warmup)
    if once:
        view = next(_polls(observer, every, wait=0.0, is_hasty=False))
        print_result(format, view.blocks, view.values)
        return REACHED if view.reaches(limits) else 0
    with _screen(format) as show:
        for view in _polls(observer, every, wait, is_hasty=True):
            show(view)
            if view.reaches(limits):
                return REACHED
    return 0


@dataclass(frozen=True, eq=False)
class _View:
    """What a poll found: the latest run, and what the directory says above it."""

    snapshot: Snapshot
    story: Story | None

    @property
    def goes_on(self) -> bool:
        """Whether there is, or will be, more to see."""
        return self.snapshot.is_running or (self.story is not None and not self.story.is_over)

    def reaches(self, limits: dict[str, float]) -> bool:
        """Whether a threshold was reached."""
        return any(self.snapshot.measures[name] >= limit for name, limit in limits.items())

    def blocks(self) -> list[Block]:
        """Say all of it, the run last."""
        from precice_lb.watch.view import watch_blocks

        return [*([] if self.story is None else self.story.progress()), *watch_blocks(self.snapshot)]

    def line(self) -> str:
        """Say in one line what changes."""
        from precice_lb.watch.view import watch_line

        line = watch_line(self.snapshot)
        return line if self.story is None else f"{self.story.line} | {line}"

    def values(self) -> dict[str, Any]:
        """Give plain JSON types."""
        values = self.snapshot.to_dict()
        return values if self.story is None else {**values, self.story.name: self.story.values}


def _story_of(directory: Path) -> tuple[Story | None, tuple[str, ...]]:
    """Read what the directory says above its runs, or why that cannot be read."""
    from precice_lb.report.blocks import read_story

    try:
        return read_story(directory), ()
    except CalibrationError as error:
        return None, (str(error),)


def _polls(observer: Observer, every: float, wait: float, *, is_hasty: bool) -> Iterator[_View]:
    """Poll until the run, or its chain, has ended; less often where polling takes long.

    A hasty first view comes without what takes long, and before this process leaves the cores to the solvers.
    """
    from precice_lb.watch.observer import no_run

    began, was_told = time.monotonic(), False
    while True:
        begin = time.monotonic() - observer.searches.seconds
        # Before the run: a chain that has come to its end meanwhile is looked at once more.
        story, problem = _story_of(observer.directory)
        snapshot = observer.poll(hasty=is_hasty)
        if snapshot is not None:
            view = _View(dataclasses.replace(snapshot, notes=(*snapshot.notes, *problem)), story)
            yield view
            if not view.goes_on:
                return
            if is_hasty:
                is_hasty = False
                os.nice(_NICENESS)
                continue
        elif time.monotonic() - began >= wait:
            raise no_run(observer.directory, f" within {wait:g} s (--wait)" if wait else "")
        elif not was_told:
            was_told = True
            say(f"no run in {observer.directory} yet", sys.stderr)
        time.sleep(max(every, (time.monotonic() - observer.searches.seconds - begin) / _SHARE))


@contextlib.contextmanager
def _screen(format: str) -> Iterator[Callable[[_View], None]]:
    """Show polls: on a terminal the same screen anew, else a line or JSON object for each that found something new."""
    from precice_lb.report.render import console, rendered
    from precice_lb.watch.view import watch_facts

    if format == "table" and sys.stdout.isatty():
        from rich.live import Live

        screen = console()
        with Live(console=screen, auto_refresh=False) as live:
            yield lambda view: live.update(rendered(view.blocks()), refresh=True)
        return
    last: object = None

    def show(view: _View) -> None:
        nonlocal last
        snapshot = view.snapshot
        coupled = [(one.windows, one.window, one.iteration) for one in snapshot.convergence]
        story = view.story and view.story.values
        state = (snapshot.windows, [part.state for part in snapshot.participants], coupled, story, snapshot.notes)
        if state == last:
            return
        last = state
        say(json.dumps(view.values()) if format == "json" else view.line())
        if not snapshot.is_running and format != "json":
            say("\n".join(watch_facts(snapshot)))

    yield show


def _limits(texts: Sequence[str]) -> dict[str, float]:
    """Read ``gain=0.1,waiting=0.3``."""

    def limit(name: str, value: float | str) -> float:
        if name not in _MEASURES or not 0 < float(value) < 1:
            raise ValueError(name)
        return float(value)

    expected = "gain, waiting or drift and a share between 0 and 1, such as gain=0.1 for 10 %"
    return named_values(texts, "--threshold", expected, limit)
