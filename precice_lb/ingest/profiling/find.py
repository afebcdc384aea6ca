"""The profiling files of one run among those of others, or of one recorded rank, and what belongs to them."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from precice_lb.case.coupling import roles_of
from precice_lb.case.elements import text_of
from precice_lb.exceptions import DataError
from precice_lb.ingest.profiling.files import Header, read_bytes, read_header
from precice_lb.ingest.profiling.tables import find_table
from precice_lb.store.reader import paths_below
from precice_lb.store.records import RankFile
from precice_lb.store.schema import case_fingerprint
from precice_lb.text import checked_list, plural

# The folder that preCICE writes profiling files into, and their endings since preCICE 3.3 and before.
_FOLDER, _SUFFIXES = "precice-profiling", (".txt", ".json")
_NAME = re.compile(r".+-\d+-\d+\.(?:txt|json)")
# Files that the program precice-profiling makes of profiling files.
_OUTPUTS_OF_PROFILING = ("profiling.json", "trace.json", "profiling.db")
# A campaign has its stores one directory below what is moved, runs that share a store directory up to three.
_LEVELS = 4
# With fewer preCICE 3.4 loses the first records of each file.
_LEAST_FLUSH = 13


def profiles_below(directory: Path) -> list[Path]:
    """Find what is named as preCICE names profiling files, sorted."""
    return paths_below(directory, lambda name: _NAME.fullmatch(name) is not None)


def later_runs(directory: Path, stores: Sequence[Path]) -> list[Path]:
    """Find folders below a directory with profiling files of runs that began after all stores were written, sorted."""
    written = max((store.stat().st_mtime for store in stores), default=math.inf)
    later = set()
    for path in profiles_below(directory):
        with contextlib.suppress(DataError):
            if path.stat().st_mtime > written and read_header(path).unix_us * 1e-6 > written:
                later.add(path.parent)
    return sorted(later)


def refused_outputs_below(directory: Path) -> Iterator[DataError]:
    """Yield an error for each file below a directory that ``precice-profiling`` made of profiling files.

    The error names the file, and says that the profiling files themselves are read, not what was made of them.
    """
    for path in paths_below(directory, lambda name: name in _OUTPUTS_OF_PROFILING):
        try:
            # It raises the error that names the program.
            read_header(path)
        except DataError as error:
            yield error


def find_profiles(sources: Iterable[str | Path]) -> tuple[list[Header], list[str]]:
    """Find the latest run of each participant in each folder.

    Parameters
    ----------
    sources : iterable of path
        Profiling files, or directories that are searched for them with everything below.

    Returns
    -------
    headers : list of Header
        By folder, participant and rank.
    left_out : list of str
        Files that were left out, and why.

    Raises
    ------
    DataError
        If a source does not exist, or there is no profiling file at all.
    """
    paths: dict[Path, None] = {}
    roots = [Path(source) for source in checked_list(sources, "sources", "paths", DataError)]
    for source in roots:
        if not source.exists():
            raise DataError(
                f"{source}: expected a profiling file of preCICE or a directory of them, found nothing there"
            )
        files = profiles_below(source) if source.is_dir() else [source]
        paths |= dict.fromkeys(path.resolve() for path in files)
    groups: dict[tuple[Path, str], list[Header]] = {}
    left_out: list[str] = []
    for path in paths:
        try:
            header = read_header(path)
        except DataError as error:
            left_out.append(str(error))
            continue
        named = f"{header.participant}-{header.rank}-{header.size}"
        if path.stem == named:
            groups.setdefault(header.group, []).append(header)
        else:
            left_out.append(f"{path}: expected the name {named}{path.suffix}, as its header says")
    latest = [header for group in groups.values() for header in _latest(group, left_out)]
    if not latest:
        left_out += [str(problem) for root in roots if root.is_dir() for problem in refused_outputs_below(root)]
        shown = ", ".join(map(str, roots)) or "no directory"
        reason = f"; {left_out[0]}" if left_out else ""
        raise DataError(
            f"{shown}: expected profiling files of preCICE (<Participant>-<rank>-<size>.txt), found none{reason}"
        )
    return latest, left_out


def _latest(group: Sequence[Header], left_out: list[str]) -> list[Header]:
    """Files of the latest run in one folder: files of a run on another number of ranks stay behind there."""
    size = max(group, key=lambda header: header.unix_us).size
    ranks: dict[int, Header] = {}
    for header in sorted(group, key=lambda header: header.unix_us):
        if header.size != size:
            left_out.append(f"{header.path}: left by an earlier run on {plural(header.size, 'rank')}, not {size}")
            continue
        if header.rank in ranks:
            left_out.append(f"{ranks[header.rank].path}: left by an earlier run")
        ranks[header.rank] = header
    return [ranks[rank] for rank in sorted(ranks)]


def profile_candidates(store: RankFile, directory: str) -> tuple[list[Path], list[Path]]:
    """Where the profiling file of a recorded rank may lie.

    First where it should: below the solver's working directory, or that of the store. Then where it is after both it
    and the store were moved together: in each of the next directories above the store, what ends like the place it was
    written to; the nearest first, and of one directory the longest end.
    """
    data = store.metadata
    bases = [Path(data["working_directory"])] if "working_directory" in data else []
    written = [Path(os.path.normpath(base / directory / _FOLDER)) for base in bases]
    beside = Path(os.path.normpath(store.directory.parent / directory / _FOLDER))
    above = [store.directory, *store.directory.parents][1 : _LEVELS + 1]
    ends = [Path(*folder.parts[first:]) for folder in written for first in range(1, len(folder.parts))]

    def files(folders: Iterable[Path]) -> list[Path]:
        name = f"{data['participant']}-{data['rank']}-{data['size']}"
        return [folder / f"{name}{suffix}" for folder in dict.fromkeys(folders) for suffix in _SUFFIXES]

    return files([*written, beside]), files(place / end for place in above for end in ends)


class ProfiledCase:
    """What the text of a ``precice-config.xml`` says about profiling; preCICE's defaults where nothing is known."""

    def __init__(self, text: str) -> None:
        self.roles = roles_of(text)
        configuration = self.roles.configuration
        element = None if configuration is None else configuration.root.first("profiling")
        stated = {} if element is None else element.attributes
        #: Where ``precice-profiling`` lies, relative to the solver's working directory.
        self.directory = stated.get("directory", ".")
        #: ``off``, ``fundamental``, ``api`` or ``all``.
        self.mode = stated.get("mode", "fundamental")
        #: Whether preCICE lets participants meet before they exchange data.
        self.synchronize = element is not None and element.boolean("synchronize")
        self._flush_every = stated.get("flush-every", "50")

    @property
    def flush_remedy(self) -> str:
        """What to do where the run ended before preCICE wrote its records."""
        if self._flush_every == str(_LEAST_FLUSH):
            return f'record more time windows, found flush-every="{_LEAST_FLUSH}"'
        return (
            f'record more time windows, or set <profiling flush-every="{_LEAST_FLUSH}"/>, found "{self._flush_every}" '
            f"(1 to {_LEAST_FLUSH - 1} lose the first records)"
        )

    def waits(self, participant: str) -> tuple[str, ...]:
        """Columns of `precice_lb.ingest.profiling.calls.CALL_DTYPE` in which the participant waits for partners."""
        # preCICE has no event for the size of a time window, and with synchronize a send waits until it is received.
        steering = ("steering_us",) if self.roles.gets_window_size(participant) else ()
        return ("wait_us", *steering, *(("send_us",) if self.synchronize else ()))


profiled_case = lru_cache(maxsize=64)(ProfiledCase)


@dataclass(frozen=True, eq=False)
class ProfiledParticipant:
    """What the profiling files of all ranks of a participant have in common."""

    #: The ``precice-config.xml``; None where there is none.
    path: Path | None
    #: Its bytes; none where there is none.
    content: bytes
    #: Its text.
    configuration: str
    #: What it says about profiling.
    case: ProfiledCase
    #: Iterations logs, ``precice-<Participant>-iterations.log``: its own first, then those of its partners in an
    #: implicit scheme, who iterate alike.
    logs: tuple[Path, ...]

    def metadata(self, header: Header, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Metadata of a store of one rank."""
        digest = hashlib.sha256(self.content).hexdigest()
        origin = {"configuration_path": str(self.path.resolve()), "configuration_hash": digest} if self.path else {}
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
    path = configuration or _find_configuration(header.directory, roots)
    content = b"" if path is None else read_bytes(path, "a preCICE configuration")
    text = text_of(content)
    case = profiled_case(text)
    if case.roles.participants and header.participant not in case.roles.participants:
        if not alone or configuration is not None:
            known = ", ".join(case.roles.participants)
            raise DataError(
                f"{path}: expected participant {header.participant} of {header.path}, found {known}; give another"
            )
        # It lies above by chance.
        path, content, text, case = None, b"", "", profiled_case("")
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
        places = {other.directory for other in others if other.participant == name != header.participant}
        nearest = max(
            places, key=lambda place: len(os.path.commonpath([place, header.directory])), default=header.directory
        )
        logs.append(find_table(f"precice-{name}-iterations.log", nearest, roots))
    return ProfiledParticipant(path, content, text, case, tuple(log for log in logs if log is not None))


def _find_configuration(start: Path, roots: Iterable[Path]) -> Path | None:
    """Find a ``precice-config.xml`` where the solver ran, one level further up, or in or above the roots."""
    directories = [(root if root.is_dir() else root.parent).resolve() for root in roots]
    places = (place / "precice-config.xml" for folder in (start, *directories) for place in (folder, folder.parent))
    return next((place for place in places if place.is_file()), None)
