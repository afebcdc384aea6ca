"""What a rank's profiling file says in the words of a store: metadata, rows of ``advance`` and of ``initialize``.

Which time window and coupling iteration a call of ``advance`` belongs to, preCICE's iterations log tells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.case import ProfiledCase
from precice_lb.ingest.profiling.files import Header, read_header
from precice_lb.ingest.profiling.find import find_configuration
from precice_lb.ingest.profiling.tables import IterationsTail, find_table, read_iterations_log
from precice_lb.ingest.profiling.times import CALL_DTYPE, CallReader, waited_ns
from precice_lb.store.records import RankStore
from precice_lb.store.schema import ADVANCE_DTYPE, INITIALIZE_DTYPE, case_fingerprint


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

    @cached_property
    def iterations(self) -> NDArray[np.int64] | None:
        """Coupling iterations of each completed time window; None without a log."""
        return None if self.log is None else read_iterations_log(self.log)

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
            f"{header.path.parent}: expected a precice-config.xml beside or above it, found none; give one (--config)"
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
    log = find_table(f"precice-{header.participant}-iterations.log", header.directory, places)
    return ProfiledParticipant(path, text, hashlib.sha256(content).hexdigest(), case, log)


def advance_rows(
    calls: NDArray[np.void], iterations: NDArray[np.int64] | None, waits: Sequence[str], before: int = 0
) -> NDArray[np.void]:
    """Rows of ``advance`` of a store; ``before`` as of `count_windows`, ``waits`` are columns of waiting."""
    rows = np.empty(len(calls), dtype=ADVANCE_DTYPE)
    rows["window"], rows["iteration"], rows["window_complete"] = count_windows(calls["exchanges"], iterations, before)
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


def count_windows(
    exchanges: NDArray[np.int64], iterations: NDArray[np.int64] | None = None, before: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Tell window and iteration of each call, and whether it ends its window, each of shape (calls,).

    A call that exchanges nothing ends before its window does: a solver with smaller steps than the coupling. Every
    other call ends an iteration, and a window if the log says so; without a log every iteration is a window. So many
    iterations ended before the first call.
    """
    ends = exchanges > 0
    number = before + np.cumsum(ends) - ends
    if iterations is None:
        return number + 1, np.ones_like(number), ends
    last = np.cumsum(iterations)
    window = np.searchsorted(last, number, side="right")
    starts = np.concatenate([[0], last])
    done = np.append(last, np.iinfo(np.int64).max)[window] == number + 1
    return window + 1, number - starts[window] + 1, ends & done


class ProfileTail:
    """Reads the rows of ``advance`` of a rank without a recorder out of its profiling file, as they appear."""

    def __init__(self, header: Header, participant: ProfiledParticipant) -> None:
        self.path: Path = header.path
        #: Why the last `read` failed; empty if it did not.
        self.problem = ""
        self._participant = participant
        self._waits = participant.case.waits(header.participant)
        self._reader = CallReader(header)
        self._calls: NDArray[np.void] = np.empty(0, dtype=CALL_DTYPE)
        self._counted = 0
        self._log = None if participant.log is None else IterationsTail(participant.log)
        self._iterations: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        empty: NDArray[np.void] = np.empty(0, dtype=ADVANCE_DTYPE)
        #: Everything but the rows.
        self.head = RankStore(
            path=header.path,
            metadata={**participant.metadata(header), "attempt": 1, "finished": False},
            configuration=participant.configuration,
            tables={"advances": empty, "initialize": initialize_rows(self._reader.initialize, self._waits)},
        )

    @property
    def is_replaced(self) -> bool:
        """Whether the file is of another run by now."""
        try:
            return read_header(self.path).unix_us != self._reader.header.unix_us
        except DataError:
            return False

    def read(self) -> NDArray[np.void]:
        """Read what is new since the last call; calls whose window the iterations log does not tell yet come later."""
        try:
            self._calls = np.concatenate([self._calls, *self._reader])
            rows = self._rows()
            self.problem = ""
        except DataError as error:
            self.problem = str(error)
            return np.empty(0, dtype=ADVANCE_DTYPE)
        metadata = dict(self.head.metadata)
        metadata |= self._participant.case.receiving(metadata["participant"], self._reader.events.mesh_sizes)
        events = self._reader.events
        if self._reader.profile(self._calls[:0]).finalized:
            ended = self._reader.header.unix_us + events.last_us
            metadata.update(finished=True, ended_unix_ns=1000 * ended)
        initialize = initialize_rows(self._reader.initialize, self._waits)
        self.head = self.head.having(metadata, initialize=initialize)
        return rows

    def _rows(self) -> NDArray[np.void]:
        iterations = None
        if self._log is not None:
            iterations = self._iterations = self._log.add_to(self._iterations)
        ended = self._counted + np.cumsum(self._calls["exchanges"] > 0)
        # Of calls that the log does not reach it is not known which window they belong to.
        count = len(ended) if iterations is None else int(np.searchsorted(ended, int(iterations.sum()), side="right"))
        rows = advance_rows(self._calls[:count], iterations, self._waits, before=self._counted)
        self._counted = int(ended[:count].max(initial=self._counted))
        self._calls = self._calls[count:]
        return rows
