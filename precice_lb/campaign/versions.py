"""Versions of participants and kinds of nodes in a study: which there are, and the study with some of them chosen.

A study whose versions are chosen is one like any other, so that whatever prepares, starts or designs runs takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.campaign.launchers.slurm import GPU_OPTIONS
from precice_lb.case.machine import Constraints, NodeKind
from precice_lb.case.sections import VERSION_VARIABLE, ParticipantSection, VersionSection
from precice_lb.exceptions import StudyError
from precice_lb.names import key_of, without_versions
from precice_lb.plugins import choices
from precice_lb.split import optimize_split

if TYPE_CHECKING:
    from precice_lb.campaign.study import Study

#: Launchers that know options of Slurm.
SLURM = ("slurm", "srun")
# Options of a batch system, such as an account, leave runs valid.
_IDENTITY = {"name", "command", "prepare", "environment", "gpus_per_rank", "ranks_per_node", "ranks", "threads"}


def combinations_of(study: Study) -> list[dict[str, str]]:
    """List combinations that have every version at least once: the first of each, the second of each, and so on.

    A participant's times hold beside any versions of the others, so that not all combinations have to be run.
    """
    several = {p.name: [version.name for version in p.versions] for p in study.participants if p.versions}
    most = max(map(len, several.values()), default=1)
    return [{name: names[min(at, len(names) - 1)] for name, names in several.items()} for at in range(most)]


def chosen(study: Study, versions: Mapping[str, str]) -> Study:
    """Return the study in which the participants named run as these versions, and have the options of their nodes.

    What it gives has no such versions and options any more, so that it stays the same where they are chosen again.
    """
    if not versions and not study.machine.kinds:
        return study
    participants = []
    for participant in study.participants:
        if (wanted := versions.get(participant.name, participant.version)) != participant.version:
            participant = _as_version(participant, _version(participant, wanted))
        participants.append(_with_options(study, participant))
    kinds = tuple(replace(kind, options=()) for kind in study.machine.kinds)
    update = {"participants": tuple(participants), "machine": replace(study.machine, kinds=kinds)}
    return study.changed(update)


def _version(participant: ParticipantSection, wanted: str) -> VersionSection:
    for version in participant.versions:
        if version.name == wanted:
            return version
    known = choices(wanted, [version.name for version in participant.versions])
    raise StudyError(f"expected a version of {participant.name!r}{known}, found {wanted!r}")


def _as_version(participant: ParticipantSection, version: VersionSection) -> ParticipantSection:
    of_version = {key: value for key in version.model_fields_set if (value := getattr(version, key)) is not None}
    of_version |= {
        "name": participant.name,
        "prepare": participant.prepare + version.prepare,
        "environment": participant.environment | version.environment | {VERSION_VARIABLE: version.name},
        "options": participant.options + version.options,
        "versions": (),
    }
    return participant.model_copy(update=of_version)


def _with_options(study: Study, participant: ParticipantSection) -> ParticipantSection:
    """Add the options that ask for its nodes and its GPUs."""
    kind, gpus = kind_of(study, participant.kind), participant.gpus_per_rank
    options = (kind.options if kind else ()) + participant.options
    if gpus and study.launcher.name in SLURM and not any(each.startswith(GPU_OPTIONS) for each in options):
        options += (f"--gpus-per-task={gpus}",)
    return participant.model_copy(update={"options": options})


def kind_of(study: Study, name: str | None) -> NodeKind | None:
    """Kind of nodes of that name, the first one where none is named; None where there are no kinds."""
    kinds = study.machine.kinds
    return next((each for each in kinds if each.name == name), next(iter(kinds), None))


def ranks_per_node(study: Study, participant: ParticipantSection, threads: int = 1) -> int | None:
    """Ranks with so many threads on each node of a participant whose version is chosen; None where it may share them.

    On a kind of nodes these are as many as fit, where no fewer are asked for.
    """
    kind = kind_of(study, participant.kind)
    if kind is None:
        return participant.ranks_per_node or study.ranks_per_node
    fit = kind.cores_per_node // threads
    if gpus := participant.gpus_per_rank:
        fit = min(fit, kind.gpus_per_node // gpus)
    return max(min(fit, participant.ranks_per_node or fit), 1)


def room_of(study: Study, participant: ParticipantSection) -> int | None:
    """Most ranks, or cores where it has threads, on the nodes of its kind; None where kind or version are not said."""
    kind = kind_of(study, participant.kind)
    if kind is None or participant.versions:
        return None
    threads = participant.layouts.threads
    return kind.nodes * (
        (ranks_per_node(study, participant, threads) or 1) * threads if threads else kind.cores_per_node
    )


def identity_of(study: Study, participant: ParticipantSection) -> dict[str, Any]:
    """Return what versions and kinds of nodes add to what makes two studies measure the same thing."""
    if not participant.versions:
        return _nodes(study, participant)
    told = [
        version.model_dump(mode="json", include=_IDENTITY, exclude_defaults=True) for version in participant.versions
    ]
    pairs = zip(told, participant.versions, strict=True)
    return {
        "versions": [
            {key: value for key, value in own.items() if value != 0} | _nodes(study, _as_version(participant, version))
            for own, version in pairs
        ]
    }


def _nodes(study: Study, participant: ParticipantSection) -> dict[str, Any]:
    kind = kind_of(study, participant.kind)
    return {} if kind is None else {"kind": [kind.name, kind.cores_per_node, kind.gpus_per_node]}


def _without_versions(study: Study, given: Mapping[str, int | str]) -> tuple[dict[str, int | str], dict[str, str]]:
    """Take the versions out of a split such as ``Fluid:gpu=2``; one has to be named where there are several."""
    split, versions = without_versions(given)
    names = [key.partition(":")[0] for key in given]
    if twice := next((name for name in split if names.count(name) > 1), None):
        raise StudyError(f"expected each participant once, found {twice!r} twice")
    for each in study.participants:
        names = [version.name for version in each.versions]
        if each.name in versions and not names:
            raise StudyError(f"expected no version of {each.name!r}, which has none, found {versions[each.name]!r}")
        if each.name in versions and versions[each.name] not in names:
            raise StudyError(
                f"expected a version of {each.name!r}{choices(versions[each.name], names)}, found "
                f"{versions[each.name]!r}"
            )
        if names and each.name in split and each.name not in versions:
            if len(names) > 1:
                raise StudyError(
                    f"expected a version of {each.name!r}, one of {', '.join(names)}, found none: write "
                    f"{each.name}:{names[0]}={split[each.name]}"
                )
            versions[each.name] = names[0]
    return split, versions


def started(study: Study, given: Mapping[str, int | str]) -> tuple[Study, dict[str, int]]:
    """Read a split that may name versions: the study with these chosen, and the split."""
    split, versions = _without_versions(study, given)
    one = chosen(study, versions)
    return one, one.split_of(split)


def constraints_of(study: Study) -> tuple[int, Constraints]:
    """Give the budget, and what else bounds a split of the versions that are chosen."""
    budget, constraints = study.demands().constraints()
    return budget, constraints.of_versions({p.name: p.version for p in study.participants if p.versions or p.version})


def require_nodes(study: Study, split: Mapping[str, int]) -> None:
    """Refuse a split, of a study whose versions are chosen, for which the kinds of nodes have too few of them."""
    if study.machine.kinds:
        budget, constraints = constraints_of(study)
        times = {name: np.ones(count) for name, count in split.items()}
        optimize_split(times, budget, minimum_ranks=split, constraints=constraints)


def names_of(study: Study) -> list[str]:
    """Name the participants, then their versions: Fluid, Solid, Fluid:gpu."""
    return [*study.names, *(key_of(p.name, version.name) for p in study.participants for version in p.versions)]
