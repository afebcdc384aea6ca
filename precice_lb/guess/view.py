"""First guesses of time windows: what came of them in words, and what a configuration would get as a table."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from precice_lb.guess.config import carriers, is_patched, notes, obstacles
from precice_lb.report.blocks import Block, Paragraph, Table, or_dash
from precice_lb.text import plural, visible

if TYPE_CHECKING:
    from precice_lb.case import Configuration
    from precice_lb.dataset.records import RecordedWindows
    from precice_lb.store.columns import Values


def run_facts(recorded: Sequence[RecordedWindows]) -> Iterator[tuple[str, str]]:
    """Say how many windows began with a guess of each predictor, their mean iterations, and what guessing took.

    Of participants that guess at the same time, in a parallel scheme, the one that takes longest counts; where their
    predictors differ, the window is one of both.
    """
    modes = dict.fromkeys(str(stores[0].metadata.get("guess", "")) for stores, *_ in recorded)
    guessing = [part for part in map(_guessed, recorded) if (part[1] != "").any()]
    if not guessing:
        return
    windows = functools.reduce(np.intersect1d, (part[0] for part in guessing))
    columns = [[column[np.searchsorted(part[0], windows)] for column in part[1:]] for part in guessing]
    predictors, costs, iterations, walls = (np.stack(column) for column in zip(*columns, strict=True))
    names = np.array([" + ".join(filter(None, dict.fromkeys(names))) for names in predictors.T.tolist()])
    counts = Counter(names[names != ""].tolist())
    parts = []
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        mean = iterations[:, names == name].max(axis=0).mean()
        parts.append(f"{visible(name)} in {plural(count, 'window')}, {mean:.3g} iterations")
    cost, wall = (np.fmax.reduce(values[:, names != ""]).sum() for values in (costs, walls))
    mode = " + ".join(filter(None, modes))
    label = f"first guess ({visible(mode)})" if mode else "first guess"
    yield label, "; ".join([*parts, f"cost {or_dash(100 * cost / wall, '.2g', ' %')} of the window"])


def _guessed(part: RecordedWindows) -> tuple[Values, ...]:
    """Give a participant's windows, predictors, seconds of the rank that guessed longest, iterations, wall seconds."""
    stores, windows, iterations, walls = part
    predictors, costs = np.full(len(windows), "", "U128"), np.zeros(len(windows))
    for store in stores:
        rows = store.rows("guesses")
        rows = rows[np.isin(rows["window"], windows)]
        if len(rows):
            places = np.searchsorted(windows, rows["window"])
            predictors[places] = np.array(store.names("guesses"))[rows["name"]]
            np.maximum.at(costs, places, rows["cost_ns"] * 1e-9)
    return windows, predictors, costs, iterations, walls


def guess_blocks(configuration: Configuration) -> list[Block]:
    """Tabulate what would be predicted, or is where the configuration is patched; then obstacles and notes."""
    rows = [
        {
            "data": way.exchange.data,
            "coupling": f"{way.scheme.kind}, line {way.scheme.line}",
            "from": way.exchange.source,
            "written on": way.write_mesh,
            "to": way.exchange.target,
            "read on": way.read_mesh,
            "first guess": "predicted" if way.shifted else "none: says that it takes part",
        }
        for way in carriers(configuration)
    ]
    patched = is_patched(configuration)
    title = f"{configuration.path}: data that {'have' if patched else 'would get'} fields of predictions"
    in_the_way = obstacles(configuration)
    return [
        *([Table.of(title, rows, tuple(range(len(rows[0]))))] if rows else []),
        *(Paragraph(line, "warning", "note") for line in notes(configuration)),
        *(Paragraph(line, "warning", "in the way") for line in in_the_way),
        *([] if in_the_way else [Paragraph(f"nothing stands in the way{'; it is patched' if patched else ''}")]),
    ]
