"""An outlier among repeats decides nothing, wherever it is from, and is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from precice_lb import recommend_split
from precice_lb.dataset import without_stragglers
from precice_lb.ingest import read_csv
from precice_lb.recommend import measurements_from_arrays

TABLE = Path(__file__).parents[1] / "data" / "outlier_in_repeats.csv"


def test_a_gross_outlier_among_repeats_decides_nothing(tmp_path: Path) -> None:
    without = tmp_path / "without.csv"
    without.write_text("".join(line for line in TABLE.read_text().splitlines(True) if "1.9" not in line))
    expected, seconds = (recommend_split(path, 5200).window_seconds for path in (without, TABLE))
    assert seconds == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(("off", "kept"), [(1.9, 0.155), (0.012, 0.155)])
def test_of_two_that_disagree_other_rank_counts_tell_which_is_off(off: float, kept: float) -> None:
    rows = [(4400, kept), (4400, off), (2000, 0.33), (1000, 0.66)]
    found = without_stragglers(measurements_from_arrays({"Sea": rows}))
    np.testing.assert_array_equal(found.samples["Sea"], [rows[0], *rows[2:]])
    assert found.remarks[0].startswith(f"measurements of Sea, row 2: {off:g} s of Sea on 4400 ranks is left out")


def test_where_nothing_tells_which_of_two_is_off_both_stay_and_are_named() -> None:
    rows = [(4400, 0.155), (4400, 1.9)]
    found = without_stragglers(measurements_from_arrays({"Sea": rows}))
    np.testing.assert_array_equal(found.samples["Sea"], rows)
    (remark,) = found.remarks
    assert "measurements of Sea, row 1: 0.155 s and measurements of Sea, row 2: 1.9 s disagree" in remark
    assert remark.endswith("measure again.")


@pytest.mark.parametrize("seed", range(20))
def test_usual_noise_is_no_outlier(seed: int) -> None:
    generator = np.random.default_rng(seed)
    counts = np.repeat([2, 4, 8, 16, 32], 4)
    seconds = 10 / counts * np.exp(0.07 * generator.standard_normal(len(counts)))
    measurements = measurements_from_arrays({"Sea": np.column_stack([counts, seconds])})
    assert without_stragglers(measurements) is measurements


def test_columns_and_runs_follow_the_rows_that_stay(tmp_path: Path) -> None:
    path = tmp_path / "columns.csv"
    rows = "Sea,4,1.0,0.1,1,a\nSea,4,50,0.2,1,a\nSea,4,1.1,0.3,1,a\nSea,8,0.6,0.4,1,b\n"
    path.write_text(f"participant,ranks,seconds,standard_error,level,note\n{rows}")
    kept = without_stragglers(read_csv(path))
    frame = kept.frames["Sea"]
    assert frame.standard_error.tolist() == [0.1, 0.3, 0.4]
    assert kept.parameters["Sea"]["note"].tolist() == ["a", "a", "b"]
    assert frame.origin.tolist() == [f"{path}, line {line}" for line in (2, 4, 5)]
