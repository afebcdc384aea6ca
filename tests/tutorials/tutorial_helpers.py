"""The tutorials of this project: their modules, and coupled runs of copies of them."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from clock_helpers import emulated_clock
from emulation import read_laws

from precice_lb.case import patch_configuration
from precice_lb.dataset import load_runs
from precice_lb.ingest.profiling import enrich
from precice_lb.schedule import Schedule

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "tutorials"


def tutorial_modules(name: str, *modules: str, solver: str = "solver-python") -> list[ModuleType]:
    """Import modules of a tutorial as its scripts do, and leave their names free for those of other tutorials."""
    directory = TUTORIALS / name / solver
    own = {path.stem for path in directory.glob("*.py")}
    sys.path.insert(0, str(directory))
    try:
        return [importlib.import_module(module) for module in modules]
    finally:
        sys.path.remove(str(directory))
        for module in own & sys.modules.keys():
            del sys.modules[module]


def copy_tutorial(name: str, directory: Path, *, windows: int | None = None) -> None:
    """Copy a tutorial without what runs leave behind, its coupling to end after so many time windows.

    What the tutorials share comes to stand beside it.
    """
    left = ("precice-run", "precice-profiling", "precice-lb-*", ".venv*")
    ignored = shutil.ignore_patterns("__pycache__", "*.npz", "*.h5", "*.log", "images", *left)
    shutil.copytree(TUTORIALS / name, directory, ignore=ignored)
    shutil.copytree(TUTORIALS / "tools", directory.parent / "tools", dirs_exist_ok=True)
    if windows is not None:
        configuration = directory / "precice-config.xml"
        patch_configuration(configuration, configuration, max_time_windows=windows)


def script_environment(mpiexec: str, python: str | Path = sys.executable) -> dict[str, str]:
    """Variables for scripts of tutorials: their ``python3`` and ``mpiexec`` are these, the package is this tree's."""
    path = os.pathsep.join([str(Path(python).parent), str(Path(mpiexec).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def couple(
    mpiexec: str,
    directory: Path,
    ranks: Mapping[str, int],
    *,
    backend: str,
    arguments: Sequence[str] = (),
    record: bool = False,
) -> list[dict[str, Any]]:
    """Run the run.sh of solvers of a tutorial's copy, each on its number of ranks; return what each wrote as output.

    The key of ``ranks`` is a solver's directory, with arguments of its own behind it. What is recorded on the embedded
    backend is by the emulated clock.
    """
    environment = script_environment(mpiexec)
    environment |= {"PRECICE_LB_BACKEND": backend, "PRECICE_LB_RECORD": "1" if record else "0"}
    if record and backend == "embedded":
        environment = emulated_clock(environment)
    commands = {}
    for solver, count in ranks.items():
        name, *own = solver.split()
        commands[name] = ["./run.sh", str(count), *own, *arguments]
    run_together(commands, directory, environment)
    outputs = [next((directory / name).glob("*.npz")) for name in commands]
    return [dict(np.load(output)) for output in outputs]


def couple_segments(
    mpiexec: str,
    directory: Path,
    name: str,
    segments: Sequence[tuple[int, Mapping[str, int]]],
    *,
    backend: str,
    edit: tuple[str, str] = ("", ""),
) -> list[list[dict[str, Any]]]:
    """Run a tutorial in segments: time windows and ranks of each; return what each wrote as output.

    Each runs in a copy of its own, whose configuration is edited, with the restart files of the one before.
    """
    outputs = []
    for number, (windows, ranks) in enumerate(segments):
        here, before = directory / f"{number}", directory / f"{number - 1}"
        copy_tutorial(name, here, windows=windows)
        configuration = here / "precice-config.xml"
        configuration.write_text(configuration.read_text().replace(*edit) if edit[0] else configuration.read_text())
        for path in before.glob("*/*.h5"):
            shutil.copy(path, here / path.relative_to(before))
        outputs.append(couple(mpiexec, here, ranks, backend=backend, arguments=["--restart", "restart.h5"]))
    return outputs


def run_together(commands: Mapping[str, Sequence[str]], directory: Path, environment: Mapping[str, str]) -> None:
    """Run commands at the same time, each in its directory below this one; all have to end well."""
    running, logs = [], {name: directory / f"{name}.log" for name in commands}
    try:
        for name, command in commands.items():
            with logs[name].open("wb") as log:
                options = {"stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
                running.append(subprocess.Popen(command, cwd=directory / name, env=environment, **options))
        codes = [process.wait(timeout=300) for process in running]
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):  # its ranks too
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert not any(codes), "\n".join(log.read_text() for log in logs.values())


#: What the messages of a time window take on the emulated clock, in seconds.
MESSAGES = 1e-4


def assert_same_fields(left: list[dict[str, Any]], right: list[dict[str, Any]], tolerance: float) -> None:
    """Compare all arrays of two runs, the first perhaps shorter; ``tolerance`` is relative to the largest value."""
    for mine, theirs in zip(left, right, strict=True):
        assert mine.keys() == theirs.keys()
        for key, values in mine.items():
            expected = theirs[key][: len(values)] if np.ndim(values) else theirs[key]
            atol = tolerance * np.abs(expected).max(initial=0.0)
            np.testing.assert_allclose(values, expected, rtol=0.0, atol=atol, err_msg=key)


def assert_near_stability_limit(columns: Sequence[Any], step: float, order: int, beyond: float) -> None:
    """A Runge-Kutta step of that order is stable with the matrix of these columns, and ``beyond`` times it is not."""
    eigenvalues = np.linalg.eigvals(np.stack(columns, axis=1))

    def growth(step: float) -> float:
        return float(np.abs(sum((eigenvalues * step) ** k / math.factorial(k) for k in range(order + 1))).max())

    assert growth(step) < 1.0 + 1e-9
    assert growth(beyond * step) > 1.0 + 1e-6


@dataclass(frozen=True)
class Coupled:
    """A tutorial as its tests run it."""

    name: str
    solvers: tuple[str, ...]
    windows: int
    arguments: tuple[str, ...] = ()

    def run(
        self, mpiexec: str, directory: Path, ranks: Sequence[int], *, edit: tuple[str, str] = ("", ""), **more: Any
    ) -> list[dict[str, Any]]:
        """Run a copy in ``directory``, its configuration edited; ``more``: options of `couple`, windows, solvers."""
        copy_tutorial(self.name, directory, windows=more.pop("windows", self.windows))
        configuration = directory / "precice-config.xml"
        assert edit[0] in configuration.read_text()
        configuration.write_text(configuration.read_text().replace(*edit) if edit[0] else configuration.read_text())
        solvers = dict(zip(more.pop("solvers", self.solvers), ranks, strict=True))
        more = {"backend": "embedded", "arguments": self.arguments, **more}
        return couple(mpiexec, directory, solvers, **more)

    def on_one_rank(self) -> Any:
        """Give the fixture of a run on one rank each, once in a file: its directory, and what it wrote."""

        @pytest.fixture(scope="module")
        def embedded(mpiexec: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
            directory = tmp_path_factory.mktemp(self.name) / "one"
            return directory, self.run(mpiexec, directory, [1] * len(self.solvers))

        return embedded


class CoupledRuns:
    """What holds of coupled runs of all tutorials: a file's class says of which, and to which accuracy."""

    case: ClassVar[Coupled]
    #: Ranks, accuracy and windows of another run, and ranks and accuracy of one on libprecice.
    others: ClassVar[tuple[Sequence[int], float, int]]
    libprecice: ClassVar[tuple[Sequence[int], float]]
    #: Ranks and time windows of a run with the load of the tutorial's law; over how many iterations a window has it.
    emulated: ClassVar[tuple[Sequence[int], int]]
    iterations: ClassVar[int] = 1

    def kept(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What is compared."""
        return fields

    @pytest.mark.mpi
    def test_fields_do_not_depend_on_the_ranks(self, mpiexec: str, tmp_path: Path, embedded: Any) -> None:
        ranks, tolerance, windows = self.others
        found = self.case.run(mpiexec, tmp_path / "run", ranks, windows=windows)
        assert_same_fields(self.kept(found), self.kept(embedded[1]), tolerance)

    @pytest.mark.precice
    @pytest.mark.mpi
    def test_libprecice_gives_the_same_fields(self, mpiexec: str, tmp_path: Path, embedded: Any) -> None:
        ranks, tolerance = self.libprecice
        found = self.case.run(mpiexec, tmp_path / "run", ranks, backend="libprecice")
        assert_same_fields(self.kept(found), self.kept(embedded[1]), tolerance)

    @pytest.mark.mpi
    @pytest.mark.slow("compares real times with a law's")
    def test_the_emulated_load_costs_what_its_law_says(self, mpiexec: str, tmp_path: Path) -> None:
        ranks, windows = self.emulated
        options: dict[str, Any] = {"windows": windows, "arguments": ("--load", "emulated"), "record": True}
        self.case.run(mpiexec, tmp_path / "run", ranks, **options)
        (run,) = load_runs([tmp_path / "run"], complete=enrich)
        schedule = Schedule.from_config(TUTORIALS / self.case.name / "precice-config.xml")
        for name, law in read_laws(TUTORIALS / self.case.name / "law.json").items():
            part = run.participants[name]
            count = windows * schedule.windows[name] // min(schedule.windows.values())
            expected = np.array([law.seconds(part.ranks) * law.factor(each, part.ranks) for each in range(count)])
            compute = part.compute_seconds if self.iterations == 1 else part.compute_seconds / part.iterations
            np.testing.assert_allclose(compute, expected / self.iterations, atol=MESSAGES)


def draw(name: str, directory: Path, *outputs: str) -> int:
    """Let a tutorial's plot.py draw what a run in ``directory`` has written; return the picture's bytes."""
    command = [sys.executable, str(TUTORIALS / name / "solver-python" / "plot.py"), *outputs, "--output", "picture.png"]
    subprocess.run(command, cwd=directory, check=True, timeout=300)
    picture = (directory / "picture.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    return len(picture)


def stated_splits(name: str) -> dict[tuple[int, ...], list[float]]:
    """Rows of the README's table of splits: seconds of each participant and of the time window, by ranks."""
    rows = re.findall(r"^\| (\d+(?: \+ \d+)+)[^|]*\|(.*)\|[^|]*\|$", (TUTORIALS / name / "README.md").read_text(), re.M)
    return {tuple(map(int, ranks.split(" + "))): [float(x) for x in re.findall(r"[\d.]+", row)] for ranks, row in rows}


def recommended_by_campaign(name: str, directory: Path, python: str = sys.executable) -> dict[str, Any]:
    """Run the campaign of a tutorial's study by a Python that has its solvers; return its recommendation."""
    command = [python, "-m", "precice_lb", "calibrate", str(ROOT / "configs" / f"{name}.toml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, "--directory", str(directory)], env=environment, check=True, timeout=1800)
    return dict(json.loads((directory / "recommendation.json").read_text()))


def chain_of_study(name: str, directory: Path) -> tuple[list[dict[str, Any]], Path]:
    """Run the chain of a tutorial's study; return its segments and the case of the last one."""
    command = [sys.executable, "-m", "precice_lb", "chain", str(ROOT / "configs" / f"{name}-chain.toml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, "-o", str(directory)], env=environment, check=True, timeout=1800)
    segments = json.loads((directory / "chain.json").read_text())["segments"]
    return segments, directory / "runs" / segments[-1]["run"] / "case"
