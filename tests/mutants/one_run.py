"""One run of some tests, in a process of its own and in a copy of the repository."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest

# Tests of what a machine has take long; those of real times fail on a busy machine.
_MARKERS = "not (slurm or browser or openmpi or launcher or slow or alone)"


class _Reporter:
    """Put tests in an order, and write down how long each takes and which of them fail.

    Parameters
    ----------
    first : collection of str
        Names of the tests that are run before all others.
    durations : mapping
        Seconds by name of test. Files whose tests take shortest are run first.
    """

    def __init__(self, first: Collection[str], durations: Mapping[str, float]) -> None:
        self.durations: dict[str, float] = defaultdict(float)
        self.failed: list[str] = []
        self._first = first
        self._known_durations = durations

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Tests of a file stay together, because they share what they set up.
        groups = {}
        seconds_by_group: dict[tuple[bool, str], float] = defaultdict(float)
        for item in items:
            group = item.nodeid not in self._first, item.nodeid.partition("::")[0]
            groups[item.nodeid] = group
            seconds_by_group[group] += self._known_durations.get(item.nodeid, 0.0)

        def place(item: pytest.Item) -> tuple[bool, float, str]:
            is_later, file = groups[item.nodeid]
            return is_later, seconds_by_group[is_later, file], file

        items.sort(key=place)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.durations[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


# Names the test that starts a process, to the process.
_TEST_VARIABLE = "MUTANTS_TEST"
# Python runs it at its start in each process that a test starts. The environments of some tests have no coverage.
_SITE_CUSTOMIZE = """\
try:
    import coverage
except ImportError:
    pass
else:
    coverage.process_startup()
"""
_COVERAGE_OF_PROCESSES = """\
[run]
data_file = {data_file}
parallel = true
context = ${{{variable}}}
include = {package}/*
"""


class _LineRecorder:
    """Write down which tests come by each line of the package, also in processes that the tests start.

    Processes that are killed, or that clear their environment, are missing.
    """

    def __init__(self, copy: Path, directory: Path) -> None:
        package = copy / "precice_lb"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        (directory / "sitecustomize.py").write_text(_SITE_CUSTOMIZE, encoding="utf-8")
        settings = _COVERAGE_OF_PROCESSES.format(
            data_file=directory / "process", variable=_TEST_VARIABLE, package=package
        )
        (directory / "coverage.ini").write_text(settings, encoding="utf-8")
        os.environ["COVERAGE_PROCESS_START"] = str(directory / "coverage.ini")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(directory), os.environ["PYTHONPATH"]])
        self._coverage = coverage.Coverage(
            data_file=str(directory / "tests"), include=[f"{package}/*"], config_file=False
        )
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.environ[_TEST_VARIABLE] = nodeid
        self._coverage.switch_context(nodeid)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


def read_lines(copy: Path, directory: Path) -> dict[str, dict[int, set[str]]]:
    """Return the tests that came by each line.

    Parameters
    ----------
    copy : pathlib.Path
        Root of the copy of the repository in which the tests ran.
    directory : pathlib.Path
        The `lines` of `run_tests`.

    Returns
    -------
    dict
        Names of tests by number of line by path of module, relative to `copy`.
    """
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for data_file in [directory / "tests", *directory.glob("process.*")]:
        data = coverage.CoverageData(str(data_file))
        data.read()
        for file in data.measured_files():
            tests_by_line = lines[str(Path(file).relative_to(copy))]
            for line, tests in data.contexts_by_lineno(file).items():
                tests_by_line[line].update(test for test in tests if test)
    return lines


def run_tests(
    copy: Path,
    tests: Sequence[str],
    report: Path,
    *,
    first: Collection[str] = (),
    durations: Mapping[str, float] | None = None,
    lines: Path | None = None,
    to_the_end: bool = False,
) -> None:
    """Run tests in a copy of the repository, write a report, and end this process.

    Parameters
    ----------
    copy : pathlib.Path
        The copy's root.
    tests : sequence of str
        Files and folders of tests, relative to `copy`.
    report : pathlib.Path
        File to write: pytest's exit status, seconds by name of test, and names of tests that failed. What the tests
        print stands beside it, in a file that ends in ``.log``.
    first : collection of str, optional
        Names of tests to run before all others.
    durations : mapping, optional
        Seconds that tests are known to take, by name.
    lines : pathlib.Path, optional
        Directory in which to write which tests come by each line.
    to_the_end : bool, default False
        Whether to go on after a test that fails.
    """
    os.setsid()
    os.chdir(copy)
    log = os.open(report.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # Solvers and commands that tests start import the package from the same copy.
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    reporter = _Reporter(first, durations or {})
    plugins: list[Any] = [reporter]
    if lines is not None:
        plugins.append(_LineRecorder(copy, lines))
    options = ["-q", "-p", "no:cacheprovider", "-m", _MARKERS]
    if not to_the_end:
        options.append("-x")
    status = int(pytest.main([*options, *tests], plugins=plugins))
    found = {"status": status, "durations": reporter.durations, "failed": reporter.failed}
    report.write_text(json.dumps(found), encoding="utf-8")
    sys.stdout.flush()
    # Threads and exit handlers of tests do not keep it from ending.
    os._exit(0)
