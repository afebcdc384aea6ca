"""Runs with several first guesses side by side: what was planted is said, and noise is called noise."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike
from rich.console import Console

from precice_lb.calibrate.guess_compare import GuessComparison, GuessRun
from precice_lb.dataset.series import margin_of
from precice_lb.report.documents import json_text
from precice_lb.report.guess_try_view import comparison_blocks
from precice_lb.report.terminal import rendered
from precice_lb.report.text import visible

WINDOWS, WARMUP = 60, 10
# The first windows take more iterations, and a guess makes no difference to them.
PLAIN = np.array([12] * WARMUP + [6, 8, 7, 9, 8] * 10, dtype=float)


def run(
    predictor: str, iterations: ArrayLike, *, per_iteration: float = 0.1, noise: float = 0.0, **more: int
) -> GuessRun:
    counts = np.broadcast_to(np.asarray(iterations, dtype=float), WINDOWS)
    seconds = counts * per_iteration + noise * np.random.default_rng(len(predictor)).normal(size=WINDOWS)
    return GuessRun(predictor, Path(predictor), None, np.arange(1, WINDOWS + 1), counts, seconds, **more)


def saving(windows: float) -> np.ndarray:
    """The plain run's iterations, with so many fewer in each window after the warm-up."""
    return PLAIN - np.where(np.arange(WINDOWS) < WARMUP, 0.0, windows)


def failed(predictor: str) -> GuessRun:
    return GuessRun(predictor, Path(predictor), "Solid failed with exit code 3: FATAL: diverged")


def compared(*runs: GuessRun) -> GuessComparison:
    return GuessComparison(runs, WARMUP, Path("patched.xml"))


def texts(comparison: GuessComparison) -> list[tuple[str, ...]]:
    table = comparison_blocks(comparison, {"Fluid": 2, "Solid": 1})[0]
    return [table.header, *table.rows]


def test_the_planted_savings_are_in_the_table_and_the_largest_is_set() -> None:
    found = compared(
        run("none", PLAIN, not_converged=1),
        run("hold", PLAIN, not_converged=1),
        run("linear", saving(1.9), not_converged=0),
        failed("periodic"),
        run("reduced", saving(3.8)),
    )
    rows = texts(found)
    # 7.6 iterations after the warm-up, of which 1.9 are a quarter and 3.8 half.
    assert rows[1] == ("none", "7.60", "500", "–", "0.7600", "–", "1")
    assert rows[2] == ("hold", "7.60", "500", "+0.0 ± 0.0", "0.7600", "+0.0 ± 0.0", "1")
    assert rows[3] == ("linear", "5.70", "405", "-25.0 ± 0.0", "0.5700", "-25.0 ± 0.0", "0")
    assert rows[4] == ("periodic", "failed", *["–"] * 5)
    assert rows[5] == ("reduced", "3.80", "310", "-50.0 ± 0.0", "0.3800", "-50.0 ± 0.0", "–")
    assert comparison_blocks(found, {"Fluid": 1})[1].pairs == (
        ("periodic failed", "Solid failed with exit code 3: FATAL: diverged"),
    )
    assert found.recommended == "reduced"
    assert found.verdict.startswith("Set PRECICE_LB_GUESS=reduced for all participants, with patched.xml as their")
    screen = io.StringIO()
    Console(width=80, file=screen).print(rendered(comparison_blocks(found, {"Fluid": 2, "Solid": 1})))
    assert " ".join(rows[3]) in [" ".join(line.split()) for line in screen.getvalue().splitlines()]
    values = json.loads(json_text(found.to_dict()))
    assert values["recommended"] == "reduced"
    assert [each["predictor"] for each in values["runs"]] == ["none", "hold", "linear", "periodic", "reduced"]
    assert values["runs"][4]["iterations_change"] == {"mean": pytest.approx(-0.5), "margin": pytest.approx(0, abs=1e-9)}
    assert values["runs"][3]["iterations_per_window"] is None


def test_auto_is_preferred_where_it_is_as_good_but_for_noise() -> None:
    rough = saving(3.7) + np.random.default_rng(1).permutation(np.tile([1.0, -1.0, 0.0, 2.0, -2.0], WINDOWS // 5))
    assert compared(run("none", PLAIN), run("reduced", saving(3.8)), run("auto", rough)).recommended == "auto"
    assert compared(run("none", PLAIN), run("reduced", saving(3.8)), run("auto", saving(1))).recommended == "reduced"


def test_what_differs_by_chance_alone_does_not_pay() -> None:
    generator = np.random.default_rng(5)
    chosen = []
    for _ in range(400):
        noisy = [
            run(name, generator.poisson(8, WINDOWS)) for name in ("none", "linear", "quadratic", "reduced", "auto")
        ]
        chosen.append(compared(*noisy).recommended is not None)
    # One of four in 5 % of the cases, half of these on the side that would pay.
    assert np.mean(chosen) < 0.06
    noisy = [run("none", PLAIN), run("linear", PLAIN + generator.choice([-2.0, -1.0, 0.0, 1.0, 2.0], WINDOWS) - 0.01)]
    assert compared(*noisy).recommended is None


def test_what_needs_more_iterations_is_said() -> None:
    verdict = compared(run("none", PLAIN), run("linear", PLAIN + 1), run("reduced", PLAIN + 2)).verdict
    assert verdict == (
        "No first guess pays: the best, linear, needs +13.2 % ± 0.0 % iterations per window; leave PRECICE_LB_GUESS "
        "unset."
    )


def test_a_guess_is_not_set_where_more_windows_do_not_converge() -> None:
    worse = [run("none", PLAIN, not_converged=0), run("linear", saving(4), not_converged=3)]
    assert "more windows end without convergence" in compared(*worse).verdict
    found = compared(*worse, run("quadratic", saving(1), not_converged=0))
    assert found.recommended == "quadratic"


def test_iterations_alone_are_not_enough() -> None:
    slow = compared(run("none", PLAIN), run("reduced", saving(2), per_iteration=0.2))
    assert slow.recommended is None
    assert "its windows take longer" in slow.verdict
    noisy = compared(run("none", PLAIN), run("reduced", saving(1), noise=3.0))
    assert noisy.recommended is None
    assert "within the noise of the windows" in noisy.verdict


def test_what_the_machine_did_to_the_last_value_is_noise() -> None:
    slower = run("none", PLAIN, per_iteration=0.2)
    found = compared(slower, run("hold", PLAIN), run("linear", PLAIN - 0.5))
    assert found.recommended == "linear"
    found = compared(slower, run("hold", PLAIN, per_iteration=0.08), run("linear", PLAIN - 0.5))
    assert found.recommended is None
    assert "seconds -53.3 % ± 60.0 % against none" in found.verdict
    assert compared(slower, run("linear", PLAIN - 0.5)).recommended == "linear"


def test_the_last_value_is_no_merit_of_a_guess() -> None:
    found = compared(run("none", PLAIN), run("hold", saving(2)))
    assert found.recommended is None
    assert "only the last value was tried" in found.verdict


def test_nothing_is_said_without_the_plain_run_or_with_too_few_windows() -> None:
    assert "nothing to compare" in compared(failed("none"), run("linear", PLAIN)).verdict
    assert "No run with a first guess ended well" in compared(run("none", PLAIN), failed("linear")).verdict
    few = GuessComparison([run("none", PLAIN), run("linear", saving(3))], WINDOWS - 5, Path("patched.xml"))
    assert few.recommended is None
    assert "5 windows after warm-up" in few.verdict
    assert texts(few)[2][3].endswith("± unknown")

    assert json.loads(json_text(few.to_dict()))["runs"][1]["iterations_change"]["margin"] is None


def test_other_load_is_a_warning() -> None:
    blocks = comparison_blocks(compared(run("none", PLAIN), run("linear", PLAIN, other_load=1)), {"A": 1})
    assert [visible(each.text) for each in blocks[1:] if each.role == "warning"] == [
        "other programs kept cores busy during the runs with linear, whose seconds may show that"
    ]


@pytest.mark.parametrize(("alike", "least"), [(0.0, 0.93), (0.6, 0.86)])
def test_margins_hold_as_often_as_they_say(alike: float, least: float) -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        values = generator.normal(size=60)
        for at in range(1, 60):
            values[at] = alike * values[at - 1] + np.sqrt(1 - alike**2) * values[at]
        covered += abs(values.mean()) <= margin_of(values, 0.05)
    assert least < covered / 1000 < 0.97
    assert margin_of(np.zeros(7), 0.05) == np.inf
