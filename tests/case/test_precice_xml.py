from __future__ import annotations

import dataclasses
import math
import re
import string
from pathlib import Path

import pytest
from calibrate_helpers import CONFIGURATION as CALIBRATION_CONFIGURATION
from calibrate_helpers import edited, refusals
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import configuration, scheme

from precice_lb.case import parse_configuration, patch_configuration, read_configuration
from precice_lb.case.config import ConvergenceMeasure, Data, Mesh, ReceivedMesh
from precice_lb.case.elements import parse, text_of
from precice_lb.exceptions import ConfigurationError
from precice_lb.store import case_fingerprint

FULL = (Path(__file__).parents[1] / "data" / "configurations" / "full.xml").read_text(encoding="utf-8")


def test_everything_that_is_read_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_text(FULL)
    case = read_configuration(path)
    assert (case.path, case.text) == (path, FULL)
    assert case.data == {"Force": Data("Force", True, 3, 6), "Pressure": Data("Pressure", False, 1, 9)}
    assert case.meshes["Inner-Mesh"] == Mesh("Inner-Mesh", 3, ("Force", "Pressure"))
    inner, outer = case.participants["Inner"], case.participants["Outer"]
    assert (inner.provides, inner.reads, inner.writes) == (
        ("Inner-Mesh",), (("Inner-Mesh", "Pressure"),), (("Inner-Mesh", "Force"),)
    )  # fmt: skip
    line = inner.receives[0].line
    assert inner.receives == (ReceivedMesh("Outer-Mesh", "Outer", 0.25, "no-filter", True, line),)
    (received,) = outer.receives
    assert received == ReceivedMesh("Inner-Mesh", "Inner", 0.5, "on-secondary-ranks", True, received.line)
    described = [dataclasses.astuple(mapping)[:5] for who in (inner, outer) for mapping in who.mappings]
    assert described[0] == ("rbf-pum-direct", "read", "consistent", "Outer-Mesh", "Inner-Mesh")
    assert described[1][3:] == (None, "Inner-Mesh")
    assert dataclasses.astuple(case.m2ns[0])[:5] == ("sockets", "Inner", "Outer", ".", True)
    (one,) = case.coupling_schemes
    # Implicit schemes exchange substeps unless told otherwise.
    assert [(e.data, e.source, e.initialize, e.substeps) for e in one.exchanges] == [
        ("Force", "Inner", True, False), ("Pressure", "Outer", False, True)
    ]  # fmt: skip
    assert (one.kind, one.participants, one.controller) == ("serial-implicit", ("Inner", "Outer"), "Outer")
    assert (one.is_implicit, one.is_serial, one.window_size_from_first) == (True, True, True)
    assert (one.max_time, one.max_time_windows, one.max_iterations) == (1.0, None, 40)
    assert one.measures == (ConvergenceMeasure("relative", "Pressure", "Inner-Mesh", 1e-5),)
    assert (one.acceleration, math.isnan(one.time_window_size)) == ("IQN-ILS", True)


def test_convergence_measures_are_named_as_in_the_log() -> None:
    tag = '<relative-convergence-measure data="Pressure" mesh="Inner-Mesh" limit="1e-5" />'
    kinds = {"absolute": "Abs", "relative": "Rel", "residual-relative": "Drop", "absolute-or-relative": "AbsOrRel"}
    *simple, last = (tag.replace("<relative", f"<{kind}") for kind in kinds)
    several = "".join([*simple, last.replace('limit="1e-5"', 'abs-limit="0.5" rel-limit="1e-4"')])
    measures = parse_configuration(FULL.replace(tag, several)).coupling_schemes[0].measures
    assert [each.header for each in measures] == [f"Res{name}(Inner-Mesh:Pressure)" for name in kinds.values()]
    assert [each.limit for each in measures] == [1e-5, 1e-5, 1e-5, 0.5]


@pytest.mark.parametrize("controllers", ["", "A", "AB"])
def test_a_multi_scheme_has_one_controller(controllers: str) -> None:
    text = configuration("ABC", [scheme("multi", "ABC", body='<max-iterations value="1" />')])
    text = text.replace('<max-time value="10" />', '<max-time-windows value="1" />').replace(' control="yes"', "")
    for name in "ABC":
        control = "Yes" if name in controllers else "no"
        text = text.replace(f'    <participant name="{name}" />', f'<participant name="{name}" control="{control}" />')
    if controllers == "A":
        (s,) = parse_configuration(text).coupling_schemes
        assert (s.kind, s.participants, s.controller, s.measures) == ("multi", ("A", "B", "C"), "A", ())
        assert (s.is_implicit, s.is_serial, s.time_window_size) == (True, False, 0.1)
        # The least that is possible of each.
        assert (s.max_time, s.max_time_windows, s.max_iterations) == (None, 1, 1)
    else:
        with pytest.raises(ConfigurationError, match=r'one participant with control="true".*found (none|A, B)'):
            parse_configuration(text)


@pytest.mark.parametrize("block", refusals("configurations-refused.txt"))
def test_contradictions_are_refused_in_one_line_with_the_place(block: str) -> None:
    *changes, expected = block.split("\n")
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(edited(FULL, changes), "precice-config.xml")
    assert str(caught.value) == expected


def test_old_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    with pytest.raises(ConfigurationError, match=r"precice-config\.xml: .*No such file"):
        read_configuration(path)
    for content, expected in (
        (b'<precice-configuration><solver-interface dimensions="2" /></precice-configuration>', "preCICE 2"),
        (b"<html></html>", "<precice-configuration>"),
        (b"<precice-configuration></precice-configuration>", "<mesh> in <precice-configuration>, found none; add it"),
        (b"", "well-formed"),
        (b"\xff\xff\xff\x00", "utf-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=expected):
            read_configuration(path)


ENCODINGS = {
    "utf-16 with a mark": ("UTF-16", "utf-16"),
    "utf-16 of the other end": ("UTF-16", "utf-16-be"),
    "utf-8 with a mark": ("UTF-8", "utf-8-sig"),
    "a mark against the declaration": ("ISO-8859-1", "utf-8-sig"),
    "utf-16 with another declaration": ("UTF-8", "utf-16"),
    "latin-1 by declaration": ("ISO-8859-1", "latin-1"),
}


@pytest.mark.parametrize("how", ENCODINGS)
def test_encodings_that_preCICE_reads_are_read_and_kept(how: str, tmp_path: Path) -> None:
    declared, codec = ENCODINGS[how]
    path, copy = tmp_path / "precice-config.xml", tmp_path / "copy.xml"
    text = FULL.replace("UTF-8", declared).replace("Outer", "Außen")
    path.write_bytes(text.encode(codec))
    read = read_configuration(path)
    assert list(read.participants) == ["Inner", "Außen"]
    patch_configuration(path, copy, exchange_directory="there")
    assert [m2n.exchange_directory for m2n in read_configuration(copy).m2ns] == ["there"]
    patch_configuration(path, copy)
    assert copy.read_bytes() == path.read_bytes()
    assert text_of(path.read_bytes()) == read.text
    # What runs store of it is the same case.
    assert case_fingerprint(read.text) == case_fingerprint(text)


@pytest.mark.parametrize(
    ("encoding", "content", "expected"),
    [
        *((name, "ü", f"text in {name}") for name in ("undefined", "idna", "base64", "rot13", "unheard-of")),
        ("UTF-16", "", "text in UTF-16, found bytes that are not; save the file as"),
        ("unicode_escape", '<a b="\\ud800" />', "well-formed XML"),
    ],
)
def test_what_its_declared_encoding_cannot_read_is_refused_in_one_line(
    encoding: str, content: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{content}'.encode())
    with pytest.raises(ConfigurationError, match=rf"precice-config\.xml:1: expected {expected}") as caught:
        read_configuration(path)
    assert "\n" not in str(caught.value)


@given(st.lists(st.sampled_from(["<a/>", "<b ü='1>' />", "<c>ü</c>", "<d><e>", "ß", "\n", "<!-- 𝄞 -->"]), max_size=30))
def test_elements_lie_where_the_text_has_them(parts: list[str]) -> None:
    opened = parts.count("<d><e>")
    text = "<x>" + "".join(parts) + "</e></d>" * opened + "</x>"
    elements = [parse(Path("precice-config.xml"), text)]
    for element in elements:
        elements += element.children
        begin, end = element.span
        assert re.match(rf"<{element.tag}\b", text[begin:end])
        assert text[element.span[0] : element.end].endswith(("/>", f"</{element.tag}>"))
        assert text.count("\n", 0, begin) + 1 == element.line
    assert len(elements) == len(re.findall("<[a-z]", text))


def test_who_talks_has_an_m2n() -> None:
    message = "expected an <m2n:…> between A and C in <coupling-scheme:serial-explicit>, found none; add it"
    with pytest.raises(ConfigurationError, match=message):
        parse_configuration(configuration("ABC", [scheme("serial-explicit", "AC")], ["AB", "CB"]))


def test_patch_changes_nothing_else(tmp_path: Path) -> None:
    source, target = tmp_path / "a.xml", tmp_path / "b.xml"
    source.write_bytes(FULL.replace("\n", "\r\n").encode())
    patch_configuration(source, target, max_time_windows=5, exchange_directory='../"x" & y')
    expected = FULL.replace(
        '    <max-time value="1" />', '    <max-time-windows value="5" />\n    <max-time value="1" />'
    )
    expected = expected.replace(
        'initialization="yes" />', 'initialization="yes" exchange-directory="../&quot;x&quot; &amp; y" />'
    )
    assert target.read_bytes() == expected.replace("\n", "\r\n").encode()
    patched = read_configuration(target)
    assert patched.coupling_schemes[0].max_time_windows == 5
    assert patched.m2ns[0].exchange_directory == '../"x" & y'
    with pytest.raises(ConfigurationError, match="at least 1"):
        patch_configuration(source, target, max_time_windows=0)


def test_patch_replaces_what_is_there_and_keeps_the_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    text = FULL.replace("UTF-8", "ISO-8859-1").replace("two participants", "zwei Löser äöü")
    text = text.replace('<max-time value="1" />', "<max-time-windows   value = '99'/>")
    text = text.replace('acceptor="Inner"', "exchange-directory='old > dir' acceptor=\"Inner\"")
    path.write_bytes(text.encode("latin-1"))
    patch_configuration(path, path, max_time_windows=4, exchange_directory="new")
    expected = text.replace("'99'", '"4"').replace("'old > dir'", '"new"')
    assert path.read_bytes() == expected.encode("latin-1")


def test_the_network_is_set_for_all_sockets_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "precice-config.xml"
    text = CALIBRATION_CONFIGURATION.replace(
        '<mesh name="A-Mesh"', '<!-- m2n:sockets network="lo" --> <mesh name="A-Mesh"', 1
    ).replace('<provide-mesh name="A-Mesh" />', '<provide-mesh name="A-Mesh" /> <intra-comm:sockets network="eth0" />')
    path.write_text(text)
    patch_configuration(path, path, network="ib0")
    assert path.read_text() == text.replace(
        '<m2n:sockets acceptor="Left" connector="Right" exchange-directory="." />',
        '<m2n:sockets acceptor="Left" connector="Right" exchange-directory="." network="ib0" />',
    ).replace('network="eth0"', 'network="ib0"')


def test_patch_lets_windows_of_different_size_end_together(tmp_path: Path) -> None:
    path, target = tmp_path / "a.xml", tmp_path / "b.xml"
    for size, counts in (("0.1", [12, 4]), ("0.2", [6, 4])):
        bodies = {pair: f'<time-window-size value="{each}" />' for pair, each in (("AB", size), ("BC", "0.3"))}
        schemes = [scheme("parallel-explicit", pair, [(pair[0], pair[1])], body) for pair, body in bodies.items()]
        path.write_text(configuration("ABC", schemes))
        patch_configuration(path, target, max_time_windows=4)
        assert [s.max_time_windows for s in read_configuration(target).coupling_schemes] == counts
    with pytest.raises(ConfigurationError, match="time windows that fit 3 times"):
        patch_configuration(path, target, max_time_windows=3)


@given(st.integers(0, len(FULL) - 1), st.integers(0, 40), st.text(string.printable, max_size=6))
def test_damaged_text_gives_a_configuration_or_one_line(position: int, length: int, replacement: str) -> None:
    text = FULL[:position] + replacement + FULL[position + length :]
    try:
        outcome: object = parse_configuration(text).participants
    except ConfigurationError as error:
        outcome = str(error)
    assert outcome
    assert "\n" not in str(outcome)
