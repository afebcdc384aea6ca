"""What stands in the way of a first guess is said with its line, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guess_helpers import (
    AITKEN,
    DIRECT,
    EXPERIMENTAL,
    MEASURE,
    PARALLEL,
    READ,
    READ_AT_A,
    READ_AT_B,
    THIRD,
    THIRD_OF_ITS_OWN,
    WRITE,
    before,
    edited,
    line_of,
    refused_by_libprecice,
)

from precice_lb.case import parse_configuration
from precice_lb.guess.config import notes, obstacles

EXPLICIT = [
    ("serial-implicit", "serial-explicit"),
    ("</coupling-scheme:serial-implicit", "</coupling-scheme:serial-explicit"),
    ('    <max-iterations value="20" />\n', ""),
    (f"    {MEASURE}\n", ""),
    ('    <acceleration:IQN-ILS>\n      <data name="Heat" mesh="B-Mesh" />\n    </acceleration:IQN-ILS>\n', ""),
]
RELATIVE = MEASURE.replace("absolute", "relative")
RESIDUAL = '<residual-relative-convergence-measure data="{}" mesh="{}-Mesh" limit="1e-3" />'
ACTION = (
    '<action:multiply-by-area mesh="{0}" timing="write-mapping-post">',
    '<target-data name="{1}" /></action:multiply-by-area>',
)
JUST_IN_TIME = '<mapping:nearest-neighbor direction="read" from="B-Mesh" constraint="consistent" />'
# The edits that bring an obstacle; where it is seen; a word of what is said of it.
CASES = {
    "explicit": (EXPLICIT, "<precice-configuration>", "none has a first guess"),
    "remeshing": (
        [*PARALLEL, ("<precice-configuration>", '<precice-configuration experimental="1" allow-remeshing="yes">')],
        "<precice-configuration ",
        "allow-remeshing",
    ),
    "gradients on the way of a prediction": (
        [EXPERIMENTAL, (READ_AT_A, READ_AT_A.replace("neighbor", "neighbor-gradient"))],
        "<mapping:nearest-neighbor-gradient",
        "gradients",
    ),
    "gradients on the other way": (
        [EXPERIMENTAL, (READ_AT_B, READ_AT_B.replace("neighbor", "neighbor-gradient"))],
        "<mapping:nearest-neighbor-gradient",
        "gradients",
    ),
    "just in time, read": (
        [
            EXPERIMENTAL,
            (READ_AT_A, JUST_IN_TIME),
            ('<receive-mesh name="B-Mesh" from="B" />', '<receive-mesh name="B-Mesh" from="B" api-access="true" />'),
            ('<read-data name="Heat" mesh="A-Mesh" />', '<read-data name="Heat" mesh="B-Mesh" />'),
        ],
        JUST_IN_TIME,
        "places anew in every call",
    ),
    "scaled on surfaces": (
        [(READ_AT_A, READ_AT_A.replace('"consistent', '"scaled-consistent-surface'))],
        '<mapping:nearest-neighbor direction="read" from="B-Mesh"',
        "scaled-consistent-surface",
    ),
    "scaled in volumes": (
        [(READ_AT_A, READ_AT_A.replace('"consistent', '"scaled-consistent-volume'))],
        '<mapping:nearest-neighbor direction="read" from="B-Mesh"',
        "scaled-consistent-volume",
    ),
    "bounds that are kept": (
        [
            ('<data:scalar name="Heat" />', '<data:scalar name="Heat" lower-bound="0" />'),
            ("<acceleration:IQN-ILS>", '<acceleration:IQN-ILS on-bound-violation="clamp">'),
        ],
        "<acceleration:IQN-ILS",
        "bounds",
    ),
    "direct access": (DIRECT, '<receive-mesh name="A-Mesh"', '"B" cannot initialize data'),
    "windows of the first participant": (
        [('<time-window-size value="0.1" />', '<time-window-size method="first-participant" />')],
        "<time-window-size",
        'method="fixed"',
    ),
    "an action of the writer": (
        [before(WRITE, *(line.format("B-Mesh", "Heat") for line in ACTION))],
        "<action:",
        'where "Heat" is shifted',
    ),
    "an action of the reader": (
        [before(READ, *(line.format("A-Mesh", "Force") for line in ACTION))],
        "<action:",
        'where "Heat" is shifted',
    ),
    "several meshes": (
        [
            before('<mesh name="A-Mesh"', '<mesh name="A2" dimensions="2"><use-data name="Heat" /></mesh>'),
            before('<provide-mesh name="A-Mesh" />', '<provide-mesh name="A2" />'),
            before(READ, '<read-data name="Heat" mesh="A2" />'),
            before(READ_AT_A, READ_AT_A.replace("A-Mesh", "A2")),
        ],
        '<exchange data="Heat"',
        "several meshes",
    ),
    "the same reduction": (
        [*AITKEN, (MEASURE, RESIDUAL.format("Heat", "B"))],
        "<residual-relative",
        "absolute or relative",
    ),
    "the same reduction of what is shifted in a parallel scheme": (
        [*PARALLEL, *AITKEN, (MEASURE, RESIDUAL.format("Force", "A"))],
        "<residual-relative",
        "absolute or relative",
    ),
    "nobody reads": (
        [('    <read-data name="Force" mesh="B-Mesh" />\n', ""), (f"    {READ_AT_B}\n", "")],
        "<coupling-scheme:",
        '"A"',
    ),
}
# What looks similar, and is none.
NONE = {
    "as it is": [],
    "parallel": PARALLEL,
    "the same reduction of what is not shifted": [*AITKEN, before(MEASURE, RESIDUAL.format("Force", "A"))],
    "the same reduction with quasi-Newton": [(MEASURE, RESIDUAL.format("Heat", "B"))],
    "another scheme, which gets the data as it is": THIRD,
    "bounds that are ignored": [('<data:scalar name="Heat" />', '<data:scalar name="Heat" lower-bound="0" />')],
    "bounds of what is not shifted": [
        ('<data:vector name="Force" />', '<data:vector name="Force" lower-bound-x="0" />'),
        ("<acceleration:IQN-ILS>", '<acceleration:IQN-ILS on-bound-violation="clamp">'),
    ],
    "a mesh that is read by direct access": [
        ('<receive-mesh name="B-Mesh" from="B" />', '<receive-mesh name="B-Mesh" from="B" api-access="true" />'),
    ],
    "a third solver with its own data": THIRD_OF_ITS_OWN,
}


NOTES = {
    "a relative measure": (
        [*AITKEN, (MEASURE, RELATIVE)],
        "<relative-convergence-measure",
        'the shifted "Heat"',
    ),
    "an absolute or relative measure": (
        [
            *AITKEN,
            (
                MEASURE,
                MEASURE.replace("absolute", "absolute-or-relative").replace("limit", 'rel-limit="0.1" abs-limit'),
            ),
        ],
        "<absolute-or-relative",
        'the shifted "Heat"',
    ),
    "no measure": ([(f"    {MEASURE}\n", "")], "<coupling-scheme:", "max-iterations"),
}
NO_NOTES = {
    "what shows data, which is as it was": [
        before(
            WRITE,
            '<watch-point mesh="B-Mesh" name="P" coordinate="0; 0" />',
            '<watch-integral mesh="B-Mesh" name="I" scale-with-connectivity="no" />',
            "<export:csv />",
        )
    ],
    "a relative measure with quasi-Newton": [(MEASURE, RELATIVE)],
    "a relative measure of what is not shifted": [
        *AITKEN,
        before(MEASURE, '<relative-convergence-measure data="Force" mesh="A-Mesh" limit="1e-3" />'),
    ],
}


def by_name(cases: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


@by_name(CASES)
def test_each_obstacle_is_said_with_its_line(case: tuple[list[tuple[str, str]], str, str]) -> None:
    edits, place, words = case
    text = edited(edits)
    (said,) = obstacles(parse_configuration(text))
    tag = place.strip("<> ").split()[0].rstrip(":")
    assert said.startswith(f"line {line_of(text, place)}, <{tag}")
    assert words in said
    assert "\n" not in said


@by_name(NONE)
def test_nothing_else_is_an_obstacle(case: list[tuple[str, str]]) -> None:
    assert obstacles(parse_configuration(edited(case))) == []


def test_just_in_time_writing_needs_direct_access_too() -> None:
    mapping = '<mapping:nearest-neighbor direction="write" to="A-Mesh" constraint="conservative" />'
    text = edited([*DIRECT, (READ_AT_B, f"{READ_AT_B}\n    {mapping}")])
    direct, just_in_time = obstacles(parse_configuration(text))
    assert direct.startswith(f"line {line_of(text, 'api-access')}, <receive-mesh>")
    assert just_in_time.startswith(f"line {line_of(text, mapping)}, <mapping:nearest-neighbor>")


def test_several_obstacles_come_in_the_order_of_the_file() -> None:
    names = ("bounds that are kept", "scaled on surfaces", "windows of the first participant")
    text = edited([edit for name in names for edit in CASES[name][0]])
    said = obstacles(parse_configuration(text))
    places = [int(line.split(",")[0].removeprefix("line ")) for line in said]
    assert len(places) == 3
    assert places == sorted(places)


@by_name(NOTES)
def test_each_note_is_said_with_its_line_and_stops_nothing(case: tuple[list[tuple[str, str]], str, str]) -> None:
    edits, place, words = case
    text = edited(edits)
    (said,) = notes(parse_configuration(text))
    assert said.startswith(f"line {line_of(text, place)}, <")
    assert words in said
    assert obstacles(parse_configuration(text)) == []


@by_name(NO_NOTES | {"as it is": []})
def test_nothing_else_is_noted(case: list[tuple[str, str]]) -> None:
    assert notes(parse_configuration(edited(case))) == []


@pytest.mark.precice
def test_libprecice_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_text(edited([(MEASURE, MEASURE.replace("Heat", "Cold"))]))
    assert refused_by_libprecice(path) != ""


@pytest.mark.precice
@by_name({name: edits for name, (edits, *_) in (CASES | NOTES).items()} | NONE | NO_NOTES)
def test_all_of_these_are_configurations_that_libprecice_takes(case: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_text(edited(case))
    assert refused_by_libprecice(path) == ""
