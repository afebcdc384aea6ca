"""What stands in the way of a first guess is said with its line, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from calibrate_helpers import refusals
from guess_helpers import MEASURE, edited, refused_by_libprecice

from precice_lb.case import parse_configuration
from precice_lb.guess import obstacles

# By name: edits of `guess_helpers.CASE`, a line each, and then what is said; often nothing.
CASES = {block.split("\n")[0].removeprefix("# "): block.split("\n")[1:] for block in refusals("guess-obstacles.txt")}


def configured(name: str) -> str:
    return edited([tuple(x.replace(r"\n", "\n").split(" -> ")) for x in CASES[name] if " -> " in x])  # type: ignore[misc]


@pytest.mark.parametrize("name", CASES)
def test_what_is_in_the_way_is_said_with_its_line_and_nothing_else(name: str) -> None:
    assert obstacles(parse_configuration(configured(name))) == [line for line in CASES[name] if " -> " not in line]


@pytest.mark.precice
def test_libprecice_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_text(edited([(MEASURE, MEASURE.replace("Heat", "Cold"))]))
    assert refused_by_libprecice(path) != ""


@pytest.mark.precice
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("just-in-time writing", "several, "))])
def test_all_of_these_are_configurations_that_libprecice_takes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_text(configured(name))
    assert refused_by_libprecice(path) == ""
