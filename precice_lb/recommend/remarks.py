"""What speaks against trusting a recommendation blindly, and what else is to be said of it: a code with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from precice_lb.layout import Layouts, count_text, split_text
from precice_lb.recommend.limits import node_ranks
from precice_lb.text import plural

if TYPE_CHECKING:
    from precice_lb.recommend.result import Recommendation

# Windows that are so much of another one are worth saying.
WORTH_IT = 0.98
# What is said of each code.
SENTENCES = {
    "data": "{text}",
    "cases-pooled": (
        "{participant}: measurements with different {parameter} ({values}) count as ones of one case, as was asked for."
    ),
    "parameter-outside": (
        "{participant}: {parameter} = {value:g} is outside of the measured range of {low:g} to {high:g}; the "
        "prediction is an extrapolation."
    ),
    "oversubscribed": "{split}: {how}; such times say little of cores of their own.",
    "measured-once": (
        "{participant} was measured at {layout} only: how it scales is assumed (nearly ideally), not measured; measure "
        "at other {counts}."
    ),
    "measured-twice": "{participant} was measured at two {counts} only: measure at a third to see its curve bend.",
    "extrapolated": (
        "{participant}: {layout}, outside of the measured range of {low} to {high}: the prediction is an extrapolation."
    ),
    "more-nodes": (
        "{participants} would get more ranks than ever measured, perhaps of more nodes, where solvers scale anew: say "
        "how many cores a node has, such as --set machine.cores_per_node=48."
    ),
    "only-participant": "{participant} is the only participant: nothing to split; give measurements of its partners.",
    "shared-cores": (
        "The participants' work needs {percent:.0f} % more than the windows that were measured: they share cores, and "
        "waiting looks like work; pin the ranks of each to cores of their own."
    ),
    "not-compared": "The {split} split is not compared: {why}.",
    "failed-near": (
        "{participant} failed with {layout} in {runs}: nothing is known about {side}, and this split has {chosen}; "
        "measure it before it is used."
    ),
    "accepted-ranks": "{participant}: {ranks}, the {side} that preCICE accepts ({why}); else {remedy}.",
    "in-turns": (
        "{participants} never work at the same time: in turns on the same cores ({split}) a window should take "
        "{seconds:.4g} s, {percent:.0f} % less. That needs memory for the ranks of all on each node, and an MPI whose "
        "ranks leave their core while they wait; --set machine.shared={shared} recommends for it, and in a study "
        "launch starts it so."
    ),
    "version-unsure": (
        "{versions} is predicted at {seconds:.4g} s per window, beyond the ranks that were measured and not surely "
        "less than the {measured:.4g} s with {instead}, which is recommended. To know more, measure it there."
    ),
    "version-not-compared": "{versions} is not compared: {why}.",
}


@dataclass(frozen=True)
class Remark:
    """A code and its numbers; as a string, its sentence."""

    code: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return SENTENCES[self.code].format_map(self.values)


def remark(code: str, **values: Any) -> Remark:
    """Make a remark of a code out of `SENTENCES`."""
    return Remark(code, values)


def remarks(result: Recommendation, doubts: Sequence[Remark]) -> Iterator[Remark]:
    """Remark on measurements, then doubts, then on the split."""
    splits = {run.oversubscription: run.split for run in result.measurements.runs if run.oversubscription}
    for how, split in splits.items():
        yield remark("oversubscribed", split=split_text(split, result.layouts), how=how)
    yield from _of_measurements(result)
    yield from doubts
    yield from _of_failures(result)
    yield from _of_counts(result)
    window, other = result.window_seconds, result.alternatives.get("in-turns")
    if other is not None and other.window_seconds <= WORTH_IT * window:
        yield remark(
            "in-turns",
            participants=" and ".join(other.split),
            split=split_text(other.split, result.layouts),
            seconds=other.window_seconds,
            percent=100 * (1 - other.window_seconds / window),
            shared="/".join(other.split),
        )


def _of_measurements(result: Recommendation) -> Iterator[Remark]:
    beyond = []
    for name, count in result.split.items():
        ranks = np.unique(result.measurements.samples[name][:, 0]).astype(int)
        counts = "numbers of cores" if name in result.layouts else "rank counts"
        if len(ranks) == 1 and len(result.limits.counts[name]) > 1:
            layout = count_text(name, int(ranks[0]), result.layouts)
            yield remark("measured-once", participant=name, layout=layout, counts=counts)
        elif len(ranks) == 2:
            yield remark("measured-twice", participant=name, counts=counts)
        if len(ranks) > 1 and not ranks[0] <= count <= ranks[-1]:
            layout = count_text(name, count, result.layouts)
            yield remark("extrapolated", participant=name, layout=layout, low=ranks[0], high=ranks[-1])
        if count > ranks[-1] and node_ranks(result.measurements, name, result.limits) is None:
            beyond.append(name)
    if beyond:
        yield remark("more-nodes", participants=" and ".join(beyond))


def _of_failures(result: Recommendation) -> Iterator[Remark]:
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
            layout, side = count_text(name, ranks, result.layouts), "more" if more else "fewer"
            count = plural(len(names), "run")
            yield remark("failed-near", participant=name, layout=layout, runs=count, side=side, chosen=chosen)


def _of_counts(result: Recommendation) -> Iterator[Remark]:
    """Say which ranks of the split preCICE bounds."""
    for name, bounds in result.limits.constraints.accepted_ranks.items():
        ranks = result.layouts.get(name, Layouts()).of(result.split[name]).ranks
        for side, bound in (("fewest", bounds.least), ("most", bounds.most)):
            if ranks == bound.ranks and bound.why:
                words, why = plural(ranks, "rank"), bound.why
                yield remark("accepted-ranks", participant=name, ranks=words, side=side, why=why, remedy=bound.remedy)
