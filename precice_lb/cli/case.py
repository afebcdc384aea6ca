"""Options that say for which case to recommend, what they are read from, and the recommendation that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from precice_lb.cli.app import Settings, Warmup, refuse_unknown, required, split_values
from precice_lb.exceptions import DataError
from precice_lb.text import key_of

if TYPE_CHECKING:
    from precice_lb.campaign import CampaignResult
    from precice_lb.case.case import Case
    from precice_lb.dataset import CoupledRun, Measurements
    from precice_lb.recommend import Recommendation
    from precice_lb.recommend.plan import FailedSplit
    from precice_lb.schedule import Schedule

# What is left out of a study where another budget is given.
_BUDGET = {"ranks", "cores", "nodes", "kinds"}


@Parameter(name="*")
@dataclass
class Asked:
    """For what to recommend.

    Parameters
    ----------
    study
        A study (TOML) with machine, bounds and parameters; by default that of the campaign.
    ranks
        Total number of ranks to split; or --cores, or --nodes.
    cores
        Total number of cores to split, instead of ranks.
    nodes
        Number of nodes to split, instead of ranks.
    cores_per_node
        Cores of a node.
    present
        The split in use, Inner=8,Outer=8, or with ranks x threads, Outer=1x4: how likely is the recommended one faster,
        and by how much?
    coupling
        How participants wait for each other: parallel, serial, a precice-config.xml, or traces: what recorded runs
        computed between their meetings. By default the configuration in the stores, else parallel.
    prefer
        time (default: the whole budget, where it helps), cost (fewest core-hours), or the weight of time from 0 to 1:
        at 0.5 one percent of time is worth one percent of core-hours.
    seed
        Seed of whatever is random in the models.
    """

    study: Path | None = None
    ranks: int | None = None
    cores: int | None = None
    nodes: int | None = None
    cores_per_node: int | None = None
    present: list[str] | None = None
    coupling: str | None = None
    prefer: Literal["time", "cost"] | float | None = None
    settings: Settings = None
    warmup: Warmup = None
    seed: int = 0


@dataclass(frozen=True)
class Measured:
    """What a recommendation is made from."""

    measurements: Measurements
    #: Recorded runs; of stores beside tables only where asked for.
    runs: Sequence[CoupledRun] = ()
    #: Splits of a campaign whose runs failed.
    failed: tuple[FailedSplit, ...] = ()
    #: The tables of a campaign's study; None where the sources are no campaign.
    asked: Case | None = None


def read_measured(sources: Sequence[Path], warmup: int | None, *, runs: bool = False) -> Measured:
    """Read a campaign where its directory is the only source, else stores and tables; ``runs`` too if asked for."""
    from precice_lb.campaign import load_campaign
    from precice_lb.dataset import load_runs, measurements_from_runs
    from precice_lb.ingest.profiling import enrich
    from precice_lb.recommend import load_sources

    required(sources, "source")
    campaign = load_campaign(sources[0]) if len(sources) == 1 and sources[0].is_dir() else None
    if campaign is not None:
        return measured_by(campaign, warmup)
    stores = [path for path in sources if path.is_dir() or path.suffix in (".h5", ".spool")]
    # Whatever is not there is refused here, too.
    read = None if runs and len(stores) == len(sources) else load_sources(sources, warmup=warmup)
    recorded = load_runs(stores, warmup=warmup, complete=enrich) if runs and stores else []
    return Measured(measurements_from_runs(recorded) if read is None else read, recorded)


def measured_by(result: CampaignResult, warmup: int | None = None) -> Measured:
    """Read what the runs of a campaign measured."""
    from precice_lb.campaign.state import measurements_of

    runs = result.coupled_runs(warmup)
    return Measured(measurements_of(runs), runs, result.failed_splits, result.asked)


def recommend_case(
    measured: Measured, asked: Asked, ranks: int | None = None, parameters: dict[str, Any] | None = None
) -> Recommendation:
    """Recommend for the case of the options; ``ranks`` and ``parameters`` are for where nothing says another."""
    from precice_lb.recommend import recommend_split
    from precice_lb.recommend.sources import measured_under

    measurements = measured.measurements
    case = _case(measured, asked)
    total = asked.ranks
    if total is None and case.total is None and not case.machine.nodes:
        total = ranks
    coupling = _coupling(measurements, asked.coupling, measured.runs)
    if asked.coupling not in (None, "traces"):
        measurements = measured_under(measurements, coupling)
    return recommend_split(
        measurements,
        total,
        coupling=coupling,
        case=case,
        failed=measured.failed,
        seed=asked.seed,
        present=split_values(asked.present, list(measurements.samples), option="--present") if asked.present else None,
        prefer=asked.prefer,
        parameter=parameters,
    )


def _case(measured: Measured, asked: Asked) -> Case:
    """Lay the options over the tables of a study, or of the campaign: each is a key of these, as with ``--set``."""
    from precice_lb.campaign import read_study
    from precice_lb.case.case import case_from
    from precice_lb.case.read import overlaid, tables_from, tables_in

    measurements = measured.measurements
    names = list(measurements.samples)
    options = {key: getattr(asked, key) for key in ("cores", "nodes", "cores_per_node")}
    machine = {key: value for key, value in options.items() if value is not None}
    settings = overlaid(tables_from(asked.settings or []), {"machine": machine} if machine else {})
    versions = (key_of(who, version) for who, several in measurements.versions.items() for version in several)
    refuse_unknown("participants", (name for name, _ in case_from(settings).bounded()), [*names, *versions])
    study = measured.asked if asked.study is None else read_study(asked.study).asked()
    if study is None:
        return case_from(settings)
    tables = study.model_dump(exclude_defaults=True)
    if asked.ranks is not None or settings.get("machine", {}).keys() & _BUDGET:
        tables["machine"] = {key: value for key, value in tables.get("machine", {}).items() if key not in _BUDGET}
        for participant in tables_in(tables.get("participants")):
            for table in (participant, *tables_in(participant.get("versions"))):
                table.pop("kind", None)
    # Parameters that were measured.
    columns = {column for columns in measurements.parameters.values() for column in columns}
    known = {key: value for key, value in study.case.parameter.items() if key in columns}
    tables["case"] = {**tables.get("case", {}), "parameter": known}
    return case_from(overlaid(tables, settings))


def _coupling(measurements: Measurements, coupling: str | None, runs: Sequence[CoupledRun]) -> Schedule:
    """Take the coupling from the option (of recorded ``runs``), else from their configuration, else parallel."""
    from precice_lb.case import parse_configuration, read_configuration
    from precice_lb.recommend import traced_schedule
    from precice_lb.schedule import Schedule

    if coupling == "traces":
        if not runs:
            raise DataError("--coupling traces: expected recorded runs, found tables alone; give directories of stores")
        return traced_schedule(runs)
    names, configuration = list(measurements.samples), measurements.configuration
    if coupling == "serial":
        return Schedule.serial(names)
    if coupling == "parallel" or (coupling is None and configuration is None):
        return Schedule.parallel(names)
    if coupling is not None and not Path(coupling).exists():
        raise DataError(
            f"--coupling: expected parallel, serial, traces or a precice-config.xml, found no file {coupling}"
        )
    case = parse_configuration(configuration or "") if coupling is None else read_configuration(Path(coupling))
    return Schedule.from_config(case, measurements.iterations, measurements.overhead)
