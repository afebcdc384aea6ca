"""What speaks against trusting a recommendation blindly, and what else is to be said of it, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from precice_lb.layout import Layouts, count_text, split_text
from precice_lb.recommend.posterior import node_ranks
from precice_lb.recommend.result import Recommendation
from precice_lb.split.admissible import grid_text
from precice_lb.text import plural

# Windows that are so much of another one are worth saying.
WORTH_IT = 0.98


def remarks(result: Recommendation, doubts: Sequence[str]) -> Iterator[str]:
    """Say what is to be said of measurements, then doubts, then what is to be said of the split."""
    for how, split in {
        run.oversubscription: run.split for run in result.measurements.runs if run.oversubscription
    }.items():
        yield f"{split_text(split, result.layouts)}: {how}; such times say little of cores of their own."
    yield from _of_measurements(result)
    yield from doubts
    yield from _of_failures(result)
    yield from _of_counts(result)
    window, other = result.window_seconds, result.alternatives.get("in-turns")
    if other is not None and other.window_seconds <= WORTH_IT * window:
        yield (
            f"{' and '.join(other.split)} never work at the same time: in turns on the same cores "
            f"({split_text(other.split, result.layouts)}) a window should take {other.window_seconds:.4g} s, "
            f"{100 * (1 - other.window_seconds / window):.0f} % less. That needs memory for the ranks of all on each "
            "node, and an MPI whose ranks leave their core while they wait; "
            f"--set machine.shared={'/'.join(other.split)} recommends for it, and in a study launch starts it so."
        )


def _of_measurements(result: Recommendation) -> Iterator[str]:
    beyond = []
    for name, count in result.split.items():
        ranks = np.unique(result.measurements.samples[name][:, 0]).astype(int)
        counts = "numbers of cores" if name in result.layouts else "rank counts"
        if len(ranks) == 1 and len(result.limits.counts[name]) > 1:
            yield (
                f"{name} was measured at {count_text(name, int(ranks[0]), result.layouts)} only: how it scales is "
                f"assumed (nearly ideally), not measured; measure at other {counts}."
            )
        elif len(ranks) == 2:
            yield f"{name} was measured at two {counts} only: measure at a third to see its curve bend."
        if len(ranks) > 1 and (known := outside(count, ranks)):
            yield (
                f"{name}: {count_text(name, count, result.layouts)}, outside of the measured range of {known[0]} to "
                f"{known[1]}: the prediction is an extrapolation."
            )
        if count > ranks[-1] and node_ranks(result.measurements, name, result.limits) is None:
            beyond.append(name)
    if beyond:
        yield (
            f"{' and '.join(beyond)} would get more ranks than ever measured, perhaps of more nodes, where solvers "
            "scale anew: say how many cores a node has (--cores-per-node)."
        )


def _of_failures(result: Recommendation) -> Iterator[str]:
    """Say where the split gives a participant more (or fewer) ranks than failed, and no run with as many ended well."""
    worked = {name: rows[:, 0].astype(int) for name, rows in result.measurements.samples.items()}
    runs: dict[tuple[str, int], set[str]] = {}
    for failed in result.failed_splits:
        for name, ranks in failed.ranks.items():
            if ranks not in worked[name]:
                runs.setdefault((name, ranks), set()).update(failed.runs)
    for (name, ranks), names in sorted(runs.items()):
        chosen = result.split[name]
        more = chosen > ranks > worked[name].max()
        if more or chosen < ranks < worked[name].min():
            yield (
                f"{name} failed with {count_text(name, ranks, result.layouts)} in {plural(len(names), 'run')}: nothing "
                f"is known about {'more' if more else 'fewer'}, and this split has {chosen}; measure it before it is "
                "used."
            )


def _of_counts(result: Recommendation) -> Iterator[str]:
    """Say which ranks of the split preCICE bounds, and which counts near to the split's cut grids evenly, too."""
    for name, bounds in result.limits.constraints.accepted_ranks.items():
        ranks = result.layouts.get(name, Layouts()).of(result.split[name]).ranks
        for side, bound in (("fewest", bounds.least), ("most", bounds.most)):
            if ranks == bound.ranks and bound.why:
                text = f"{plural(ranks, 'rank')}, the {side} that preCICE accepts ({bound.why})"
                yield f"{name}: {text}; else {bound.remedy}."
    for name, count in result.split.items():
        grid, counts = result.limits.constraints.of("grid", name), result.limits.counts[name]
        if grid is not None and len(counts) > 1:
            place = int(np.searchsorted(counts, count))
            near = ", ".join(str(other) for other in counts[max(place - 2, 0) : place + 3] if other != count)
            text = count_text(name, count, result.layouts)
            yield f"{name}: {text} cut its grid of {grid_text(grid)} evenly; so do {near}."


def outside(ranks: int, measured: Iterable[float]) -> tuple[int, int] | None:
    """Fewest and most ranks that were measured, where some are outside of them; None where they are not."""
    known = [int(count) for count in measured]
    low, high = min(known), max(known)
    return None if low <= ranks <= high else (low, high)
