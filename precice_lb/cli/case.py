"""Options that say for which case to recommend, what they are read from, and the recommendation that follows."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from precice_lb.cli.options import Settings, Warmup, coupling_from, preference, required
from precice_lb.exceptions import DataError
from precice_lb.names import key_of, say
from precice_lb.plugins import close_match

if TYPE_CHECKING:
    from precice_lb.campaign import CampaignResult
    from precice_lb.case.case import Case
    from precice_lb.dataset import CoupledRun, Measurements
    from precice_lb.recommend import Recommendation
    from precice_lb.recommend.plan import FailedSplit
    from precice_lb.schedule import Schedule

_SLOW_S = 10.0
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
    prefer: str | None = None
    settings: Settings = None
    warmup: Warmup = None
    seed: int = 0

    @property
    def machine(self) -> dict[str, int]:
        """What is said of the machine, by its keys in a study."""
        keys = {"cores": self.cores, "nodes": self.nodes, "cores_per_node": self.cores_per_node}
        return {key: value for key, value in keys.items() if value is not None}


@dataclass(frozen=True)
class Measured:
    """What a recommendation is made from."""

    measurements: Measurements
    #: Recorded runs; of stores beside tables only where asked for.
    runs: Sequence[CoupledRun] = ()
    #: Of a campaign: splits whose runs failed, and for what its study asks, where that was kept.
    failed: tuple[FailedSplit, ...] = ()
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
    if not runs or len(stores) < len(sources):
        # Whatever is not there is refused here, too.
        measurements = load_sources(sources, warmup=warmup)
        return Measured(measurements, load_runs(stores, warmup=warmup, complete=enrich) if runs and stores else [])
    recorded = load_runs(stores, warmup=warmup, complete=enrich)
    return Measured(measurements_from_runs(recorded), recorded)


def measured_by(result: CampaignResult, warmup: int | None = None) -> Measured:
    """Read what the runs of a campaign measured."""
    from precice_lb.campaign.state import measurements_of

    runs = result.coupled_runs(warmup)
    return Measured(measurements_of(runs), runs, result.failed_splits, result.asked)


def recommend_case(
    measured: Measured, case: Asked, ranks: int | None = None, parameters: dict[str, Any] | None = None
) -> tuple[Recommendation, Schedule]:
    """Recommend for what the options say, else a study, else (of ``ranks`` and ``parameters``) what is given here."""
    from precice_lb.campaign import read_study
    from precice_lb.case.case import case_from
    from precice_lb.case.earlier import at_present, tables_in
    from precice_lb.case.read import overlaid, tables_from
    from precice_lb.cli.recommend import split_values
    from precice_lb.recommend import recommend_split
    from precice_lb.recommend.sources import measured_under

    measurements, of_study = measured.measurements, measured.asked
    names = list(measurements.samples)
    if case.study is not None:
        of_study = read_study(case.study).asked()
    settings = at_present(tables_from(case.settings or []), "--set", names)
    given = overlaid(settings, {"machine": case.machine} if case.machine else {})
    before = {} if of_study is None else study_tables(of_study, measurements)
    if case.ranks is not None or given.get("machine", {}).keys() & _BUDGET:
        before["machine"] = {key: value for key, value in before.get("machine", {}).items() if key not in _BUDGET}
        for table in tables_in(before.get("participants")):
            for one in (table, *tables_in(table.get("versions"))):
                one.pop("kind", None)
    versions = measurements.versions
    known = [*names, *(key_of(name, version) for name in names for version in versions.get(name, ()) if version)]
    if unknown := [name for name, _ in case_from(given).bounded() if name not in known]:
        raise DataError(
            f"participants: expected one of {', '.join(names)}, found {unknown[0]!r}{close_match(unknown[0], names)}"
        )
    tables = case_from(overlaid(before, given))
    total = case.ranks
    if total is None and tables.total is None and not tables.machine.nodes:
        total = ranks
    schedule = coupling_from(measurements, case.coupling, measured.runs)
    if case.coupling not in (None, "traces"):
        measurements = measured_under(measurements, schedule)
    with _told_if_slow(f"still deciding among splits of {len(names)} participants: minutes where these are many"):
        recommendation = recommend_split(
            measurements,
            total,
            coupling=schedule,
            case=tables,
            failed=measured.failed,
            seed=case.seed,
            present=split_values(case.present, names, option="--present") if case.present else None,
            prefer=preference(case.prefer) if case.prefer else None,
            parameter=parameters,
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


def study_tables(of_study: Case, measurements: Measurements) -> dict[str, Any]:
    """Return the tables of a study, with those of its parameters that were measured."""
    columns = {column for columns in measurements.parameters.values() for column in columns}
    tables = of_study.model_dump(exclude_defaults=True)
    known = {key: value for key, value in of_study.case.parameter.items() if key in columns}
    return tables | {"case": {**tables.get("case", {}), "parameter": known}}
