"""``precice-lb guess check`` and ``guess patch`` as users call them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from guess_helpers import AITKEN, CASE, DIRECT, MEASURE, READ_AT_A, edited

from precice_lb.case import read_configuration
from precice_lb.cli import main


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("precice-config.xml")
    path.write_text(CASE)
    return path


def test_check_says_obstacles_and_notes_and_exits_with_1(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scaled = (READ_AT_A, READ_AT_A.replace('"consistent', '"scaled-consistent-surface'))
    case.write_text(edited([*AITKEN, scaled, (MEASURE, MEASURE.replace("absolute", "relative"))]))
    assert main(["guess", "check", str(case)]) == 1
    out, _ = capsys.readouterr()
    assert "in the way: line 18, <mapping:nearest-neighbor>: is not linear" in out
    assert "note: line 33, <relative-convergence-measure>: sees the norm" in out
    assert "nothing stands in the way" not in out


def test_patch_prints_a_difference_that_makes_the_copy(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guess", "patch", str(case), "-o", "guess.xml"]) == 0
    out, err = capsys.readouterr()
    assert err == "wrote guess.xml\n"
    added = [line for line in out.splitlines() if line.startswith("+")]
    assert added[0] == "+++ guess.xml"
    assert all("Guess-of-" in line or "Shifted-" in line for line in added[1:])
    assert [line for line in out.splitlines()[1:] if line[0] == "-"] == ['-      <data name="Heat" mesh="B-Mesh" />']
    if shutil.which("patch") is None:
        pytest.skip("no patch on the path, to make the copy from the difference")
    done = subprocess.run(
        ["patch", "-o", "again.xml", str(case)], input=out, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert Path("again.xml").read_bytes() == Path("guess.xml").read_bytes()
    assert read_configuration("guess.xml").data["Guess-of-Heat"].is_vector is False


@pytest.mark.parametrize(
    ("edits", "output", "said"),
    [
        (DIRECT, "guess.xml", "precice-config.xml, line 20, <receive-mesh>: with api-access"),
        ([], "precice-config.xml", "expected the name of a copy, found the configuration itself"),
        ([], "nowhere/guess.xml", "nowhere/guess.xml"),
    ],
)
def test_patch_refuses_in_one_line(
    case: Path, edits: list[tuple[str, str]], output: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case.write_text(edited(edits))
    assert main(["guess", "patch", str(case), "-o", output]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("precice-lb: error: ")
    assert said in err
    assert err.count("\n") == 1
    assert case.read_text() == edited(edits)


def test_patch_needs_a_name_for_the_copy(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guess", "patch", str(case)]) == 2
    assert "--output" in capsys.readouterr().err
