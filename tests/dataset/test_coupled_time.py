"""Participants are compared per coupled time: windows of unlike size, iterations of partners, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from profiling_helpers import report, summed_up
from report_helpers import refused
from store_helpers import rows, write_store

from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import import_profiling
from precice_lb.report import summarise


def test_windows_of_unlike_size_are_compared_by_coupled_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = report(tmp_path, "unlike-window-sizes")
    run = summed_up(capsys, source, "--warmup", 1)
    assert run["seconds_per"] == "4 of coupled time"
    for name, seconds, windows in (("Left", 0.20, 20), ("Right", 0.16, 5), ("Center", 0.13, 20)):
        part = run["participants"][name]
        assert part["compute_seconds"] == pytest.approx(seconds, abs=0.01)
        # One period of warm-up: four windows of Left and Center, one of Right.
        assert part["windows"] == windows
        assert part["window_seconds"] == pytest.approx(0.206, abs=0.004)
    assert run["imbalance"] == pytest.approx(0.4, abs=0.03)
    assert run["participants"]["Left"]["faster_than_slowest"] == 0
    # Warm-up that is found is coupled time too.
    assert all(part["windows"] > 0 for part in summed_up(capsys, source)["participants"].values())


def test_recorded_runs_are_compared_by_coupled_time_too(tmp_path: Path) -> None:
    text = (report(tmp_path, "unlike-window-sizes") / "precice-config.xml").read_text()
    _plant(tmp_path / "store", text, {"Left": (1, 24), "Center": (1, 24), "Right": (4, 6)})
    (run,) = load_runs([tmp_path / "store"], warmup=1)
    assert run.imbalance == pytest.approx(0.75)
    (summary,) = summarise([run])
    assert {part.participant: part.windows for part in summary.participants} == {"Center": 20, "Left": 20, "Right": 5}


def test_unlike_windows_without_a_configuration_are_not_compared(tmp_path: Path) -> None:
    _plant(tmp_path, "<precice-configuration/>", {"Left": (1, 24), "Right": (4, 6)})
    (run,) = load_runs([tmp_path], warmup=1)
    assert np.isnan(run.imbalance)
    assert run.time.problem == (
        "Left by time window (24), Right by time window (6), which are not alike; give the precice-config.xml "
        "(--config)"
    )


def _plant(directory: Path, text: str, windows: dict[str, tuple[float, int]]) -> None:
    """Stores of windows that are so long and so many, each 0.1 s of work without a wait."""
    for name, (length, count) in windows.items():
        table = rows((w, 1, w * 1000, 100_000_000, 0, 0, 0, length, True) for w in range(1, count + 1))
        write_store(directory, table, name, configuration=text, receives_data=True)


@pytest.mark.parametrize("logs", [1, 0])
def test_the_partner_of_an_implicit_scheme_tells_the_iterations_or_all_go_by_iterations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], logs: int
) -> None:
    source = report(tmp_path, "one-iterations-log")
    if not logs:
        (source / "shell" / "precice-Shell-iterations.log").unlink()
    run = summed_up(capsys, source)
    assert run["imbalance"] == pytest.approx(0.65, abs=0.01)
    assert run["participants"]["Flow"]["faster_than_slowest"] == 0
    if logs:
        assert {part["iterations"]["mean"] for part in run["participants"].values()} == {3}
    else:
        assert run["seconds_per"] == "coupling iteration"


def test_windows_are_not_compared_with_iterations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stores that were imported one by one, each without the logs of the others."""
    source = report(tmp_path, "one-iterations-log")
    for name in ("flow", "shell"):
        shutil.copy(source / "precice-config.xml", source / name)
        import_profiling([source / name], tmp_path / "store")
    run = summed_up(capsys, tmp_path / "store")
    assert run["imbalance"] is None
    assert run["participants"]["Flow"]["faster_than_slowest"] is None
    refusal = refused(capsys, "recommend", tmp_path / "store", "--ranks", "4")
    assert "Flow by coupling iteration, Shell by time window" in refusal
