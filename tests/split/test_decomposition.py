"""Counts that cut a structured grid evenly, against every factorisation one by one."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from precice_lb import recommend_split
from precice_lb.cli import main
from precice_lb.exceptions import InfeasibleError
from precice_lb.layout import Layouts
from precice_lb.split import Constraints, optimize_split
from precice_lb.split.admissible import good_counts

TABLE = Path(__file__).parents[1] / "data" / "schroeder2019.csv"


def largest_part(grid: tuple[int, ...], ranks: int) -> int:
    """Points of the largest part with a layer around it, of the best factorisation."""
    divisors = [n for n in range(1, ranks + 1) if ranks % n == 0]
    cuts = (cut for cut in itertools.product(divisors, repeat=len(grid)) if math.prod(cut) == ranks)
    return min(math.prod(math.ceil(n / p) + 2 for n, p in zip(grid, cut, strict=True)) for cut in cuts)


@pytest.mark.parametrize("grid", [(100,), (720, 360), (37, 91), (40, 30, 20)])
def test_each_count_has_smaller_parts_than_any_fewer(grid: tuple[int, ...]) -> None:
    parts = [largest_part(grid, ranks) for ranks in range(1, 121)]
    wanted = [ranks for ranks in range(1, 121) if ranks == 1 or parts[ranks - 1] < min(parts[: ranks - 1])]
    assert good_counts(grid, 120).tolist() == wanted


def test_the_optimiser_takes_no_others() -> None:
    constraints = Constraints(grid={"A": (720, 360)})
    for budget in range(200, 260, 7):
        best = optimize_split({"A": lambda p: 9 / p, "B": lambda p: 1 / p}, budget, constraints=constraints)
        assert best.split["A"] in good_counts((720, 360), budget)
    threads = Constraints(grid={"A": (720, 360)}, layouts={"A": Layouts(None, 4)})
    cores = optimize_split({"A": lambda p: 9 / p, "B": lambda p: 1 / p}, 1000, constraints=threads).split["A"]
    assert cores // 4 in good_counts((720, 360), 250)


def test_the_recommendation_names_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    found = recommend_split(TABLE, 300, grid={"Inner": (720, 360)})
    assert found.split["Inner"] in good_counts((720, 360), 300)
    (remark,) = (str(warning) for warning in found.warnings if warning.code == "grid")
    assert f"Inner: {found.split['Inner']} ranks cut its grid of 720 x 360 evenly; so do " in remark
    assert main(["recommend", str(TABLE), "--ranks", "300", "--set", "participants.Inner.grid=[720, 360]"]) == 0
    assert f"Give Inner {found.split['Inner']} ranks" in capsys.readouterr().out


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), (0, 3)])
def test_what_is_no_grid_is_refused(grid: tuple[int, ...]) -> None:
    with pytest.raises(InfeasibleError, match=r"grid\.A(\[1\])?: expected"):
        Constraints(grid={"A": grid})
