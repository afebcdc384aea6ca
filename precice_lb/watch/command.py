"""The subcommand that shows a running simulation."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from precice_lb.cli.app import app, named_values
from precice_lb.cli.flow import print_result
from precice_lb.exceptions import CalibrationError, DataError
from precice_lb.text import say

if TYPE_CHECKING:
    from rich.live import Live

    from precice_lb.report.blocks import Story
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
    else the last one is printed. It ends when the run has ended, or of a chain of jobs, whose segments it shows one
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
        Seconds that a restart costs, with lost work and the time in the queue: after how many windows it has paid.
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
        A table to read, or JSON: one object, of the last view.
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
    # Both take a while to load.
    from precice_lb.report.render import console, rendered
    from precice_lb.watch.view import watch_blocks

    live: Live | None = None
    if format == "table" and not once and sys.stdout.isatty():
        from rich.live import Live

        live = Live(console=console(), auto_refresh=False)
    is_reached = False
    with live or contextlib.nullcontext():
        for snapshot, story in _polls(observer, every, 0.0 if once else wait, is_hasty=not once):
            blocks = [*([] if story is None else story.progress()), *watch_blocks(snapshot)]
            if live is not None:
                live.update(rendered(blocks), refresh=True)
            is_reached = any(snapshot.measures[name] >= limit for name, limit in limits.items())
            if once or is_reached:
                break
    if live is None:
        above = {} if story is None else {story.name: story.values}
        print_result(format, lambda: blocks, lambda: {**snapshot.to_dict(), **above})
    return REACHED if is_reached else 0


def _polls(observer: Observer, every: float, wait: float, *, is_hasty: bool) -> Iterator[tuple[Snapshot, Story | None]]:
    """Poll until the run, or its chain, has ended; less often where polling takes long.

    A hasty first view comes without what takes long, and before this process leaves the cores to the solvers. With each
    comes what the directory says above its runs.
    """
    from precice_lb.report.blocks import read_story
    from precice_lb.watch.observer import no_run

    began, is_first = time.monotonic(), True
    while True:
        begin = time.monotonic() - observer.searches.seconds
        story, problems = None, list[str]()
        # Before the run: a chain that has come to its end meanwhile is looked at once more.
        try:
            story = read_story(observer.directory)
        except CalibrationError as error:
            problems.append(str(error))
        snapshot = observer.poll(hasty=is_hasty)
        if snapshot is not None:
            yield dataclasses.replace(snapshot, notes=(*snapshot.notes, *problems)), story
            if not (snapshot.is_running or (story is not None and not story.is_over)):
                return
            if is_hasty:
                is_hasty = False
                os.nice(_NICENESS)
                continue
        elif time.monotonic() - began >= wait:
            raise no_run(observer.directory, f" within {wait:g} s (--wait)" if wait else "")
        elif is_first:
            say(f"no run in {observer.directory} yet", sys.stderr)
        is_first = False
        time.sleep(max(every, (time.monotonic() - observer.searches.seconds - begin) / _SHARE))


def _limits(texts: Sequence[str]) -> dict[str, float]:
    """Read ``gain=0.1,waiting=0.3``."""

    def limit(name: str, value: float | str) -> float:
        if name not in _MEASURES or not 0 < float(value) < 1:
            raise ValueError(name)
        return float(value)

    expected = "gain, waiting or drift and a share between 0 and 1, such as gain=0.1 for 10 %"
    return named_values(texts, "--threshold", expected, limit)
