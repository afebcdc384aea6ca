"""What a rank's profiling file says in the words of a store: metadata, rows of ``advance`` and of ``initialize``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.case import ProfiledCase
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.find import find_configuration
from precice_lb.ingest.profiling.times import waited_ns
from precice_lb.ingest.profiling.windows import WindowCounter, find_iterations_log
from precice_lb.store.schema import ADVANCE_DTYPE, INITIALIZE_DTYPE, case_fingerprint

__all__ = ["ProfiledParticipant", "advance_rows", "initialize_rows", "profiled_participant"]


@dataclass(frozen=True, eq=False)
class ProfiledParticipant:
    """What the profiling files of all ranks of a participant have in common."""

    #: The ``precice-config.xml``.
    configuration_path: Path
    #: Its text.
    configuration: str
    #: SHA-256 of its bytes.
    digest: str
    #: What it says about profiling.
    case: ProfiledCase
    #: ``precice-<Participant>-iterations.log``.
    log: Path | None
    #: Whether the participant iterates within a time window; None if the configuration cannot be read.
    is_implicit: bool | None

    def metadata(self, header: Header, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Metadata of a store of one rank."""
        return {
            "participant": header.participant,
            "rank": header.rank,
            "size": header.size,
            "backend": "libprecice",
            "clock": "std::chrono::steady_clock",
            "started_clock_ns": 0,
            "started_unix_ns": header.unix_us * 1000,
            "working_directory": str(header.directory),
            "timing_source": f"precice-profiling {header.mode}",
            "configuration_path": str(self.configuration_path.resolve()),
            "configuration_hash": self.digest,
            "case": case_fingerprint(self.configuration),
            **(more or {}),
        }


def profiled_participant(header: Header, roots: Sequence[Path], given: Path | None = None) -> ProfiledParticipant:
    """Find configuration (unless given) and iterations log of the run that a profiling file is of."""
    path = given if given is not None else find_configuration(header.directory, roots)
    if path is None:
        raise DataError(
            f"{header.path.parent}: expected a precice-config.xml beside or above it, found none; give its path"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: expected a preCICE configuration, found none that can be read ({error})") from None
    text = content.decode("utf-8", "replace")
    case = ProfiledCase.of(text)
    if case.configuration is not None and header.participant not in case.configuration.participants:
        known = ", ".join(case.configuration.participants)
        raise DataError(
            f"{path}: expected participant {header.participant} of {header.path}, found {known}; give another"
        )
    # Beside a database that was merged from several folders it is somewhere below.
    places = [*roots, header.directory]
    log = find_iterations_log(header.participant, header.directory, places)
    digest = hashlib.sha256(content).hexdigest()
    return ProfiledParticipant(path, text, digest, case, log, case.is_implicit(header.participant))


def advance_rows(calls: NDArray[np.void], counter: WindowCounter, waits: Sequence[str]) -> NDArray[np.void]:
    """Rows of ``advance`` of a store; the counter has counted all calls before, ``waits`` are columns of waiting."""
    rows = np.empty(len(calls), dtype=ADVANCE_DTYPE)
    rows["window"], rows["iteration"], rows["window_complete"] = counter.count(calls["exchanges"])
    rows["begin_ns"] = calls["begin_us"] * 1000
    # Just-in-time mapping is mapping although the solver asks for it; barriers are part of the call they belong to.
    rows["solve_ns"] = (calls["solve_us"] - calls["jit_us"]) * 1000
    rows["advance_ns"] = (calls["advance_us"] + calls["jit_us"] + calls["sync_us"]) * 1000
    rows["mapping_ns"] = (calls["mapping_us"] + calls["jit_us"]) * 1000
    rows["wait_ns"] = waited_ns(calls, waits)
    rows["computed_dt"] = np.nan
    return rows


def initialize_rows(times: NDArray[np.void], waits: Sequence[str]) -> NDArray[np.void]:
    """Rows of ``initialize`` of a store."""
    rows = np.empty(len(times), dtype=INITIALIZE_DTYPE)
    for name in ("begin", "initialize", "mapping"):
        rows[f"{name}_ns"] = times[f"{name}_us"] * 1000
    rows["wait_ns"] = waited_ns(times, waits)
    return rows
