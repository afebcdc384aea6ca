"""Tutorials have the form of preCICE's application cases (guidelines v0.4): files, names, configuration, README."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from precice_lb.case import read_configuration

yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extra dev")

TUTORIALS = Path(__file__).parents[2] / "tutorials"
CASES = sorted(path.parent for path in TUTORIALS.glob("*/README.md"))
each_case = pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)

HEADINGS = ["Setup", "Configuration", "Available solvers", "Running the simulation", "Post-processing"]


@each_case
def test_each_participant_has_a_directory_with_scripts(case: Path) -> None:
    participants = read_configuration(case / "precice-config.xml").participants
    found = {path.parent.name for path in case.glob("*/run.sh")}
    for name in participants:
        assert any(solver.startswith(f"{name.lower()}-") for solver in found), name
    for solver in found:
        assert any(solver.startswith(f"{name.lower()}-") for name in participants), solver
        text = (case / solver / "run.sh").read_text(encoding="utf-8")
        assert text.startswith("#!/usr/bin/env bash\n"), solver
        assert "\nset -e -u\n" in text, solver
    assert {path.parent.name for path in case.glob("*/clean.sh")} == found
    for script in (case / "clean.sh", *case.glob("*/run.sh"), *case.glob("*/clean.sh")):
        assert os.access(script, os.X_OK), script


@each_case
def test_metadata_names_participants_and_what_runs_them(case: Path) -> None:
    metadata = yaml.safe_load((case / "metadata.yaml").read_text(encoding="utf-8"))
    assert set(metadata) >= {"name", "path", "participants", "cases"}
    assert metadata["path"] == case.name
    participants = read_configuration(case / "precice-config.xml").participants
    assert sorted(metadata["participants"]) == sorted(participants)
    for name, solver in metadata["cases"].items():
        assert solver["participant"] in participants
        assert name.startswith(f"{solver['participant'].lower()}-")
        assert (case / solver["directory"] / "run.sh").is_file()
        assert {"run", "component"} <= set(solver)
    assert set(metadata["cases"]) == {path.parent.name for path in case.glob("*/run.sh")}


@each_case
def test_participants_meet_one_directory_above(case: Path) -> None:
    assert {m2n.exchange_directory for m2n in read_configuration(case / "precice-config.xml").m2ns} == {".."}


# They leave files open.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@each_case
def test_precices_tools_have_nothing_to_say_about_the_configuration(
    case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = pytest.importorskip("preciceconfigcheck.cli", reason="precice-config-check comes with the extra dev")
    style = pytest.importorskip("preciceconfigformat.cli", reason="precice-config-format comes with the extra dev")
    copy = Path(shutil.copy(case / "precice-config.xml", tmp_path))
    assert style.formatFiles([str(copy)]) == 0, "run precice-config-format"
    code = check.runCheck(copy, debug=True)
    output = capsys.readouterr().out
    assert (code, re.findall(r"[A-Z]\w+Violation", output)) == (0, []), output


@each_case
@pytest.mark.precice
def test_libprecice_takes_the_configuration(case: Path) -> None:
    validate = shutil.which("precice-config-validate")
    if validate is None:
        pytest.skip("no precice-config-validate on the path: it comes with libprecice")
    done = subprocess.run([validate, str(case / "precice-config.xml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@each_case
def test_the_readme_has_the_parts_of_precices(case: Path) -> None:
    text = (case / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert [each for each in headings if each in HEADINGS] == HEADINGS
    assert headings[0] == "Setup"
    picture = f"images/tutorials-{case.name}-precice-config.svg"
    assert f"]({picture})" in text
    # Drawn from this configuration: it names all meshes and participants.
    drawn = set(re.findall(r"<text[^>]*>([^<]*)", html.unescape((case / picture).read_text(encoding="utf-8"))))
    configuration = read_configuration(case / "precice-config.xml")
    assert drawn >= {*configuration.meshes, *configuration.participants}
