"""The subcommand that shows a running simulation."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from precice_lb.cli.app import app
from precice_lb.cli.flow import print_result
from precice_lb.cli.options import named_values
from precice_lb.exceptions import DataError

if TYPE_CHECKING:
    from precice_lb.watch import Observer, Snapshot

__all__ = ["watch"]

REACHED = 3
"""Exit code where a threshold was reached."""

_MEASURES = ("gain", "waiting", "drift")
# A poll must not take more than this share of a core.
_SHARE = 0.02


@app.command
def watch(
    directory: Path,
    *,
    measurements: list[Path] | None = None,
    restart_cost: float | None = None,
    threshold: list[str] | None = None,
    once: bool = False,
    every: float = 5.0,
    format: Literal["table", "json"] = "table",
    warmup: int | None = None,
    learner: str | None = None,
) -> int:
    """Watch a simulation while it runs: waiting, drift, convergence, and whether a restart with another split pays.

    It reads the files that the run writes (stores, preCICE's profiling files for waits and for solvers without a
    recorder, and its logs of convergence), locks nothing, and may run on another node. On a terminal the view is live;
    in a pipe each poll is a line. It ends when the run has ended. Exit code 3 says that a threshold was reached.

    Example: precice-lb watch precice-lb-store --measurements demo --restart-cost 600

    Example: precice-lb watch . --once --format json --threshold gain=0.1

    Parameters
    ----------
    directory
        A directory of stores, or of the case, searched with everything below it; the latest run counts.
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
    format
        A table to read, or JSON: one object, and without --once one per poll and line.
    warmup
        Time windows to leave out; by default what the run says, else 1.
    learner
        Learner of the models, as of recommend.
    """
    if not once:
        _come_last()
    from precice_lb.watch import Observer, watch_run

    limits = _limits(threshold or [])
    if not every >= 0.1:
        raise DataError(f"--every: expected at least 0.1 seconds, found {every:g}")
    words = {"measurements": measurements or (), "restart_cost": restart_cost, "warmup": warmup, "learner": learner}
    if once:
        found = watch_run(directory, **words)  # type: ignore[arg-type]
        _print(found, format)
        return REACHED if _reached(found, limits) else 0
    observer = Observer(directory, **words)  # type: ignore[arg-type]
    with _screen(format) as show:
        for snapshot in _polls(observer, every):
            show(snapshot)
            if _reached(snapshot, limits):
                return REACHED
    return 0


def _come_last() -> None:
    """Leave processors to the solvers on this machine, even before anything is imported."""
    with contextlib.suppress(OSError):
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(19)


def _polls(observer: Observer, every: float) -> Iterator[Snapshot]:
    """Poll until the run has ended; less often where polling takes long."""
    told = False
    while True:
        begin = time.monotonic()
        snapshot = observer.poll()
        if snapshot is not None:
            yield snapshot
            if not snapshot.is_running:
                return
        elif not told:
            told = True
            print(f"no run in {observer.directory} yet", file=sys.stderr)
        time.sleep(max(every, (time.monotonic() - begin) / _SHARE))


class _Lines:
    """Prints a line, or a JSON object, for each poll that found something new."""

    def __init__(self, format: str) -> None:
        self._format = format
        self._last: tuple[object, ...] = ()

    def __call__(self, snapshot: Snapshot) -> None:
        from precice_lb.report.watch_view import watch_facts, watch_line

        coupled = [(each.windows, each.window, each.iteration) for each in snapshot.convergence]
        state = (snapshot.windows, [each.state for each in snapshot.participants], coupled)
        if state != self._last:
            self._last = state
            print(json.dumps(snapshot.to_dict()) if self._format == "json" else watch_line(snapshot), flush=True)
        if not snapshot.is_running and self._format != "json":
            print("\n".join(watch_facts(snapshot)), flush=True)


class _Live:
    """Draws the same screen anew."""

    def __init__(self) -> None:
        from rich.live import Live

        from precice_lb.report.terminal import console

        self._console = console()
        self.live = Live(console=self._console, auto_refresh=False)

    def __call__(self, snapshot: Snapshot) -> None:
        from precice_lb.report.terminal import rendered
        from precice_lb.report.watch_view import watch_blocks

        blocks = watch_blocks(snapshot, ascii_only=self._console.options.ascii_only)
        self.live.update(rendered(blocks), refresh=True)


@contextlib.contextmanager
def _screen(format: str) -> Iterator[_Lines | _Live]:
    if format == "json" or not sys.stdout.isatty():
        yield _Lines(format)
        return
    screen = _Live()
    with screen.live:
        yield screen


def _print(snapshot: Snapshot, format: str) -> None:
    from precice_lb.report.terminal import console
    from precice_lb.report.watch_view import watch_blocks

    ascii_only = console().options.ascii_only
    print_result(format, lambda: watch_blocks(snapshot, ascii_only=ascii_only), snapshot.to_dict)


def _limits(texts: Sequence[str]) -> dict[str, float]:
    """Read ``gain=0.1,waiting=0.3``."""

    def limit(name: str, value: float | str) -> float:
        if name not in _MEASURES or not 0 < float(value) < 1:
            raise ValueError(name)
        return float(value)

    expected = "gain, waiting or drift and a share between 0 and 1, such as gain=0.1 for 10 %"
    return named_values(texts, "--threshold", expected, limit)


def _reached(snapshot: Snapshot, limits: dict[str, float]) -> bool:
    measures = snapshot.measures
    return any(measures[name] >= limit for name, limit in limits.items())
