"""First guesses in what is learned from runs: planted predictors, costs and iterations are found again."""

from __future__ import annotations

import io
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from precice_xml_helpers import configuration, scheme
from store_helpers import START, row, write_store

from precice_lb.case import parse_configuration
from precice_lb.dataset import load_runs, measurements_from_runs, pooled_iterations
from precice_lb.export import export_merged
from precice_lb.recommend import Recommendation, load_sources, recommend_split
from precice_lb.report import console, rendered, summarise, summary_blocks, summary_dict
from precice_lb.schedule import Schedule

TEXT = configuration("AB", [scheme("serial-implicit", "AB", [("A", "B"), ("B", "A")])])
ELEMENT = r'(<(?:data:scalar|use-data|write-data|read-data|exchange) (?:name|data)=")(FromB"[^>]*>)'
PATCHED = re.sub(ELEMENT, r"\g<0>\n\1Guess-of-\2", TEXT)
WINDOWS = 41


def write_run(
    directory: Path, guess: str = "", *, start: int = START, ranks: tuple[int, int] = (1, 1), seconds: float = 1e-3
) -> None:
    """A serial-implicit run whose iterations take ``seconds`` in both: 9 for a window, 5 where ``reduced`` guesses.

    B guesses: ``hold`` up to window 11, then ``reduced`` with every fourth window for ``hold``. Its second rank takes
    twice as long to guess, 20 and 40 µs.
    """
    names = {w: "reduced" if guess and w > 11 and w % 4 else "hold" for w in range(1, WINDOWS + 1)}
    more: dict[str, Any] = {"guess": guess, "configuration": PATCHED} if guess else {"configuration": TEXT}
    more |= {"started_unix_ns": start, "seconds": 30.0, "warmup_windows": 1}
    calls = [
        row(w, seconds, seconds, seconds, iteration=i, complete=i == most)
        for w, name in names.items()
        for most in [5 if name == "reduced" else 9]
        for i in range(1, most + 1)
    ]
    for participant, size in zip("AB", ranks, strict=True):
        for rank in range(1, size + 1):
            guesses = [
                (w, name, rank * 20e-6, math.nan if name == "hold" else 0.1 * rank)
                for w, name in names.items()
                if guess and participant == "B"
            ]
            write_store(directory, calls, participant, rank - 1, size, guesses=guesses, **more)


def words(blocks: Any) -> str:
    stream = io.StringIO()
    console(stream).print(rendered(blocks))
    return " ".join(stream.getvalue().split())


# Of windows 2 to 41, after the warm-up: 40 µs of 22 windows of 10 ms and 18 of 18 ms.
FACT = (
    "first guess of B: reduced in 22 windows, 5 iterations; hold in 18 windows, 9 iterations; cost {} % of the window"
)


@pytest.mark.parametrize("merged", [False, True])
def test_planted_guesses_are_recovered(tmp_path: Path, merged: bool) -> None:
    write_run(tmp_path, "auto", ranks=(1, 2))
    if merged:
        assert len(export_merged([tmp_path], tmp_path / "merged")) == 2
    (run,) = summarise(load_runs([tmp_path / "merged" if merged else tmp_path]))
    label, text = FACT.format("0.29").split(": ")
    assert summary_dict(run)["facts"] == {label: text}
    assert FACT.format("0.29") in words(summary_blocks([run]))


def result_of(directory: Path, ranks: int) -> Recommendation:
    measurements = load_sources([directory])
    schedule = Schedule.from_config(parse_configuration(PATCHED), measurements.iterations, measurements.overhead)
    return recommend_split(measurements, ranks, coupling=schedule)


# Means over the windows after warm-up.
WITH, WITHOUT = (22 * 5 + 18 * 9) / 40, 9.0
MINUTE = 60 * 10**9


@pytest.mark.parametrize(("guesses", "used"), [(("", "auto"), WITH), (("auto", ""), WITHOUT)])
def test_iterations_are_those_of_the_newest_guess_and_seconds_of_all_runs(
    tmp_path: Path, guesses: tuple[str, str], used: float
) -> None:
    """Two runs of each kind, on 1 to 4 ranks, whose iterations take 8 ms of all of them in both participants."""
    for number, (ranks, guess) in enumerate(zip((1, 2, 3, 4), (guesses[0],) * 2 + (guesses[1],) * 2, strict=True)):
        write_run(
            tmp_path / str(ranks), guess, start=START + number * MINUTE, ranks=(ranks, ranks), seconds=8e-3 / ranks
        )
    runs = load_runs([tmp_path])
    assert len({run.case for run in runs}) == 1
    assert [run.guess for run in runs] == [guesses[0]] * 2 + [guesses[1]] * 2
    for given in (runs, runs[::-1]):
        table = measurements_from_runs(given)
        assert table.iterations == pytest.approx({"A": used, "B": used})
        each = {run.name: run.participants["A"].compute_per_iteration[5] for run in runs}
        expected = [(ranks, seconds * used) for ranks, seconds in zip((1, 2, 3, 4), each.values(), strict=True)]
        np.testing.assert_allclose(table.samples["A"], expected)
        # What the runs themselves measured is compared for as many iterations.
        measured = sorted((run.window_seconds["A"] for run in table.runs), reverse=True)
        np.testing.assert_allclose(measured, [2 * 8e-3 / ranks * used for ranks in (1, 2, 3, 4)], rtol=0.01)
    assert result_of(tmp_path, 8).to_dict()["measurements"]["iterations"] == pytest.approx({"A": used, "B": used})


def test_a_participant_without_newer_runs_keeps_its_iterations(tmp_path: Path) -> None:
    write_run(tmp_path / "1")
    write_run(tmp_path / "2", "auto", start=START + MINUTE)
    shutil.rmtree(tmp_path / "2" / "A-1")
    assert pooled_iterations(load_runs([tmp_path])) == pytest.approx({"A": WITHOUT, "B": WITH})
