"""`precice-lb init`: a study of what lies in a directory, laid out as preCICE's public tutorials are."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from calibrate_helpers import CONFIGURATION
from report_helpers import refused

from precice_lb.campaign import Study, read_study
from precice_lb.campaign.init import last_command, read_script
from precice_lb.cli import main

# How the tutorials begin and end what starts a solver.
BEGIN = '#!/usr/bin/env bash\nset -e -u\n\n. ../../tools/log.sh\nexec > >(tee --append "$LOGFILE") 2>&1\n\n'
END = "\nclose_log\n"
VENV = "python3 -m venv .venv\n. .venv/bin/activate\npip install -r requirements.txt\n\n"
SERIAL = 'import numpy\nimport precice\nparticipant = precice.Participant("{name}", "../precice-config.xml", 0, 1)\n'


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores, and no cluster."""
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("precice_lb.campaign.init.available_cores", lambda: (0, 1))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.chdir(tmp_path)


def config(first: str, second: str, *, scheme: str = "serial-explicit", size: float = 0.01, end: float = 1.0) -> None:
    """Write the configuration of two participants."""
    text = CONFIGURATION.replace('"Left"', f'"{first}"').replace('"Right"', f'"{second}"')
    text = text.replace("parallel-explicit", scheme).replace('size value="1"', f'size value="{size}"')
    Path("precice-config.xml").write_text(
        text.replace('<max-time-windows value="1000" />', f'<max-time value="{end}" />')
    )


def folder(name: str, run: str = "", **files: str) -> None:
    """Write a participant's folder with its run.sh; underscores in the names of files are dots."""
    place = Path(name)
    place.mkdir()
    if run:
        (place / "run.sh").write_text(f"{BEGIN}{run}\n{END}")
    for file, text in files.items():
        (place / file.replace("_", ".")).write_text(text)


def program(name: str, first: str = "#!/bin/sh") -> None:
    """Put a program on the path."""
    place = Path("bin")
    place.mkdir(exist_ok=True)
    (place / name).write_text(f"{first}\n")
    (place / name).chmod(0o755)
    os.environ["PATH"] = f"{place.resolve()}{os.pathsep}{os.environ['PATH']}"


def made(capsys: pytest.CaptureFixture[str]) -> tuple[Study, list[str]]:
    """Let a study be written; return it as read, and what its marks say."""
    assert main(["init"]) == 0
    said = capsys.readouterr().out
    marks = re.findall(r"# please check: (.*)", Path("study.toml").read_text())
    assert all(mark in said for mark in marks)
    assert said.splitlines()[-1] == "look at it, then: precice-lb calibrate --dry-run study.toml"
    return read_study("study.toml"), marks


def commands(study: Study) -> dict[str, tuple[str, object]]:
    """Directory and command by participant."""
    return {each.name: (each.directory, each.command) for each in study.participants}


def test_elastic_tube(capsys: pytest.CaptureFixture[str]) -> None:
    config("Fluid", "Solid", scheme="serial-explicit", size=0.01, end=1.0)
    for name, script in (("Fluid", "FluidSolver.py"), ("Solid", "SolidSolver.py")):
        place = name.lower()
        start = f"{VENV}python3 ./{script} ../precice-config.xml\n"
        folder(f"{place}-python", start, requirements_txt="numpy\n", **{script: SERIAL.format(name=name)})
        build = "if [ ! -d build ]; then\n  mkdir build\n  cmake -S . -B build\nfi\n\n"
        folder(f"{place}-cpp", f"{build}./build/{name}Solver ../precice-config.xml")
        folder(f"{place}-rust", "cargo run --release ../precice-config.xml ")
    study, marks = made(capsys)
    run = "python -m precice_lb run"
    assert commands(study) == {
        "Fluid": ("fluid-python", f"{run} ./FluidSolver.py ../precice-config.xml"),
        "Solid": ("solid-python", f"{run} ./SolidSolver.py ../precice-config.xml"),
    }
    # It runs as it is: one split, since both solvers can only be serial.
    assert not marks
    assert study.bounds == {"Fluid": (1, 1), "Solid": (1, 1)}
    assert (study.budget, study.runs.windows, study.runs.warmup_windows) == (2, 12, 2)
    text = Path("study.toml").read_text()
    assert "FluidSolver.py:3" in text
    assert "fluid-cpp, fluid-rust" in text


def test_oscillator(capsys: pytest.CaptureFixture[str]) -> None:
    config("Mass-Left", "Mass-Right")
    script = (
        "import numpy as np\nimport precice\nfrom enum import Enum\nimport problemDefinition\n"
        "class Participant(Enum):\n    LEFT = 'Mass-Left'\n"
        "solver_process_index = 0\nsolver_process_size = 1\nconfiguration = '../precice-config.xml'\n"
        "def solve(name):\n"
        "    return precice.Participant(name, configuration, solver_process_index, solver_process_size)\n"
    )
    folder("solver-python", oscillator_py=script, problemDefinition_py="", requirements_txt="numpy\n")
    folder("solver-fmi", error_py="from enum import Enum\n")
    for side in ("Left", "Right"):
        start = VENV.replace("requirements", "../solver-python/requirements")
        folder(f"mass-{side.lower()}-python", f"{start}python3 ../solver-python/oscillator.py Mass-{side}\n")
        fmi = "if [ ! -f ../solver-fmi/Oscillator.fmu ]; then\n  cd ../solver-fmi/fmu\n  make\nfi\n"
        folder(f"mass-{side.lower()}-fmi", f"{fmi}{VENV}fmiprecice a.json\npython3 ../solver-fmi/error.py {side}")
    study, marks = made(capsys)
    assert commands(study) == {
        f"Mass-{side}": (
            f"mass-{side.lower()}-python",
            f"python -m precice_lb run ../solver-python/oscillator.py Mass-{side}",
        )
        for side in ("Left", "Right")
    }
    assert not marks
    assert study.bounds == {"Mass-Left": (1, 1), "Mass-Right": (1, 1)}


def test_partitioned_heat_conduction(capsys: pytest.CaptureFixture[str]) -> None:
    config("Dirichlet", "Neumann", size=0.1)
    folder("solver-fenics", heat_py="from fenics_that_is_not_here import mesh\n", requirements_txt="fenicsprecice\n")
    for name in ("Dirichlet", "Neumann"):
        place = name.lower()
        branches = (
            f'if [ $# -eq 0 ]\nthen\n    python3 ../solver-fenics/heat.py {name}\nelse\n    case "$1" in\n'
            "        sdc)\n            python3 ../solver-fenics/heat_pySDC.py\n            ;;\n    esac\nfi\n"
        )
        folder(f"{place}-fenics", VENV + branches)
        nutils = SERIAL.format(name=name)
        folder(
            f"{place}-nutils",
            f"{VENV}rm -rf {name}-*.vtk\nNUTILS_RICHOUTPUT=no python3 heat.py",
            heat_py=nutils, requirements_txt="nutils==7\n",
        )  # fmt: skip
        openfoam = 'blockMesh\n\n../../tools/run-openfoam.sh "$@"\n. ../../tools/remove.sh && remove_empty'
        folder(f"{place}-openfoam", openfoam)
    study, marks = made(capsys)
    # It says with how many ranks it starts; the mark of OpenFOAM's is not that of what is proposed.
    assert not marks
    assert commands(study) == {
        name: (f"{name.lower()}-nutils", "python -m precice_lb run heat.py") for name in ("Dirichlet", "Neumann")
    }
    assert "dirichlet-fenics, dirichlet-openfoam" in Path("study.toml").read_text()
    assert study.participants[1].environment == {"NUTILS_RICHOUTPUT": "no"}
    assert (study.runs.windows, study.runs.warmup_windows) == (10, 2)


def test_perpendicular_flap(capsys: pytest.CaptureFixture[str]) -> None:
    config("Fluid", "Solid", scheme="parallel-explicit", end=5.0)
    fake = (
        "from __future__ import division\nimport numpy as np\nimport precice\nname = 'Fluid'\n"
        "solver_process_index = 0\nsolver_process_size = 1\n"
        "interface = precice.Participant(name, '../precice-config.xml', solver_process_index, solver_process_size)\n"
    )
    plain = f"#!/usr/bin/env sh\nset -e -u\n\n{VENV}"
    for side in ("fluid", "solid"):
        folder(f"{side}-fake", fake_py=fake, requirements_txt="numpy\n", run_sh=f"{plain}python3 fake.py\n")
        folder(f"{side}-openfoam", 'blockMesh\n\n../../tools/run-openfoam.sh "$@"\n')
    folder("fluid-su2", "SU2_preCICE_FSI.py -f euler_config_unsteady.cfg --parallel")
    usage = 'usage() { echo "Usage: run.sh [-modal]" 1>&2; exit 1; }\n\n'
    calculix = (
        "if [ $# -eq 0 ]; then\n    ccx_preCICE -i flap -precice-participant Solid\n"
        "else\n    ccx_preCICE -i frequency\nfi\n"
    )
    folder("solid-calculix", usage + calculix)
    dealii = 'EXE="elasticity"\nif test -f "elasticity"; then\n    ./"${EXE}" parameters.prm\nelse\n    echo no\nfi'
    folder("solid-dealii", dealii)
    study, marks = made(capsys)
    assert commands(study) == {
        f"{side.title()}": (f"{side}-fake", "python -m precice_lb run fake.py") for side in ("fluid", "solid")
    }
    assert study.bounds == {"Fluid": (1, 1), "Solid": (1, 1)}
    assert not marks

    # Who has run before is whose command is wanted, and is not Python's.
    Path("study.toml").unlink()
    program("ccx_preCICE")
    header = {"name": "Solid", "rank": 0, "size": 1, "unix_us": "1700000000000000", "tinit": "x", "mode": "fundamental",
              "compression": False, "file_version": 2}  # fmt: skip
    Path("solid-calculix", "precice-profiling").mkdir()
    Path("solid-calculix", "precice-profiling", "Solid-0-1.txt").write_text(json.dumps(header) + "\n")
    study, marks = made(capsys)
    assert commands(study)["Solid"] == ("solid-calculix", "ccx_preCICE -i flap -precice-participant Solid")
    assert marks == ["whether it can run on several ranks: if not, maximum_ranks = 1"]
    assert "present: 1 rank" in Path("study.toml").read_text()


def test_channel_transport(capsys: pytest.CaptureFixture[str]) -> None:
    config("Fluid", "Transport", size=0.005)
    for name in ("Fluid", "Transport"):
        script = f"{name.lower()}.py"
        text = SERIAL.format(name=name) + "def main():\n    import nutils_that_is_not_here\n"
        folder(f"{name.lower()}-nutils", f"{VENV}python3 {script}\n", **{script: text, "requirements_txt": ""})
    folder("fluid-openfoam", 'blockMesh\n\n../../tools/run-openfoam.sh "$@"\n')
    study, marks = made(capsys)
    assert commands(study)["Transport"] == ("transport-nutils", "python -m precice_lb run transport.py")
    assert not marks


def test_two_scale_heat_conduction(capsys: pytest.CaptureFixture[str]) -> None:
    config("macro-heat", "Micro-Manager", end=0.02)
    folder("macro-nutils", f"{VENV}python3 macro.py richoutput=no", macro_py=SERIAL.format(name="macro-heat"))
    dumux = 'if [ -z "$*" ] ; then\n  echo "serial"\n  ./macro_dumux params.input\nfi\n\n'
    options = 'while getopts ":sp" opt; do\n  case ${opt} in\n  p)\n    mpiexec -n "$2" PROGRAM\n    ;;\n  esac\ndone\n'
    folder("macro-dumux", dumux + options.replace("PROGRAM", "macro_dumux params.input"))
    usage = 'usage() { echo "Usage: cmd [-s] [-p n]" 1>&2; exit 1; }\n'
    micro = 'if [ -z "$*" ] ; then\n  micro-manager-precice micro-manager-config.json\nfi\n\n'
    folder("micro-nutils", f"{VENV}{usage}{micro}{options}", micro_manager_config_json="{}")
    study, marks = made(capsys) if _has_micro_manager() else (None, _marks_of_init(capsys))
    text = Path("study.toml").read_text()
    assert 'command = "python -m precice_lb run micro-manager-precice micro-manager-config.json"' in text
    assert 'command = "python -m precice_lb run macro.py richoutput=no"' in text
    assert "windows = 2" in text
    assert "warmup_windows = 1" in text
    assert any("several ranks" in mark for mark in marks)
    if study is None:
        assert any("micro-manager-precice" in mark for mark in marks)


def _has_micro_manager() -> bool:
    return (Path(sys.executable).parent / "micro-manager-precice").exists()


def _marks_of_init(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["init"]) == 0
    capsys.readouterr()
    return re.findall(r"# please check: (.*)", Path("study.toml").read_text())


def test_nothing_known_is_a_valid_file_with_a_mark_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    config("Left", "Right")
    marks = _marks_of_init(capsys)
    assert sum("how Left starts" in mark or "how Right starts" in mark for mark in marks) == 2
    # Valid TOML; what is missing is refused by name.
    assert "no such program" in refused(capsys, "calibrate", "study.toml")


def test_an_existing_file_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    config("Left", "Right")
    Path("study.toml").write_text("mine")
    assert "study.toml: expected no study yet" in refused(capsys, "init")
    assert Path("study.toml").read_text() == "mine"
    Path("empty").mkdir()
    assert "expected precice-config.xml" in refused(capsys, "init", "empty")


def test_a_script_that_a_function_of_the_shell_starts(capsys: pytest.CaptureFixture[str]) -> None:
    config("Left", "Right")
    for name in ("Left", "Right"):
        start = f'run_python "${{1:-2}}" ../solver/solve.py {name} --output out.npz "${{@:2}}"'
        folder(f"{name.lower()}-python", start)
    folder("solver", solve_py="import precice\nprecice.Participant('x', 'y', rank, size)\n")
    study, marks = made(capsys)
    assert commands(study)["Left"] == (
        "left-python",
        "python -m precice_lb run ../solver/solve.py Left --output out.npz",
    )
    assert not marks


def test_bounds_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    config("Left", "Right")
    path = Path("precice-config.xml")
    wrong = 'from="A-Mesh" to="B-Mesh" constraint="conservative"'
    path.write_text(path.read_text().replace('from="A-Mesh" to="B-Mesh" constraint="consistent"', wrong))
    _marks_of_init(capsys)
    assert re.search(
        r"maximum_ranks = 1 +# conservative read mapping, precice-config.xml:20", Path("study.toml").read_text()
    )


def sinfo(text: str) -> None:
    """Put a Slurm on the path that answers so."""
    program("sinfo", f"#!/bin/sh\n{text}\nexit $?")


def test_nodes_of_slurm(capsys: pytest.CaptureFixture[str]) -> None:
    config("Left", "Right")
    text = SERIAL.replace("0, 1", "rank, size")
    folder("left-python", "mpirun -np 96 python3 solver.py", solver_py=text.format(name="Left"))
    folder("right-python", "mpiexec -n 32 python3 solver.py", solver_py=text.format(name="Right"))
    sinfo('echo "main*|20|2|32"; echo "fat|2|4|16"')
    for name in ("sbatch", "squeue", "scancel", "srun"):
        program(name)
    study, marks = made(capsys)
    assert study.launcher.name == "slurm"
    assert study.machine.cores_per_node == 64
    assert study.budget == 64
    assert any("network" in mark or "interface" in mark for mark in marks)

    # A question without an answer is no empty answer.
    Path("study.toml").unlink()
    sinfo("echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; false")
    study, marks = made(capsys)
    assert study.launcher.name == "mpiexec"
    assert study.budget == 2
    assert any("sinfo" in mark and "Unable to contact" in mark for mark in marks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpirun -n 4 ./solver -parallel > log 2>&1 &", ["mpirun", "-n", "4", "./solver", "-parallel"]),
        ("export A=1\nsolver \\\n  --mesh fine | tee log", ["solver", "--mesh", "fine"]),
        ("cd build && ./solver", ["./solver"]),
        ("for i in 1 2; do\n  ./post $i\ndone\n", []),
        ("echo 'unbalanced\n", []),
        ("solve() {\n ./inner\n}\n", []),
    ],
)
def test_last_command(text: str, expected: list[str]) -> None:
    assert last_command(BEGIN + text + END) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("precice.Participant('A', 'c.xml', 0, 1)", (True, 1)),
        ("\nParticipant('A', 'c.xml', solver_process_index=0, solver_process_size=1)", (True, 2)),
        ("rank = 0\nsize = 1\np = Participant(n, c, rank, size)", (True, 3)),
        ("size = 1\nsize = MPI.COMM_WORLD.size\nParticipant(n, c, 0, size)", (True, None)),
        ("Participant('left')", (False, None)),
        ("not python (", (False, None)),
    ],
)
def test_ranks_in_a_script(text: str, expected: tuple[bool, int | None], tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text(text)
    assert read_script(tmp_path / "solver.py") == expected
