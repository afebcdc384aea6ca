"""Why a run failed: the lines of real solvers' logs that say so, not the end of a backtrace."""

from __future__ import annotations

from pathlib import Path

import pytest

from precice_lb.campaign.evidence import cause_of, lost_partner, reasons, wrong_size
from precice_lb.layout import Layout

# Lines that say why are marked: "> " where the whole line is kept, else ">>" before what of it is.
LOGS = {
    "OpenFOAM": """\
trapFpe: Floating point exception trapping enabled (FOAM_SIGFPE).
Time = 0.01
time step continuity errors : sum local = 1e-09, global = -2e-11, cumulative = 3e-11
[0]
> [0] --> FOAM FATAL ERROR:
> [0] bool IPstream::init(int& argc, char**& argv) : attempt to run parallel on 1 processor
[0]
> [0]     From function static bool Foam::UPstream::init(int&, char**&, bool)
[0]     in file UPstream.C at line 249.
FOAM parallel run aborting
[0] #0  Foam::error::printStack(Foam::Ostream&) at ??:?
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD
""",
    "preCICE": """\
---[precice]  This is preCICE version 3.4.1
\x1b[31m>>ERROR: \x1b[0mThe time step size given to preCICE 0.1 exceeds the maximum allowed time step size 0.05.
> ---[precice]  ERROR: The provided mesh "Solid-Mesh" is empty on all ranks.
Abort(1) on node 0 (rank 0 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 0
""",
    "C++": """\
Residual norm 1.2e-3, L2 error 3e-4
> terminate called after throwing an instance of 'std::runtime_error'
>>what():  the mesh has no cells on rank 3
> Aborted (core dumped)
"""
    + "  @ 0x7f in start_thread ()\n" * 300,
    "Python": """\
Traceback (most recent call last):
  File "solver.py", line 3, in solve
    linear_solve(matrix)
> ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "solver.py", line 7, in <module>
    main()
> solver.Diverged: residual 1e+30 after 50 iterations
the end
""",
    "a traceback that was cut off": 'Traceback (most recent call last):\n  File "solver.py", line 3',
    "PETSc": """\
[0]PETSC ERROR: ------------------------------------------------------------------------
> [0]PETSC ERROR: Caught signal number 11 SEGV: Segmentation Violation
> [0]PETSC ERROR: to get more information on the crash.
""",
    "Hydra": """\
step 1

> the mesh is inside out
> a cell has no volume
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   EXIT CODE: 9
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: >>Killed (signal 9)
""",
    "Hydra alone": "====\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: >>Aborted (signal 6)\n",
    "Open MPI": "> mpirun noticed that process rank 1 with PID 0 on node n0 exited on signal 11 (Segmentation).\n",
    "Open MPI 5": """\
> the mesh is inside out
> prterun noticed that process rank 1 exited on signal 11 (Segmentation fault).
""",
    "Slurm": "> srun: error: n0: task 3: Killed\n",
    "a library": "> ./fluid: error while loading shared libraries: libprecice.so.3: cannot open shared object file\n",
    "a shell": "> ./fluid.sh: line 3: 4711 Floating point exception(core dumped) ./fluid\n",
    "the same again": "> FATAL: no licence\n" + "FATAL: no licence\n" * 63,
    # Nothing said, or stopped because the partner failed.
    "stopped": "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)\n",
    "norms": "relative error = 1e-3\nno errors\nL2 ERROR 1e-4\n",
    "traps": "trapFpe: Floating point exception trapping enabled (FOAM_SIGFPE).\nCreate time\n",
}


@pytest.mark.parametrize("name", LOGS)
def test_lines_that_say_why(tmp_path: Path, name: str) -> None:
    lines = LOGS[name].splitlines(keepends=True)
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
