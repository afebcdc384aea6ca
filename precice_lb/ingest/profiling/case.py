"""What ``precice-config.xml`` says about profiling files, and what lies beside these."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from precice_lb.case.coupling import Roles, roles_of
from precice_lb.case.elements import text_of
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.tables import find_table
from precice_lb.store.schema import case_fingerprint

# With fewer preCICE 3.4 loses the first records of each file.
_LEAST_FLUSH = 13


@dataclass(frozen=True, eq=False)
class ProfiledCase:
    """A configuration, as far as profiling files need it; what it leaves out has preCICE's defaults."""

    #: Nothing is known where the text cannot be read.
    roles: Roles
    #: Where ``precice-profiling`` lies, relative to the solver's working directory.
    directory: str = "."
    #: ``off``, ``fundamental``, ``api`` or ``all``.
    mode: str = "fundamental"
    #: As written.
    flush_every: str = "50"
    #: Whether preCICE lets participants meet before they exchange data.
    synchronize: bool = False

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, text: str) -> ProfiledCase:
        """Read the text of a configuration."""
        roles = roles_of(text)
        element = None if roles.configuration is None else roles.configuration.root.first("profiling")
        if element is None:
            return cls(roles)
        names = {"directory": "directory", "mode": "mode", "flush-every": "flush_every"}
        stated = {names[name]: value for name, value in element.attributes.items() if name in names}
        return cls(roles, **stated, synchronize=element.boolean("synchronize"))

    @property
    def flush_remedy(self) -> str:
        """What to do where the run ended before preCICE wrote its records."""
        if self.flush_every == str(_LEAST_FLUSH):
            return f'record more time windows, found flush-every="{_LEAST_FLUSH}"'
        return (
            f'record more time windows, or set <profiling flush-every="{_LEAST_FLUSH}"/>, found "{self.flush_every}" '
            f"(1 to {_LEAST_FLUSH - 1} lose the first records)"
        )

    def waits(self, participant: str) -> tuple[str, ...]:
        """Columns of `precice_lb.ingest.profiling.calls.CALL_DTYPE` in which the participant waits for partners."""
        columns = ["wait_us"]
        if self.roles.gets_window_size(participant):
            # preCICE has no event for that.
            columns.append("steering_us")
        if self.synchronize:
            # A send then waits until the partner receives.
            columns.append("send_us")
        return tuple(columns)


@dataclass(frozen=True, eq=False)
class ProfiledParticipant:
    """What the profiling files of all ranks of a participant have in common."""

    #: The ``precice-config.xml``; None where there is none.
    configuration_path: Path | None
    #: Its text, empty where there is none.
    configuration: str
    #: SHA-256 of its bytes.
    digest: str
    #: What it says about profiling.
    case: ProfiledCase
    #: Iterations logs, ``precice-<Participant>-iterations.log``: its own first, then those of its partners in an
    #: implicit scheme, who iterate alike.
    logs: tuple[Path, ...]

    def metadata(self, header: Header, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Metadata of a store of one rank."""
        path = self.configuration_path
        origin = {"configuration_path": str(path.resolve()), "configuration_hash": self.digest} if path else {}
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
            "case": case_fingerprint(self.configuration),
            **origin,
            **(more or {}),
        }


def profiled_participant(
    header: Header,
    roots: Sequence[Path],
    configuration: Path | None = None,
    others: Sequence[Header] = (),
    *,
    alone: bool = False,
) -> ProfiledParticipant:
    """Find configuration (unless given) and iterations logs of the run that a profiling file is of.

    ``roots`` were searched for files, ``others`` are files that were found there; ``alone`` takes files without a
    configuration, as somebody sends them, as well.
    """
    path = configuration if configuration is not None else _find_configuration(header.directory, roots)
    case, content, text = ProfiledCase.of(""), b"", ""
    if path is not None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(
                f"{path}: expected a preCICE configuration, found none that can be read ({error})"
            ) from None
        text = text_of(content)
        case = ProfiledCase.of(text)
        if case.roles.participants and header.participant not in case.roles.participants:
            if not alone or configuration is not None:
                known = ", ".join(case.roles.participants)
                raise DataError(
                    f"{path}: expected participant {header.participant} of {header.path}, found {known}; give another"
                )
            # It lies above by chance.
            path, case, text = None, ProfiledCase.of(""), ""
    if path is None and not alone:
        raise DataError(
            f"{header.path.parent}: expected a precice-config.xml beside or above it, found none; give one (--config)"
        )
    partners = case.roles.iterates_with(header.participant)
    if case.roles.configuration is None:
        names = {other.participant for other in others} - {header.participant}
        partners = tuple(names) if len(names) == 1 else ()
    logs = []
    for name in (header.participant, *partners):
        places = {other.directory for other in others if other.participant == name}
        nearest = sorted(places, key=lambda place: len(os.path.commonpath([place, header.directory])), reverse=True)
        # Beside a database that was merged from several folders it is somewhere below.
        start = header.directory if name == header.participant or not nearest else nearest[0]
        logs.append(find_table(f"precice-{name}-iterations.log", start, [*roots, header.directory]))
    digest = hashlib.sha256(content).hexdigest()
    return ProfiledParticipant(path, text, digest, case, tuple(log for log in logs if log is not None))


def _find_configuration(start: Path, roots: Iterable[Path]) -> Path | None:
    """Find a ``precice-config.xml`` where the solver ran, one level further up, or in or above the roots."""
    places = [start, start.parent]
    for root in roots:
        directory = (root if root.is_dir() else root.parent).resolve()
        places += [directory, directory.parent]
    for place in places:
        if (place / "precice-config.xml").is_file():
            return place / "precice-config.xml"
    return None
