"""The study: what to calibrate, and what follows from its tables."""

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
from precice_lb.campaign.versions import constraints_of, identity_of, require_nodes, room_of
from precice_lb.case import AcceptedRanks, accepted_ranks, read_configuration
from precice_lb.case.case import Case
from precice_lb.case.machine import Constraints, first_cores
from precice_lb.case.sections import ParticipantSection, listed
from precice_lb.exceptions import ConfigurationError, InfeasibleError, StudyError
from precice_lb.layout import Layout, Layouts, layout_from
from precice_lb.plugins import choices
from precice_lb.plural import plural, span
from precice_lb.split.admissible import Limits, limits_of


class Study(Case):
    """A checked study. ``path`` is the file it was read from, absolute; every other path is relative as written."""

    path: Annotated[Path, Field(exclude=True)]
    participants: Annotated[tuple[ParticipantSection, ...], Field(strict=False, min_length=1), BeforeValidator(listed)]
    launcher: SkipJsonSchema[InstanceOf[Launcher]]

    @property
    def budget(self) -> int:
        """Ranks of the largest run, or cores where participants have threads."""
        if self.total is None:
            raise StudyError(
                "machine: expected what there is as ranks, cores or nodes of cores_per_node, found nothing"
            )
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

    @property
    def ranks_per_node(self) -> int | None:
        """Ranks on each node, where the launcher is told."""
        return getattr(self.launcher, "ranks_per_node", None)

    def _place(self, path: str | Path) -> Path:
        """Return a path that is relative to the study file."""
        return place(path, self.path.parent)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the participants, in the study's order."""
        return tuple(participant.name for participant in self.participants)

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

        Raises
        ------
        InfeasibleError
            There is none.
        """
        return self.layouts.get(name, Layouts()).of(cores)

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest number of ranks of each participant, cores where it has threads.

        As its table says, and the nodes of its kind where its version is known.
        """
        found = {}
        for p in self.participants:
            high = p.maximum_ranks or self.budget
            found[p.name] = (p.minimum_ranks, min(high, room_of(self, p) or high))
        for name, accepted in self.accepted_ranks.items():
            if name not in self.layouts:
                low, high = found[name]
                found[name] = (max(low, accepted.least.ranks), min(high, accepted.most.ranks))
                if found[name][0] > found[name][1]:
                    raise StudyError(self._refusal(name, high) or self._refusal(name, low))
        for name, layouts in self.layouts.items():
            counts = layouts.allowed(*found[name])
            if possible := [count for count in counts if not self._refusal(name, count)]:
                found[name] = (possible[0], possible[-1])
            elif counts:
                raise StudyError(self._refusal(name, counts[-1]))
        return found

    @cached_property
    def accepted_ranks(self) -> dict[str, AcceptedRanks]:
        """With how many ranks preCICE starts whom; a configuration that cannot be read is refused elsewhere."""
        try:
            accepted = accepted_ranks(read_configuration(self.configuration_path))
        except ConfigurationError:
            return {}
        return {name: bounds for name, bounds in accepted.items() if name in self.names}

    def _refusal(self, name: str, count: int) -> str:
        """Say why preCICE refuses what a split gives a participant; empty where it does not."""
        layouts = self.layouts.get(name, Layouts())
        known = layouts.allowed(count, count) and name in self.accepted_ranks
        return self.accepted_ranks[name].problem(name, layouts.of(count).ranks) if known else ""

    @property
    def splits(self) -> tuple[dict[str, int], ...] | None:
        """Splits that the study itself wants to be measured."""
        return None if self.runs.splits is None else tuple(map(self.split_of, self.runs.splits))

    def split_of(self, given: Mapping[str, int | str]) -> dict[str, int]:
        """Read a split in which a participant may have 1x8, ranks and threads, in place of 8 cores.

        Parameters
        ----------
        given : mapping from participant to int or str
            As in a study or on the command line.

        Returns
        -------
        dict from participant to int
            Ranks, or cores where a participant has threads.

        Raises
        ------
        StudyError
            It may not have these.
        """
        split = {}
        for name, value in given.items():
            layouts = self.layouts.get(name, Layouts())
            try:
                wanted = layout_from(value) if isinstance(value, str) else layouts.of(value)
                found = layouts.of(wanted.cores)
            except (InfeasibleError, ValueError) as error:
                raise StudyError(f"{name}: {error}") from error
            if found != wanted:
                raise StudyError(
                    f"{name}: expected {found.words} on {plural(wanted.cores, 'core')}, found {wanted.words}"
                )
            split[name] = wanted.cores
        return split

    @cached_property
    def allow(self) -> dict[str, list[int]]:
        """Counts that machine and threads allow, within the bounds; empty where all of them are."""
        budget, constraints = constraints_of(self)
        if constraints == Constraints():
            return {}
        constraints = replace(constraints, accepted_ranks=self.accepted_ranks)
        rows = limits_of(self.names, budget, *self._ends(), constraints).rows
        counts = {name: own[0].counts.tolist() for name, own in rows.items()}
        if (needed := sum(own[0] for own in counts.values())) > self.budget:
            raise InfeasibleError(
                f"expected a budget of {plural(needed, 'rank')} or more for the fewest that are allowed, found "
                f"{self.budget}"
            )
        return counts

    def _ends(self) -> tuple[dict[str, int], dict[str, int]]:
        low, high = ({name: bound[end] for name, bound in self.bounds.items()} for end in (0, 1))
        return low, high

    @property
    def limits(self) -> Limits:
        """What bounds a split: budget, bounds and allowed counts."""
        return limits_of(self.names, self.budget, *self._ends(), Constraints(allow=self.allow))

    def require_split(self, split: Mapping[str, int]) -> None:
        """Refuse a split that this study does not allow.

        Parameters
        ----------
        split : mapping from participant to int
            Ranks.

        Raises
        ------
        StudyError
            Names, bounds, the machine or the budget say otherwise.
        """
        for name in split:
            if name not in self.names:
                raise StudyError(f"unknown participant {name!r}{choices(name, list(self.names))}")
        for name, (least, most) in self.bounds.items():
            if name not in split:
                raise StudyError(f"no ranks for participant {name!r}; name each once")
            if refusal := self._refusal(name, split[name]):
                raise StudyError(refusal)
            unit = "core" if name in self.layouts else "rank"
            if not least <= split[name] <= most:
                raise StudyError(
                    f"expected {span(least, most, unit)} for {name!r}, found {split[name]}; change the split, "
                    f"or the bounds of {name!r} or the budget"
                )
            if name in self.layouts and not self.layouts[name].allowed(split[name], split[name]):
                raise StudyError(
                    f"expected {self.layouts[name]} cores for {name!r}, found {split[name]}; change the split, or its "
                    "ranks and threads"
                )
            if split[name] not in (allowed := self.allow.get(name, [split[name]])):
                raise StudyError(
                    f"expected {unit}s for {name!r} that the study allows ({', '.join(map(str, allowed))}), found "
                    f"{split[name]}; change the split, or what {name!r} and the machine demand"
                )
        if (total := first_cores(split, self.machine.shared)[1]) > self.budget:
            raise StudyError(
                f"expected at most the {plural(self.budget, self.unit)} of the budget, found {total}; change the "
                f"split, or machine.ranks"
            )
        if not any(p.versions for p in self.participants):
            try:
                require_nodes(self, split)
            except InfeasibleError as error:
                raise StudyError(f"machine.kinds: {error}") from error

    def narrowed(self, runs: Iterable[RunRecord]) -> Study:
        """Return the study in which those whose runs showed that they can only be serial have one rank.

        Parameters
        ----------
        runs : iterable of RunRecord
            Of its campaign.
        """
        # One of several versions says nothing of the others.
        names = {n for run in runs if run.outcome in FAILURES for n in run.serial if n not in run.versions}
        if not names:
            return self
        return self.changed({"participants": tuple(_serial(p) if p.name in names else p for p in self.participants)})

    def changed(self, update: Mapping[str, Any]) -> Study:
        """Return a copy with other tables; what follows from them is found anew.

        Parameters
        ----------
        update : mapping from table to its value
            What differs.

        Returns
        -------
        Study
        """
        one = self.model_copy(update=dict(update))
        for known in ("allow", "layouts"):
            one.__dict__.pop(known, None)
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
        return {
            "case.directory": str(self.case_directory),
            "case.configuration": hashlib.sha256(self.configuration_path.read_bytes()).hexdigest(),
            "case.restart": None if self.restart_path is None else str(self.restart_path),
            "runs.windows": self.runs.windows,
            "runs.warmup_windows": self.runs.warmup_windows,
            "environment": dict(self.case.environment),
            "parameters": dict(self.case.parameter),
            **({"meshes": [mesh.identity() for mesh in self.runs.meshes]} if self.runs.meshes else {}),
            "participants": {
                p.name: {
                    "command": p.command or p.versions[0].command,
                    "directory": p.directory,
                    "degrees_of_freedom": p.degrees_of_freedom,
                    "ranks_per_node": p.ranks_per_node or self.ranks_per_node,
                    "prepare": list(p.prepare),
                    "templates": list(p.templates),
                    # Another layout on as many cores is another measurement.
                    **({"layouts": _pairs(p.layouts)} if p.name in self.layouts else {}),
                    **({"environment": dict(p.environment)} if p.environment else {}),
                    **identity_of(self, p),
                }
                for p in self.participants
            },
        }


def _serial(participant: ParticipantSection) -> ParticipantSection:
    pairs = tuple(pair.name for pair in participant.layouts.pairs if pair.ranks == 1)
    update: dict[str, Any] = {"ranks": pairs} if pairs else {}
    if not pairs and (threads := participant.layouts.threads) is not None:
        update = {"minimum_ranks": min(participant.minimum_ranks, threads), "maximum_ranks": threads}
    return participant.model_copy(update=update)


def _pairs(layouts: Layouts) -> list[list[int | None]]:
    """Return ranks and threads, None where they are free; of pairs, the order says nothing."""
    return sorted([each.ranks, each.threads] for each in layouts.pairs) or [[layouts.ranks, layouts.threads]]
