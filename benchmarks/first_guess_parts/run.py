"""Runs of a case in a directory of its own: iterations of each time window, seconds, and results."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from first_guess_parts.cases import ROOT, Case
from first_guess_parts.configurations import AS_IT_IS, with_limits, with_scheme
from precice_lb.guess.config import patch_guess

__all__ = ["Run", "measure"]

# Time windows that are not of late: predictors have to learn.
LATE = 20

History = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Run:
    """What a run took: iterations of each time window and which of them converged, seconds, and its results."""

    iterations: NDArray[np.int64]
    converged: NDArray[np.bool_]
    seconds: float
    history: History

    @property
    def total(self) -> int:
        """Iterations of all windows."""
        return int(self.iterations.sum())

    @property
    def late(self) -> float:
        """Mean iterations of a window from the 21st on."""
        return float(self.iterations[LATE:].mean())

    def distances(self, reference: Run) -> dict[str, float]:
        """Return the relative difference of each quantity over its whole history."""
        assert self.history
        assert self.history.keys() == reference.history.keys()
        pairs = ((name, self.history[name], values) for name, values in reference.history.items())
        return {name: float(np.linalg.norm(own - values) / np.linalg.norm(values)) for name, own, values in pairs}

    def distance(self, reference: Run) -> float:
        """Return that of the quantity that differs most."""
        return max(self.distances(reference).values())


def measure(
    case: Case,
    guess: str = "none",
    scheme: str = AS_IT_IS,
    acceleration: str = AS_IT_IS,
    *,
    limit: float | None = None,
    timeout: float = 600.0,
) -> Run:
    """Run a case in a directory of its own and read what it took."""
    with tempfile.TemporaryDirectory(prefix="first-guess-") as work:
        configuration = case.lay_out(Path(work) / "case")
        text = with_scheme(configuration.read_text(), scheme, acceleration)
        configuration.write_text(text if limit is None else with_limits(text, limit))
        if guess != "none":
            original = configuration.rename(configuration.with_name("original.xml"))
            patch_guess(original, configuration)
        seconds = _run(case, configuration.parent, guess, timeout)
        return _read(case, configuration.parent, seconds)


def _run(case: Case, directory: Path, guess: str, timeout: float) -> float:
    """Start all programs and wait for them; return the seconds."""
    python = os.environ.get(case.python, "") if case.python else sys.executable
    if not python:
        raise SystemExit(f"{case.directory}: set {case.python} to a Python with what the case needs")
    variables = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "NUTILS_RICHOUTPUT": "no"}
    environment = {**os.environ, **variables, "PYTHONPATH": str(ROOT)}
    start = [python, "-W", "ignore"]
    if guess != "none":
        environment["PRECICE_LB_GUESS"] = guess
        start += ["-m", "precice_lb", "run"]
    mpiexec = shutil.which("mpiexec", path=f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}") or "mpiexec"
    begin = time.perf_counter()
    with ExitStack() as stack:
        started = []
        for number, ((place, arguments), ranks) in enumerate(zip(case.programs, case.ranks, strict=True)):
            log = stack.enter_context((directory / f"program-{number}.txt").open("wb"))
            command = [*([mpiexec, "-n", str(ranks)] if ranks > 1 else []), *start, *arguments.split()]
            started.append(
                subprocess.Popen(
                    command, cwd=directory / place, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
                )
            )
        for process in started:
            stack.callback(process.wait)
            stack.callback(process.terminate)
        # One that fails leaves the others waiting for it.
        while any(process.poll() is None for process in started) and not any(process.poll() for process in started):
            if time.perf_counter() - begin > timeout:
                break
            time.sleep(0.02)
        codes = [process.poll() for process in started]
    if any(codes) or None in codes:
        said = "\n".join((directory / f"program-{number}.txt").read_text()[-1500:] for number in range(len(codes)))
        raise RuntimeError(f"{case.directory}, guess {guess}: exit codes {codes} after {timeout:g} s at most\n{said}")
    return time.perf_counter() - begin


def _read(case: Case, directory: Path, seconds: float) -> Run:
    log = np.genfromtxt(next(directory.rglob("precice-*-iterations.log")), names=True)
    iterations, converged = np.atleast_1d(log["Iterations"]), np.atleast_1d(log["Convergence"])
    history: dict[str, list[NDArray[np.float64]]] = {}
    for path in sorted(directory.glob(case.results)):
        for name, values in _fields(path).items():
            key = name if path.suffix == ".vtk" else f"{path.name} {name}"
            history.setdefault(key, []).append(values)
    whole = {name: np.stack(values) for name, values in history.items() if np.any(values)}
    return Run(iterations.astype(int), converged > 0, seconds, whole)


def _fields(path: Path) -> Mapping[str, NDArray[np.float64]]:
    """Read fields by name: of a legacy VTK file in text, of NumPy's arrays, or the columns of a table."""
    if path.suffix == ".vtk":
        blocks = re.findall(r"^(?:SCALARS|VECTORS) (\w+) float\n(?:LOOKUP.*\n)?([^A-Z]*)", path.read_text(), re.M)
        return {name: np.fromstring(values, sep=" ") for name, values in blocks}
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    table = np.genfromtxt(path, names=True, delimiter=";" if path.suffix == ".csv" else None)
    # Fields of predictions are the patched configuration's own.
    return {name: table[name] for name in table.dtype.names if not name.startswith(("Guess", "Shifted"))}
