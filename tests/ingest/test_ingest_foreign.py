"""Timing files of CIME and text input of Extra-P: what is read, what is refused, and what becomes of a file cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from calibrate_helpers import edited, refusals

from precice_lb.__main__ import main
from precice_lb.exceptions import DataError
from precice_lb.ingest import import_measurements

DATA = Path(__file__).parents[1] / "data"
TIMING = DATA / "cime" / "cesm_timing.small"
TWO = DATA / "extrap" / "two.txt"


def test_components_of_two_runs_become_samples_per_model_day() -> None:
    result = import_measurements("cime", [TIMING, TIMING.with_suffix(".large")])
    assert {name: frame.ranks.tolist() for name, frame in result.frames.items()} == {
        "ATM": [64, 128], "LND": [32, 64], "ICE": [32, 64], "OCN": [32, 64]
    }  # fmt: skip
    seconds = {"ATM": [8.5, 4.375], "LND": [2.25, 1.25], "ICE": [3.125, 1.75], "OCN": [9.5, 5.0]}
    assert {name: frame.seconds.tolist() for name, frame in result.frames.items()} == seconds
    assert [set(frame.threads) for frame in result.frames.values()] == [{2}, {2}, {2}, {1}]
    assert result.remarks == (
        "ATM runs in turns with LND, ICE, on the same tasks",
        "LND runs in turns with ATM, on the same tasks",
        "ICE runs in turns with ATM, on the same tasks",
        "OCN runs on tasks of its own",
    )


def test_regions_become_participants_and_values_become_runs() -> None:
    result = import_measurements("extrap", [TWO], metric="time", windows=4)
    assert result.samples["Fluid"].tolist() == [[2, 2.0], [2, 2.125], [4, 1.0], [4, 1.0625], [8, 1.375]]
    assert result.samples["Solid"].tolist() == [[2, 0.5], [4, 0.3125], [8, 0.375]]
    assert result.parameters["Solid"]["size"].tolist() == [100, 100, 200]
    by_size = import_measurements("extrap", [TWO], metric="time", ranks="size").frames["Solid"]
    assert (by_size.ranks.tolist(), by_size.parameters["p"].tolist()) == ([100, 100, 200], [4, 2, 8])


@pytest.mark.parametrize(
    "points", ["POINTS ((2) (100)) ((4) (100)) ((8) (200))", "POINTS (2 100)\n\tPOINTS ( 4 100 )( 8 200 )"]
)
def test_points_and_metrics_stand_as_extra_p_lets_them(tmp_path: Path, points: str) -> None:
    text = TWO.read_text().replace("POINTS (2 100) (4 100) (8 200)", points)
    text = text.replace("METRIC time\nREGION Fluid", "REGION Fluid\nMETRIC time").replace(
        "PARAMETER p size", "PARAMETER p\nPARAMETER size"
    )
    (tmp_path / "two.txt").write_text(text.rstrip())
    one, other = (import_measurements("extrap", [path], metric="time").samples for path in (TWO, tmp_path / "two.txt"))
    assert {name: rows.tolist() for name, rows in one.items()} == {name: rows.tolist() for name, rows in other.items()}


@pytest.mark.parametrize(("kind", "source", "options"), [("cime", TIMING, {}), ("extrap", TWO, {"metric": "time"})])
def test_a_file_cut_anywhere_is_read_or_refused(
    tmp_path: Path, kind: str, source: Path, options: dict[str, Any]
) -> None:
    """Every row that is read of a part is one of the whole, but for the number that the cut goes through."""
    text, whole = source.read_text(), import_measurements(kind, [source], **options).samples
    path, read = tmp_path / source.name, 0
    for size in range(len(text)):
        path.write_text(text[:size])
        try:
            samples = import_measurements(kind, [path], **options).samples
        except DataError:
            continue
        read += 1
        others = sum(len(set(map(tuple, rows)) - set(map(tuple, whole[name]))) for name, rows in samples.items())
        assert others <= (kind == "extrap" and text[size - 1] != "\n")
    assert read > 10


@pytest.mark.parametrize("block", refusals("foreign-refused.txt"))
def test_what_is_wrong_is_one_error(tmp_path: Path, block: str) -> None:
    head, *changes, expected = block.split("\n")
    kind, *settings = head.split()
    options = dict(setting.split("=") for setting in settings)
    (tmp_path / "file").write_text(edited((TIMING if kind == "cime" else TWO).read_text(), changes))
    with pytest.raises(DataError) as refused:
        import_measurements(kind, [tmp_path / "file"], **options)
    assert str(refused.value).replace(str(tmp_path), "DIRECTORY") == expected


def test_the_command_says_who_runs_in_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "cime", str(TIMING), "--output", str(tmp_path / "m.csv")]) == 0
    assert "OCN runs on tasks of its own\n" in capsys.readouterr().err
    assert (tmp_path / "m.csv").read_text() == (
        "participant,ranks,seconds,threads\nATM,64,8.5,2\nLND,32,2.25,2\nICE,32,3.125,2\nOCN,32,9.5,1\n"
    )
