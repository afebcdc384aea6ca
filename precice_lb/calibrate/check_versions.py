"""Whether the versions of participants and the kinds of nodes that a study names can be had."""

from __future__ import annotations

from precice_lb.calibrate.launchers import launcher_class
from precice_lb.calibrate.launchers.slurm_options import GPU_OPTIONS
from precice_lb.calibrate.sections import ParticipantSection
from precice_lb.calibrate.study import Study
from precice_lb.calibrate.versions import SLURM, chosen, combinations_of, kind_of, require_nodes
from precice_lb.exceptions import InfeasibleError, StudyError
from precice_lb.plugins import choices


def check_versions(study: Study) -> None:
    """Refuse versions and kinds of nodes that cannot be had."""
    kinds = [kind.name for kind in study.budget.kinds]
    for index, kind in enumerate(kinds, start=1):
        if kinds.index(kind) != index - 1:
            raise StudyError(f"budget.kinds[{index}].name: {kind!r} stands in the study twice")
    runs_options = study.launcher.name in SLURM or "options" in launcher_class(study.launcher.name).keys
    if study.launcher.allocation == "campaign" and (study.budget.kinds or any(p.versions for p in study.participants)):
        raise StudyError(
            'launcher.allocation: "campaign" holds nodes of one kind for all runs, which are of several versions or '
            'kinds here: use "run"'
        )
    if study.chain is not None and any(p.versions for p in study.participants):
        raise StudyError(
            "chain: expected a command of each participant, since a chain goes on as it began, found versions"
        )
    if study.chain is not None and study.budget.kinds:
        raise StudyError(
            "chain: expected a budget in ranks alone, since segments know of one kind of nodes, found budget.kinds"
        )
    needed = 2 * len(combinations_of(study)) if any(p.versions for p in study.participants) else 0
    if study.runs.splits is None and study.runs.maximum < needed:
        raise StudyError(
            f"runs.maximum: expected {needed} runs or more, two with each version, found {study.runs.maximum}"
        )
    for index, participant in enumerate(study.participants, start=1):
        key = f"participants[{index}]"
        _check_kind(participant.kind, kinds, f"{key}.kind")
        names = [version.name for version in participant.versions]
        for number, version in enumerate(participant.versions, start=1):
            here = f"{key}.versions[{number}]"
            if names.index(version.name) != number - 1:
                raise StudyError(f"{here}.name: {version.name!r} stands in {participant.name!r} twice")
            _check_kind(version.kind, kinds, f"{here}.kind")
            if version.gpus_per_rank and study.budget.kinds:
                _check_gpus(study, participant, number, here)
            elif study.machine.gpus_per_node is not None and version.gpus_per_rank > study.machine.gpus_per_node:
                raise StudyError(
                    f"{here}.gpus_per_rank: expected at most the {study.machine.gpus_per_node} GPUs of a node, "
                    f"found {version.gpus_per_rank}"
                )
            if version.options and not runs_options:
                raise StudyError(
                    f"{here}.options: options of a batch system on the launcher {study.launcher.name}, which has "
                    "none: use slurm, or leave them out"
                )
    if study.budget.kinds and any(kind.options for kind in study.budget.kinds) and not runs_options:
        raise StudyError(
            f"budget.kinds: options of a batch system on the launcher {study.launcher.name}, which has none: use "
            "slurm, or leave them out"
        )
    if study.launcher.name == "srun":
        _check_steps(study)
    for versions in combinations_of(study):
        if versions or study.budget.kinds:
            try:
                one = chosen(study, versions)
                require_nodes(one, {name: counts[0] for name, counts in one.allow.items()})
            except InfeasibleError as error:
                raise StudyError(f"{'budget.kinds' if study.budget.kinds else 'machine'}: {error}") from error


def _check_steps(study: Study) -> None:
    """Refuse options of versions and kinds that ask for nodes: the allocation has those that it has."""
    tables = [
        *((f"budget.kinds[{at}]", kind.options) for at, kind in enumerate(study.budget.kinds, start=1)),
        *(
            (f"participants[{index}].versions[{at}]", version.options)
            for index, participant in enumerate(study.participants, start=1)
            for at, version in enumerate(participant.versions, start=1)
        ),
    ]
    for key, options in tables:
        if other := next((option for option in options if not option.startswith(GPU_OPTIONS)), None):
            raise StudyError(
                f"{key}.options: expected options for GPUs alone, since srun takes the nodes that it has, "
                f"found {other!r}: use slurm, or leave it out"
            )


def _check_kind(kind: str | None, kinds: list[str], key: str) -> None:
    if kind is not None and kind not in kinds:
        raise StudyError(f"{key}: unknown kind of nodes {kind!r}{choices(kind, kinds)}")


def _check_gpus(study: Study, participant: ParticipantSection, number: int, key: str) -> None:
    version = participant.versions[number - 1]
    kind = kind_of(study, version.kind or participant.kind)
    per_node = version.ranks_per_node or participant.ranks_per_node or 1
    if kind and per_node * version.gpus_per_rank > kind.gpus_per_node:
        raise StudyError(
            f"{key}.gpus_per_rank: expected at most the {kind.gpus_per_node} GPUs of a node of kind {kind.name!r}, "
            f"found {version.gpus_per_rank} for each of {per_node} ranks per node"
        )
