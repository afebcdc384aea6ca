"""Options that say for which case to recommend, and the recommendation that follows from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from precice_lb.cli.machine import Machine, machine_constraints
from precice_lb.cli.options import LEARNER_HELP, by_participant, parallel_of, parameter_values, preference, schedule_of

if TYPE_CHECKING:
    from precice_lb.dataset import Measurements
    from precice_lb.recommend import Recommendation
    from precice_lb.recommend.failed import FailedSplit
    from precice_lb.schedule import Schedule

__all__ = ["Case", "recommend_case"]


@Parameter(name="*", group="Case")
@dataclass
class Case:
    """For what to recommend, and by whom.

    Parameters
    ----------
    coupling
        How participants without a configuration are coupled; by default parallel.
    config
        A precice-config.xml to read the coupling from; stores carry their own.
    minimum_ranks
        Fewest ranks per participant: Inner=2,Outer=4, or a JSON object where a name has a comma.
    maximum_ranks
        Most ranks per participant, likewise.
    dofs
        Degrees of freedom per participant, likewise, for the comparison with the proportional split.
    present
        The split in use, likewise: how likely is the recommended one faster, and by how much?
    parameter
        The case to recommend for, where measurements have columns for further parameters, such as level=8 of a mesh: a
        value for each that varies, or any where it makes no difference. Learners of several parameters (bayes, epmnf,
        neural, factorized, gaussian-process) learn from all rows, the others from those of that value.
    prefer
        time (default: the whole budget, where it helps), cost (fewest core-hours), or the weight of time from 0 to 1:
        at 0.5 one percent of time is worth one percent of core-hours.
    within
        List splits whose window is at most so many percent longer than the best one's.
    spent
        Core-hours that measuring took; by default what recorded runs say.
    warmup
        Time windows to leave out of each run; by default what the run says, else 1, or more where more are
        unlike those that follow.
    seed
        Seed of whatever is random in the models.
    """

    coupling: Literal["parallel", "serial"] | None = None
    config: Path | None = None
    minimum_ranks: list[str] | None = None
    maximum_ranks: list[str] | None = None
    dofs: list[str] | None = None
    present: list[str] | None = None
    parameter: list[str] | None = None
    prefer: str | None = None
    within: float = 5.0
    spent: float | None = None
    warmup: int | None = None
    learner: Annotated[str | None, Parameter(help=f"{LEARNER_HELP}; precice-lb fit compares them.")] = None
    seed: int = 0


def recommend_case(
    measurements: Measurements,
    ranks: int | None,
    machine: Machine | None,
    case: Case,
    *,
    learner_parameters: Mapping[str, Any] | None = None,
    verify: bool = False,
    failed: Sequence[FailedSplit] = (),
) -> tuple[Recommendation, Schedule]:
    """Recommend for what the options say."""
    from precice_lb.recommend import recommend
    from precice_lb.recommend.failed import with_failed

    names = list(measurements.samples)

    def counts(option: str, texts: list[str] | None) -> dict[str, Any] | None:
        return by_participant(texts, names, option, int) if texts else None

    if case.dofs:
        given = by_participant(case.dofs, names, "--dofs", float)
        measurements = dataclasses.replace(measurements, degrees_of_freedom=measurements.degrees_of_freedom | given)
    budget, constraints = machine_constraints(ranks, machine, names)
    schedule = schedule_of(measurements, case.coupling, case.config)
    recommendation = recommend(
        measurements,
        budget,
        schedule=schedule,
        minimum_ranks=counts("--minimum-ranks", case.minimum_ranks) or 1,
        maximum_ranks=counts("--maximum-ranks", case.maximum_ranks),
        learner=case.learner,
        learner_parameters=learner_parameters,
        random_state=case.seed,
        constraints=constraints,
        prefer=preference(case.prefer) if case.prefer else None,
        within=case.within / 100,
        verify=verify,
        instead=parallel_of(measurements, case.coupling, case.config),
        spent_core_hours=case.spent,
        present=counts("--present", case.present),
        parameters=parameter_values(case.parameter or []),
        failed=[each.ranks for each in failed],
    )
    return (with_failed(recommendation, failed) if failed else recommendation), schedule
