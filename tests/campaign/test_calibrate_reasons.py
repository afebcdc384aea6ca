"""Why a run failed: the lines of real solvers' logs that say so, not the end of a backtrace."""

from __future__ import annotations

from pathlib import Path

import pytest

from precice_lb.campaign.evidence import cause_of, lost_partner, reasons, wrong_size
from precice_lb.layout import Layout

# Lines that say why are marked: "> " where the whole line is kept, else ">>" before what of it is.
_FILE = Path(__file__).parents[1] / "data" / "solver-logs.txt"
LOGS = dict(part.split("\n", 1) for part in _FILE.read_text(encoding="utf-8").split("=== ")[1:])


@pytest.mark.parametrize("name", LOGS)
def test_lines_that_say_why(tmp_path: Path, name: str) -> None:
    lines = LOGS[name].replace("ESC", "\x1b").splitlines(keepends=True)
    (tmp_path / "log").write_text("".join(line.removeprefix("> ").replace(">>", "") for line in lines))
    plain = [line.replace("\x1b[0m", "").rstrip() for line in lines]
    expected = [line.removeprefix("> ").rpartition(">>")[2] for line in plain if line.startswith("> ") or ">>" in line]
    assert reasons(tmp_path / "log") == expected
    assert reasons(tmp_path / "none") == []


def test_who_only_lost_its_partner_is_not_to_blame() -> None:
    assert lost_partner(
        "---[precice]  ERROR: Receiving data from another participant (using sockets) failed with a system error: "
        "read: End of file [asio.misc:2]. This often means that the other participant exited with an error."
    )
    assert lost_partner('precice_lb.exceptions.BackendError: partner "Solid" is gone: "Fluid" lost its connection')
    # A rank of the embedded backend whose primary rank was stopped before it had met it.
    assert lost_partner("ConnectionError: the connection was closed")
    assert not lost_partner("--> FOAM FATAL ERROR:")


@pytest.mark.parametrize(
    "log",
    [
        'The application appears to have been direct launched using "srun",\nbut OMPI was not built with SLURM\n',
        "Fatal error in internal_Init: error stack:\nMPIR_pmi_init(141).......: PMI_Init returned -1\n",
        "[cli_0]: write_line error; fd=9 buf=:cmd=init pmi_version=1 pmi_subversion=1\n:\n",
        "It looks like orte_init failed for some reason; your parallel process is likely to abort.\n",
        "[n1:01234] PMIX ERROR: UNREACHABLE in file src/mca/ptl/tcp/ptl_tcp.c at line 790\n",
    ],
)
def test_the_launcher_of_another_mpi_is_named_as_the_cause(tmp_path: Path, log: str) -> None:
    path = tmp_path / "log"
    path.write_text("starting\n" + log + "ERROR: aborted\n")
    cause = reasons(path)[0]
    assert cause.startswith("its MPI does not understand the launcher (")
    assert cause.endswith(
        '); use the launcher that belongs to it (launcher.program), or for srun launcher.mpi, such as "pmi2" or "pmix"'
    )


def test_other_failures_are_not_laid_to_the_launcher(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("MPI_ABORT was invoked on rank 0\nmpiexec noticed that process rank 1 exited\nERROR: no licence\n")
    assert cause_of(path, 2) is None


def test_files_of_an_earlier_run_say_nothing_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "precice-profiling").mkdir()
    path = tmp_path / "precice-profiling" / "Right-0-1.txt"
    path.touch()
    assert "its MPI says 1" in str(wrong_size(tmp_path, {"Right": Layout(8)}))
    assert wrong_size(tmp_path, {"Right": Layout(8)}, since=path.stat().st_mtime + 1) is None
