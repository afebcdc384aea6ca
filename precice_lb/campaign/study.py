"""The study: what to calibrate, the splits that are possible, and the versions of participants in it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, InstanceOf
from pydantic.json_schema import SkipJsonSchema

from precice_lb.campaign.launchers import Launcher, place
from precice_lb.campaign.state import FAILURES, RunRecord
from precice_lb.case import AcceptedRanks, accepted_ranks, read_configuration
from precice_lb.case.case import Case
from precice_lb.case.machine import Constraints, NodeKind, first_cores
from precice_lb.case.sections import VERSION_VARIABLE, ParticipantSection, listed
from precice_lb.exceptions import ConfigurationError, InfeasibleError, StudyError
from precice_lb.layout import Layout, Layouts, layout_from
from precice_lb.plugins import choices
from precice_lb.split.admissible import Limits, limits_of
from precice_lb.text import first_of, key_of, plural, span, without_versions

# Of versions: options of a batch system, such as an account, leave runs valid.
_IDENTITY = {"name", "command", "prepare", "environment", "gpus_per_rank", "ranks_per_node", "ranks", "threads"}


class Study(Case):
    """A checked study. ``path`` is the file it was read from, absolute; every other path is relative as written."""

    path: Annotated[Path, Field(exclude=True)]
    participants: Annotated[tuple[ParticipantSection, ...], Field(strict=False, min_length=1), BeforeValidator(listed)]
    launcher: SkipJsonSchema[InstanceOf[Launcher]]

    @property
    def budget(self) -> int:
        """Ranks of the largest run, or cores where participants have threads."""
        if self.total is None:
            raise StudyError("machine: expected ranks, cores, or nodes of cores_per_node, found none of them")
        return self.total

    @property
    def case_directory(self) -> Path:
        """Absolute path of the case."""
        return self._place(self.case.directory)

    @property
    def configuration_path(self) -> Path:
        """Absolute path of the case's ``precice-config.xml``."""
        return self.case_directory / self.case.configuration

    @property
    def restart_path(self) -> Path | None:
        """Absolute path of the files of a developed state, None where runs begin as the case does."""
        return None if self.case.restart is None else self._place(self.case.restart)

    @property
    def campaign_directory(self) -> Path:
        """Where the campaign lives unless told otherwise: ``runs.directory``, or ``<study>-campaign`` beside it."""
        return self._place(self.runs.directory or f"{self.path.stem}-campaign")

    @property
    def existing_runs(self) -> tuple[Path, ...]:
        """Absolute paths of the stores of runs that were made before and count as measurements."""
        return tuple(map(self._place, self.runs.existing))

    def _place(self, path: str | Path) -> Path:
        """Return a path that is relative to the study file."""
        return place(path, self.path.parent)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the participants, in the study's order."""
        return tuple(participant.name for participant in self.participants)

    @property
    def names_and_versions(self) -> list[str]:
        """The participants, then their versions: Fluid, Solid, Fluid:gpu."""
        return [*self.names, *(key_of(p.name, version.name) for p in self.participants for version in p.versions)]

    @cached_property
    def layouts(self) -> dict[str, Layouts]:
        """Ranks and threads that participants may have, of those that are not split by ranks alone."""
        return {p.name: p.layouts for p in self.participants if p.layouts != Layouts()}

    @property
    def unit(self) -> str:
        """What the budget counts: ranks, or cores where participants have threads."""
        return "core" if self.layouts else "rank"

    def layout(self, name: str, cores: int) -> Layout:
        """Return the ranks and threads of a participant on so many cores, which are its ranks by default.

        Parameters
        ----------
        name : str
            The participant.
        cores : int
            As in a split.
        """
        return self.layouts.get(name, Layouts()).of(cores)

    @cached_property
    def accepted_ranks(self) -> dict[str, AcceptedRanks]:
        """With how many ranks preCICE starts whom; a configuration that cannot be read is refused elsewhere."""
        try:
            accepted = accepted_ranks(read_configuration(self.configuration_path))
        except ConfigurationError:
            return {}
        return {name: bounds for name, bounds in accepted.items() if name in self.names}

    @property
    def constraints(self) -> tuple[int, Constraints]:
        """The recommendation's budget, and all that bounds a split of the versions that are chosen."""
        budget, constraints = self.demands().constraints()
        constraints = constraints.of_versions({p.name: p.version for p in self.participants if p.versions or p.version})
        return budget, replace(constraints, accepted_ranks=self.accepted_ranks)

    @cached_property
    def limits(self) -> Limits:
        """What bounds the split of a run, which is what tables, machine and preCICE allow within the budget of runs."""
        budget, constraints = self.constraints
        most = {name: min(constraints.maximum.get(name, self.budget), self.budget) for name in self.names}
        allowed = limits_of(self.names, budget, replace(constraints, maximum=most))
        rows = allowed.admitted if self.machine.kinds else allowed.rows
        counts = {name: versions[0].counts.tolist() for name, versions in rows.items()}
        return limits_of(self.names, self.budget, Constraints(allow=counts))

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest number of ranks of each participant, cores where it has threads."""
        return {name: (counts[0], counts[-1]) for name, counts in self._counts.items()}

    @property
    def allow(self) -> dict[str, list[int]]:
        """The only counts within the bounds, of those for whom not all of them are possible."""
        return {name: counts for name, counts in self._counts.items() if len(counts) <= counts[-1] - counts[0]}

    @property
    def _counts(self) -> dict[str, list[int]]:
        return {name: row.counts.tolist() for name, (row,) in self.limits.rows.items()}

    @property
    def has_one_split(self) -> bool:
        """Whether nobody may have another number of ranks, so that one run of each combination is enough."""
        studies = map(self.chosen, self.combinations)
        return self.runs.splits is None and all(one.limits.lowest == one.limits.highest for one in studies)

    @property
    def splits(self) -> tuple[dict[str, int], ...] | None:
        """Splits that the study itself wants to be measured."""
        return None if self.runs.splits is None else tuple(map(self.split_of, self.runs.splits))

    def split_of(self, split: Mapping[str, int | str]) -> dict[str, int]:
        """Return the cores of a split in which a participant may have 1x8, ranks and threads, in place of 8 cores.

        Parameters
        ----------
        split : mapping from participant to int or str
            As in a study or on the command line.

        Raises
        ------
        StudyError
            It may not have these.
        """
        counts = {}
        for name, value in split.items():
            layouts = self.layouts.get(name, Layouts())
            try:
                wanted = layout_from(value) if isinstance(value, str) else layouts.of(value)
                if (possible := layouts.of(wanted.cores)) != wanted:
                    cores = plural(wanted.cores, "core")
                    raise ValueError(f"expected {possible.words} on {cores}, found {wanted.words}")
            except (InfeasibleError, ValueError) as error:
                raise StudyError(f"{name}: {error}") from error
            counts[name] = wanted.cores
        return counts

    def require_split(self, split: Mapping[str, int]) -> None:
        """Refuse a split of ranks or cores that names, bounds, the machine or the budget do not allow.

        Parameters
        ----------
        split : mapping from participant to int
            Ranks, or cores where a participant has threads.

        Raises
        ------
        StudyError
            It is not allowed.
        """
        if unknown := [name for name in split if name not in self.names]:
            raise StudyError(f"unknown participant {unknown[0]!r}{choices(unknown[0], list(self.names))}")
        for name, counts in self._counts.items():
            if name not in split:
                raise StudyError(f"no ranks for participant {name!r}; name each once")
            if (count := split[name]) in counts:
                continue
            accepted = self.accepted_ranks.get(name, AcceptedRanks())
            if self.layouts.get(name, Layouts()).allowed(count, count) and (
                why := accepted.problem(name, self.layout(name, count).ranks)
            ):
                raise StudyError(why)
            some = f" ({first_of([*map(str, counts)])})" if name in self.allow else ""
            bounds = f"{span(counts[0], counts[-1], 'core' if name in self.layouts else 'rank')}{some}"
            remedy = f"change the split, or the bounds of {name!r}, or the budget"
            raise StudyError(f"expected {bounds} for {name!r}, found {count}; {remedy}")
        if (total := first_cores(split, self.machine.shared)[1]) > self.budget:
            most = f"the {plural(self.budget, self.unit)} of the budget, found {total}"
            raise StudyError(f"expected at most {most}; change the split, or machine.ranks")
        if self.machine.kinds and not any(p.versions for p in self.participants):
            budget, constraints = self.constraints
            try:
                limits_of(self.names, budget, replace(constraints, minimum=split, maximum=split))
            except InfeasibleError as error:
                raise StudyError(f"machine.kinds: {error}") from error

    @property
    def combinations(self) -> list[dict[str, str]]:
        """The first version of each participant, the second of each, and so on, so that each is there at least once.

        A participant's times hold beside any versions of the others, so that not all combinations have to be run.
        """
        several = {p.name: [version.name for version in p.versions] for p in self.participants if p.versions}
        most = max(map(len, several.values()), default=1)
        return [{name: names[min(i, len(names) - 1)] for name, names in several.items()} for i in range(most)]

    def chosen(self, versions: Mapping[str, str]) -> Study:
        """Return the study in which the participants named run as these versions, which is one like any other.

        Parameters
        ----------
        versions : mapping from participant to str
            Of those that have any.
        """
        participants = (_as_version(p, versions.get(p.name, p.version)) for p in self.participants)
        return self.changed({"participants": tuple(participants)}) if versions else self

    def started(self, split: Mapping[str, int | str]) -> tuple[Study, dict[str, int]]:
        """Return the study with the versions of a split such as ``Fluid:gpu=2`` chosen, and the split.

        Parameters
        ----------
        split : mapping from participant, or participant:version, to int or str
            As in a study or on the command line.

        Raises
        ------
        StudyError
            A version is missing or unknown, or a participant stands there twice.
        """
        counts, versions = without_versions(split)
        if len(counts) < len(split):
            raise StudyError(f"expected each participant once, found {', '.join(split)}")
        for p in self.participants:
            if p.versions and p.name in counts and p.name not in versions:
                first, *others = [version.name for version in p.versions]
                if others:
                    expected = f"a version of {p.name!r}, one of {', '.join([first, *others])}"
                    raise StudyError(f"expected {expected}, found none: write {p.name}:{first}={counts[p.name]}")
                versions[p.name] = first
        one = self.chosen(versions)
        return one, one.split_of(counts)

    def kind_of(self, participant: ParticipantSection) -> NodeKind | None:
        """Return the kind of nodes of a participant, the first one where it names none; None where there are none.

        Parameters
        ----------
        participant : ParticipantSection
            Its table.
        """
        kinds = self.machine.kinds
        return next((kind for kind in kinds if participant.kind in (None, kind.name)), None)

    def narrowed(self, runs: Iterable[RunRecord]) -> Study:
        """Return the study in which those whose runs showed that they can only be serial have one rank.

        Parameters
        ----------
        runs : iterable of RunRecord
            Of its campaign.
        """
        # One of several versions says nothing of the others.
        names = {n for run in runs if run.outcome in FAILURES for n in run.serial if n not in run.versions}
        participants = tuple(_serial(p) if p.name in names else p for p in self.participants)
        return self.changed({"participants": participants}) if names else self

    def changed(self, update: Mapping[str, Any]) -> Study:
        """Return a copy with other tables; what follows from them is computed anew.

        Parameters
        ----------
        update : mapping from table to its value
            What differs.
        """
        one = self.model_copy(update=dict(update))
        for derived in one.__dict__.keys() - type(self).model_fields.keys():
            del one.__dict__[derived]
        return one

    def asked(self) -> Case:
        """Return the tables without what starts participants; paths in them are absolute."""
        tables = self.model_dump(exclude={"launcher"}, exclude_defaults=True)
        tables.setdefault("runs", {})["existing"] = tuple(map(str, self.existing_runs))
        return Case.model_validate(tables)

    def identity(self) -> dict[str, Any]:
        """Return what makes two studies measure the same thing: runs of others must not be mixed with these.

        Bounds, budget, number of runs, time limit and launcher are left out: changing them leaves finished runs valid;
        but with other ranks per node they would have shared the memory's bandwidth otherwise.
        """
        per_node = getattr(self.launcher, "ranks_per_node", None)
        return {
            "case.directory": str(self.case_directory),
            "case.configuration": hashlib.sha256(self.configuration_path.read_bytes()).hexdigest(),
            "case.restart": None if self.restart_path is None else str(self.restart_path),
            "runs.windows": self.runs.windows,
            "runs.warmup_windows": self.runs.warmup_windows,
            "environment": dict(self.case.environment),
            "parameters": dict(self.case.parameter),
            "participants": {
                p.name: {
                    "command": p.command or p.versions[0].command,
                    "directory": p.directory,
                    "degrees_of_freedom": p.degrees_of_freedom,
                    "ranks_per_node": p.ranks_per_node or per_node,
                    "prepare": list(p.prepare),
                    "templates": list(p.templates),
                    # Another layout on as many cores is another measurement.
                    **({"layouts": _pairs(p.layouts)} if p.name in self.layouts else {}),
                    **({"environment": dict(p.environment)} if p.environment else {}),
                    **self._identity_of_versions(p),
                }
                for p in self.participants
            },
        }

    def _identity_of_versions(self, participant: ParticipantSection) -> dict[str, Any]:
        """Return what versions and kinds of nodes add to what makes two studies measure the same thing."""
        if not participant.versions:
            kind = self.kind_of(participant)
            return {} if kind is None else {"kind": [kind.name, kind.cores_per_node, kind.gpus_per_node]}
        entries = []
        for version in participant.versions:
            dump = version.model_dump(mode="json", include=_IDENTITY, exclude_defaults=True)
            nodes = self._identity_of_versions(_as_version(participant, version.name))
            entries.append({key: value for key, value in dump.items() if value != 0} | nodes)
        return {"versions": entries}


def _as_version(participant: ParticipantSection, wanted: str) -> ParticipantSection:
    """Return a participant that runs as one of its versions, which stays as it is where it does already."""
    if wanted == participant.version:
        return participant
    version = next((version for version in participant.versions if version.name == wanted), None)
    if version is None:
        names = ", ".join(version.name for version in participant.versions) or "none"
        raise StudyError(f"expected a version of {participant.name!r}, of which there are {names}, found {wanted!r}")
    of_version = {key: value for key in version.model_fields_set if (value := getattr(version, key)) is not None}
    of_version |= {
        "name": participant.name,
        "prepare": participant.prepare + version.prepare,
        "environment": participant.environment | version.environment | {VERSION_VARIABLE: version.name},
        "options": participant.options + version.options,
        "versions": (),
    }
    return participant.model_copy(update=of_version)


def _serial(participant: ParticipantSection) -> ParticipantSection:
    pairs = tuple(pair.name for pair in participant.layouts.pairs if pair.ranks == 1)
    update: dict[str, Any] = {"ranks": pairs} if pairs else {}
    if not pairs and (threads := participant.layouts.threads) is not None:
        update = {"minimum_ranks": None, "maximum_ranks": threads}
    return participant.model_copy(update=update)


def _pairs(layouts: Layouts) -> list[list[int | None]]:
    """Return ranks and threads, None where they are free; of pairs, the order says nothing."""
    return sorted([pair.ranks, pair.threads] for pair in layouts.pairs) or [[layouts.ranks, layouts.threads]]
