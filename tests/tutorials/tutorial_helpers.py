"""The tutorials of this project: their modules, and coupled runs of copies of them."""

from __future__ import annotations

import contextlib
import importlib
import json
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
from typing import Any

import numpy as np
from clock_helpers import emulated_clock

from precice_lb.case import patch_configuration

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
) -> list[dict[str, Any]]:
    """Run a tutorial in segments: time windows and ranks of each; return what the last wrote as output.

    Each runs in a copy of its own, with the restart files of the one before.
    """
    outputs: list[dict[str, Any]] = []
    for number, (windows, ranks) in enumerate(segments):
        here, before = directory / f"{number}", directory / f"{number - 1}"
        copy_tutorial(name, here, windows=windows)
        for path in before.glob("*/*.h5"):
            shutil.copy(path, here / path.relative_to(before))
        outputs = couple(mpiexec, here, ranks, backend=backend, arguments=["--restart", "restart.h5"])
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


@dataclass(frozen=True)
class Coupled:
    """A tutorial as its tests run it."""

    solvers: tuple[str, ...]
    windows: int
    arguments: tuple[str, ...] = ()
    #: Fields that are compared, of those that are not all.
    kept: tuple[str, ...] = ()


CLIMATE = ("coupler-python", "atmosphere-python", "land-python", "ice-python", "ocean-python")
COUPLED = {
    "airfoil": Coupled(("inner-python", "middle-python", "outer-python"), 50, ("--coarsen", "2")),
    "climate": Coupled(CLIMATE, 3, kept=("time", "energy", "temperature")),
    "elastic-tube": Coupled(("fluid-python", "solid-python"), 30),
    "gpu-plate": Coupled(("fluid-python", "solid-python"), 8, kept=("x", "y", "temperature", "heat_rate")),
    "heated-plate": Coupled(("fluid-python", "solid-python"), 30, ("--coarsen", "2")),
    "pulse": Coupled(("inner-python", "outer-python"), 60),
}


def kept(name: str, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is compared of the fields of a tutorial's run."""
    keys = COUPLED[name].kept
    return [{key: values for key, values in part.items() if not keys or key in keys} for part in fields]


def couple_copy(
    mpiexec: str, directory: Path, name: str, ranks: Sequence[int], *, edit: tuple[str, str] = ("", ""), **more: Any
) -> list[dict[str, Any]]:
    """Run a copy of a tutorial in ``directory``, its configuration edited; ``more``: of `couple`, windows, solvers."""
    tutorial = COUPLED[name]
    copy_tutorial(name, directory, windows=more.pop("windows", tutorial.windows))
    configuration = directory / "precice-config.xml"
    assert edit[0] in configuration.read_text()
    configuration.write_text(configuration.read_text().replace(*edit) if edit[0] else configuration.read_text())
    solvers = dict(zip(more.pop("solvers", tutorial.solvers), ranks, strict=True))
    return couple(mpiexec, directory, solvers, **{"backend": "embedded", "arguments": tutorial.arguments, **more})


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
