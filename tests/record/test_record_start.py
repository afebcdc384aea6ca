"""Whatever starts Python below ``run``, and however late: it records, and nothing else of it changes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from record_helpers import program, python

PROBE = """import precice, sys
# In one piece, as several ranks write at once.
sys.stdout.write(f"{precice.Participant.__module__} {sys.argv[1:]}\\n")
"""


def _run(
    directory: Path, *command: str, options: tuple[str, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    (directory / "solver.py").write_text(PROBE)
    return python(directory, *options, "-m", "precice_lb", "run", *command, PRECICE_LB_BACKEND="embedded", **variables)


# Programs that say "python3" mean this one.
pytestmark = pytest.mark.usefixtures("activated")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (["solver.py", "-m", "--flag=1", "-h"], ["-m", "--flag=1", "-h"]),
        (["--", "solver.py", "-x"], ["-x"]),
        (["-c", PROBE, "-x"], ["-x"]),
        (["-u", "-W", "error", "-m", "solver", "-m"], ["-m"]),
        (["python", "solver.py", "--", "run"], ["--", "run"]),
        (["env", "VARIABLE=1", "python3", "solver.py", ""], [""]),
        (["sh", "-c", 'python3 solver.py "$@"', "sh", "a b"], ["a b"]),
    ],
)
def test_python_is_recorded_however_it_is_started(tmp_path: Path, command: list[str], arguments: list[str]) -> None:
    ours = _run(tmp_path, *command)
    assert (ours.returncode, ours.stderr, ours.stdout) == (0, "", f"precice_lb {arguments}\n")


def test_a_shell_script_that_starts_python_twice_records_twice_and_ends_as_it_would(tmp_path: Path) -> None:
    program(tmp_path / "run.sh", '#!/bin/sh\npython3 solver.py "$0" "$@"\npython3 -m solver\nexit 7\n')
    ours = _run(tmp_path, "./run.sh", "-n", "4")
    assert (ours.returncode, ours.stderr) == (7, "")
    assert ours.stdout == "precice_lb ['./run.sh', '-n', '4']\nprecice_lb []\n"
    (tmp_path / "run.sh").rename(tmp_path / "run")
    assert _run(tmp_path, "run").stdout.startswith("precice_lb ['./run']")


@pytest.mark.mpi
@pytest.mark.parametrize("mpiexec", ["mpiexec", pytest.param("mpiexec.openmpi", marks=pytest.mark.openmpi)])
def test_a_launcher_s_ranks_are_recorded(tmp_path: Path, mpiexec: str) -> None:
    if shutil.which(mpiexec) is None:
        pytest.skip(f"no {mpiexec} here")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    more = []
    if "openmpi" in mpiexec:
        more = ["--oversubscribe"]
        # Called as /bin/mpiexec.openmpi, it would refuse its installation's prefix, a slash.
        allowed["PATH"] = f"/bin{os.pathsep}{os.environ['PATH']}"
    # Open MPI puts its own directory first on the path.
    ours = _run(tmp_path, mpiexec, *more, "-n", "3", sys.executable, "solver.py", **allowed)
    assert (ours.returncode, ours.stdout) == (0, "precice_lb []\n" * 3), ours.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGPIPE])
def test_signals_end_a_program_as_without_us(tmp_path: Path, number: signal.Signals) -> None:
    assert _run(tmp_path, "sh", "-c", f"kill -{number.value} $$").returncode == -number


@pytest.mark.parametrize(
    "text", ["print('theirs', __file__[-8:])", "raise ValueError('broken')", "import nowhere", None]
)
def test_another_sitecustomize_is_loaded_as_without_us(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "theirs").mkdir()
    if text is not None:
        # The process that is replaced loads it as well.
        module = tmp_path / "theirs" / "sitecustomize.py"
        module.write_text(f"import sys\nif 'run' not in sys.orig_argv:\n    {text}\n")
    paths = os.pathsep.join([str(tmp_path / "theirs"), *filter(None, sys.path)])
    show = ["-c", "import sys, sitecustomize; print(sitecustomize.__file__)"]
    plain = python(tmp_path, *show, PYTHONPATH=paths)
    ours = _run(tmp_path, sys.executable, *show, PYTHONPATH=paths)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert ours.stderr == plain.stderr
    assert ("theirs" in ours.stdout) == (text is not None and text.startswith("print"))


def test_options_of_this_python_are_the_solver_s(tmp_path: Path) -> None:
    show = "import sys; print(sys.flags.optimize, sys.flags.dev_mode, sys.warnoptions[-1:], sys.stdout.write_through)"
    (tmp_path / "show.py").write_text(show)
    ours = _run(tmp_path, "show.py", options=("-O", "-X", "dev", "-u", "-W", "error"), PYTHONUNBUFFERED="")
    assert (ours.stdout, ours.stderr) == ("1 True ['error'] True\n", "")


def test_processes_that_never_import_precice_load_nothing(tmp_path: Path) -> None:
    show = "import sys; print(sorted(sys.modules))"
    plain = python(tmp_path, "-c", show)
    ours = _run(tmp_path, "-c", show)
    assert set(eval(ours.stdout)) - set(eval(plain.stdout)) <= {"sitecustomize"}


def test_processes_that_the_solver_starts_record_too(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(
        "import multiprocessing, subprocess, sys\n"
        "def child():\n    import precice; print(precice.Participant.__module__, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=child)\n"
        "    process.start(); process.join()\n"
        "    subprocess.run([sys.executable, 'solver.py'], check=True)\n"
        '    started = \'import sys; print("startup" in str(sys.modules.get("sitecustomize")))\'\n'
        "    subprocess.run([sys.executable, '-E', '-c', started])\n"
    )
    ours = _run(tmp_path, "parent.py")
    # Python that is told to ignore the environment is not recorded.
    assert (ours.stdout, ours.stderr) == ("precice_lb\nprecice_lb []\nFalse\n", "")


@pytest.mark.parametrize("trouble", ["sys.version_info = (3, 9)", "sys.modules['dataclasses'] = None"])
def test_a_python_that_cannot_load_the_recorder_goes_on_without_it(tmp_path: Path, trouble: str) -> None:
    (tmp_path / "precice.py").write_text("here = 'real'")
    (tmp_path / "show.py").write_text(f"import sys\n{trouble}\nimport precice; print(precice.here)")
    ours = _run(tmp_path, "show.py")
    assert (ours.returncode, ours.stdout) == (0, "real\n")
    assert ours.stderr.startswith(f"precice-lb: warning: {sys.executable} does not record: ")
    assert ours.stderr.count("\n") == 1
