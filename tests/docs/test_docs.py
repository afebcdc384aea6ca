"""The documentation: it builds without warnings, its generated parts are whole, and links hold."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from markdown_helpers import ROOT, link_problem, links, pages

from precice_lb.calibrate.study import Study
from precice_lb.cli import add_readers, app
from precice_lb.store.schema import ADVANCE_DTYPE, INITIALIZE_DTYPE, METADATA, SECTION_DTYPE


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages, with every warning an error."""
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="the extra docs is not installed")
    target = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documentation_builds_without_warnings(built: Path) -> None:
    for page in pages():
        if page.is_relative_to(ROOT / "docs"):
            html = built / page.relative_to(ROOT / "docs").with_suffix(".html")
            assert html.is_file(), page


def test_every_tutorial_and_every_room_has_a_page(built: Path, generated: ModuleType) -> None:
    tutorials = {path.parent.name for path in ROOT.glob("tutorials/*/README.md")}
    assert {path.stem for path in (built / "tutorials").glob("*.html")} == tutorials
    assert "pulse" in tutorials
    rooms = generated.rooms()
    assert {path.name.removesuffix(".html") for path in (built / "api").glob("*.html")} == set(rooms)
    assert {"precice_lb.split", "precice_lb.recommend", "precice_lb.exceptions"} <= set(rooms)
    for room in rooms:
        assert room in (built / "reference" / "python.html").read_text(encoding="utf-8")


def test_every_command_and_option_is_in_the_reference(built: Path) -> None:
    text = (built / "reference" / "command-line.html").read_text(encoding="utf-8")

    def look(command: object, words: tuple[str, ...]) -> None:
        for name in command:  # type: ignore[attr-defined]
            if name.startswith("-"):
                continue
            below = command[name]  # type: ignore[index]
            assert " ".join(("precice-lb", *words, name)) in re.sub(r"<[^>]+>", "", text)
            if below.default_command is None:
                look(below, (*words, name))
            else:
                for argument in below.assemble_argument_collection():
                    for option in argument.names[:1]:
                        assert not option.startswith("--") or option in text, (name, option)

    add_readers()
    look(app, ())
    assert "[default: None]" not in text
    assert " -m " not in "".join(re.findall(r"precice-lb [^\n]*\[OPTIONS\]", re.sub(r"<[^>]+>", "", text)))


def test_every_key_of_a_study_is_in_the_reference_with_what_it_means(built: Path) -> None:
    text = (built / "reference" / "study-keys.html").read_text(encoding="utf-8")
    definitions = Study.model_json_schema()["$defs"]
    keys = [key for section in definitions.values() for key in section["properties"]]
    assert len(keys) > 40
    for key in keys:
        assert f'<span class="pre">{key}</span>' in text
    rows = re.findall(r"<tr class=.*?</tr>", text, flags=re.DOTALL)
    assert all(re.search(r"<td><p>.*?\w.*?</p></td>\s*</tr>", row, flags=re.DOTALL) for row in rows if "<td>" in row)


def test_study_keys_have_the_defaults_that_their_descriptions_state() -> None:
    """The prose of configs/README.md names defaults by hand: they are the model's."""
    definitions = Study.model_json_schema()["$defs"]
    tables = dict(re.findall(r"^## `\[+(\w+)\]+`.*?\n(.*?)(?=^## |\Z)", _studies(), flags=re.MULTILINE | re.DOTALL))
    sections = {"case": "Case", "runs": "Runs", "budget": "Budget", "participants": "Participant"}
    named = {table: f"{name}Section" for table, name in sections.items()} | {"launcher": "LauncherOptions"}
    compared = 0
    for table, name in named.items():
        properties = definitions[name]["properties"]
        described = set()
        for keys, default in re.findall(r"^\| (`.*?`) \| (.*?) \|", tables[table], flags=re.MULTILINE):
            for key in re.findall(r"`(\w+)`", keys):
                described.add(key)
                if re.fullmatch(r'`(\d[\d.]*|".*"|true|false|\[\])`', default) and "<" not in default:
                    stated = default.strip("`")
                    value = properties[key]["default"]
                    assert stated in (str(value).lower(), f'"{value}"', f"{value:g}" if type(value) is float else ""), (
                        key
                    )
                    compared += 1
        assert described == set(properties), table
    assert compared >= 12


def _studies() -> str:
    return (ROOT / "configs" / "README.md").read_text(encoding="utf-8")


def test_every_column_of_a_store_is_in_the_reference(built: Path) -> None:
    text = (built / "reference" / "store.html").read_text(encoding="utf-8")
    for name in (*(n for d in (ADVANCE_DTYPE, INITIALIZE_DTYPE, SECTION_DTYPE) for n in d.names or ()), *METADATA):
        assert f'<span class="pre">{name}</span>' in text


def test_links_lead_to_files_and_headings_that_exist() -> None:
    """Within this repository. Links that leave it: ``make linkcheck``, where there is a network."""
    found = [(page, target) for page in pages() for target in links(page)]
    assert len(found) >= 4
    assert [problem for page, target in found if (problem := link_problem(page, target))] == []


def test_the_link_check_sees_what_is_wrong() -> None:
    readme = ROOT / "README.md"
    assert link_problem(readme, "docs/index.md") is None
    assert link_problem(readme, "https://precice.org") is None
    assert "no such file" in str(link_problem(readme, "docs/nothing.md"))
    assert "no such heading" in str(link_problem(readme, "docs/index.md#nothing"))
    assert "not in this repository" in str(link_problem(readme, "../../"))


def test_links_out_of_the_documentation_follow_their_files(generated: ModuleType) -> None:
    text = "[a](../configs/README.md#runs) [b](../pyproject.toml) [c](partners.md) [d](../tutorials/pulse/README.md)"
    moved = generated.relinked(text, ROOT / "docs", "how-to/cluster.md")
    assert moved == "[a](../reference/study.md#runs) b [c](../partners.md) [d](../tutorials/pulse.md)"
    assert generated.relinked("```\n[b](x.md)\n```", ROOT, "index.md") == "```\n[b](x.md)\n```"


def test_names_of_environment_variables_are_described() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "precice_lb").rglob("*.py"))
    read = set(re.findall(r"environ(?:\.get\(|\[)\"(PRECICE_LB_\w+)\"", source))
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(PRECICE_LB_\w+)`", page, flags=re.MULTILINE))
    assert read <= described <= set(re.findall(r"PRECICE_LB_\w+", source))
