"""Options that give names a value each: Fluid=24,Solid=8."""

from __future__ import annotations

import re

import pytest

from precice_lb.cli.app import by_participant, split_values
from precice_lb.exceptions import DataError

NAMES = ["Fluid", "Solid"]
WHOLE = "--ranks: expected participant=a whole number above 0 for each participant, such as Fluid=2, found "
ANY = "--weights: expected participant=a number above 0 for each participant, such as Fluid=2, found "
SPLIT = (
    "--split: expected participant=a whole number above 0 for each participant, such as Fluid=2, or ranks x threads, "
    "such as Fluid=1x8, found "
)


def exactly(text: str) -> str:
    return f"^{re.escape(text)}$"


@pytest.mark.parametrize("texts", [["Fluid=3,Solid=4"], ["Fluid=3", "Solid=4"], [" Fluid = 3 , Solid=4 "]])
def test_numbers_are_given_at_once_or_one_at_a_time(texts: list[str]) -> None:
    assert by_participant(texts, NAMES, "--ranks", int) == {"Fluid": 3, "Solid": 4}


def test_numbers_need_not_be_whole_unless_they_count() -> None:
    assert by_participant(["Fluid=1e-3,Solid=2.5"], NAMES, "--weights", float) == {"Fluid": 0.001, "Solid": 2.5}


@pytest.mark.parametrize("text", ["Fluid=0", "Fluid=-1", "Fluid=1.5", "Fluid=many", "Fluid=", "Fluid", "=2"])
def test_what_is_no_count_above_0_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=exactly(f"{WHOLE}{text!r}")):
        by_participant([text], NAMES, "--ranks", int)


@pytest.mark.parametrize("text", ["Fluid=0", "Fluid=-0.5", "Fluid=nan", "Fluid=inf", "Fluid=much"])
def test_what_is_no_finite_number_above_0_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=exactly(f"{ANY}{text!r}")):
        by_participant([text], NAMES, "--weights", float)


@pytest.mark.parametrize("texts", [["Fluid=1,Fluid=2"], ["Fluid=1", "Fluid=1"]])
def test_name_that_stands_there_twice_is_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match=exactly("--ranks: expected each name once, found 'Fluid' twice")):
        by_participant(texts, NAMES, "--ranks", int)


def test_name_of_no_participant_is_refused() -> None:
    with pytest.raises(DataError, match=r"^--ranks: expected one of the participants Fluid, Solid, found 'Flood'"):
        by_participant(["Flood=1"], NAMES, "--ranks", int)


def test_split_has_ranks_or_ranks_and_threads() -> None:
    assert split_values(["Fluid=24,Solid=1x8"], NAMES) == {"Fluid": 24, "Solid": "1x8"}


@pytest.mark.parametrize("text", ["Fluid=0", "Fluid=-1", "Fluid=0x8", "Fluid=1x0", "Fluid=1x", "Fluid=few"])
def test_what_is_neither_ranks_nor_ranks_and_threads_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=exactly(f"{SPLIT}{text!r}")):
        split_values([text], NAMES)


def test_versions_of_a_split_are_kept_apart_from_its_ranks() -> None:
    versions: dict[str, str] = {}

    assert split_values(["Fluid:gpu=24", "Solid=8"], NAMES, versions) == {"Fluid": 24, "Solid": 8}
    assert versions == {"Fluid": "gpu"}


def test_participant_that_stands_there_with_two_versions_is_refused() -> None:
    with pytest.raises(DataError, match=r"^--split: expected each participant once, found a participant twice$"):
        split_values(["Fluid:gpu=24,Fluid:cpu=2"], NAMES, {})


def test_version_of_no_participant_is_refused() -> None:
    with pytest.raises(DataError, match=r"^--split: expected one of the participants Fluid, Solid, found 'Flood'"):
        split_values(["Flood:gpu=24"], NAMES, {})


def test_version_without_a_name_is_refused() -> None:
    with pytest.raises(DataError, match=r"^--split: Fluid: "):
        split_values(["Fluid:=24"], NAMES, {})
