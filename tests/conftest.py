"""Shared fixtures: libprecice and FEniCSx or a skip with the reason, the MPI launcher, counts for ``make test-all``."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from slurm_helpers import mpi_plugin, running_slurm

# Background jobs of a shell ignore SIGINT, those of nohup SIGHUP, and so would every process started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# On a busy machine solvers are late for their partners, and threads that wait for each other at every small product of
# matrices are many times slower than one.
os.environ["PRECICE_LB_TIMEOUT"] = "300"
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
# More ranks than cores: while one of MPICH's waits, it is to sleep and leave its core to the others.
os.environ["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"
# Hundreds of processes import the same modules, which one of them is to compile for all.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
FULL_COUNTS = os.environ.get("PRECICE_LB_FULL_COUNTS") == "1"

settings.register_profile(
    "reduced", derandomize=True, deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("full", parent=settings.get_profile("reduced"), max_examples=1000)
settings.load_profile("full" if FULL_COUNTS else "reduced")


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> None:
    """What a machine that goes down would lose, no test looks for."""
    os.fsync = lambda descriptor: None


def _libprecice_problem() -> str | None:
    # In another process: the import starts MPI, whose variables would keep this one from starting ranks.
    done = subprocess.run([sys.executable, "-c", "import precice"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return f"libprecice is not usable here: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``slow``, ``tutorials`` or ``precice`` where what they need is missing.

    Tests marked ``slow`` are for `make test-all`. Those marked ``tutorials`` need a copy of preCICE's tutorials, and
    those marked ``precice`` libprecice.
    """
    for item in items:
        slow = item.get_closest_marker("slow")
        if slow is not None and not FULL_COUNTS:
            item.add_marker(pytest.mark.skip(reason=f"in make test-all only: {slow.args[0]}"))
        if item.get_closest_marker("tutorials") and "PRECICE_TUTORIALS" not in os.environ:
            item.add_marker(pytest.mark.skip(reason="PRECICE_TUTORIALS names no copy of preCICE's tutorials"))
    needs_libprecice = [item for item in items if item.get_closest_marker("precice")]
    if not needs_libprecice:
        return
    problem = _libprecice_problem()
    if problem is not None:
        for item in needs_libprecice:
            item.add_marker(pytest.mark.skip(reason=problem))


@pytest.fixture(scope="session")
def precice_tutorials() -> Path:
    """Directory of the copy of preCICE's tutorials, for tests marked ``tutorials``."""
    return Path(os.environ["PRECICE_TUTORIALS"])


@pytest.fixture(scope="session")
def mpiexec() -> str:
    """Path of the MPI launcher that belongs to this environment's mpi4py."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("no mpiexec: install the extra mpich or an MPI of the system")
    return found


@pytest.fixture(scope="session")
def on_one_rank(mpiexec: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """Directory of a tutorial's run on one rank each, made once in a session, and what its solvers wrote."""
    # Beside the tests that ask for it.
    from tutorial_helpers import COUPLED, couple_copy

    @functools.cache
    def run(name: str) -> tuple[Path, Any]:
        directory = tmp_path_factory.mktemp(name) / "one"
        return directory, couple_copy(mpiexec, directory, name, [1] * len(COUPLED[name].solvers))

    return run


@pytest.fixture(scope="session")
def fenicsx_python() -> str:
    """Path of a Python with dolfinx and fenicsxprecice, with its own ``mpiexec`` beside it."""
    python = os.environ.get("FENICSX_PYTHON", sys.executable)
    needed = "import dolfinx_solver, fenicsxprecice, sklearn, cyclopts"
    done = subprocess.run([python, "-c", needed], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"FEniCSx is not usable here: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    if not (Path(python).parent / "mpiexec").exists():
        pytest.skip(f"no mpiexec beside {python}")
    return python


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PRECICE_LB_") and name not in ("PRECICE_LB_FULL_COUNTS", "PRECICE_LB_TIMEOUT"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Path]:
    """A Slurm of a test file's own; its directory has a short path because sockets lie in it."""
    root = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with running_slurm(root) as conf:
            yield conf
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="module", params=["A", "B"])
def cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """A Slurm of a test file's own in each of its configurations; their names."""
    root = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with running_slurm(root, threaded=request.param == "B"):
            yield request.param
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def mpi(slurm: Path) -> str:
    """The plugin of srun that this environment's MPI understands."""
    return mpi_plugin()


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    """Name of a shell that ``sh`` is on some machines."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"no {name} on this machine")
    return name


@pytest.fixture
def activated(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment as its users have it: the programs beside this Python come first on the path."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)


@pytest.fixture
def own_priority(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Leave this process's priority alone, which `precice-lb watch` would lower for good; by how much it asked for."""
    increments: list[int] = []

    def nice(increment: int) -> int:
        increments.append(increment)
        return 0

    monkeypatch.setattr(os, "nice", nice)
    return increments
