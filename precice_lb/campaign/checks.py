"""Whether the ranks and threads that a study gives its participants can be had."""

from __future__ import annotations

from collections.abc import Mapping

from precice_lb.campaign.launchers.slurm import GPU_OPTIONS
from precice_lb.campaign.plan import RUN_VARIABLES, check_placeholders
from precice_lb.campaign.prepare import PLACEHOLDERS
from precice_lb.campaign.study import Study
from precice_lb.campaign.versions import chosen, combinations_of, require_nodes
from precice_lb.exceptions import InfeasibleError, StudyError


def check_layouts(study: Study) -> None:
    """Refuse layouts that do not fit bounds or budget, threads that the launcher gives nobody, and wrong variables."""
    for index, participant in enumerate(study.participants, start=1):
        key = f"participants[{index}]"
        given = participant.name in study.layouts
        _check_variables(participant.environment, key, has_threads=given)
        for number, version in enumerate(participant.versions, start=1):
            _check_variables(version.environment, f"{key}.versions[{number}]", has_threads=given)
        if participant.name not in study.layouts:
            continue
        layouts, most = participant.layouts, study.budget
        if not study.launcher.gives_threads and (layouts.threads != 1 or layouts.pairs):
            remedy = (
                "write {threads} or {cores} into launcher.participant"
                if study.launcher.name == "template"
                else "use mpiexec, srun, slurm or a template, or leave out its threads"
            )
            raise StudyError(
                f"{key}: threads of {participant.name!r} on the launcher {study.launcher.name}, which only knows "
                f"ranks: {remedy}"
            )
        low, high = participant.minimum_ranks, participant.maximum_ranks or most
        if not layouts.allowed(low, high):
            raise StudyError(f"{key}: expected {layouts} cores, found none from {low} to {high}; change the bounds")


def _check_variables(environment: Mapping[str, str], key: str, *, has_threads: bool) -> None:
    for name, value in environment.items():
        if name == "OMP_NUM_THREADS" and has_threads:
            raise StudyError(f"{key}.environment.{name}: the participant's threads set this variable; leave it out")
        if name in RUN_VARIABLES:
            raise StudyError(f"{key}.environment.{name}: the campaign itself sets this variable for each run")
        try:
            check_placeholders(value, PLACEHOLDERS)
        except StudyError as error:
            raise StudyError(f"{key}.environment.{name}: {error}") from error


def check_versions(study: Study) -> None:
    """Refuse versions and kinds of nodes that cannot be had."""
    kinds = study.machine.kinds
    if study.chain is not None and any(p.versions for p in study.participants):
        raise StudyError(
            "chain: expected a command of each participant, since a chain goes on as it began, found versions"
        )
    if study.chain is not None and kinds:
        raise StudyError("chain: expected ranks alone, since segments know of one kind of nodes, found machine.kinds")
    needed = 2 * len(combinations_of(study)) if any(p.versions for p in study.participants) else 0
    if study.runs.splits is None and study.runs.maximum < needed:
        raise StudyError(
            f"runs.maximum: expected {needed} runs or more, two with each version, found {study.runs.maximum}"
        )
    for index, participant in enumerate(study.participants, start=1):
        key = f"participants[{index}]"
        names = [version.name for version in participant.versions]
        for number, version in enumerate(participant.versions, start=1):
            here = f"{key}.versions[{number}]"
            if names.index(version.name) != number - 1:
                raise StudyError(f"{here}.name: {version.name!r} stands in {participant.name!r} twice")
    _check_options(study)
    for versions in combinations_of(study):
        if versions or kinds:
            try:
                one = chosen(study, versions)
                require_nodes(one, {name: counts[0] for name, counts in one.allow.items()})
            except InfeasibleError as error:
                raise StudyError(f"{'machine.kinds' if kinds else 'machine'}: {error}") from error


def _check_options(study: Study) -> None:
    """Refuse options of versions and kinds where no job is made of them; an allocation has the nodes that it has."""
    if hasattr(study.launcher, "options"):
        return
    tables = [
        *((f"machine.kinds[{at}]", kind.options) for at, kind in enumerate(study.machine.kinds, start=1)),
        *(
            (f"participants[{index}].versions[{at}]", version.options)
            for index, participant in enumerate(study.participants, start=1)
            for at, version in enumerate(participant.versions, start=1)
        ),
    ]
    for key, options in tables:
        why = f"options of a batch system on the launcher {study.launcher.name}, which has none"
        if study.launcher.name == "srun":
            options = tuple(option for option in options if not option.startswith(GPU_OPTIONS))
            why = "expected options for GPUs alone, since srun takes the nodes that it has"
        if options:
            raise StudyError(f"{key}.options: {why}, found {options[0]!r}: use slurm, or leave it out")
