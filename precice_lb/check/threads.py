"""Does a solver use the threads that it was told to use? Its CPU time beside the wall time while it solved."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from precice_lb.check.records import Finding
from precice_lb.dataset import ParticipantRun
from precice_lb.plural import plural

# A solver that sleeps or waits while it solves has fewer busy cores, which say nothing of its threads.
IDLE = 0.5
# Of several threads at least so many cores are busy in the mean, or these do not share the work.
ONE_CORE = 1.2
# More than so many times the cores that a rank was told to use.
MORE = 1.5


def thread_findings(run: str, part: ParticipantRun) -> Iterator[Finding]:
    """Find a solver that ignores its threads, or takes more of them, by the busiest rank; a load of sleeps is neither.

    Stores of earlier versions and preCICE's profiling files do not tell CPU time.
    """
    busy = part.rank_busy_cores
    if not np.isfinite(busy).any() or part.metadata.get("emulated_load"):
        return
    cores, told = float(np.nanmax(busy)), part.threads
    used = f"kept {cores:.2g} cores busy while it solved"
    if told > 1 and IDLE <= cores < ONE_CORE:
        yield Finding(
            "threads",
            run,
            part.participant,
            f"each rank was told to use {plural(told, 'thread')}, and the busiest {used}: it ignores its threads, and "
            "the other cores stand idle",
            "build the solver with its threads (OpenMP, a threaded BLAS) and check the variable that it reads, such as "
            "OMP_NUM_THREADS, and the cores that it may run on; or give it threads = 1 and more ranks",
            told / max(cores, 0.1),
        )
    elif cores > MORE * told:
        yield Finding(
            "threads",
            run,
            part.participant,
            f"each rank was told to use {plural(told, 'thread')}, and the busiest {used}: it takes cores that are "
            "others' in a full machine",
            "let the split know its threads (threads of the participant in the study, PRECICE_LB_THREADS where it is "
            "started by hand), or set OMP_NUM_THREADS and the like to what it was told",
            cores / told,
        )
