"""Patched copies of configurations: fields of predictions are added, and nothing else is touched."""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path

import pytest
from calibrate_helpers import refusals
from guess_helpers import (
    AITKEN,
    CASE,
    PARALLEL,
    THIRD_OF_ITS_OWN,
    edited,
    refused_by_libprecice,
)
from hypothesis import given
from hypothesis import strategies as st
from precice_xml_helpers import configuration, scheme
from tutorial_runs import CASES as RUNS
from tutorial_runs import lay_out, run

from precice_lb.case import Configuration, parse_configuration, read_configuration
from precice_lb.case.elements import Element
from precice_lb.exceptions import ConfigurationError, UnsupportedConfigurationError
from precice_lb.guess import is_patched, obstacles, patch_guess

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
    "two fields of one": "".join(x.replace("Force", "Load") + x if "Force" in x else x for x in CASE.splitlines(True)),
}
ROOT = Path(__file__).parents[2]


def patched(text: str, tmp_path: Path) -> Configuration:
    source, target = tmp_path / "precice-config.xml", tmp_path / "guess.xml"
    source.write_bytes(text.encode())
    patch_guess(source, target)
    assert source.read_bytes() == text.encode()
    assert read_configuration(target).text.encode() == target.read_bytes()
    return read_configuration(target)


@pytest.mark.parametrize("block", refusals("guess-patched.txt"))
def test_what_predictions_need_is_added(tmp_path: Path, block: str) -> None:
    """A base, its edits, and the lines that go from it and come into its copy."""
    base, *lines = block.removeprefix("# ").split("\n")
    text = edited([tuple(line.split(" -> ")) for line in lines if line[0] not in "+-"], BASES[base])  # type: ignore[misc]
    after = patched(text, tmp_path)
    assert is_patched(after)
    assert obstacles(after) == []
    changes = difflib.unified_diff(text.splitlines(), after.text.splitlines(), lineterm="", n=0)
    assert [line for line in changes if line[:3] not in ("---", "+++") and line[0] in "+-"] == [
        line for line in lines if line[0] in "+-"
    ]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, dict[str, str], str]:
    """A base as people may write it: ends of lines, indentation, comments, quotes, closing tags, names."""
    random = draw(st.randoms(use_true_random=False))
    base = draw(st.sampled_from(sorted(BASES)))
    root = parse_configuration(BASES[base]).root
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

    return base, names, f'<?xml version="1.0"?>{newline}{element(root, 0)}{newline}'


def renamed(element: Element, names: dict[str, str]) -> Element:
    """An element with the names of its base, and without its place in the file."""
    attributes = {}
    for key, value in element.attributes.items():
        for name, new in names.items():
            value = value.replace(new, name)
        attributes[key] = value
    return Element(element.tag, 0, attributes, tuple(renamed(child, names) for child in element.children))


@given(layouts())
def test_the_same_is_added_however_a_file_is_written(
    tmp_path_factory: pytest.TempPathFactory, layout: tuple[str, dict[str, str], str]
) -> None:
    (base, names, text), directory = layout, tmp_path_factory.mktemp("case")
    after = patched(text, directory)
    assert _ADDED.sub("", after.text).replace("Shifted-", "") == text
    assert renamed(after.root, names) == renamed(patched(BASES[base], directory).root, {})


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


# --- those who must take them --------------------------------------------------------------------------------------


@pytest.mark.precice
@pytest.mark.parametrize("name", sorted(BASES))
def test_libprecice_takes_them(name: str, tmp_path: Path) -> None:
    patched(BASES[name], tmp_path)
    assert refused_by_libprecice(tmp_path / "guess.xml") == ""


@pytest.mark.precice
@pytest.mark.tutorials
def test_libprecice_takes_those_of_its_tutorials(tmp_path: Path, precice_tutorials: Path) -> None:
    configurations = sorted(precice_tutorials.glob("*/precice-config.xml"))
    taken = []
    for path in configurations:
        before = read_configuration(path)
        if obstacles(before):
            with pytest.raises(UnsupportedConfigurationError):
                patch_guess(path, tmp_path / "refused.xml")
            continue
        patched(before.text, tmp_path)
        assert refused_by_libprecice(tmp_path / "guess.xml") == "", path
        taken.append(path.parent.name)
    # None of those that iterate is left out but for direct access.
    iterating = set()
    for path in configurations:
        if any(scheme.is_implicit for scheme in read_configuration(path).coupling_schemes):
            iterating.add(path.parent.name)
    left_out = iterating - set(taken)
    assert left_out <= {"partitioned-heat-conduction-direct", "two-scale-heat-conduction"}
    assert len(taken) >= 20


@pytest.mark.precice
@pytest.mark.tutorials
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
