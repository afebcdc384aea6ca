"""Which splits of a campaign failed: combinations of ranks, or a participant's own number of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from precice_lb.calibrate.design import split_key
from precice_lb.calibrate.state import FAILURES, RunRecord
from precice_lb.recommend.plan import FailedSplit

__all__ = ["failed_splits"]

# Lines of a split's logs that are shown.
_SHOWN = 4


def failed_splits(records: Sequence[RunRecord]) -> tuple[FailedSplit, ...]:
    """Find the splits none of whose runs ended well, of the case itself.

    Where it is a participant's own number of ranks that failed, the split has that participant alone: its log alone
    says why, or it failed beside different ranks of others that all ended well elsewhere; and no run in which it had as
    many ended well. Otherwise the failure is that of the combination.
    """
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
        told = [record for record in with_it if record.blamed == [name]]
        others = {split_key(record.split) for record in with_it if not record.blamed}
        innocent = all(
            (other, count) in counts
            for record in with_it
            if not record.blamed
            for other, count in record.split.items()
            if other != name
        )
        if told or (len(others) > 1 and innocent):
            theirs = [record for record in with_it if record in told or not record.blamed]
            found.append(_failed({name: ranks}, theirs))
            explained |= {record.name for record in theirs}
    combinations: dict[tuple[tuple[str, int], ...], list[RunRecord]] = {}
    for record in failures:
        if record.name not in explained:
            combinations.setdefault(split_key(record.split), []).append(record)
    return (*found, *(_failed(dict(runs[0].split), runs) for runs in combinations.values()))


def _failed(ranks: dict[str, int], records: Sequence[RunRecord]) -> FailedSplit:
    lines = [line for record in records for line in record.reasons or filter(None, [record.error])]
    return FailedSplit(ranks, tuple(record.name for record in records), tuple(dict.fromkeys(lines))[:_SHOWN])
