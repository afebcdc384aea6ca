"""Reading mpiP's text report: what each rank spent in MPI in a whole run, without what preCICE spent there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError

__all__ = ["read_mpi_report"]

_TIMES = "MPI Time (seconds)"
_SITES = "Callsites"
_STATISTICS = "Callsite Time statistics"
_END = "End of Report"
# Share of a rank's time at call sites of which it is not known whose they are.
_MOST_UNKNOWN = 0.05
# A function of preCICE's, as compilers name it or as people read it.
_OF_PRECICE = re.compile(r"\s(_ZNK?7precice|precice::)")


def read_mpi_report(path: str | Path) -> NDArray[np.float64]:
    """Read what each rank spent in MPI from a report of mpiP.

    Call sites that have a function of preCICE's on their stack are left out: what a rank does in ``advance`` is no part
    of its solve time. That needs a report with call sites of several levels (``MPIP="-k 8"``), and addresses that are
    the same on all ranks (``setarch -R`` in front of the solver); without them preCICE's calls are counted too.

    Parameters
    ----------
    path : path
        The report, named ``<program>.<ranks>.<process>.<number>.mpiP``.

    Returns
    -------
    ndarray, shape (ranks,)
        Seconds over the whole run; `precice_lb.inside.loads.loads_of_runs` spreads them over its time windows.

    Raises
    ------
    DataError
        If the file cannot be read, is no report, ends before its end, or tells preCICE's calls on some ranks only.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"{path}: expected a report of mpiP, found {error.strerror}; check the path") from error
    if not lines or not lines[0].startswith("@ mpiP"):
        raise DataError(
            f"{path}: expected a report of mpiP, which begins with '@ mpiP', found another file; give the .mpiP file"
        )
    try:
        sections = dict(_sections(lines))
        seconds = _task_times(sections[_TIMES])
        if _END not in sections:
            raise ValueError("no end of the report")
        of_precice, nameless = _sites(sections.get(_SITES, []))
        inside = _seconds_at(of_precice, sections.get(_STATISTICS, []), len(seconds))
        unknown = _seconds_at(nameless, sections.get(_STATISTICS, []), len(seconds))
    except (KeyError, ValueError, IndexError) as error:
        raise DataError(
            f"{path}: expected a whole report of mpiP with times of all tasks, found one that is cut off or damaged "
            f"({error}); let the run come to MPI_Finalize, or copy the file anew"
        ) from error
    if of_precice and (unknown > _MOST_UNKNOWN * seconds).any():
        rank = int(np.argmax(unknown / np.maximum(seconds, 1e-9)))
        raise DataError(
            f"{path}: expected names of functions in call sites, to tell preCICE's calls, found addresses alone where "
            f"rank {rank} spends {unknown[rank]:.3g} of {seconds[rank]:.3g} s; start the solver by setarch -R, so that "
            "addresses are the same on all ranks"
        )
    return np.asarray(np.maximum(seconds - inside, 0.0), dtype=np.float64)


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Give the rows of each section, without its rules and its header, by the beginning of its title."""
    starts = [at for at, line in enumerate(lines) if line.startswith("@---")]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        title = lines[start].removeprefix("@---").strip(" -")
        rows = [line for line in lines[start + 1 : end] if line.strip() and not line.startswith("---")]
        yield re.split(r": \d| \(all|(?<=\(seconds\))", title)[0].strip(), rows[1:]


def _task_times(rows: list[str]) -> NDArray[np.float64]:
    """Seconds in MPI by task; the last row is their sum."""
    *tasks, last = [row.split() for row in rows]
    numbers = [int(task) for task, *_ in tasks]
    if last[0] != "*" or not numbers or numbers != list(range(len(numbers))):
        raise ValueError(f"tasks {', '.join(row[0] for row in (*tasks, last))}")
    seconds = np.array([float(row[2]) for row in tasks])
    if not (np.isfinite(seconds) & (seconds >= 0)).all():
        raise ValueError("seconds that are none")
    return seconds


def _sites(rows: list[str]) -> tuple[set[int], set[int]]:
    """Find call sites below a function of preCICE's, and those without the name of any function."""
    every = {int(row.split()[0]) for row in rows}
    named = {int(row.split()[0]) for row in rows if "[unknown]" not in row}
    return {int(row.split()[0]) for row in rows if _OF_PRECICE.search(row)}, every - named


def _seconds_at(sites: set[int], rows: list[str], ranks: int) -> NDArray[np.float64]:
    """Sum up what each rank spent at call sites; rows with ``*`` are of all ranks."""
    seconds = np.zeros(ranks)
    for row in rows:
        _, site, rank, count, _, mean, *_ = row.split()
        if rank != "*" and int(site) in sites:
            seconds[int(rank)] += int(count) * float(mean) * 1e-3
    return seconds
