"""Patched copies of configurations: fields of predictions are added, and nothing else is touched."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from guess_helpers import (
    AITKEN,
    CASE,
    MEASURE,
    PARALLEL,
    READ_AT_A,
    THIRD_OF_ITS_OWN,
    edited,
    refused_by_libprecice,
)
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import configuration, scheme
from report_helpers import refused as refused_command
from tutorial_runs import CASES as RUNS
from tutorial_runs import lay_out, run

from precice_lb.case import Configuration, parse_configuration, read_configuration
from precice_lb.case.elements import Element
from precice_lb.embedded.assemble import check_supported
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.guess.config import SHIFTED, carriers, guess_name, is_patched, obstacles, patch_guess, routes

# One element that was added, with what separates it from what it stands behind.
_ADDED = re.compile(
    r"(?:\r?\n[ \t]*| )<(?:data:scalar|data:vector|use-data|write-data|read-data|exchange) "
    r'(?:name|data|[^<>]* data)="(?:Guess-of-|Shifted-)[^<>]*/>'
)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})
BASES = {
    "serial": CASE,
    "parallel": edited(PARALLEL),
    "relaxation": edited(AITKEN),
    "multi": configuration("ABC", [scheme("multi", "ABC")], ["AB", "AC"]),
    "beside an explicit one": edited(THIRD_OF_ITS_OWN),
}
ROOT = Path(__file__).parents[2]


def patched(text: str, tmp_path: Path) -> Configuration:
    source, target = tmp_path / "precice-config.xml", tmp_path / "guess.xml"
    source.write_bytes(text.encode())
    patch_guess(source, target)
    assert source.read_bytes() == text.encode()
    assert read_configuration(target).text.encode() == target.read_bytes()
    return read_configuration(target)


def without_additions(element: Element) -> Element:
    """An element without those that were added, without new names in others, and without places in the file."""
    kept = [child for child in element.children if not (child.tag in _TAGS and _is_new(child))]
    attributes = {key: value.removeprefix("Shifted-") for key, value in element.attributes.items()}
    return Element(element.tag, 0, attributes, tuple(map(without_additions, kept)))


_RESTART = re.compile(r'<imvj-restart-mode type="RS-SLIDE" />\s*')
_TAGS = ("data:scalar", "data:vector", "use-data", "write-data", "read-data", "exchange", "imvj-restart-mode")


def _is_new(element: Element) -> bool:
    named = [element.attributes.get(key, "") for key in ("name", "data")]
    return element.tag == "imvj-restart-mode" or any(name.startswith(("Guess-of-", "Shifted-")) for name in named)


def check(before: Configuration, after: Configuration) -> None:
    """What a patched configuration has more than its original: all that predictions need, and nothing else."""
    assert without_additions(after.root) == without_additions(before.root)
    without = _ADDED.sub("", _RESTART.sub("", after.text))
    assert without.replace("Shifted-", "") == before.text
    assert is_patched(after)
    assert obstacles(after) == []
    ways, others = (
        [(way.exchange.data, way.write_mesh, way.read_mesh, way.shifted) for way in routes(one)]
        for one in (before, after)
    )
    assert ways == others
    sent = {replace(one, line=0) for scheme in after.coupling_schemes for one in scheme.exchanges}
    new = {one for one in sent if one.data.startswith(("Guess-of-", SHIFTED))}
    for way in carriers(before):
        exchange = way.exchange
        guess, shifted = guess_name(exchange.data), SHIFTED + exchange.data
        new.remove(replace(exchange, data=guess, initialize=True, substeps=False, line=0))
        if way.shifted:
            new.remove(replace(exchange, data=shifted, line=0))
            assert after.data[shifted].waveform_degree == before.data[exchange.data].waveform_degree
        for name in (guess, shifted) if way.shifted else (guess,):
            assert after.data[name].is_vector == after.data[exchange.data].is_vector
            for mesh in (way.write_mesh, exchange.mesh, way.read_mesh):
                assert name in after.meshes[mesh].data
            assert (way.write_mesh, name) in after.participants[exchange.source].writes
            assert (way.read_mesh, name) in after.participants[exchange.target].reads
    assert new == set()
    check_schemes(before, after)


def check_schemes(before: Configuration, after: Configuration) -> None:
    """What is accelerated is shifted, and convergence is judged by shifted values with relaxation alone."""
    elements = zip(before.root.named("coupling-scheme:"), after.root.named("coupling-scheme:"), strict=True)
    for coupling, (old, new) in zip(before.coupling_schemes, elements, strict=True):
        shifted = {way.exchange.data for way in routes(before) if way.scheme is coupling and way.shifted}
        for old_child, new_child in zip(old.named("acceleration:"), new.named("acceleration:"), strict=True):
            for was, now in zip(old_child.named("data"), new_child.named("data"), strict=True):
                name = was.attributes["name"]
                assert now.attributes["name"] == (f"Shifted-{name}" if name in shifted else name)
        measures = next(one for one in after.coupling_schemes if one.participants == coupling.participants).measures
        for was_judged, judged in zip(coupling.measures, measures, strict=True):
            by_shifted = was_judged.data in shifted and coupling.acceleration in ("aitken", "constant")
            assert judged.data == (f"Shifted-{was_judged.data}" if by_shifted else was_judged.data)


@pytest.mark.parametrize("kind", ["aitken", "constant"])
def test_relaxation_judges_convergence_by_shifted_values(kind: str, tmp_path: Path) -> None:
    text = edited([*AITKEN, (MEASURE, f"{MEASURE}{MEASURE.replace('Heat', 'Force').replace('B-', 'A-')}")])
    if kind == "constant":
        text = text.replace("aitken", "constant").replace(
            '<data name="Heat" mesh="B-Mesh" />', '<relaxation value="0.5" />'
        )
    after = patched(text, tmp_path)
    check(parse_configuration(text), after)
    assert [measure.data for measure in after.coupling_schemes[0].measures] == ["Shifted-Heat", "Force"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", '<imvj-restart-mode type="RS-SLIDE" />'),
        ('<imvj-restart-mode type="RS-SVD" chunk-size="4" />', '<imvj-restart-mode type="RS-SLIDE" chunk-size="4" />'),
        ('<imvj-restart-mode type="RS-LS" />', '<imvj-restart-mode type="RS-SLIDE" />'),
        ('<imvj-restart-mode type="RS-0" />', '<imvj-restart-mode type="RS-0" />'),
        ('<imvj-restart-mode type="no-restart" />', '<imvj-restart-mode type="no-restart" />'),
    ],
)
def test_the_multi_vector_method_restarts_by_a_mode_that_works(given: str, expected: str, tmp_path: Path) -> None:
    text = CASE.replace("<acceleration:IQN-ILS>", f"<acceleration:IQN-IMVJ>{given}").replace(
        "</acceleration:IQN-ILS>", "</acceleration:IQN-IMVJ>"
    )
    assert text.count("IMVJ") == 2
    assert re.findall("<imvj-restart-mode[^>]*>", patched(text, tmp_path).text) == [expected]


def test_shifted_values_are_sent_as_the_data_are(tmp_path: Path) -> None:
    edits = [
        ('<data:scalar name="Heat" />', '<data:scalar waveform-degree="3" lower-bound="0" name="Heat" />'),
        ('from="B" to="A" />', 'from="B" initialize="yes" to="A" substeps="1" />'),
    ]
    after = patched(edited(edits), tmp_path)
    assert '<data:scalar name="Shifted-Heat" waveform-degree="3" />' in after.text
    assert '<data:scalar name="Guess-of-Heat" />' in after.text
    assert '<exchange data="Shifted-Heat" mesh="B-Mesh" from="B" initialize="yes" to="A" substeps="1" />' in after.text


def test_of_several_fields_that_come_anew_one_says_that_its_solver_takes_part(tmp_path: Path) -> None:
    loads = "".join(line.replace("Force", "Load") + line if "Force" in line else line for line in CASE.splitlines(True))
    after = patched(loads, tmp_path)
    assert [name for name in after.data if name.startswith("Guess-of-")] == ["Guess-of-Load", "Guess-of-Heat"]
    assert [name for name in after.data if name.startswith("Shifted-")] == ["Shifted-Heat"]


@st.composite
def layouts(draw: st.DrawFn) -> str:
    """Configurations as people may write them: ends of lines, indentation, comments, quotes, closing tags, names."""
    random = draw(st.randoms(use_true_random=False))
    root = parse_configuration(BASES[draw(st.sampled_from(sorted(BASES)))]).root
    newline, indent = draw(st.sampled_from(["\n", "\r\n"])), draw(st.sampled_from(["", "  ", "\t"]))
    names = {
        name: draw(st.sampled_from([name, f"{name} & <1>", f'"{name}"', f"{name}-ä"])) for name in ("Force", "FromA")
    }
    orderly = draw(st.booleans())

    def element(each: Element, depth: int) -> str:
        gap = newline + indent * depth
        # Values that change are written anew, with these quotes.
        changed = each.tag == "data" or each.tag.endswith("-measure")
        quote = '"' if changed else random.choice("\"'")
        values = {key: names.get(value, value).translate(_ENTITIES) for key, value in each.attributes.items()}
        space = random.choice([" ", gap + indent])
        start = f"<{each.tag}" + "".join(
            f"{space}{key}{random.choice(['=', ' = '])}{quote}{value}{quote}" for key, value in values.items()
        )
        inside = "".join(separator(gap + indent) + element(child, depth + 1) for child in each.children)
        if each.children:
            return f"{start}>{inside}{separator(gap)}</{each.tag}>"
        return start + random.choice(["/>", " />", f"></{each.tag} >", f"><!-- > --></{each.tag}>"])

    def separator(gap: str) -> str:
        return (
            gap if orderly else random.choice([gap, "", " ", f" <!-- a --> <!-- </b> -->{gap}", f" <!-- a{gap}b --> "])
        )

    return f'<?xml version="1.0"?>{newline}{element(root, 0)}{newline}'


@given(layouts())
def test_only_fields_are_added_however_a_file_is_written(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    check(parse_configuration(text), patched(text, tmp_path_factory.mktemp("case")))


def test_encodings_stay(tmp_path: Path) -> None:
    source, target = tmp_path / "precice-config.xml", tmp_path / "guess.xml"
    source.write_bytes(CASE.replace("UTF-8", "ISO-8859-1").replace("Heat", "Wärme").encode("iso-8859-1"))
    patch_guess(source, target)
    assert b'"Guess-of-W\xe4rme"' in target.read_bytes()


# --- refusals ------------------------------------------------------------------------------------------------------


def refused(source: Path, target: Path) -> str:
    there = target.exists() and target.read_bytes()
    with pytest.raises(ConfigurationError) as caught:
        patch_guess(source, target)
    assert (target.exists() and target.read_bytes()) == there
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_patched_configuration_is_not_patched_again(tmp_path: Path) -> None:
    patched(CASE, tmp_path)
    said = refused(tmp_path / "guess.xml", tmp_path / "twice.xml")
    assert said.startswith(f"{tmp_path / 'guess.xml'}:4: expected a configuration that is not patched")


def test_a_configuration_is_not_written_over(tmp_path: Path) -> None:
    source = tmp_path / "precice-config.xml"
    source.write_text(CASE)
    (tmp_path / "link.xml").symlink_to(source)
    for same in (source, tmp_path / "link.xml", tmp_path / ".." / tmp_path.name / "precice-config.xml"):
        assert "expected the name of a copy, found the configuration itself" in refused(source, same)


def test_all_obstacles_refuse_in_one_line(tmp_path: Path) -> None:
    source = tmp_path / "precice-config.xml"
    scaled = (READ_AT_A, READ_AT_A.replace('"consistent', '"scaled-consistent-surface'))
    source.write_text(edited([scaled, ('size value="0.1"', 'size method="first-participant"')]))
    scaled_too, sized = refused(source, tmp_path / "guess.xml").split("; line ")
    assert scaled_too.startswith(f"{source}, line 18, <mapping:nearest-neighbor>: ")
    assert sized.startswith("31, <time-window-size>: ")


# --- those who must take them --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["serial", "parallel", "relaxation", "elastic-tube", "partitioned-heat"])
def test_the_embedded_backend_takes_them_and_this_projects_tutorials(name: str, tmp_path: Path) -> None:
    path = ROOT / "tutorials" / name / "precice-config.xml"
    text = BASES[name] if name in BASES else read_configuration(path).text
    after = patched(text, tmp_path)
    check(parse_configuration(text), after)
    for participant in after.participants:
        check_supported(after, participant, 1)


@pytest.mark.precice
@pytest.mark.parametrize("name", sorted(BASES))
def test_libprecice_takes_them(name: str, tmp_path: Path) -> None:
    patched(BASES[name], tmp_path)
    assert refused_by_libprecice(tmp_path / "guess.xml") == ""


def tutorials() -> list[Path]:
    directory = os.environ.get("PRECICE_TUTORIALS")
    if not directory:
        pytest.skip("PRECICE_TUTORIALS does not name a directory with preCICE's tutorials")
    return sorted(Path(directory).glob("*/precice-config.xml"))


@pytest.mark.precice
def test_libprecice_takes_those_of_its_tutorials(tmp_path: Path) -> None:
    taken = []
    for path in tutorials():
        before = read_configuration(path)
        if obstacles(before):
            with pytest.raises(UnsupportedConfigurationError):
                patch_guess(path, tmp_path / "refused.xml")
            continue
        after = patched(before.text, tmp_path)
        check(before, after)
        assert refused_by_libprecice(tmp_path / "guess.xml") == "", path
        taken.append(path.parent.name)
    # None of those that iterate is left out but for direct access.
    iterating = [path for path in tutorials() if any(s.is_implicit for s in read_configuration(path).coupling_schemes)]
    left_out = {path.parent.name for path in iterating} - set(taken)
    assert left_out <= {"partitioned-heat-conduction-direct", "two-scale-heat-conduction"}
    assert len(taken) >= 20


@pytest.mark.precice
def test_fields_of_which_nobody_knows_change_no_result(tmp_path: Path) -> None:
    """Without acceleration a solver that reads its data as before gets it so on libprecice, byte for byte."""
    tutorial = next(one for one in RUNS if one.directory == "oscillator")
    results = []
    for name in ("plain", "patched"):
        lay_out(tutorial, tmp_path / name)
        configuration = tmp_path / name / "precice-config.xml"
        if name == "patched":
            shutil.move(configuration, tmp_path / "original.xml")
            patch_guess(tmp_path / "original.xml", configuration)
        assert {code for code, *_ in run(tutorial, tmp_path / name, []).values()} == {0}
        patterns = ("*/output/trajectory-*.csv", "*/precice-*-iterations.log")
        paths = sorted(path for pattern in patterns for path in (tmp_path / name).glob(pattern))
        results.append([(path.relative_to(tmp_path / name), path.read_bytes()) for path in paths])
    assert len(results[0]) == 4
    assert results[0] == results[1]


def test_the_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "precice-config.xml"
    path.write_text(CASE)
    assert "nowhere/guess.xml" in refused_command(capsys, "guess", "patch", path, "-o", tmp_path / "nowhere/guess.xml")
