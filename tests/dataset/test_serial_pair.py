"""Two participants of a serial scheme: their work sums to the window, also where they share a core."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from precice_xml_helpers import configuration, scheme
from store_helpers import row, write_store

from precice_lb.check import check_runs
from precice_lb.dataset import CoupledRun, load_runs
from precice_lb.report import summarise, summary_dict

SERIAL = configuration("AB", [scheme("serial-explicit", "AB", [("A", "B"), ("B", "A")])])
A, B, TRANSFER = 0.03, 0.05, 0.002


def recorded(directory: Path, hidden: float, windows: int = 40) -> CoupledRun:
    """Stores of A and B, of whose waits ``hidden`` seconds each lie in the sending part of ``advance``."""
    noise = 1 + 0.01 * np.random.default_rng(3).standard_normal((2, windows + 1))
    for name, own, other, first in (("A", A * noise[0], B * noise[1], False), ("B", B * noise[1], A * noise[0], True)):
        rows = []
        for window in range(windows):
            # B waits for the work of A's next window.
            wait = other[window + 1 if first else window] + 2 * TRANSFER
            rows.append(row(window + 1, own[window], wait, wait - hidden))
        write_store(directory, rows, name, configuration=SERIAL)
    (run,) = load_runs([directory])
    return run


@pytest.mark.parametrize("hidden", [0.0, 0.01])
def test_hidden_waits_count_as_waits_in_check_and_summary(tmp_path: Path, hidden: float) -> None:
    run = recorded(tmp_path, hidden)
    findings = check_runs([run]).findings
    assert [finding.kind for finding in findings] == (["shared cores"] * 2 if hidden else [])
    for part in run.participants.values():
        assert part.hidden_wait == pytest.approx(hidden, abs=2.2 * TRANSFER)
    for finding in findings:
        # As a share of the compute seconds.
        part = run.participants[finding.participant]
        compute = float(np.median(part.compute_seconds[run.steady(finding.participant)]))
        assert finding.size == pytest.approx(part.hidden_wait / compute)
    (summary,) = summarise([run])
    for part in summary.participants:
        assert sum(quantity.share for quantity in part.quantities.values()) == pytest.approx(1.0)
        assert part.quantities["overhead"].mean_seconds == pytest.approx(0.0, abs=1.1 * TRANSFER)
        assert part.compute_seconds + part.wait_seconds == pytest.approx(part.window_seconds, abs=1.1 * TRANSFER)
        # As much as the events show as sending, less a transfer that is no wait.
        assert part.hidden_wait_seconds == pytest.approx(hidden, abs=2.2 * TRANSFER)
        (rank,) = summary_dict(summary, per_rank=True)["participants"][part.participant]["per_rank"]
        assert rank["hidden_wait_seconds"] == part.hidden_wait_seconds


@pytest.mark.parametrize(
    ("cpus", "oversubscription"), [("0-1", ""), ("3", "2 ranks or threads of A and B shared 1 core of host")]
)
def test_as_many_cores_as_ranks_are_enough(cpus: str, oversubscription: str, tmp_path: Path) -> None:
    for name in "AB":
        write_store(tmp_path, [row(1, 1.0, 0.1, 0.1)], name, configuration=SERIAL, cpus=cpus, hostname="host")
    (run,) = load_runs([tmp_path], warmup=0)
    assert run.oversubscription == oversubscription


def test_the_wait_for_an_iteration_whose_end_is_lost_is_left_out(tmp_path: Path) -> None:
    """Of the second participant it was counted although that window was not, so that shares came to 102 %."""
    for name, own, other in (("A", 0.03, 0.05), ("B", 0.05, 0.03)):
        rows = [row(w, own, other + 0.004, other + 0.004, 0.0) for w in range(1, 9)]
        # A long wait before the window of which the profiling file has nothing any more.
        rows += [row(9, own, 3.0, 3.0, 0.0), row(10, own, 0.05, None, None)]  # type: ignore[arg-type]
        write_store(tmp_path, rows, name, configuration=SERIAL)
    for part in summarise(load_runs([tmp_path], warmup=1))[0].participants:
        assert sum(each.share for each in part.quantities.values()) == pytest.approx(1.0)
        assert part.wait_seconds <= part.window_seconds


@pytest.mark.parametrize(
    ("windows", "finished", "waits"),
    [
        # Each wait is for the window after: of a killed run the last is for one that is lost.
        (range(1, 6), False, [0.5, 0.01, 0.02, 0.03, 0.04]),
        (range(1, 6), True, [0.5, 0.01, 0.02, 0.03, 0.09]),
        # Waits stay where they were recorded if the first windows are lost.
        (range(3, 7), True, [0.03, 0.04, 0.05, 0.06]),
    ],
)
def test_waits_of_the_second_participant_count_for_the_window_after(
    windows: range, finished: bool, waits: list[float], tmp_path: Path
) -> None:
    rows = [row(w, 0.1, 0.1, 0.01 * w) for w in windows]
    write_store(tmp_path, rows, "B", configuration=SERIAL, initialize_wait=0.5, finished=finished)
    (run,) = load_runs([tmp_path], warmup=0)
    np.testing.assert_allclose(run.participants["B"].wait_seconds, waits)


def test_no_more_than_the_overhead_can_hide_a_wait(tmp_path: Path) -> None:
    for name, solve in (("A", 0.1), ("B", 0.5)):
        write_store(tmp_path, [row(w, solve, 0.11, 0.10) for w in range(1, 21)], name, configuration=SERIAL)
    (run,) = load_runs([tmp_path])
    assert [part.hidden_wait for part in run.participants.values()] == pytest.approx([0.01, 0.01])
    assert run.participants["B"].rank_overhead.min() >= 0
