"""``precice-lb report`` of a directory in which something was recommended before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_helpers import write_campaign

from precice_lb.cli import main

SPLITS = [{"Inner": 2, "Outer": 2}, {"Inner": 4, "Outer": 2}, {"Inner": 6, "Outer": 3}, {"Inner": 3, "Outer": 5}]
SCRIPTS = ("run.sh", "job.sbatch")


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    """Runs of which the largest had nine ranks, and a recommendation for twelve, with scripts that start it."""
    directory = tmp_path / "stores"
    write_campaign(directory, SPLITS)
    assert main(["recommend", str(directory), "--ranks", "12", "--output", str(directory)]) == 0
    (directory / "launch").mkdir()
    for name in SCRIPTS:
        (directory / "launch" / name).touch()
    return directory


def page_of(*sources: Path) -> str:
    output = sources[0].parent / "page"
    assert main(["report", *map(str, sources), "-o", str(output)]) == 0
    return (output / "report.html").read_text(encoding="utf-8").replace("\xa0", " ")


def changed(directory: Path, **values: object) -> None:
    path = directory / "recommendation.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_scripts_that_start_the_split_are_named(stores: Path) -> None:
    page = page_of(stores)
    assert f"{stores / 'launch' / 'run.sh'}\n# or\nsbatch {stores / 'launch' / 'job.sbatch'}" in page


@pytest.mark.parametrize(("left", "gone"), [SCRIPTS, SCRIPTS[::-1]])
def test_script_that_is_not_there_is_not_named(left: str, gone: str, stores: Path) -> None:
    (stores / "launch" / gone).unlink()

    page = page_of(stores)

    assert str(stores / "launch" / left) in page
    assert str(stores / "launch" / gone) not in page


def test_scripts_of_another_split_are_not_named(stores: Path) -> None:
    changed(stores, split={"Inner": 1, "Outer": 11})

    page = page_of(stores)

    assert not any(str(stores / "launch" / name) in page for name in SCRIPTS)


def test_budget_is_that_of_the_last_recommendation(stores: Path) -> None:
    assert "12 ranks" in page_of(stores)


def test_budget_in_another_unit_is_not_taken_for_ranks(stores: Path) -> None:
    changed(stores, unit="nodes")

    page = page_of(stores)

    assert "9 ranks" in page
    assert "12 ranks" not in page


def test_without_a_recommendation_the_budget_is_the_ranks_of_the_largest_run(stores: Path) -> None:
    (stores / "recommendation.json").unlink()

    page = page_of(stores)

    assert "9 ranks" in page
    assert "12 ranks" not in page


def test_recommendation_of_one_of_several_sources_gives_no_budget(stores: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_campaign(other, [{"Inner": 1, "Outer": 2}])

    page = page_of(stores, other)

    assert "9 ranks" in page
    assert "12 ranks" not in page
