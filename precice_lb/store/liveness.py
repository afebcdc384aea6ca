"""Whether the process that records a store may still write to it."""

from __future__ import annotations

import os
import platform
import time

import psutil

from precice_lb.store.records import RankStore

__all__ = ["writing_problem"]

# A recorder writes at the latest every so many windows.
_FLUSH_WINDOWS = 64
_QUIET_SECONDS = 3600.0
_CLOCK_TOLERANCE_SECONDS = 60.0


def writing_problem(store: RankStore) -> str | None:
    """Say why the store of a rank may still be written to; None if nobody writes any more.

    A closed store is complete. One that was not closed belongs to a killed run or to a running one: on this host the
    process tells; on another host the run counts as dead once nothing was written for an hour and for four times as
    long as its windows took from one flush to the next.
    """
    data = store.metadata
    if "ended_unix_ns" in data:
        return None
    host, pid = data.get("hostname"), data.get("pid")
    if host == platform.node() and pid is not None:
        return f"process {pid} still runs" if _runs(pid, data["started_unix_ns"] * 1e-9) else None
    quiet = time.time() - os.stat(store.path).st_mtime
    advances = store.advances
    if len(advances):
        recorded = (int(advances["begin_ns"][-1]) - int(advances["begin_ns"][0])) * 1e-9
        quiet_limit = max(_QUIET_SECONDS, 4 * _FLUSH_WINDOWS * recorded / int(advances["window"][-1]))
    else:
        quiet_limit = _QUIET_SECONDS
    if quiet >= quiet_limit:
        return None
    return f"rank {data['rank']} on host {host} did not close it and wrote to it {quiet:.0f} s ago"


def _runs(pid: int, since: float) -> bool:
    """Whether a process that already ran at Unix time ``since`` still does."""
    try:
        process = psutil.Process(pid)
        # A zombie is a dead process whose parent has not asked for it; a later start is another process.
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and bool(process.create_time() <= since + _CLOCK_TOLERANCE_SECONDS)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
