"""What a border of a chain does to a coupled run is said with its line, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from coupled_runs import coupled_run
from guess_helpers import CASE, before, edited, line_of, refused_by_libprecice
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import configuration, scheme

from precice_lb.chain.borders import border_of
from precice_lb.chain.check import findings, notes, starts
from precice_lb.precice_xml import parse_configuration, patch_configuration, read_configuration
from precice_lb.precice_xml.edits import apply, set_attribute

KINDS = ("serial-explicit", "parallel-explicit", "serial-implicit", "parallel-implicit", "multi")
FORCE = '<exchange data="Force" mesh="A-Mesh" from="A" to="B" />'
HEAT = '<exchange data="Heat" mesh="B-Mesh" from="B" to="A" />'
INITIALISED = [(each, each.replace(" />", ' initialize="true" />')) for each in (FORCE, HEAT)]
SERIAL, IQN, MAX_TIME = "<coupling-scheme:serial-implicit", "<acceleration:IQN-ILS", "<max-time value"


def lines(found):
    return [each.line for each in found]


@given(st.sampled_from(KINDS), st.booleans(), st.booleans())
def test_every_exchange_that_starts_at_zero_is_found_and_no_other(kind, there, back):
    text = configuration("AB", [scheme(kind, "AB")])
    for way, initialised in (('from="A" to="B"', there), ('from="B" to="A"', back)):
        text = text.replace(way, f'{way} initialize="{"yes" if initialised else "no"}"')
    read = parse_configuration(text)
    at_zero = {"From" + way for way, initialised in (("A", there), ("B", back)) if not initialised}
    late = at_zero & {"FromA"} if kind.startswith("serial") else set()
    expected = {name: line_of(text, f'<exchange data="{name}"') for name in at_zero}
    assert lines(findings(read)) == sorted(expected[name] for name in at_zero - late)
    assert [each.line for each in notes(read) if each.tag == "exchange"] == [expected[name] for name in late]
    kinds = {each.exchange.data: each.kind for each in starts(read)}
    assert {name for name, found in kinds.items() if found == "late"} == late
    assert {name for name, found in kinds.items() if found == "zero"} == at_zero - late


def test_who_reads_what_and_the_remedy_are_said():
    (found,) = findings(parse_configuration(CASE))
    assert str(found) == (
        f'line {line_of(CASE, HEAT)}, <exchange>: "A" reads "Heat" as zero in the first iteration, and at the start of '
        'the first window of every segment; set initialize="true", and let "B" write it where requires_initial_data() '
        "asks for it"
    )
    (known,) = [each for each in notes(parse_configuration(CASE)) if each.tag == "exchange"]
    assert str(known) == (
        f'line {line_of(CASE, FORCE)}, <exchange>: "B" reads "Force" as zero at the start of the first window, right '
        'at its end; if it reads before that, set initialize="true"'
    )


def test_data_on_a_mesh_with_direct_access_cannot_be_initialised():
    direct = edited(
        [
            ('<receive-mesh name="A-Mesh" from="A" />', '<receive-mesh name="A-Mesh" from="A" api-access="true" />'),
            (HEAT, HEAT.replace("B-Mesh", "A-Mesh")),
        ]
    )
    (found,) = findings(parse_configuration(direct))
    assert found.text.endswith('let "B" write it on a mesh of its own: data on one with api-access has no start')


def test_one_initialised_exchange_takes_the_others_of_its_way_along():
    more = '<exchange data="Heat" mesh="A-Mesh" from="B" to="A" initialize="true" />'
    read = parse_configuration(edited([before(HEAT, more)]))
    assert [each.kind for each in starts(read)] == ["late", "kept", "kept"]
    assert starts(read)[2].text.endswith('sent beside "Heat"')
    assert not findings(read)


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([], "loses what it learned in 10 time windows"),
        ([before("</acceleration", '<time-windows-reused value="3" />')], "loses what it learned in 3 time windows"),
        ([before("</acceleration", '<time-windows-reused value="0" />')], None),
        ([(IQN, "<acceleration:IQN-IMVJ"), ("</acceleration:IQN-ILS", "</acceleration:IQN-IMVJ")], "its Jacobian"),
        ([(IQN, "<acceleration:aitken"), ("</acceleration:IQN-ILS", "</acceleration:aitken")], None),
    ],
)
def test_what_an_acceleration_forgets(edits, said):
    text = edited(edits)
    found = [each for each in notes(parse_configuration(text)) if each.tag.startswith("acceleration")]
    assert lines(found) == ([line_of(text, "<acceleration:")] if said else [])
    assert all(said in each.text for each in found)


@pytest.mark.parametrize("kind", ["serial-implicit", "parallel-implicit"])
def test_serial_schemes_cannot_be_left_early(kind):
    text = CASE.replace("serial-implicit", kind)
    found = [each for each in notes(parse_configuration(text)) if each.tag.startswith("coupling-scheme")]
    assert [str(each) for each in found] == (
        [
            f'line {line_of(text, SERIAL)}, <coupling-scheme:serial-implicit>: if "A" leaves the loop before the last '
            'window, "B" waits for the next one in vain: only the configuration ends a segment'
        ]
        if kind == "serial-implicit"
        else []
    )


WATCHED = '<export:vtk directory="{}" /><watch-point mesh="A-Mesh" name="tip" coordinate="0;0" />'


@pytest.mark.parametrize(
    ("directory", "outside"), [("", False), ("out", False), ("../out", False), ("../../out", True), ("/out", True)]
)
def test_exports_outside_the_case_are_overwritten(directory, outside):
    text = edited([before("  </participant>", WATCHED.format(directory))])
    read = parse_configuration(edited(INITIALISED, text))
    found = findings(read, directories={"A": Path("solver-a"), "B": Path("solver-b")})
    assert lines(found) == ([line_of(text, "<export:vtk")] if outside else [])
    assert [each.tag for each in notes(read) if "begins anew" in each.text] == ["export:vtk", "watch-point"]


@pytest.mark.parametrize(("windows", "found"), [(None, False), (10, False), (11, True)])
def test_a_time_that_ends_before_a_segment_is_found(windows, found):
    text = edited(INITIALISED)
    assert lines(findings(parse_configuration(text), windows=windows)) == ([line_of(text, MAX_TIME)] if found else [])


@pytest.mark.parametrize(
    ("value", "total", "said"),
    [
        ("1", None, []),
        ("1", 10, []),
        ("1", 12, ["is shorter, 1, than the 12 windows of the chain, 1.2"]),
        ("1", 8, ["is longer, 1, than the 8 windows of the chain, 0.8"]),
        ("1.05", None, ["is no multiple of 0.1: one run would cut its last window to 0.05, a chain does not"]),
    ],
)
def test_limits_beside_what_the_chain_needs(value, total, said):
    text = edited([(f'{MAX_TIME}="1"', f'{MAX_TIME}="{value}"')])
    found = [each for each in notes(parse_configuration(text), total=total) if each.tag == "max-time"]
    assert lines(found) == [line_of(text, MAX_TIME)] * len(said)
    for each, expected in zip(found, said, strict=True):
        assert each.text.startswith(expected)


@pytest.mark.parametrize("first", [(9.0, 8.0, 6.0, 5.0, 5.0), (4.0,) * 5])
def test_the_iterations_of_a_start_are_counted(first):
    iterations = np.array([*first, *[4.0, 5.0] * 10])
    own = {name: np.ones(len(iterations)) for name in "AB"}
    run = coupled_run("x", {"A": 2, "B": 3}, own, iterations, serial=True)
    border = border_of("002-A2-B3", {"A": 2, "B": 3}, run)
    assert (border.first, border.later, border.windows) == (first, 4.5, 20)
    assert border.extra == pytest.approx(sum(first) - 22.5)


def test_a_run_that_is_too_short_says_nothing():
    own = {name: np.ones(9) for name in "AB"}
    assert border_of("x", {}, coupled_run("x", {"A": 1, "B": 1}, own, np.ones(9), serial=True)) is None


@pytest.mark.precice
def test_the_remedies_mend_public_tutorials_as_libprecice_takes_them(tmp_path):
    directory = os.environ.get("PRECICE_TUTORIALS")
    if not directory:
        pytest.skip("PRECICE_TUTORIALS does not name a directory with preCICE's tutorials")
    mended, left = set(), set()
    for path in sorted(Path(directory).glob("*/precice-config.xml")):
        read = read_configuration(path)
        found = findings(read)
        bare = {each.line for each in found if 'set initialize="true"' in each.text}
        exchanges = [each for scheme in read.root.named("coupling-scheme:") for each in scheme.named("exchange")]
        edits = [set_attribute(read.text, each, "initialize", "true") for each in exchanges if each.line in bare]
        (tmp_path / "guess.xml").write_text(apply(read.text, edits))
        still = findings(read_configuration(tmp_path / "guess.xml"))
        assert lines(still) == [each.line for each in found if each.line not in bare]
        left |= {path.parent.name} if still else set()
        mended |= {path.parent.name} if bare else set()
        assert refused_by_libprecice(tmp_path / "guess.xml") == "", path
    assert len(mended) >= 15
    assert left == {"partitioned-heat-conduction-direct", "two-scale-heat-conduction"}


@pytest.mark.parametrize("name", ["pulse", "climate"])
def test_tutorials_that_restart_lose_nothing(name, tmp_path):
    path = Path(__file__).parents[2] / "tutorials" / name / "precice-config.xml"
    assert not findings(read_configuration(path), windows=4)
    patch_configuration(path, tmp_path / "patched.xml", max_time_windows=4)
    assert not findings(read_configuration(tmp_path / "patched.xml"), windows=4)
