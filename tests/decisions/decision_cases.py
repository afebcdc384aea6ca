"""Planted runs, exact curves, campaigns and chains for decisions by hand: what knows inner modules is here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from calibrate_helpers import write_case, write_study
from precice_xml_helpers import configuration, scheme
from sklearn.base import BaseEstimator, RegressorMixin
from store_helpers import row, write_store

from precice_lb import CalibrationDesign, recommend_split
from precice_lb.campaign import CampaignResult, PosteriorSplits, RunRecord, read_study, run_campaign
from precice_lb.chain import Decision, DecisionProblem, Segment
from precice_lb.chain.decide import decide
from precice_lb.cli import main
from precice_lb.dataset import Measurements
from precice_lb.recommend import Recommendation
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, limits_of

# From ranks to seconds per window, as one draw of a posterior.
Law = Callable[[int], Fraction]
Split = dict[str, int]

DIGITS = 1e-9
"""Relative: nanoseconds are exact in a store, and the rest is rounding of floats."""


def coupled(kind: str, body: str = "") -> str:
    """The configuration of A and B, A first, that exchange in both directions."""
    exchanges = [("A", "B"), ("B", "A")]
    return configuration("AB", [scheme(kind, "AB", exchanges, body)])


def call(
    window: int,
    solve: int,
    wait: int,
    *,
    mapping: int = 0,
    overhead: int = 0,
    iteration: int = 1,
    complete: bool = True,
) -> tuple[Any, ...]:
    """What a rank recorded of one call of ``advance``, in milliseconds."""
    seconds = (part / 1000 for part in (solve, mapping + wait + overhead, wait, mapping))
    return row(window, *seconds, iteration=iteration, complete=complete)


def write_participant(directory: Path, name: str, ranks: Sequence[Sequence[tuple[Any, ...]]], **more: Any) -> None:
    """Write the store of each rank; ``run`` and what else the metadata may say by name."""
    for rank, calls in enumerate(ranks):
        write_store(directory, calls, name, rank, len(ranks), **more)


def write_windows(
    directory: Path, configuration: str, compute: Mapping[str, Sequence[int]], ranks: Mapping[str, int], **more: Any
) -> None:
    """Write a parallel run without transfer: whoever is faster in a window waits for the other; milliseconds."""
    for name, costs in compute.items():
        longest = [max(pair) for pair in zip(*compute.values(), strict=True)]
        calls = [call(w, cost, end - cost) for w, (cost, end) in enumerate(zip(costs, longest, strict=True), 1)]
        write_participant(
            directory, name, [calls] * ranks[name], configuration=configuration, receives_data=True, **more
        )


def printed_json(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    """What a command prints with ``--format json``, whatever it found."""
    capsys.readouterr()
    assert main([*map(str, words), "--format", "json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def participants_of(run: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A and B out of one summary."""
    return run["participants"]["A"], run["participants"]["B"]


class ExactDraws(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A learner that knows what is possible: some laws per participant, told apart by their means at the samples."""

    learner_name = "exact"

    def __init__(self, laws: Mapping[str, Sequence[Law]], noise: float = 0.05) -> None:
        self.laws = laws
        self.noise = noise

    def fit(self, X: Any, y: Any) -> ExactDraws:
        ranks = np.asarray(X)[:, 0]
        off = {name: np.abs(_seconds(laws, ranks).mean(axis=0) / y - 1).max() for name, laws in self.laws.items()}
        self.noise_ = self.noise
        self.laws_ = self.laws[min(off, key=lambda name: float(off[name]))]
        return self

    def predict(self, X: Any) -> Any:
        return _seconds(self.laws_, np.asarray(X)[:, 0]).mean(axis=0)

    def draw(self, count: int, random_state: Any = None) -> Callable[[Any], Any]:
        return lambda ranks: _seconds(self.laws_, np.asarray(ranks).ravel())


def _seconds(laws: Sequence[Law], ranks: Any) -> Any:
    return np.array([[float(law(int(count))) for count in ranks] for law in laws])


def mean_of_laws(laws: Sequence[Law], ranks: int) -> Fraction:
    return sum((law(ranks) for law in laws), Fraction(0)) / len(laws)


def recommended(
    laws: Mapping[str, Sequence[Law]], measured: Mapping[str, Sequence[int]] | Measurements, budget: int, **words: Any
) -> Recommendation:
    """Recommend where the laws are all that is possible, each as probable; draw k is law k of every participant.

    ``measured`` are the ranks with a sample, which is the mean of the laws, or measurements of recorded runs.
    """
    data: Any = measured
    if isinstance(measured, Mapping):
        data = {
            name: [(count, float(mean_of_laws(laws[name], count))) for count in counts]
            for name, counts in measured.items()
        }
    return recommend_split(data, budget, learner=ExactDraws(dict(laws)), **words)


def posterior_of(
    laws: Mapping[str, Sequence[Law]], noise: float, budget: int, highest: Split, seed: int = 0
) -> PosteriorSplits:
    """What the campaign knows of all splits where the laws are all that is possible."""
    first = next(iter(laws))
    counts = {name: 1 if name == first else highest[name] for name in laws}
    data = {name: [(counts[name], float(mean_of_laws(drawn, counts[name])))] for name, drawn in laws.items()}
    learner: Any = ExactDraws(dict(laws), noise)
    return PosteriorSplits(recommend_split(data, budget, learner=learner, maximum=highest, seed=seed))


def value_of_runs(
    laws: Mapping[str, Sequence[Law]], noise: float, budget: int, highest: Split, splits: Sequence[Split], seed: int = 0
) -> tuple[float, list[float]]:
    """Expected regret of the recommended split, and what a run at each of some splits is expected to save of it."""
    posterior = posterior_of(laws, noise, budget, highest, seed)
    known = [tuple(row) for row in posterior.splits.tolist()]
    rows = np.array([known.index(tuple(split[name] for name in posterior.names)) for split in splits])
    return posterior.expected_regret, posterior.saved(rows).tolist()


def ask_with(
    design: CalibrationDesign, laws: Mapping[str, Sequence[Law]], noise: float, highest: Split
) -> Split | None:
    """Ask a design for the next split where the laws are all that its runs have left possible."""
    design._posterior_of_runs = posterior_of(laws, noise, design.budget, highest)
    return design.ask()


def conclusion_of_campaign(directory: Path, limit: str, runs: Sequence[tuple[Split, float, str]]) -> str:
    """Go on with a campaign that has made runs: split, seconds and outcome of each; why it ends at once."""
    write_case(directory)
    study = read_study(write_study(directory, runs=limit))
    campaign = directory / "campaign"
    campaign.mkdir()
    state = CampaignResult(study.identity(), directory=campaign)
    for number, (split, seconds, outcome) in enumerate(runs, 1):
        words = {"directory": f"runs/{number}", "token": "t", "started": "2024-01-01T00:00:00+00:00"}
        state.runs.append(RunRecord(number, f"run-{number}", split, outcome=outcome, seconds=seconds, **words))  # type: ignore[arg-type]
    state.save()
    events: list[Any] = []
    run_campaign(study, campaign, report=events.append)
    return str(events[-1])


def decision_of_chain(
    laws: Mapping[str, Sequence[Law]],
    segments: Sequence[tuple[Split, float, float]],
    left: int,
    budget: int,
    highest: Split,
    *,
    known: Sequence[str] = "AB",
    measured: Mapping[str, float] | None = None,
    failed: Sequence[Split] = (),
) -> Decision:
    """What a chain decides after segments of 10 windows where the laws are all that is possible.

    Of a segment: split, seconds of a window, and what a change costs: preparing and collecting. Starting took 50 s more
    at each border, which is no cost of a change: whoever stays starts as well. ``known`` was measured before the
    chain, on its present ranks; ``measured`` are compute seconds in all segments.
    """
    present = segments[-1][0]
    earlier = {name: np.array([[present[name], mean_of_laws(laws[name], present[name]), np.nan]]) for name in known}
    limits = limits_of(tuple(laws), budget, Constraints(maximum=highest))
    done = [
        Segment(split, 10, window, dict(measured or {}), border_seconds=cost + 50.0, change_seconds=cost)
        for split, window, cost in segments
    ]
    question = DecisionProblem(Schedule.parallel(tuple(laws)), limits, left, 10, earlier, failed)
    learner: Any = ExactDraws(dict(laws), 0.01)
    with mock.patch("precice_lb.chain.decide.recommend_split", partial(recommend_split, learner=learner)):
        return decide(done, question)
