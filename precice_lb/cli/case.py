"""Options that say for which case to recommend, what they are read from, and the recommendation that follows."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from precice_lb.cli.options import (
    LEARNER_HELP,
    Machine,
    Warmup,
    by_participant,
    coupling_from,
    learner_values,
    parameter_values,
    preference,
    required,
    share,
)
from precice_lb.names import say

if TYPE_CHECKING:
    from precice_lb.calibrate import CampaignResult
    from precice_lb.calibrate.state import Settings
    from precice_lb.dataset import CoupledRun, Measurements
    from precice_lb.recommend import Recommendation
    from precice_lb.recommend.plan import FailedSplit
    from precice_lb.schedule import Schedule

_SLOW_S = 10.0


@Parameter(name="*", group="Case")
@dataclass
class Case:
    """For what to recommend, and by whom.

    Parameters
    ----------
    coupling
        How participants wait for each other: parallel, serial, a precice-config.xml, or traces: what recorded runs
        computed between their meetings. By default the configuration in the stores, else parallel.
    minimum_ranks
        Fewest ranks per participant: Inner=2,Outer=4, or a JSON object where a name has a comma.
    maximum_ranks
        Most ranks per participant, likewise.
    degrees_of_freedom
        Degrees of freedom per participant, likewise, for the comparison with the proportional split.
    present
        The split in use, likewise, or Inner=8,Outer=1x4 with ranks x threads: how likely is the recommended one faster,
        and by how much?
    parameter
        The case to recommend for, where measurements have columns for further parameters, such as level=8 of a mesh: a
        value for each that varies, or any where it makes no difference. Learners of several parameters (bayes, epmnf,
        neural, factorized) learn from all rows, the others from those of that value.
    prefer
        time (default: the whole budget, where it helps), cost (fewest core-hours), or the weight of time from 0 to 1:
        at 0.5 one percent of time is worth one percent of core-hours.
    within
        List splits whose window is at most this share longer than the best one's: 0.05 is 5 %.
    level
        Level of the intervals, between 0 and 1.
    inside
        What precice-lb inside -o wrote for a participant that will run in balance: recommend for that.
    learner_parameters
        Parameters of the learner: ridge=0.1,folds=3 (for pmnf), or a JSON object.
    seed
        Seed of whatever is random in the models.
    accept_missing_ranks
        Learn also from runs of which ranks are missing, perhaps the slowest.
    """

    coupling: str | None = None
    minimum_ranks: list[str] | None = None
    maximum_ranks: list[str] | None = None
    degrees_of_freedom: list[str] | None = None
    present: list[str] | None = None
    parameter: list[str] | None = None
    prefer: str | None = None
    within: float = 0.05
    level: float = 0.8
    inside: list[Path] | None = None
    warmup: Warmup = None
    learner: Annotated[str | None, Parameter(help=f"{LEARNER_HELP}.")] = None
    learner_parameters: list[str] | None = None
    seed: int = 0
    accept_missing_ranks: Annotated[bool, Parameter(negative=())] = False

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """Read the texts for these participants, as arguments of `recommend`, without those not given."""
        from precice_lb.cli.recommend import split_values

        ranks = {key: getattr(self, key) for key in ("minimum_ranks", "maximum_ranks")}
        words = {
            "present": split_values(self.present, names, option="--present") if self.present else None,
            **{key: by_participant(texts, names, _option(key), int) for key, texts in ranks.items() if texts},
            "parameters": parameter_values(self.parameter or []) or None,
            "learner": self.learner,
            "learner_parameters": learner_values(self.learner_parameters or []) or None,
            "prefer": preference(self.prefer) if self.prefer else None,
            "within": share(self.within, "--within"),
            "accept_missing_ranks": self.accept_missing_ranks or None,
        }
        given = {key: value for key, value in words.items() if value is not None}
        return given | {"level": self.level, "random_state": self.seed}


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


@dataclass(frozen=True)
class Measured:
    """What a recommendation is made from."""

    measurements: Measurements
    #: Recorded runs; of stores beside tables only where asked for.
    runs: Sequence[CoupledRun] = ()
    #: Of a campaign: splits whose runs failed, and what its study asks for, where that was kept.
    failed: tuple[FailedSplit, ...] = ()
    settings: Settings | None = None


def read_measured(sources: Sequence[Path], warmup: int | None, *, runs: bool = False) -> Measured:
    """Read a campaign where its directory is the only source, else stores and tables; ``runs`` too if asked for."""
    from precice_lb.calibrate import load_campaign
    from precice_lb.dataset import load_runs, measurements_from_runs
    from precice_lb.ingest.profiling import enrich
    from precice_lb.recommend import load_sources

    required(sources, "source")
    campaign = load_campaign(sources[0]) if len(sources) == 1 and sources[0].is_dir() else None
    if campaign is not None:
        return measured_by(campaign, warmup)
    stores = [path for path in sources if path.is_dir() or path.suffix in (".h5", ".spool")]
    if not runs or len(stores) < len(sources):
        # Whatever is not there is refused here, too.
        measurements = load_sources(sources, warmup=warmup)
        return Measured(measurements, load_runs(stores, warmup=warmup, complete=enrich) if runs and stores else [])
    recorded = load_runs(stores, warmup=warmup, complete=enrich)
    return Measured(measurements_from_runs(recorded), recorded)


def measured_by(result: CampaignResult, warmup: int | None = None) -> Measured:
    """Read what the runs of a campaign measured."""
    from precice_lb.calibrate.result import measurements_of

    runs = result.coupled_runs(warmup)
    return Measured(measurements_of(runs), runs, result.failed_splits, result.settings)


def recommend_case(
    measured: Measured, ranks: int | None, machine: Machine | None, case: Case, parameters: dict[str, Any] | None = None
) -> tuple[Recommendation, Schedule]:
    """Recommend for what the options say, else a campaign's study, else (of ``parameters``) what is given here."""
    from precice_lb.dataset.versions import version_names
    from precice_lb.inside.balanced import balanced, read_gains
    from precice_lb.recommend import Machine as Demands
    from precice_lb.recommend import recommend
    from precice_lb.recommend.sources import measured_under
    from precice_lb.recommend.versions import without_unmeasured

    measurements, settings, failed = measured.measurements, measured.settings, measured.failed
    if case.inside:
        measurements = balanced(measurements, [read_gains(path) for path in case.inside])
    names = list(measurements.samples)
    if case.degrees_of_freedom:
        dofs = by_participant(case.degrees_of_freedom, names, "--degrees-of-freedom", float)
        measurements = dataclasses.replace(measurements, degrees_of_freedom=measurements.degrees_of_freedom | dofs)
    options = machine or Machine()
    said, words = options.words(version_names(measurements)), case.read(names)
    demands = Demands()
    if settings is not None:
        words = study_words(settings, measurements) | words
        demands = without_unmeasured(settings.demands(), measurements)
        if ranks is not None or options.has_budget:
            demands = dataclasses.replace(demands, cores=None, nodes=None, kinds=(), kind={})
        elif demands.cores is None and demands.nodes is None and not demands.kinds:
            ranks = settings.total_ranks
    if parameters:
        words.setdefault("parameters", parameters)
    budget, constraints = dataclasses.replace(demands, **said).constraints(ranks)
    schedule = coupling_from(measurements, case.coupling, measured.runs)
    if case.coupling not in (None, "traces"):
        measurements = measured_under(measurements, schedule)
    with _told_if_slow(f"still deciding among splits of {len(names)} participants: minutes where these are many"):
        recommendation = recommend(
            measurements, budget, schedule=schedule, constraints=constraints, failed=failed, **words
        )
    return recommendation, schedule


@contextlib.contextmanager
def _told_if_slow(text: str) -> Iterator[None]:
    """Say what goes on if it takes longer than a user waits without a word."""
    timer = threading.Timer(_SLOW_S, say, (text, sys.stderr))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def study_words(settings: Settings, measurements: Measurements) -> dict[str, Any]:
    """Return what a study says for `recommend`: bounds, learner, and those parameters that were measured."""
    columns = {column for columns in measurements.parameters.values() for column in columns}
    words = {
        "minimum_ranks": settings.minimum_ranks,
        "maximum_ranks": settings.maximum_ranks or None,
        "parameters": {key: value for key, value in settings.parameters.items() if key in columns} or None,
        "learner": settings.learner,
    }
    return {key: value for key, value in words.items() if value is not None}
