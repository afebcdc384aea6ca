"""Whether the ranks and threads that a study gives its participants can be had."""

from __future__ import annotations

from collections.abc import Mapping

from precice_lb.calibrate.launchers import launcher_class
from precice_lb.calibrate.plan import RUN_VARIABLES, check_placeholders
from precice_lb.calibrate.prepare import PLACEHOLDERS
from precice_lb.calibrate.study import Study
from precice_lb.exceptions import StudyError
from precice_lb.plural import plural


def check_layouts(study: Study) -> None:
    """Refuse layouts that do not fit bounds or budget, threads that the launcher gives nobody, and wrong variables."""
    gives_threads = launcher_class(study.launcher.name).gives_threads(study.launcher)
    for index, participant in enumerate(study.participants, start=1):
        key = f"participants[{index}]"
        given = participant.name in study.layouts
        _check_variables(participant.environment, key, has_threads=given)
        for number, version in enumerate(participant.versions, start=1):
            _check_variables(version.environment, f"{key}.versions[{number}]", has_threads=given)
        if participant.name not in study.layouts:
            continue
        layouts, most = participant.layouts, study.budget.ranks
        if not gives_threads and (layouts.threads != 1 or layouts.pairs):
            remedy = (
                "write {threads} or {cores} into launcher.participant"
                if study.launcher.name == "template"
                else "use mpiexec, srun, slurm or a template, or leave out its threads"
            )
            raise StudyError(
                f"{key}: threads of {participant.name!r} on the launcher {study.launcher.name}, which only knows "
                f"ranks: {remedy}"
            )
        for pair in layouts.pairs:
            if pair.cores > most:
                raise StudyError(
                    f"{key}.pairs: expected at most the {plural(most, 'core')} of the budget, found {pair}, "
                    f"{plural(pair.cores, 'core')}"
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
