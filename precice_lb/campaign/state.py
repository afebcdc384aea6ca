"""What a campaign knows of itself and has left: ``campaign.json``, written so that a kill at any moment leaves it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from precice_lb.case.case import Case
from precice_lb.case.tables import explain
from precice_lb.dataset import CoupledRun, Measurements, load_runs, measurements_from_runs
from precice_lb.exceptions import CalibrationError, DataError, PreciceLBError, TooFewRunsError
from precice_lb.ingest.profiling import enrich
from precice_lb.recommend.plan import FailedSplit
from precice_lb.store.reader import lock
from precice_lb.text import first_of, plural

if TYPE_CHECKING:
    from precice_lb.campaign.study import Study

Read = TypeVar("Read")


class Document(NamedTuple):
    """What a JSON file of ours says that it is."""

    format: str
    version: int
    what: str


def read_json(path: Path, kind: type[Read], document: Document) -> Read | None:
    """Read a file that `write_json` wrote, or return None if there is no file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"{path}: expected the {document.what}, but it cannot be read: {error}") from error
    if not isinstance(raw, dict) or raw.get("format") != document.format:
        raise CalibrationError(f'{path}: expected "format": "{document.format}"; this is not the {document.what}')
    version = raw.get("format_version")
    if version != document.version:
        remedy = "use the version of precice_lb that wrote it, or another directory"
        raise CalibrationError(f"{path}: expected format version {document.version}, found {version}: {remedy}")
    try:
        return TypeAdapter(kind).validate_python(raw)
    except ValidationError as error:
        raise CalibrationError(f"{path}: damaged {document.what}: {explain(error, raw, kind)}") from error
    except PreciceLBError as error:
        raise CalibrationError(f"{path}: damaged {document.what}: {error}") from error


def write_json(path: Path, content: Any, document: Document) -> None:
    """Replace a file in one step by plain values."""
    temporary = path.with_suffix(".json.new")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"format": document.format, "format_version": document.version, **content}, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise CalibrationError(f"{path}: the {document.what} cannot be written: {error}") from error


CAMPAIGN = Document("precice-lb-campaign", 1, "state of a campaign")
STATE_FILE = "campaign.json"
LOCK_FILE = "campaign.lock"

FAILURES = ("failed", "timeout")
# Of one alone nobody sees how anything scales.
LEAST_SPLITS = 2
# Lines of logs that are shown of what failed.
_SHOWN = 4

# A key that is not known is ignored, as in recorded files.
_CONFIG = ConfigDict(extra="ignore")


@dataclass(config=_CONFIG)
class SegmentNote:
    """What a run is in a chain of jobs."""

    #: From 1; tries of a segment share it.
    number: int
    #: Time windows of the chain done before it.
    start_window: int
    #: Its own.
    windows: int
    #: Of the decision for its split.
    kind: Literal["start", "learn", "move", "undo", "stay"]
    #: Wall time of laying in and preparing, and of collecting.
    prepare_seconds: float = 0.0
    collect_seconds: float = 0.0
    #: Whether the solvers ended well, so that only what follows is missing.
    ended: bool = False


@dataclass(config=_CONFIG)
class RunRecord:
    """One run of a campaign."""

    #: From 1.
    number: int
    #: Of its directory.
    name: str
    split: dict[str, int]
    #: Relative to the campaign's directory.
    directory: str
    #: Marks the run's processes.
    token: str
    #: ISO 8601 in UTC.
    started: str
    #: Why this split.
    reason: str = ""
    #: Outdated: it did not end well, and the study was changed after it.
    #: Lost: it ended by no fault of its own, and says nothing of its split.
    outcome: Literal["running", "finished", "failed", "timeout", "lost", "interrupted", "outdated"] = "running"
    #: Wall time.
    seconds: float = 0.0
    error: str | None = None
    #: Its number in a batch system.
    job: str | None = None
    #: Last lines of the logs of the participants that failed first, each after its participant's name.
    log_tail: list[str] = field(default_factory=list)
    #: Lines of the logs that say why it failed, likewise.
    reasons: list[str] = field(default_factory=list)
    #: Participants whose logs say why, those aside that only lost a partner.
    blamed: list[str] = field(default_factory=list)
    #: Participants that, by their logs, can only run on one rank.
    serial: list[str] = field(default_factory=list)
    #: Of runs that are a chain's.
    segment: SegmentNote | None = None
    #: The version of each participant that has any.
    versions: dict[str, str] = field(default_factory=dict)
    #: By participant, the relative standard error of its seconds at which the run may end; without, it has all windows.
    needed: dict[str, float] = field(default_factory=dict)
    #: Time windows that all participants completed, of the longest; None where unknown.
    windows: int | None = None
    #: Why it ended where it did.
    ended: str = ""

    @property
    def why(self) -> list[str]:
        """What there is to say of a failure: the reasons in its logs, else the end of them."""
        return self.reasons or self.log_tail[-_SHOWN:]


@dataclass(config=_CONFIG)
class CampaignResult:
    """What a campaign knows of itself while it runs, and what it has left.

    Attributes
    ----------
    study : dict
        The identity of the study that its runs belong to.
    runs : list of RunRecord
        Every run ever tried in it.
    asked : Case
        The tables of its study, with absolute paths.
    files : dict or None
        SHA-256 of the files of the case by path; None until they were looked at for the first time.
    directory : Path
        Where it lives.
    """

    study: dict[str, Any]
    runs: list[RunRecord] = field(default_factory=list)
    asked: Case = field(default_factory=Case)
    files: dict[str, str] | None = None
    directory: Path = Path()

    @classmethod
    def load(cls, directory: Path) -> CampaignResult | None:
        """Return what ``campaign.json`` of a directory says; None where there is none yet.

        Parameters
        ----------
        directory : Path
            Where the campaign lives.
        """
        path = directory / STATE_FILE
        if (state := read_json(path, cls, CAMPAIGN)) is not None:
            state.directory = directory
        return state

    def save(self) -> None:
        """Replace ``campaign.json`` in one step."""
        content = TypeAdapter(CampaignResult).dump_python(self, exclude={"asked", "directory"})
        content["asked"] = self.asked.model_dump(mode="json", exclude_defaults=True)
        write_json(self.directory / STATE_FILE, content, CAMPAIGN)

    def take_files(self, files: dict[str, str]) -> list[str]:
        """Return which files of the case have another content, are new or gone, and note them.

        Parameters
        ----------
        files : dict of str to str
            SHA-256 by path.
        """
        known_files = files if self.files is None else self.files
        self.files = files
        return sorted({name for name, _ in known_files.items() ^ files.items()})

    def take_identity(self, identity: dict[str, Any], *, resumes: bool, files: Sequence[str] = ()) -> None:
        """Refuse to mix runs of two studies; one of which no run has ended well may change, as may the case's files.

        Runs that failed say nothing of the new study.

        Parameters
        ----------
        identity : dict
            Of the study that is to go on.
        resumes : bool
            Whether runs go on without the process that started them.
        files : sequence of str
            Of the case, that have changed.

        Raises
        ------
        CalibrationError
            Its runs are of another study, or of other files.
        """
        changed = [key for key in sorted({*identity, *self.study}) if identity.get(key) != self.study.get(key)]
        if not changed and not files:
            return
        if self.finished or any(run.outcome == "running" and (resumes or run.job is not None) for run in self.runs):
            raise CalibrationError(
                f"{self.directory}: holds a campaign of another {'study' if changed else 'case'} "
                f"({first_of([*changed, *files])} changed): "
                "undo that, choose another directory, or move this one away to measure again"
            )
        for run in self.runs:
            if run.outcome in FAILURES:
                run.outcome = "outdated"
        self.study = identity

    @property
    def finished(self) -> tuple[RunRecord, ...]:
        """Runs that ended well."""
        return tuple(run for run in self.runs if run.outcome == "finished")

    @property
    def existing(self) -> tuple[Path, ...]:
        """Directories of stores of runs made before."""
        return tuple(map(Path, self.asked.runs.existing))

    @property
    def stores(self) -> tuple[Path, ...]:
        """Directories with the stores of the runs that ended well: the sources of a recommendation."""
        return tuple(self.directory / run.directory / "stores" for run in self.finished)

    @property
    def failed_splits(self) -> tuple[FailedSplit, ...]:
        """Splits none of whose runs ended well."""
        return failed_splits(self.runs)

    def require_runs(self, study: Study) -> None:
        """Refuse to go on from fewer runs than a recommendation needs: at two splits, where the study has as many.

        Parameters
        ----------
        study : Study
            What was to be measured.

        Raises
        ------
        TooFewRunsError
            With why the first of the others failed.
        """
        study = study.narrowed(self.runs)
        wanted = len(_splits_of(study.splits)) if study.splits else 1 if study.has_one_split else study.runs.maximum
        needed, count = min(LEAST_SPLITS, wanted), len(_splits_of(run.split for run in self.finished))
        if count >= needed or count + len(measured_runs(self.existing)[0]) >= needed:
            return
        why = [f"; {failed.runs[0]} failed: {' | '.join(failed.reasons)}" for failed in self.failed_splits[:1]]
        raise TooFewRunsError(
            f"{self.directory}: expected runs at {plural(needed, 'split')} or more to recommend one, found "
            f"{plural(count, 'split')} whose runs ended well{''.join(why)}"
        )

    def measurements(self, warmup: int | None = None) -> Measurements:
        """Read what the runs measured, and the earlier runs that the study names.

        Parameters
        ----------
        warmup : int, optional
            Windows to leave out of each; by default what the run states, or more where more is unlike what follows.

        Returns
        -------
        Measurements

        Raises
        ------
        StoreError, DataError
            What cannot be read.
        """
        return measurements_of(self.coupled_runs(warmup))

    def coupled_runs(self, warmup: int | None = None) -> list[CoupledRun]:
        """Read the runs themselves, as `measurements` counts them.

        Parameters
        ----------
        warmup : int, optional
            As of `measurements`.

        Returns
        -------
        list of CoupledRun

        Raises
        ------
        StoreError, DataError
            What cannot be read.
        """
        return load_runs([*self.existing, *self.stores], warmup=warmup, complete=enrich)


def core_hours_of(records: Sequence[RunRecord]) -> float:
    """Return core-hours (a split counts cores) of all runs, those that failed included."""
    return sum(record.seconds * sum(record.split.values()) for record in records) / 3600


@contextlib.contextmanager
def campaign_lock(directory: Path, seconds: float = 0.0) -> Iterator[None]:
    """Hold the campaign's directory; the lock ends with the process, so that a kill leaves none behind."""
    path = directory / LOCK_FILE
    try:
        file = lock(path, seconds)
    except BlockingIOError:
        holder = path.read_text(encoding="utf-8").strip() or "unknown process"
        raise CalibrationError(
            f"{directory}: another campaign runs here ({holder}): wait for it, or use another directory"
        ) from None
    except OSError as error:
        raise CalibrationError(f"{directory}: the campaign's directory cannot be written: {error}") from error
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def load_campaign(directory: Path) -> CampaignResult | None:
    """Read what a campaign left, without its study file.

    Parameters
    ----------
    directory
        Where it lives.

    Returns
    -------
    CampaignResult or None
        None for a directory without a campaign.

    Raises
    ------
    CalibrationError
        When its state cannot be read, or none of its runs ended well.
    """
    directory = Path(directory).expanduser().resolve()
    result = CampaignResult.load(directory)
    if result is not None and not result.finished and not result.existing:
        raise TooFewRunsError(f"{directory}: expected a campaign with runs that ended well, found none")
    return result


def measured_runs(sources: Sequence[Path]) -> tuple[list[CoupledRun], list[str]]:
    """Read runs that can be learned from out of directories of stores, and say why the others cannot be."""
    runs: list[CoupledRun] = []
    problems = []
    for source in sources:
        try:
            recorded = load_runs([source], complete=enrich)
            for run in recorded:
                if run.incomplete:
                    raise DataError(f"run {run.name}: {run.not_compared}")
                measurements_of([run])
            runs += recorded
        except PreciceLBError as error:
            problems.append(str(error))
    return runs, problems


def measurements_of(runs: Sequence[CoupledRun], iterations: Mapping[str, float] | None = None) -> Measurements:
    """Reduce runs to samples, without those that lack ranks where others do not.

    Only numbers that all of them state as parameters become columns.
    """
    whole = [run for run in runs if not run.incomplete] or runs
    lacking = [f"Run {run.name} is not used: {run.not_compared}." for run in runs if run not in whole]
    table = measurements_from_runs(whole, iterations)
    frames = {
        name: dataclasses.replace(frame, parameters={k: v for k, v in frame.parameters.items() if v.dtype.kind == "f"})
        for name, frame in table.frames.items()
    }
    return dataclasses.replace(table, frames=frames, remarks=(*table.remarks, *lacking))


def failed_splits(records: Sequence[RunRecord]) -> tuple[FailedSplit, ...]:
    """Find the splits none of whose runs ended well, apart for each combination of versions.

    Where it is a participant's own number of ranks that failed, the split has that participant alone: its log alone
    says why, or it failed beside different ranks of others that all ended well elsewhere; and no run in which it had as
    many ended well. Otherwise the failure is that of the combination.
    """
    groups = {frozenset(record.versions.items()): record.versions for record in records}.values()
    return tuple(f for group in groups for f in _failed_splits([run for run in records if run.versions == group]))


def _failed_splits(records: Sequence[RunRecord]) -> Iterator[FailedSplit]:
    finished = [record.split for record in records if record.outcome == "finished"]
    counts = {count for split in finished for count in split.items()}
    failures = [record for record in records if record.outcome in FAILURES and record.split not in finished]
    explained: list[RunRecord] = []
    for name, ranks in dict.fromkeys(count for record in failures for count in record.split.items()):
        theirs = [run for run in failures if run.split[name] == ranks and run.blamed in ([], [name])]
        if (name, ranks) in counts or not theirs or len(theirs[0].split) == 1:
            continue
        silent = [run.split for run in theirs if not run.blamed]
        innocent = all(counts >= split.items() - {(name, ranks)} for split in silent)
        if len(silent) < len(theirs) or (innocent and len(_splits_of(silent)) > 1):
            yield _failed({name: ranks}, theirs)
            explained += theirs
    left = [run for run in failures if run not in explained]
    for split in {frozenset(run.split.items()): run.split for run in left}.values():
        yield _failed(split, [run for run in left if run.split == split])


def _splits_of(splits: Iterable[Mapping[str, int]]) -> set[frozenset[tuple[str, int]]]:
    return {frozenset(split.items()) for split in splits}


def _failed(split: Mapping[str, int], runs: Sequence[RunRecord]) -> FailedSplit:
    lines = dict.fromkeys(line for run in runs for line in run.reasons or filter(None, [run.error]))
    versions = {name: version for name, version in runs[0].versions.items() if name in split}
    return FailedSplit(dict(split), tuple(run.name for run in runs), tuple(lines)[:_SHOWN], versions)
