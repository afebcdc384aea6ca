"""What has to be said of a run before its numbers are believed: who is missing, who did not come to the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from precice_lb.dataset.coupling import roles_of
from precice_lb.dataset.records import CoupledRun
from precice_lb.plural import plural

__all__ = ["missing", "remarks", "unfinished"]


def unfinished(run: CoupledRun) -> str:
    """Say who did not come to the end of the coupling, and after how many windows; empty where all did."""
    left = {
        name: len(part.windows) for name, part in run.participants.items() if not part.metadata.get("finished", True)
    }
    if not left:
        return ""
    windows = plural(max(left.values()), "window")
    return f"{' and '.join(left)} did not come to the end (killed, failed or still running): {windows} recorded"


def missing(run: CoupledRun) -> tuple[str, str]:
    """Say which participants of the configuration have no stores, and what to do; empty where none is missing."""
    names = [name for name in roles_of(run.configuration).participants if name not in run.participants]
    if not names:
        return "", ""
    where = f" in {run.directory}" if run.directory is not None else ""
    whose = f"{'that' if len(names) == 1 else 'those'} of {' and '.join(names)}"
    return (
        f"no stores of {' and '.join(names)} were found beside those of {' and '.join(run.participants)}{where}",
        f"each participant's stores lie in the directory that it ran in: give {whose} too, or one above all",
    )


def remarks(runs: Sequence[CoupledRun]) -> tuple[str, ...]:
    """Say of each run what speaks against it as a sample.

    Parameters
    ----------
    runs : sequence of CoupledRun
        Of one case.

    Returns
    -------
    tuple of str
        One sentence each.
    """
    return tuple(text for run in runs for text in _of_run(run))


def _of_run(run: CoupledRun) -> Iterator[str]:
    end = unfinished(run)
    empty = [name for name in run.participants if not run.steady(name).any()]
    if empty:
        whom = "" if len(empty) == len(run.participants) else f" for {' and '.join(empty)}"
        yield (
            f"Run {run.name} is not used{whom}: no window is left after a warm-up of "
            f"{plural(run.warmup_windows, 'window')}{f'; {end}' if end else ''}."
        )
    elif end:
        yield f"Run {run.name}: {end}; what was recorded is used."
    absent, remedy = missing(run)
    if absent:
        yield f"Run {run.name}: {absent}; {remedy}."
