"""What ``precice-config.xml`` says about profiling files and about who receives data."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from precice_lb.case import Configuration, parse_configuration
from precice_lb.case.config import CouplingScheme, Exchange
from precice_lb.case.elements import text_of
from precice_lb.exceptions import ConfigurationError, DataError
from precice_lb.ingest.profiling.files import Header
from precice_lb.ingest.profiling.tables import find_table
from precice_lb.store.schema import case_fingerprint

_DEFAULT_FLUSH = 50
# With fewer preCICE 3.4 loses the first records of each file.
_LEAST_FLUSH = 13


@dataclass(frozen=True)
class ProfiledCase:
    """A configuration, as far as profiling files need it."""

    #: None if the text cannot be read as one.
    configuration: Configuration | None
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
        """Read the text of a configuration; what it leaves out has preCICE's defaults."""
        try:
            configuration = parse_configuration(text)
        except ConfigurationError:
            return cls(None)
        for element in configuration.root.children:
            if element.tag == "profiling":
                given = element.attributes
                return cls(
                    configuration,
                    given.get("directory", cls.directory),
                    given.get("mode", cls.mode),
                    given.get("flush-every", cls.flush_every),
                    element.boolean("synchronize"),
                )
        return cls(configuration)

    @property
    def flush_remedy(self) -> str:
        """What to do where the run ended before preCICE wrote its records."""
        found = int(self.flush_every) if self.flush_every.isdecimal() else 0
        if not 0 < found <= _DEFAULT_FLUSH:
            return f'set <profiling flush-every="{_DEFAULT_FLUSH}"/>, found "{self.flush_every}"'
        if found == _LEAST_FLUSH:
            return f'record more time windows, found flush-every="{found}"'
        return (
            f'record more time windows, or set <profiling flush-every="{_LEAST_FLUSH}"/>, found "{found}" '
            f"(1 to {_LEAST_FLUSH - 1} lose the first records)"
        )

    def is_implicit(self, participant: str) -> bool | None:
        """Whether the participant iterates within a time window; None if the configuration cannot be read."""
        if self.configuration is None:
            return None
        return any(scheme.is_implicit for scheme in self._schemes(participant))

    def iterates_with(self, participant: str) -> tuple[str, ...] | None:
        """Others of the participant's implicit schemes, who iterate alike; None if the configuration is not known."""
        if self.configuration is None:
            return None
        names = [name for s in self._schemes(participant) if s.is_implicit for name in s.participants]
        return tuple(name for name in dict.fromkeys(names) if name != participant)

    def fixed_iterations(self, participant: str) -> int | None:
        """Return the iterations of every window, where an implicit scheme does not look for convergence."""
        schemes = [scheme for scheme in self._schemes(participant) if scheme.is_implicit]
        return schemes[0].max_iterations if len(schemes) == 1 and not schemes[0].measures else None

    def only_data_makes_wait(self, participant: str) -> bool:
        """Whether receiving data is all that the participant waits in: no convergence, no size of time windows."""
        hears = [scheme.is_implicit or _gets_window_size(scheme, participant) for scheme in self._schemes(participant)]
        return bool(hears) and not any(hears)

    def windows(self, participant: str) -> int | None:
        """Return the time windows of a participant of one explicit scheme up to its end; None where not known."""
        schemes = self._schemes(participant)
        if len(schemes) != 1 or schemes[0].is_implicit:
            return None
        (scheme,) = schemes
        if scheme.max_time_windows is not None or scheme.max_time is None or not scheme.time_window_size > 0:
            return scheme.max_time_windows
        return math.ceil(scheme.max_time / scheme.time_window_size - 1e-9)

    def waits(self, participant: str) -> tuple[str, ...]:
        """Columns of `precice_lb.ingest.profiling.calls.CALL_DTYPE` in which the participant waits for partners."""
        columns = ["wait_us"]
        if any(_gets_window_size(scheme, participant) for scheme in self._schemes(participant)):
            # preCICE has no event for that.
            columns.append("steering_us")
        if self.synchronize:
            # A send then waits until the partner receives.
            columns.append("send_us")
        return tuple(columns)

    def receiving(self, participant: str, mesh_sizes: Mapping[str, int]) -> dict[str, bool]:
        """Say in a store's metadata whether a rank waits for its partners' data; nothing where it is not known.

        It does where its part of a received mesh is not empty, and where a scheme tells all ranks something:
        convergence, the size of the time window, or the times of substeps.
        """
        if self.configuration is None or participant not in self.configuration.participants:
            return {}
        schemes = self._schemes(participant)
        exchanges = [exchange for scheme in schemes for exchange in scheme.exchanges if exchange.target == participant]
        parts = {self._has_part(exchange, participant, mesh_sizes) for exchange in exchanges}
        hears = any((s.is_implicit and participant != s.judge) or _gets_window_size(s, participant) for s in schemes)
        if hears or True in parts or any(exchange.substeps for exchange in exchanges):
            return {"receives_data": True}
        return {} if None in parts else {"receives_data": False}

    def _schemes(self, participant: str) -> list[CouplingScheme]:
        schemes = () if self.configuration is None else self.configuration.coupling_schemes
        return [scheme for scheme in schemes if participant in scheme.participants]

    def _has_part(self, exchange: Exchange, participant: str, mesh_sizes: Mapping[str, int]) -> bool | None:
        """Whether the rank holds vertices of the mesh of an exchange."""
        assert self.configuration is not None
        owner = self.configuration.participants[participant]
        meshes: set[str | None] = {exchange.mesh}
        if exchange.mesh not in owner.provides:
            # A rank keeps of a received mesh what its own vertices need in a mapping.
            touching = [m for m in owner.mappings if exchange.mesh in (m.source, m.target)]
            meshes = {m.target if m.source == exchange.mesh else m.source for m in touching}
        if not meshes or any(mesh is None or mesh not in mesh_sizes for mesh in meshes):
            return None
        return any(mesh_sizes[mesh] > 0 for mesh in meshes if mesh is not None)


def _gets_window_size(scheme: CouplingScheme, participant: str) -> bool:
    """Whether a partner tells the participant the size of each time window."""
    return scheme.window_size_from_first and scheme.participants[1] == participant


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
    given: Path | None = None,
    others: Sequence[Header] = (),
    *,
    alone: bool = False,
) -> ProfiledParticipant:
    """Find configuration (unless given) and iterations logs of the run that a profiling file is of.

    ``roots`` were searched for files, ``others`` are files that were found there; ``alone`` takes files without a
    configuration, as somebody sends them, as well.
    """
    path = given if given is not None else _find_configuration(header.directory, roots)
    case, content, text = ProfiledCase(None), b"", ""
    if path is not None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(
                f"{path}: expected a preCICE configuration, found none that can be read ({error})"
            ) from None
        text = text_of(content)
        case = ProfiledCase.of(text)
        if case.configuration is not None and header.participant not in case.configuration.participants:
            if not alone or given is not None:
                known = ", ".join(case.configuration.participants)
                raise DataError(
                    f"{path}: expected participant {header.participant} of {header.path}, found {known}; give another"
                )
            # It lies above by chance.
            path, case, text = None, ProfiledCase(None), ""
    if path is None and not alone:
        raise DataError(
            f"{header.path.parent}: expected a precice-config.xml beside or above it, found none; give one (--config)"
        )
    partners = case.iterates_with(header.participant)
    if partners is None:
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
