"""The summary of recorded runs: planted seconds, shares, waits, losses and iterations, in all formats."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare_helpers import run_of
from report_helpers import configuration
from store_helpers import PARALLEL, metadata, row, rows, write_store

from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.dataset.records import CoupledTime, load_imbalance
from precice_lb.report import QUANTITIES, RunSummary, console, rendered, summarise, summary_blocks, summary_dict
from precice_lb.report.summary import ParticipantSummary
from precice_lb.store import SECTIONS, StoreWriter
from precice_lb.text import json_text


def screen(view: object) -> str:
    stream = io.StringIO()
    console(stream).print(view)
    return stream.getvalue()


def in_one_line(run: RunSummary, **more: bool) -> str:
    return " ".join(screen(rendered(summary_blocks([run], **more))).split())


def told(directory: Path, **more: int) -> str:
    """What the summary of one run says, in one line."""
    (run,) = summarise(load_runs([directory], **more))
    return in_one_line(run)


def plant(directory: Path) -> None:
    """Inner on three ranks that work for 0.3, 0.1 and 0.2 s, Outer on one that works for 0.1 s, in windows of 0.4 s."""
    text = configuration()
    for rank, solve in enumerate((0.3, 0.1, 0.2)):
        wait = 0.35 - solve
        rows = [row(1, 9.0, 9.0, 0.0)] + [row(w, solve, wait + 0.05, wait, 0.02) for w in (2, 3)]
        write_store(directory, rows, "Inner", rank, 3, configuration=text)
    write_store(directory, [row(w, 0.1, 0.3, 0.29, 0.0) for w in (1, 2, 3)], "Outer", configuration=text)


def test_planted_times_ranks_and_imbalances_are_recovered(tmp_path: Path) -> None:
    plant(tmp_path)
    (run,) = summarise(load_runs([tmp_path]))
    inner = run.participants[0]
    assert (inner.participant, inner.ranks, inner.windows) == ("Inner", 3, 2)
    solve = inner.quantities["solve"]
    assert (solve.slowest_rank, solve.fastest_rank) == (0, 1)
    assert (solve.mean_seconds, solve.slowest_seconds, solve.fastest_seconds) == pytest.approx((0.2, 0.3, 0.1))
    assert inner.quantities["mapping"].mean_seconds == pytest.approx(0.02)
    assert inner.quantities["overhead"].mean_seconds == pytest.approx(0.03)
    assert solve.share == pytest.approx(0.2 / 0.4)
    assert inner.imbalance == pytest.approx(0.2 / 0.35)
    # The least wait of a rank is the transfer; Outer waits 0.29 s, so that with it it works 0.16 s of its 0.4 s.
    assert run.run.imbalance == pytest.approx((0.4 - 0.16) / 0.4)


def test_profiling_sections_of_solvers_are_means_per_window_and_iteration(tmp_path: Path) -> None:
    for rank in range(2):
        writer = StoreWriter(tmp_path, metadata("A", rank, 2), PARALLEL)
        calls = rows([row(1, 9.0, 1.0, 1.0), *(row(w, 0.5, 0.5, 0.1, iteration=i) for w in (2, 3) for i in (1, 2))])
        calls["window_complete"] = [True, False, True, False, True]
        # In the warm-up, which counts nowhere, and in the first iteration of the two windows after it.
        sections = [
            (0, 1, 0, 8 * 10**9),
            *((0, w, w, (rank + 1) * 10**8) for w in (2, 3)),
            *[(1, 3, 9, 10**8)] * (1 - rank),
        ]
        names = {"sections": ["assembly", "rank 0 alone"][: 2 - rank]}
        writer.append(calls, names, sections=np.array(sections, dtype=SECTIONS.dtype))
        writer.close(finished=True, ended_unix_ns=metadata("A")["started_unix_ns"] + 10**10)
    (run,) = summarise(load_runs([tmp_path], warmup=1))
    (part,) = run.participants
    assert list(part.sections) == ["assembly", "rank 0 alone"]
    np.testing.assert_allclose(part.part.rank_sections["assembly"], [0.1, 0.2])
    np.testing.assert_allclose(part.part.rank_sections["rank 0 alone"], [0.05, np.nan])
    assembly = part.sections["assembly"]
    assert (assembly.slowest_rank, assembly.share) == (1, pytest.approx(0.15 / 2.0))
    shown = screen(rendered(summary_blocks([run])))
    assert re.search(r"^assembly +0\.1500 +0\.0750 +7\.5 % +0\.2000 \(#1\)$", shown, re.MULTILINE)


def test_every_rank_is_in_json(tmp_path: Path) -> None:
    plant(tmp_path)
    (run,) = summarise(load_runs([tmp_path]))
    values = json.loads(json_text(summary_dict(run, per_rank=True)))
    ranks = values["participants"]["Inner"]["per_rank"]
    assert [rank["solve_seconds"] for rank in ranks] == pytest.approx([0.3, 0.1, 0.2])
    for rank in ranks:
        assert sum(rank[f"{name}_seconds"] for name in QUANTITIES) == pytest.approx(0.4)
        assert rank["solve_share"] == pytest.approx(rank["solve_seconds"] / 0.4)
    assert values["core_hours_lost_per_hour"]["waiting_for_partners"] == pytest.approx(0.6)
    assert "per_rank" not in summary_dict(run)["participants"]["Inner"]


def test_what_was_not_measured_says_why_and_what_to_set(tmp_path: Path) -> None:
    rows = [row(w, 0.1, 0.2, None, None) for w in (1, 2, 3)]  # type: ignore[arg-type]
    why = 'expected preCICE\'s profiling file of this rank, found none; set <profiling mode="fundamental"/>'
    for rank in range(3):
        problem = {"timing_problem": f"/case/Inner-{rank}-3.txt: {why}"} if rank else {}
        write_store(tmp_path, rows, "Inner", rank, 3, backend="libprecice", configuration=configuration(), **problem)
    (run,) = summarise(load_runs([tmp_path]))
    assert run.participants[0].not_measured == ("mapping", "partner_wait", "own_rank_wait", "overhead")
    shown = screen(rendered(summary_blocks([run])))
    assert shown.count("not measured") == 6
    assert f"/case/Inner-*-3.txt: {why} (2 of 3 ranks)" in " ".join(shown.split())
    values = summary_dict(run)["participants"]["Inner"]
    assert values["partner_wait"]["mean_seconds"] is None
    assert values["timing_problems"] == [{"problem": f"/case/Inner-*-3.txt: {why}", "ranks": 2}]
    assert values["solve"]["mean_seconds"] == pytest.approx(0.1)
    assert summary_dict(run)["core_hours_lost_per_hour"]["waiting_for_partners"] is None


def test_runs_that_were_not_joined_with_profiling_files_are_told_so(tmp_path: Path) -> None:
    write_store(tmp_path, [row(w, 0.1, 0.2, None, None) for w in (1, 2)], backend="libprecice")  # type: ignore[arg-type]
    assert "not joined with preCICE's profiling files" in told(tmp_path)


def test_waits_measured_in_some_windows_only_are_used_and_said_so(tmp_path: Path) -> None:
    rows = [row(w, 0.1, 0.2, 0.15, 0.0) for w in (1, 2, 3)] + [row(4, 0.1, 0.2, None, None)]  # type: ignore[arg-type]
    write_store(tmp_path, rows, "Inner", timing_source="precice-profiling fundamental", configuration=configuration())
    (run,) = summarise(load_runs([tmp_path]))
    assert run.participants[0].quantities["partner_wait"].mean_seconds == pytest.approx(0.15)
    assert "wait of Inner: measured in 2 of 3 time windows" in in_one_line(run)


def test_ranks_that_receive_nothing_do_not_count_as_busy(tmp_path: Path) -> None:
    for rank, (solve, wait) in enumerate(((0.1, 0.2), (0.09, 0.21), (0.3, 0.0))):
        write_store(tmp_path, [row(w, solve, wait, wait) for w in (1, 2, 3)], "Inner", rank, 3)
    (run,) = summarise(load_runs([tmp_path]))
    part = run.participants[0]
    assert part.ranks_waiting_in_the_solver == (2,)
    assert part.imbalance == pytest.approx(0.1)
    assert part.quantities["solve"].slowest_rank == 0
    assert part.quantities["solve"].mean_seconds == pytest.approx(0.095)
    assert np.isnan(part.rank_seconds["own_rank_wait"][2])
    shown = in_one_line(run, per_rank=True)
    assert "rank 2 without received data" in shown
    assert "2* 0.30000" in shown
    assert "0.03 to waiting for slower own ranks" in shown


def test_times_are_means_that_add_up_whatever_single_windows_do(tmp_path: Path) -> None:
    """Nothing is above the window, and work and wait sum to it, also where windows are far from even."""
    text = configuration()
    solves = [9.0, *([0.1] * 12), 0.9, *([0.1] * 11)]
    rows = [row(w, solve, 0.1, 0.05) for w, solve in enumerate(solves, start=1)]
    twin = [row(w, 0.05, solve + 0.05, solve + 0.02) for w, solve in enumerate(solves, start=1)]
    write_store(tmp_path, rows, "Inner", configuration=text)
    write_store(tmp_path, twin, "Outer", configuration=text)
    (run,) = summarise(load_runs([tmp_path]))
    inner = run.participants[0]
    assert inner.quantities["solve"].mean_seconds == pytest.approx(np.mean(solves[1:]))
    assert inner.compute_seconds > inner.quantities["solve"].mean_seconds
    for part in run.participants:
        assert sum(each.share for each in part.quantities.values()) == pytest.approx(1.0)
        # The transfer floor, the least wait, counts as work too.
        assert part.compute_seconds + part.wait_seconds == pytest.approx(part.window_seconds + 0.05)


def test_windows_without_a_known_wait_count_nowhere(tmp_path: Path) -> None:
    """Where the end of a profiling file is lost, a growing solve came to more than the windows that are known."""
    rows = [row(w, 0.1, 0.2, 0.15, 0.0) for w in (1, 2, 3)] + [row(4, 9.0, 0.2, None, None)]  # type: ignore[arg-type]
    write_store(tmp_path, rows, "Inner", configuration=configuration())
    (run,) = summarise(load_runs([tmp_path], warmup=1))
    solve = run.participants[0].quantities["solve"]
    assert (solve.mean_seconds, solve.share) == (pytest.approx(0.1), pytest.approx(1 / 3))


@pytest.mark.parametrize("known", [False, True])
def test_ranks_that_wait_for_each_other_inside_solve(tmp_path: Path, known: bool) -> None:
    """Both ranks solve for 0.4 s, of which rank 0 waits 0.1 s and rank 1 0.3 s; rank 1 receives nothing."""
    for rank, inside in enumerate((0.1, 0.3)):
        write_store(
            tmp_path, [row(w, 0.4, 0.05, 0.05 if rank == 0 else 0.0, 0.0) for w in (1, 2, 3)], "A", rank, 2,
            mpi=[(w, part) for w in (1, 2, 3) for part in (inside - 0.02, 0.02)] if known else [],
            counts={"porous": 7 * rank, "fluid": 2.5}, python_version="3.11", receives_data=rank == 0,
        )  # fmt: skip
    (run,) = load_runs([tmp_path])
    assert load_imbalance(run.participants["A"].rank_working) == pytest.approx(2 / 3 if known else 0.0)
    (run,) = summarise([run])
    shown = in_one_line(run, per_rank=True)
    if known:
        # Overhead and mapping are busy time too: 0.3 s beside 0.15 s.
        assert run.participants[0].imbalance == pytest.approx(0.5)
        expected = "75.0 % without time in MPI (ranks wait for each other inside solve: 0.20000 s in the mean)"
        assert f"load balance inside A: {expected}" in shown
    else:
        assert "without received data" in shown
    part = json.loads(json_text(summary_dict(run, per_rank=True)))["participants"]["A"]
    assert part["imbalance_without_time_in_mpi"] is known
    assert part["counts_per_rank"] == {"porous": [0, 7], "fluid": [2.5, 2.5]}
    inside = [each["mpi_seconds"] for each in part["per_rank"]]
    assert inside == (pytest.approx([0.1, 0.3]) if known else [None, None])
    assert [each["interface_vertices"] for each in part["per_rank"]] == [None, None]


# --- single quantities, of runs in memory ---------------------------------------------------------------------------


def summary_of(run: CoupledRun, **changes: Any) -> ParticipantSummary:
    """Sum up A after some of its arrays were changed."""
    part = dataclasses.replace(run.participants["A"], **changes)
    (summary,) = summarise([dataclasses.replace(run, participants={**run.participants, "A": part})])
    return summary.participants[0]


def test_a_participant_is_faster_than_the_slowest_by_a_share_of_its_compute_time() -> None:
    (summary,) = summarise([run_of("one", {"A": 0.1, "B": 0.4})])

    assert [part.faster_than_slowest for part in summary.participants] == pytest.approx([0.75, 0.0])


def test_participants_that_cannot_be_compared_are_not_faster_than_others() -> None:
    run = dataclasses.replace(run_of("one", {"A": 0.1, "B": 0.4}), time=CoupledTime(problem="windows are not alike"))

    (summary,) = summarise([run])

    assert np.isnan([part.faster_than_slowest for part in summary.participants]).tolist() == [True, True]


def test_hidden_waits_are_those_of_ranks_that_receive_data() -> None:
    run = run_of("one", {"A": 0.1, "B": 0.4}, ranks={"A": 3, "B": 1})

    part = summary_of(run, rank_hidden=np.array([0.01, 0.03, 0.2]), receiving=np.array([True, True, False]))

    assert part.hidden_wait_seconds == pytest.approx(0.02)


def test_iterations_that_no_window_after_warm_up_had_are_left_out() -> None:
    part = summary_of(
        run_of("one", {"A": 0.1, "B": 0.4}),
        iteration_windows=np.array([12, 5, 0]),
        iteration_compute=np.array([0.06, 0.04, np.nan]),
        iteration_wait=np.array([0.2, 0.1, np.nan]),
    )

    assert part.iterations["each"] == [
        {"iteration": 1, "windows": 12, "compute_seconds": 0.06, "wait_seconds": 0.2},
        {"iteration": 2, "windows": 5, "compute_seconds": 0.04, "wait_seconds": 0.1},
    ]


def test_where_the_wait_of_a_participant_is_not_known_neither_is_that_of_its_ranks() -> None:
    run = run_of("one", {"A": 0.1, "B": 0.4})

    part = summary_of(run, wait_seconds=np.full(13, np.nan), rank_wait=np.array([0.2]))

    assert "partner_wait" in part.not_measured
    assert "own_rank_wait" in part.not_measured


def test_missing_ranks_are_why_participants_are_not_compared_and_no_remark_beside_it(tmp_path: Path) -> None:
    plant(tmp_path)
    next(tmp_path.rglob("Inner-2-3.h5")).unlink()

    (run,) = summarise(load_runs([tmp_path]))

    assert run.remarks == {}
    shown = in_one_line(run)
    assert "its participants are not compared: there are 2 of 3 ranks of Inner (without rank 2)" in shown
    assert "missing ranks:" not in shown


def test_vertices_of_ranks_are_in_json() -> None:
    run = run_of("one", {"A": 0.1, "B": 0.4}, ranks={"A": 2, "B": 1})
    part = dataclasses.replace(run.participants["A"], rank_vertices=np.array([7.0, 0.0]))
    run = dataclasses.replace(run, participants={**run.participants, "A": part})

    (summary,) = summarise([run])

    ranks = summary_dict(summary, per_rank=True)["participants"]["A"]["per_rank"]
    assert [rank["interface_vertices"] for rank in ranks] == [7, 0]
