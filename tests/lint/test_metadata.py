"""Versions, names and licences agree wherever they are stated, and what pyproject.toml names exists."""

from __future__ import annotations

import re
import sys

import pytest
from markdown_helpers import ROOT

from precice_lb._version import VERSION

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_one_of_semantic_versioning() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "precice_lb._version.VERSION"}


def test_the_citation_agrees_with_the_package() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra dev")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == VERSION
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["authors"] == PROJECT["project"]["authors"]
    assert {word.lower() for word in citation["keywords"]} <= {word.lower() for word in PROJECT["project"]["keywords"]}


def test_python_and_pyprecice_are_those_that_are_stated() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra dev")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    stated = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert stated == tested
    assert PROJECT["project"]["requires-python"] == f">={tested[0]}"
    (oldest,) = PROJECT["project"]["optional-dependencies"]["precice"]
    for page in ("README.md", "docs/questions.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert f"Python {tested[0]} or newer" in text
        assert f"{oldest.replace('>=', ' ')} is the oldest" in text


def test_contributing_says_how_to_run_the_tests_of_each_marker() -> None:
    markers = {line.partition(":")[0].partition("(")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    # The first column of the table's rows has markers, the last a command or a link to it.
    described = set()
    for names, command in re.findall(r"^\| (`.*?) \|.*\| (.*) \|$", text, flags=re.MULTILINE):
        assert re.match(r"`make |\[below\]\(#", command)
        described |= set(re.findall(r"`(\w+)`", names))
    assert described == markers


def test_the_changelog_has_this_version_first() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    versions = [heading for heading in headings if heading != "Unreleased"]
    assert re.fullmatch(rf"{re.escape(VERSION)} \((unreleased|\d{{4}}-\d\d-\d\d)\)", versions[0])
    assert "Unreleased" not in headings[1:]


def test_what_was_run_is_what_the_images_have() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    (precice,) = set(re.findall(r"precice/precice:([\d.]+)", dockerfile))
    (pyprecice,) = set(re.findall(r"pyprecice==([\d.]+)", dockerfile))
    for page in ("README.md", "docs/questions.md", "docs/guidelines.md"):
        assert f"preCICE {precice} and pyprecice {pyprecice}" in (ROOT / page).read_text(encoding="utf-8")
    (image,) = re.findall(r"precice/precice:([\d.]+)", (ROOT / ".github/workflows/tests.yml").read_text("utf-8"))
    assert image == precice


def _has_module(name: str) -> bool:
    """Whether a module of this repository has a name, which may have ``*`` in place of some of its components."""
    path = name.replace(".", "/")
    return any(ROOT.glob(f"{path}.py")) or any(ROOT.glob(f"{path}/__init__.py"))


def _own_modules_of_contracts() -> list[str]:
    """Return the names of this package's modules in the settings of import-linter."""
    names = [PROJECT["tool"]["importlinter"]["root_package"]]
    for contract in PROJECT["tool"]["importlinter"]["contracts"]:
        names += contract.get("containers", [])
        names += contract.get("protected_modules", [])
        names += contract.get("allowed_importers", [])
        for ignored in contract.get("ignore_imports", []):
            names += ignored.split(" -> ")
        for layer in contract.get("layers", []):
            names += [f"precice_lb.{module}" for module in layer.split(" | ")]
    return [name for name in names if name.split(".")[0] == "precice_lb"]


def test_modules_in_the_settings_of_import_linter_exist() -> None:
    names = _own_modules_of_contracts()
    assert "precice_lb.campaign" in names
    assert [name for name in names if not _has_module(name)] == []


def _paths_in_settings() -> list[str]:
    """Return the paths and patterns in pyproject.toml, relative to the repository's root."""
    tool = PROJECT["tool"]
    paths = [*tool["pytest"]["ini_options"]["testpaths"], *tool["pytest"]["ini_options"]["pythonpath"]]
    paths += [*tool["ruff"]["lint"]["per-file-ignores"], *tool["mypy"]["files"]]
    for patterns in tool["setuptools"]["data-files"].values():
        paths += patterns
    for package, patterns in tool["setuptools"]["package-data"].items():
        paths += [f"{package}/{pattern}" for pattern in patterns]
    return paths


def test_paths_in_pyproject_exist() -> None:
    paths = _paths_in_settings()
    assert "tutorials/pulse/optimum.py" in paths
    assert [path for path in paths if not any(ROOT.glob(path))] == []
