"""What a campaign knows of itself: ``campaign.json``, written so that a kill at any moment leaves it readable."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from precice_lb.case.case import Case
from precice_lb.case.earlier import at_present
from precice_lb.exceptions import CalibrationError, StudyError
from precice_lb.plural import first_of
from precice_lb.retired import CAMPAIGN_KEYS, drop_retired, pass_over_turns
from precice_lb.store.files import lock

Read = TypeVar("Read")


class Document(NamedTuple):
    """What a JSON file of ours says that it is."""

    format: str
    version: int
    what: str


def read_json(path: Path, kind: type[Read], document: Document) -> Read | None:
    """Read what `write_json` wrote, passing over keys that the dataclass has not; None where there is no file."""
    format, version, what = document
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise CalibrationError(f"{path}: expected the {what}, but it cannot be read: {error}") from error
    if not isinstance(raw, dict) or raw.get("format") != format:
        raise CalibrationError(f'{path}: expected "format": "{format}"; this is not the {what}')
    if raw.get("format_version") != version:
        raise CalibrationError(
            f"{path}: format version {raw.get('format_version')} is not known, only {version}: "
            "use the version of precice_lb that wrote it, or another directory"
        )
    drop_retired(raw, CAMPAIGN_KEYS, path)
    pass_over_turns(raw, path)
    known = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if "asked" in known and (raw.get("settings") is not None or isinstance(raw.get("asked"), dict)):
        try:
            raw["asked"] = at_present(raw["asked"] if raw.get("asked") else _tables(raw["settings"]))
        except (AttributeError, KeyError, TypeError, StudyError) as error:
            raise CalibrationError(f"{path}: damaged {what}: settings: {error!r}") from error
    try:
        return TypeAdapter(kind).validate_python({key: value for key, value in raw.items() if key in known})
    except ValidationError as error:
        # A misspelt key first, since it explains the one that is missing.
        first = min(error.errors(include_url=False), key=lambda each: each["type"] != "unexpected_keyword_argument")
        place = ".".join(map(str, first["loc"]))
        raise CalibrationError(f"{path}: damaged {what}: {place}: {first['msg']}") from error


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
PREPARED = "prepared"

FAILURES = ("failed", "timeout")

_STRICT = ConfigDict(extra="forbid")


@dataclass(config=_STRICT)
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


@dataclass(config=_STRICT)
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
    #: Position of the small mesh it was on.
    mesh: int | None = None
    #: Of campaigns of earlier versions: cores that other programs kept busy.
    other_load: float | None = None
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

    @property
    def why(self) -> list[str]:
        """What there is to say of a failure: the reasons in its logs, else the end of them."""
        return self.reasons or self.log_tail[-4:]


def _tables(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of a study, with their keys of then, of a campaign that has settings in their place."""
    bounds: dict[str, dict[str, Any]] = {}
    for key in ("minimum_ranks", "maximum_ranks"):
        for name, count in settings[key].items():
            bounds.setdefault(name, {})[key] = count
    for name, layouts in settings.get("layouts", {}).items():
        pairs = [[pair["ranks"], pair["threads"]] for pair in layouts["pairs"]]
        free = {key: layouts[key] or "free" for key in ("ranks", "threads")}
        bounds.setdefault(name, {}).update({"pairs": pairs} if pairs else free)
    recommend = {**(settings.get("recommend") or {}), "learner": settings.get("learner")}
    runs = {"existing": settings["existing"], "target_regret": settings.get("target_regret")}
    return {
        "budget": {"ranks": settings["total_ranks"]},
        "machine": settings.get("machine") or {},
        "participants": bounds,
        "parameter": settings["parameters"],
        "recommend": {key: value for key, value in recommend.items() if value is not None},
        "runs": {key: value for key, value in runs.items() if value is not None},
    }


@dataclass(config=_STRICT)
class CampaignState:
    """All runs of a campaign, finished or not, the identity of the study they belong to, and what it asks for."""

    study: dict[str, Any]
    runs: list[RunRecord] = field(default_factory=list)
    #: The tables of the study; paths in them are absolute.
    asked: Case | None = None
    #: Size, time and SHA-256 of the files of the case by path; None in campaigns older than this entry.
    files: dict[str, str] | None = None

    @classmethod
    def load(cls, directory: Path) -> CampaignState | None:
        """Read ``campaign.json``; None where there is none yet."""
        return read_json(directory / STATE_FILE, cls, CAMPAIGN)

    def save(self, directory: Path) -> None:
        """Replace ``campaign.json`` in one step."""
        content = {"study_hash": identity_hash(self.study), **_STATE.dump_python(self, exclude={"asked"})}
        if self.asked is not None:
            content["asked"] = self.asked.model_dump(mode="json", exclude_defaults=True)
        write_json(directory / STATE_FILE, content, CAMPAIGN)

    def take_files(self, files: dict[str, str]) -> list[str]:
        """Note the files of the case; return which have another content, are new or gone."""
        before = files if self.files is None else self.files
        self.files = files
        # Behind size and time.
        there, here = ({name: text.rpartition(" ")[2] for name, text in of.items()} for of in (before, files))
        changed = sorted(name for name in {*there, *here} if there.get(name) != here.get(name))
        return [f"{name}{'' if name in here else ' (gone)'}{'' if name in there else ' (new)'}" for name in changed]

    def take_identity(
        self, identity: dict[str, Any], directory: Path, *, resumes: bool, files: Sequence[str] = ()
    ) -> None:
        """Refuse to mix runs of two studies; one of which no run has ended well may change, as may the case's files.

        Runs that failed say nothing of the new study, and neither does what was prepared for them.
        """
        if identity_hash(identity) == identity_hash(self.study) and not files:
            return
        going_on = [run for run in self.runs if run.outcome == "running" and (resumes or run.job is not None)]
        if not self.finished and not going_on:
            shutil.rmtree(directory / PREPARED, ignore_errors=True)
            for run in self.runs:
                run.outcome = "outdated" if run.outcome in FAILURES else run.outcome
            self.study = identity
            return
        keys = sorted({*identity, *self.study})
        changed = [key for key in keys if identity.get(key) != self.study.get(key)]
        what = "study" if changed else "case"
        raise CalibrationError(
            f"{directory}: holds a campaign of another {what} ({first_of([*changed, *files])} changed): "
            "undo that, choose another directory, or move this one away to measure again"
        )

    @property
    def finished(self) -> list[RunRecord]:
        """Runs that ended well."""
        return [run for run in self.runs if run.outcome == "finished"]


_STATE = TypeAdapter(CampaignState)


def spent(records: Sequence[RunRecord]) -> tuple[float, float]:
    """Return minutes and core-hours (a split counts cores) of all runs, those that failed included."""
    minutes = sum(record.seconds for record in records) / 60
    return minutes, sum(record.seconds * sum(record.split.values()) for record in records) / 3600


def identity_hash(identity: dict[str, Any]) -> str:
    """Return the SHA-256 of a study's identity."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def campaign_lock(directory: Path) -> Iterator[None]:
    """Hold the campaign's directory; the lock ends with the process, so that a kill leaves none behind."""
    path = directory / LOCK_FILE
    try:
        file = lock(path)
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
