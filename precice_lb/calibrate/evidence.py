"""What a run left of its times, and whether it ran as its split says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precice_lb.exceptions import PreciceLBError
from precice_lb.ingest.profiling import import_profiling
from precice_lb.plural import plural

__all__ = ["import_profiles", "not_measured", "wrong_size"]

# Stores, and preCICE's profiling files, of one rank.
_RANK_FILE = re.compile(r"^(?P<who>.+)-\d+-(?P<size>\d+)(?:\.\d+)?\.(?:h5|spool|txt|json)$")
_STORES = "stores/**/*"
_PROFILES = "case/**/precice-profiling/*"


def wrong_size(run: Path, split: Mapping[str, int]) -> str | None:
    """Say which participant's MPI saw another number of ranks than the split says."""
    sizes = _sizes(run)
    for name, ranks in split.items():
        if name in sizes and sizes[name] != {ranks}:
            seen = " and ".join(map(str, sorted(sizes[name])))
            return (
                f"{name} was to run on {plural(ranks, 'rank')}, but its MPI says {seen}: this MPI does not understand "
                'the launcher; use the one that belongs to it, or for srun launcher.mpi, such as "pmi2" or "pmix"'
            )
    return None


def not_measured(run: Path, split: Mapping[str, int]) -> str | None:
    """Say which participants left neither a store nor profiling files."""
    silent = [name for name in split if name not in _sizes(run)]
    if not silent:
        return None
    return (
        f"{' and '.join(silent)} ended well but recorded nothing: start a Python solver with "
        "`python -m precice_lb run solver.py`; any other needs preCICE's profiling, which is on by default"
    )


def import_profiles(
    run: Path, split: Mapping[str, int], configuration: Path, metadata: Mapping[str, Any]
) -> str | None:
    """Turn the profiling files of participants that no recorder was in into stores; say what is wrong with them."""
    recorded = {match["who"] for path in run.glob(_STORES) if (match := _RANK_FILE.match(path.name))}
    for name in split.keys() - recorded:
        files = [
            path for path in run.glob(_PROFILES) if (match := _RANK_FILE.match(path.name)) and match["who"] == name
        ]
        if not files:
            continue
        try:
            import_profiling(files, run / "stores", configuration=configuration, metadata=metadata)
        except PreciceLBError as problem:
            return f"{name} ended well, but its profiling files cannot be read: {problem}"
    return None


def _sizes(run: Path) -> dict[str, set[int]]:
    """Return the numbers of ranks in the names of a run's stores and profiling files, by participant."""
    found: dict[str, set[int]] = {}
    for pattern in (_STORES, _PROFILES):
        for path in run.glob(pattern):
            if match := _RANK_FILE.match(path.name):
                found.setdefault(match["who"], set()).add(int(match["size"]))
    return found
