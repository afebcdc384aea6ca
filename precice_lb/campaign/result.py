"""What a campaign left: its runs, what they measured, each without its own warm-up, and splits that failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from precice_lb.campaign.design import split_key, spread_splits
from precice_lb.campaign.state import FAILURES, CampaignState, RunRecord
from precice_lb.campaign.study import Study
from precice_lb.case.case import Case
from precice_lb.dataset import CoupledRun, Measurements, load_runs, measurements_from_runs
from precice_lb.exceptions import DataError, PreciceLBError, TooFewRunsError
from precice_lb.ingest.profiling import enrich
from precice_lb.plural import plural
from precice_lb.recommend.plan import FailedSplit

# Of one alone nobody sees how anything scales.
LEAST_SPLITS = 2
# Lines of a split's logs that are shown.
_SHOWN = 4


@dataclass(frozen=True)
class CampaignResult:
    """What a campaign left.

    Attributes
    ----------
    directory : Path
        Where it lives.
    runs : tuple of RunRecord
        Every run ever tried in it.
    asked : Case or None
        The tables of its study; None where the campaign was made before that was kept.
    """

    directory: Path
    runs: tuple[RunRecord, ...]
    asked: Case | None = None

    @property
    def existing(self) -> tuple[Path, ...]:
        """Directories of stores of runs made before."""
        return () if self.asked is None else tuple(map(Path, self.asked.runs.existing))

    @property
    def finished(self) -> tuple[RunRecord, ...]:
        """Runs that ended well."""
        return tuple(run for run in self.runs if run.outcome == "finished")

    @property
    def failed_splits(self) -> tuple[FailedSplit, ...]:
        """Splits none of whose runs ended well."""
        return failed_splits(self.runs)

    def require_runs(self, study: Study) -> None:
        """Refuse to go on from fewer runs than a recommendation needs: at two splits, where the study has as many.

        Parameters
        ----------
        study : Study
            What was to be measured.

        Raises
        ------
        TooFewRunsError
            With why the first of the others failed.
        """
        study = study.narrowed(self.runs)
        wanted = study.splits or first_splits(study)
        needed = min(LEAST_SPLITS, len({split_key(split) for split in wanted}))
        splits = {split_key(run.split) for run in self.finished}
        if len(splits) >= needed or len(splits) + len(measured_runs(self.existing)[0]) >= needed:
            return
        failed = self.failed_splits
        why = "" if not failed else f"; {failed[0].runs[0]} failed: {' | '.join(failed[0].reasons)}"
        raise TooFewRunsError(
            f"{self.directory}: expected runs at {plural(needed, 'split')} or more to recommend one, found "
            f"{plural(len(splits), 'split')} whose runs ended well{why}"
        )

    @property
    def stores(self) -> tuple[Path, ...]:
        """Directories with the stores of the runs that ended well: the sources of a recommendation."""
        return tuple(self.directory / run.directory / "stores" for run in self.finished)

    def measurements(self, warmup: int | None = None) -> Measurements:
        """Read what the runs measured, and the earlier runs that the study names.

        Parameters
        ----------
        warmup : int, optional
            Windows to leave out of each; by default what the run states, or more where more is unlike what follows.

        Returns
        -------
        Measurements

        Raises
        ------
        StoreError, DataError
            What cannot be read.
        """
        return measurements_of(self.coupled_runs(warmup))

    def coupled_runs(self, warmup: int | None = None) -> list[CoupledRun]:
        """Read the runs themselves, as `measurements` counts them.

        Parameters
        ----------
        warmup : int, optional
            As of `measurements`.

        Returns
        -------
        list of CoupledRun

        Raises
        ------
        StoreError, DataError
            What cannot be read.
        """
        return load_runs([*self.existing, *self.stores], warmup=warmup, complete=enrich)


def first_splits(study: Study) -> list[dict[str, int]]:
    """Return two splits that show how participants scale; one where no more are possible."""
    return list(spread_splits(study.limits, min(LEAST_SPLITS, study.runs.maximum)))


def load_campaign(directory: Path) -> CampaignResult | None:
    """Read what a campaign left, without its study file.

    Parameters
    ----------
    directory
        Where it lives.

    Returns
    -------
    CampaignResult or None
        None for a directory without a campaign.

    Raises
    ------
    CalibrationError
        When its state cannot be read, or none of its runs ended well.
    """
    directory = Path(directory).expanduser().resolve()
    state = CampaignState.load(directory)
    if state is None:
        return None
    result = CampaignResult(directory, tuple(state.runs), state.asked)
    if not result.finished and not result.existing:
        raise TooFewRunsError(f"{directory}: expected a campaign with runs that ended well, found none")
    return result


def measured_runs(sources: Sequence[Path]) -> tuple[list[CoupledRun], list[str]]:
    """Read runs that can be learned from out of directories of stores, and say why the others cannot be."""
    runs: list[CoupledRun] = []
    problems = []
    for source in sources:
        try:
            found = load_runs([source], complete=enrich)
            for run in found:
                if run.incomplete:
                    raise DataError(f"run {run.name}: {run.not_compared}")
                measurements_of([run])
            runs += found
        except PreciceLBError as error:
            problems.append(str(error))
    return runs, problems


def measurements_of(runs: Sequence[CoupledRun], iterations: Mapping[str, float] | None = None) -> Measurements:
    """Reduce runs to samples, without those that lack ranks where others do not.

    Only numbers that all of them state as parameters become columns.
    """
    whole = [run for run in runs if not run.incomplete] or runs
    lacking = [f"Run {run.name} is not used: {run.not_compared}." for run in runs if run not in whole]
    table = measurements_from_runs(whole, iterations)
    frames = {
        name: dataclasses.replace(frame, parameters={k: v for k, v in frame.parameters.items() if v.dtype.kind == "f"})
        for name, frame in table.frames.items()
    }
    return dataclasses.replace(table, frames=frames, remarks=(*table.remarks, *lacking))


def failed_splits(records: Sequence[RunRecord]) -> tuple[FailedSplit, ...]:
    """Find the splits none of whose runs ended well, of the case itself, apart for each combination of versions.

    Where it is a participant's own number of ranks that failed, the split has that participant alone: its log alone
    says why, or it failed beside different ranks of others that all ended well elsewhere; and no run in which it had as
    many ended well. Otherwise the failure is that of the combination.
    """
    groups: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for record in records:
        groups.setdefault(tuple(sorted(record.versions.items())), []).append(record)
    return tuple(found for group in groups.values() for found in _failed_splits(group))


def _failed_splits(records: Sequence[RunRecord]) -> tuple[FailedSplit, ...]:
    own = [record for record in records if record.mesh is None]
    finished = [record for record in own if record.outcome == "finished"]
    well = {split_key(record.split) for record in finished}
    counts = {(name, ranks) for record in finished for name, ranks in record.split.items()}
    failures = [record for record in own if record.outcome in FAILURES and split_key(record.split) not in well]
    found: list[FailedSplit] = []
    explained: set[str] = set()
    suspects = dict.fromkeys((name, ranks) for record in failures for name, ranks in record.split.items())
    for name, ranks in suspects:
        with_it = [record for record in failures if record.split[name] == ranks]
        if (name, ranks) in counts or len(with_it[0].split) == 1:
            continue
        theirs = [record for record in with_it if record.blamed in ([], [name])]
        silent = [record.split for record in theirs if not record.blamed]
        innocent = all((other, count) in counts for split in silent for other, count in split.items() if other != name)
        if len(silent) < len(theirs) or (innocent and len({split_key(split) for split in silent}) > 1):
            found.append(_failed({name: ranks}, theirs))
            explained |= {record.name for record in theirs}
    combinations: dict[tuple[tuple[str, int], ...], list[RunRecord]] = {}
    for record in failures:
        if record.name not in explained:
            combinations.setdefault(split_key(record.split), []).append(record)
    return (*found, *(_failed(dict(runs[0].split), runs) for runs in combinations.values()))


def _failed(ranks: dict[str, int], records: Sequence[RunRecord]) -> FailedSplit:
    lines = [line for record in records for line in record.reasons or filter(None, [record.error])]
    versions = {name: version for name, version in records[0].versions.items() if name in ranks}
    return FailedSplit(ranks, tuple(record.name for record in records), tuple(dict.fromkeys(lines))[:_SHOWN], versions)
