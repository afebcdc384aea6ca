"""Mutation tests: which bugs are planted, and whether those that tests notice count as killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mutants import __main__ as command
from mutants.places import PlacesOfModule, sample

ROOT = Path(__file__).parent.parent.parent
LAYOUT = Path("precice_lb/layout.py")


def _module(tmp_path: Path, source: str) -> set[str]:
    """Return what the statements of a module become in 50 samples."""
    (tmp_path / "module.py").write_text(source, encoding="utf-8")
    changed = set()
    for seed in range(50):
        for mutant in sample(tmp_path, [Path("module.py")], 1, seed):
            changed.add(mutant.after)
    return changed


def test_every_mutant_is_another_module_that_compiles() -> None:
    original = (ROOT / LAYOUT).read_text(encoding="utf-8")
    mutants = sample(ROOT, [LAYOUT], 30, 1)
    assert len(mutants) == 30
    for mutant in mutants:
        assert mutant.source != original
        compile(mutant.source, str(LAYOUT), "exec")


def test_a_seed_gives_the_same_mutants() -> None:
    keys = [mutant.key for mutant in sample(ROOT, [LAYOUT], 8, 5)]
    assert keys == [mutant.key for mutant in sample(ROOT, [LAYOUT], 8, 5)]
    assert keys[:3] == [mutant.key for mutant in sample(ROOT, [LAYOUT], 3, 5)]
    assert keys != [mutant.key for mutant in sample(ROOT, [LAYOUT], 8, 6)]


def test_no_place_is_taken_twice(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("def f(a, b):\n    return a < b\n", encoding="utf-8")
    mutants = sample(tmp_path, [Path("module.py")], 150, 1)
    assert sorted(mutant.after for mutant in mutants) == ["return None", "return a <= b"]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("if a:\n    pass\n", {"if not (a)"}),
        ("raise ValueError\n", {"pass"}),
        ("f(a)\n", {"pass", "f(None)"}),
        ("b = 3\n", {"b = 4", "b = None"}),
        ("b = 60\n", {"b = 120", "b = None"}),
        ("b = 2.5\n", {"b = 5.0", "b = None"}),
        ("b = 1e-12\n", {"b = None"}),
        ("b: int = None\n", {'b: int = ""'}),
    ],
)
def test_bugs_of_a_statement(statement: str, expected: set[str], tmp_path: Path) -> None:
    assert _module(tmp_path, statement) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "import os\n",
        "if TYPE_CHECKING:\n    a = 1\n",
        '"""A text."""\n',
        "zip(a, b, strict=True).x\n",
        "a: int\n",
        "Floats = NDArray[np.float64]\n",
        "Block: TypeAlias = Paragraph | Table\n",
        '__all__ = ["a"]\n',
    ],
)
def test_what_means_nothing_at_run_time_stays(statement: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(statement, encoding="utf-8")
    assert sample(tmp_path, [Path("module.py")], 10, 1) == []


RUN = """
import json, sys, time
from pathlib import Path
from mutants import runs
from mutants.places import sample
from mutants.runs import Runner, TestsFailError

runs._LOADED_ONCE = ()
root, directory = Path(sys.argv[1]), Path(sys.argv[2])
directory.mkdir()
runner = Runner(root, directory, ["tests"], jobs=2)
try:
    runner.prepare()
except TestsFailError as error:
    sys.exit(str(error))
mutants = sample(root, [Path("precice_lb/__init__.py")], 150, 1)
outcomes = runner.run(mutants, until=time.monotonic() + 600)
found = sorted((outcome.mutant.line, outcome.verdict, outcome.failed_test) for outcome in outcomes)
print(json.dumps(found))
"""
PACKAGE = """\
def tested(a, b):
    return a < b


def untested(a, b):
    return a < b


def called_by_a_process(a, b):
    return a < b


def never_called(a, b):
    return a < b
"""
TEST = """\
import subprocess, sys
import precice_lb


def test_less():
    precice_lb.untested(1, 2)
    assert precice_lb.tested(1, 2) is True
    assert precice_lb.tested(1, 1) is {expected}


def test_process():
    program = "import precice_lb, sys; sys.exit(precice_lb.called_by_a_process(1, 1) is not False)"
    subprocess.run([sys.executable, "-c", program], check=True)
"""


def _run_small_project(directory: Path, expected: bool) -> subprocess.CompletedProcess[str]:
    root = directory / "project"
    for name, text in {
        "precice_lb/__init__.py": PACKAGE,
        "tests/test_less.py": TEST.format(expected=expected),
        "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow"]\n',
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    arguments = [sys.executable, "-c", RUN, str(root), str(directory / "copies")]
    return subprocess.run(arguments, cwd=ROOT / "tests", capture_output=True, text=True, check=False, timeout=300)


def test_what_a_test_notices_is_killed_and_all_else_survives(tmp_path: Path) -> None:
    done = _run_small_project(tmp_path, expected=False)
    assert done.returncode == 0, done.stderr
    killed = [2, "killed", "tests/test_less.py::test_less"]
    survived = [6, "survived", ""]
    killed_by_a_process = [10, "killed", "tests/test_less.py::test_process"]
    never_run = [14, "survived", ""]
    assert json.loads(done.stdout) == [*[killed] * 2, *[survived] * 2, *[killed_by_a_process] * 2, *[never_run] * 2]


def test_tests_that_fail_without_a_bug_are_refused(tmp_path: Path) -> None:
    done = _run_small_project(tmp_path, expected=True)
    expected = "expected tests that pass without a bug, found that these fail: tests/test_less.py::test_less"
    assert expected in done.stderr


def test_an_unknown_subpackage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["splt"])
    assert "found 'splt'; name subpackages of precice_lb" in capsys.readouterr().err


def test_every_subpackage_has_tests() -> None:
    for name in command.subpackages():
        assert command.modules_of(name), name
        for path in command.tests_of(name):
            assert (ROOT / path).exists(), path


def test_mutants_listed_as_unchanged_can_still_be_planted() -> None:
    for path, before, _after in sorted(command.known_unchanged()):
        assert before in PlacesOfModule(ROOT, Path(path)).statements(), f"{path}: {before}"


def test_mutants_listed_as_unchanged_have_a_reason() -> None:
    for entry in command.listed_as_unchanged():
        assert len(entry["reason"]) > 10, entry
