"""What is said of a snapshot: its table, residuals, and sentences."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from precice_lb.dataset.series import Drift
from precice_lb.report import Paragraph, Table
from precice_lb.watch import Snapshot, watch_blocks
from precice_lb.watch.convergence import Convergence, Residual
from precice_lb.watch.snapshot import ParticipantState, Rebalance

NO_CHANGE = Drift(0.0, 0.0)

INNER = ParticipantState(
    participant="Inner",
    ranks=4,
    ranks_seen=4,
    state="running",
    windows=31,
    window_seconds=0.25,
    compute_seconds=0.2,
    wait_seconds=0.05,
    wait_share=0.2,
    wait_share_so_far=0.3,
    drift=NO_CHANGE,
    shift=NO_CHANGE,
    problems={},
)
OUTER = dataclasses.replace(INNER, participant="Outer", ranks=2, threads=3, ranks_seen=1, state="ended")
COUPLING = Convergence(
    participants=("Inner", "Outer"),
    participant="Outer",
    windows=31,
    iterations_latest=5.5,
    iterations=7.0,
    max_iterations=40,
    not_converged=0,
    acceleration={"QNColumns": 12},
    window=32,
    iteration=3,
    residuals=(
        Residual("relative", "Heat", "Outer-Mesh", 0.00125, 1e-5),
        Residual("absolute-or-relative", "Flux", "Inner-Mesh", None, 2e-3),
    ),
)
REBALANCE = Rebalance(
    split={"Inner": 3, "Outer": 3},
    present={"Inner": 4, "Outer": 2},
    window_seconds=0.2,
    present_seconds=0.25,
    interval=(0.18, 0.22),
    gain=0.2,
    probability=0.9,
    restart_seconds=60.0,
    windows_to_pay=1200.0,
    basis="this run alone, at one split",
    warnings=("Outer was never measured.",),
)


def snapshot_of(*participants: ParticipantState, **changes: Any) -> Snapshot:
    """Return a snapshot of a run of 31 of 100 time windows."""
    snapshot = Snapshot(
        run="pulse",
        unix_seconds=0.0,
        participants=participants or (INNER, OUTER),
        windows=31,
        windows_left=69,
        window_seconds=0.25,
        waiting=0.25,
        convergence=(),
        latest=8,
        rebalance=None,
    )
    return dataclasses.replace(snapshot, **changes)


def tables_of(snapshot: Snapshot) -> list[Table]:
    return [block for block in watch_blocks(snapshot) if isinstance(block, Table)]


def sentences_of(snapshot: Snapshot, role: str) -> list[str]:
    return [block.text for block in watch_blocks(snapshot) if isinstance(block, Paragraph) and block.role == role]


def test_the_table_has_seconds_waits_and_load_of_each_participant() -> None:
    rising = dataclasses.replace(OUTER, shift=Drift(0.5, 4.0), drift=Drift(0.2, 1.0))

    (table,) = tables_of(snapshot_of(INNER, rising))

    assert table.title == "Run pulse: window 31 of 100, 0.2500 s each, 25 % of all core time waits for partners"
    assert table.header == ("participant", "ranks", "wall (s)", "compute (s)", "waits", "so far", "load")
    assert table.rows == (
        ("Inner", "4", "0.2500", "0.2000", "20 %", "30 %", "steady"),
        ("Outer (ended)", "1 of 2 x 3 threads", "0.2500", "0.2000", "20 %", "30 %", "+50 %"),
    )


def test_a_load_that_is_not_known_is_a_dash() -> None:
    unknown = Drift(math.nan, math.nan)

    (table,) = tables_of(snapshot_of(dataclasses.replace(INNER, drift=unknown, shift=unknown), windows_left=None))

    assert table.rows[0][-1] == "–"
    assert table.title.startswith("Run pulse: window 31, ")


@pytest.mark.parametrize(
    ("shift", "drift", "load", "sentences"),
    [
        # What chance gives once in a thousand times, or is 5 % or less, does not count.
        (Drift(0.5, 3.2), Drift(0.5, -3.2), "steady", []),
        (Drift(0.05, 9.0), Drift(-0.05, -9.0), "steady", []),
        (
            Drift(0.1, 3.5),
            Drift(0.06, 9.0),
            "+10 %",
            [
                "The load of Inner has grown by 10 % in the latest 8 windows against those before "
                "(3.5 standard deviations)."
            ],
        ),
        (
            Drift(0.1, 3.5),
            Drift(-0.3, -9.0),
            "-30 %",
            ["The load of Inner has fallen by 30 % of its median so far (9.0 standard deviations)."],
        ),
    ],
)
def test_the_larger_change_of_load_is_told_if_chance_hardly_gives_it(
    shift: Drift, drift: Drift, load: str, sentences: list[str]
) -> None:
    snapshot = snapshot_of(dataclasses.replace(INNER, shift=shift, drift=drift), OUTER)

    assert tables_of(snapshot)[0].rows[0][-1] == load
    assert sentences_of(snapshot, "warning") == sentences
    assert snapshot.measures["drift"] == pytest.approx(0.0 if load == "steady" else abs(float(load[:-2])) / 100)


def test_residuals_are_told_beside_their_limits() -> None:
    _, table = tables_of(snapshot_of(convergence=(COUPLING,)))

    assert table.title == "Convergence of Inner and Outer: window 32, iteration 3 of at most 40"
    assert table.header == ("data", "mesh", "measure", "residual", "limit")
    assert table.rows == (
        ("Heat", "Outer-Mesh", "relative", "1.25e-03", "1e-05"),
        ("Flux", "Inner-Mesh", "absolute-or-relative", "–", "0.002"),
    )


def test_a_coupling_without_residuals_has_no_table() -> None:
    snapshot = snapshot_of(convergence=(dataclasses.replace(COUPLING, residuals=()),))

    assert len(tables_of(snapshot)) == 1


@pytest.mark.parametrize(
    ("changes", "role", "end"),
    [
        ({}, "plain", ", 40 at most); all windows converged. QNColumns 12."),
        ({"not_converged": 3}, "warning", ", 40 at most); 3 of 31 windows did not converge. QNColumns 12."),
        ({"not_converged": None, "max_iterations": None, "acceleration": {}}, "plain", ")."),
    ],
)
def test_iterations_are_told_with_the_windows_that_did_not_converge(
    changes: dict[str, Any], role: str, end: str
) -> None:
    snapshot = snapshot_of(convergence=(dataclasses.replace(COUPLING, **changes),))

    text = "Inner and Outer: 5.5 iterations per time window (median of the latest 8; 7 over the run"
    assert sentences_of(snapshot, role) == [text + end]


def test_another_split_is_told_with_what_it_rests_on_and_what_speaks_against_it() -> None:
    snapshot = snapshot_of(rebalance=REBALANCE)

    assert sentences_of(snapshot, "lead") == [
        "Inner 3 ranks and Outer 3 ranks would take 0.2000 s per window instead of 0.2500 s: 20 % shorter, with a "
        "probability of 90 %.",
        "A restart of 60 s pays after 1200 more windows; 69 are left.",
    ]
    assert sentences_of(snapshot, "plain") == ["Judged from this run alone, at one split."]
    assert sentences_of(snapshot, "warning") == ["Outer was never measured."]


@pytest.mark.parametrize(
    ("changes", "windows_left", "sentences"),
    [
        ({"windows_to_pay": 1.0}, None, ["A restart of 60 s pays after 1 more window."]),
        ({"windows_to_pay": math.inf}, 69, ["A restart of 60 s never pays."]),
        # Where nobody says what a restart costs.
        ({"windows_to_pay": math.nan, "restart_seconds": math.nan}, 69, []),
    ],
)
def test_a_restart_is_told_with_the_windows_after_which_it_has_paid(
    changes: dict[str, Any], windows_left: int | None, sentences: list[str]
) -> None:
    snapshot = snapshot_of(rebalance=dataclasses.replace(REBALANCE, **changes), windows_left=windows_left)

    assert sentences_of(snapshot, "lead")[1:] == sentences


def test_the_present_split_may_be_the_best_one() -> None:
    snapshot = snapshot_of(rebalance=dataclasses.replace(REBALANCE, split={"Inner": 4, "Outer": 2}))

    assert sentences_of(snapshot, "lead") == ["The present split is the best one known for 6 ranks."]


def test_warnings_say_who_stopped_and_what_was_not_measured() -> None:
    stopped = dataclasses.replace(INNER, state="stopped", problems={"no profiling file": 4})

    snapshot = snapshot_of(stopped, OUTER, notes=("a file could not be read",))

    assert sentences_of(snapshot, "warning") == [
        "Inner stopped before the coupling ended: killed, or failed.",
        "Inner: no profiling file",
        "a file could not be read",
    ]


def test_measures_are_those_of_another_split_of_waiting_and_of_the_load_that_changed_most() -> None:
    falling = dataclasses.replace(INNER, shift=Drift(-0.4, -5.0))
    rising = dataclasses.replace(OUTER, shift=Drift(0.3, 5.0))

    assert snapshot_of(falling, rising, rebalance=REBALANCE).measures == {"gain": 0.2, "waiting": 0.25, "drift": 0.4}
    unknown = snapshot_of(waiting=math.nan).to_dict()["measures"]
    assert unknown == {"gain": None, "waiting": None, "drift": 0.0}


@pytest.mark.parametrize(
    ("states", "is_running"), [("running ended", True), ("ended running", True), ("ended stopped", False)]
)
def test_a_run_goes_on_while_one_participant_does(states: str, is_running: bool) -> None:
    participants = [dataclasses.replace(INNER, state=state) for state in states.split()]

    assert snapshot_of(*participants).is_running == is_running
