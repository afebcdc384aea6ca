"""Runs of a subpackage's tests, each with one bug planted, several at a time."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import psutil

from .one_run import read_lines, run_tests
from .places import Mutant

# Loading these takes most of a short run, and each process has them from the one that started it. MPI stays out of it.
_LOADED_ONCE = (
    "cyclopts",
    "h5py",
    "jinja2",
    "matplotlib.figure",
    "numpy",
    "pandas",
    "pydantic",
    "rich.console",
    "scipy.interpolate",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.gaussian_process",
    "sklearn.linear_model",
)
# A run that takes this many times as long as one without a bug, and as many seconds more, hangs.
_LONGEST_FACTOR = 2.0
_LONGEST_MORE = 30.0
# Python compiles a module anew if its time of change, in whole seconds, is another one.
_FIRST_TIME_OF_CHANGE = 1_000_000_000


class TestsFailError(Exception):
    """The tests fail without any bug."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What the tests said of one mutant.

    Attributes
    ----------
    mutant : Mutant
    verdict : str
        ``killed``, ``survived``, or ``hangs`` where the tests did not come to their end.
    seconds : float
        Time that the run took.
    failed_test : str
        The first test that failed; empty if none did.
    """

    mutant: Mutant
    verdict: str
    seconds: float
    failed_test: str = ""


class _Copy:
    """A copy of the repository, with at most one process that runs tests in it."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.directory = directory
        self.report = directory.with_suffix(".json")
        self.mutant: Mutant | None = None
        self.process: ForkProcess | None = None
        self.started = 0.0
        self.longest = 0.0
        self._original = ""
        self._changes = 0
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        shutil.rmtree(directory, ignore_errors=True)
        for name in listed.stdout.splitlines():
            if (root / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, directory / name)

    def start(self, tests: Sequence[str], **options: Any) -> None:
        self.report.unlink(missing_ok=True)
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=run_tests, args=(self.directory, tests, self.report), kwargs=options)
        self.started = time.monotonic()
        self.process.start()

    def plant(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self._original = (self.directory / mutant.path).read_text(encoding="utf-8")
        self._write(mutant.source)

    def restore(self) -> None:
        self._write(self._original)
        self.mutant = None

    def _write(self, source: str) -> None:
        assert self.mutant is not None
        path = self.directory / self.mutant.path
        path.write_text(source, encoding="utf-8")
        self._changes += 1
        time_of_change = _FIRST_TIME_OF_CHANGE + self._changes
        os.utime(path, (time_of_change, time_of_change))

    def end(self) -> dict[str, Any] | None:
        """End the process and all that it left, and return its report; None if it wrote none."""
        assert self.process is not None
        if self.process.is_alive():
            first = psutil.Process(self.process.pid)
            for process in [*first.children(recursive=True), first]:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
        self.process.join()
        self.process = None
        if not self.report.exists():
            return None
        report: dict[str, Any] = json.loads(self.report.read_text(encoding="utf-8"))
        return report


def lines_in_functions(module: Path) -> set[int]:
    """Return the numbers of the lines in the bodies of a module's functions."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines.update(range(node.body[0].lineno, node.body[-1].end_lineno + 1))
    return lines


def _tests_at(lines: Iterable[int], tests_by_line: Mapping[int, set[str]]) -> set[str]:
    tests: set[str] = set()
    for line in lines:
        tests |= tests_by_line.get(line, set())
    return tests


class Runner:
    """Runs tests against mutants.

    Parameters
    ----------
    root : pathlib.Path
        The repository's root.
    directory : pathlib.Path
        Place for copies of the repository, one for each job.
    tests : sequence of str
        Files and folders of tests, relative to `root`.
    jobs : int
        Number of runs at a time.
    """

    def __init__(self, root: Path, directory: Path, tests: Sequence[str], jobs: int) -> None:
        for name in _LOADED_ONCE:
            importlib.import_module(name)
        self._root = root
        self._tests = tests
        self._copies = [_Copy(root, directory / f"copy-{number}") for number in range(jobs)]
        self._durations: dict[str, float] = {}
        self._lines: dict[str, dict[int, set[str]]] = {}

    def prepare(self) -> float:
        """Run the tests without any bug, and see which of them come by each line.

        Returns
        -------
        float
            Time that the tests take, in seconds.

        Raises
        ------
        TestsFailError
            If a test fails, or if there is none.
        """
        copy = self._copies[0]
        lines = copy.report.with_suffix(".lines")
        copy.start(self._tests, to_the_end=True, lines=lines)
        assert copy.process is not None
        copy.process.join()
        seconds = time.monotonic() - copy.started
        report = copy.end()
        if report is None or report["status"] != 0:
            failed = ", ".join(report["failed"]) if report is not None else "all of them"
            log = copy.report.with_suffix(".log")
            raise TestsFailError(f"expected tests that pass without a bug, found that these fail: {failed}; see {log}")
        self._durations = report["durations"]
        self._lines = read_lines(copy.directory, lines)
        return seconds

    def run(self, mutants: Sequence[Mutant], until: float) -> Iterator[Outcome]:
        """Run the tests against each mutant, and yield outcomes as they come.

        Parameters
        ----------
        mutants : sequence of Mutant
        until : float
            Time of ``time.monotonic`` after which no further run is started.
        """
        waiting = list(reversed(mutants))
        while True:
            for copy in self._copies:
                while copy.process is None and waiting and time.monotonic() < until:
                    mutant = waiting.pop()
                    tests = self._tests_of(mutant)
                    if tests:
                        self._start(copy, mutant, tests)
                    else:
                        yield Outcome(mutant, "survived", 0.0)
            running = {copy.process.sentinel: copy for copy in self._copies if copy.process is not None}
            if not running:
                return
            ended = wait(list(running), timeout=1.0)
            for sentinel, copy in running.items():
                if sentinel in ended or time.monotonic() - copy.started > copy.longest:
                    yield self._outcome(copy)

    def _tests_of(self, mutant: Mutant) -> set[str]:
        """Return the tests that may notice a bug.

        Those are the tests that come by its statement. Of what Python runs when it imports the module, such as the
        value of a constant, they are the tests that come by any function of the module.
        """
        tests_by_line = self._lines.get(str(mutant.path), {})
        in_functions = lines_in_functions(self._root / mutant.path)
        if mutant.statement_line in in_functions:
            return _tests_at(range(mutant.statement_line, mutant.line + 1), tests_by_line)
        return _tests_at(in_functions, tests_by_line) or set(self._durations)

    def _start(self, copy: _Copy, mutant: Mutant, tests: set[str]) -> None:
        copy.plant(mutant)
        # All tests of their files, because the tests of a file share what one of them sets up.
        files = {test.partition("::")[0] for test in tests}
        seconds = sum(seconds for test, seconds in self._durations.items() if test.partition("::")[0] in files)
        copy.longest = _LONGEST_FACTOR * seconds + _LONGEST_MORE
        copy.start(sorted(files), first=frozenset(tests), durations=self._durations)

    def _outcome(self, copy: _Copy) -> Outcome:
        assert copy.mutant is not None
        seconds = time.monotonic() - copy.started
        mutant = copy.mutant
        report = copy.end()
        copy.restore()
        if report is None and seconds > copy.longest:
            return Outcome(mutant, "hangs", seconds)
        if report is not None and report["status"] == 0:
            return Outcome(mutant, "survived", seconds)
        failed = report["failed"][:1] if report is not None else []
        return Outcome(mutant, "killed", seconds, "".join(failed))
