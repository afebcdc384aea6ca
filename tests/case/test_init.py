"""`precice-lb init`: a study of what lies in a directory, laid out as preCICE's public tutorials are."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from calibrate_helpers import CONFIGURATION
from report_helpers import refused

from precice_lb.campaign import Study, read_study
from precice_lb.campaign.init import first_command, read_script
from precice_lb.cli import main

# How the tutorials begin and end what starts a solver.
BEGIN = '#!/usr/bin/env bash\nset -e -u\n\n. ../../tools/log.sh\nexec > >(tee --append "$LOGFILE") 2>&1\n\n'
END = "\nclose_log\n"
VENV = "python3 -m venv .venv\n. .venv/bin/activate\npip install -r requirements.txt\n\n"
SERIAL = 'import numpy\nimport precice\nparticipant = precice.Participant("{}", "../precice-config.xml", 0, 1)\n'
PARALLEL = "import precice\nprecice.Participant('x', 'y', rank, size)\n"
OPENFOAM = {"run": 'blockMesh\n\n../../tools/run-openfoam.sh "$@"\n. ../../tools/remove.sh && remove_empty'}
RECORDED = "python -m precice_lb run "


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores, and no cluster."""
    monkeypatch.setattr("precice_lb.campaign.init.available_cores", lambda: (0, 1))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.chdir(tmp_path)


def lay_out(
    first: str, second: str, folders: dict[str, dict[str, str]], *, size: float = 0.01, end: float = 1.0
) -> None:
    """Write the configuration of two participants, and folders with their files, of which "run" is the script."""
    text = CONFIGURATION.replace('"Left"', f'"{first}"').replace('"Right"', f'"{second}"')
    text = text.replace('size value="1"', f'size value="{size}"')
    Path("precice-config.xml").write_text(
        text.replace('<max-time-windows value="1000" />', f'<max-time value="{end}" />')
    )
    for name, files in folders.items():
        Path(name).mkdir()
        for file, content in files.items():
            script = f"{BEGIN}{content}\n{END}"
            Path(name, "run.sh" if file == "run" else file).write_text(script if file == "run" else content)


def program(name: str, text: str = "#!/bin/sh\n") -> None:
    """Put a program on the path."""
    place = Path("bin")
    place.mkdir(exist_ok=True)
    (place / name).write_text(text)
    (place / name).chmod(0o755)
    os.environ["PATH"] = f"{place.resolve()}{os.pathsep}{os.environ['PATH']}"


def written(capsys: pytest.CaptureFixture[str]) -> tuple[str, list[str]]:
    """Let a study be written; return its text, and what its marks say."""
    assert main(["init"]) == 0
    shown = capsys.readouterr().out
    text = Path("study.toml").read_text()
    marks = re.findall(r"# please check: (.*)", text)
    assert all(mark in shown for mark in marks)
    assert shown.splitlines()[-1] == "look at it, then: precice-lb calibrate --dry-run study.toml"
    return text, marks


def commands(study: Study) -> dict[str, tuple[str, object]]:
    """Directory and command by participant."""
    return {one.name: (one.directory, one.command) for one in study.participants}


class Tutorial(NamedTuple):
    """What lies in a tutorial, what of it is to be run, and words of the marks."""

    names: tuple[str, str]
    folders: dict[str, dict[str, str]]
    runs: dict[str, tuple[str, str]]
    text: str = ""
    marks: tuple[str, ...] = ()
    serial: bool = True
    size: float = 0.01
    end: float = 1.0


def _elastic_tube() -> dict[str, dict[str, str]]:
    folders = {}
    build = "if [ ! -d build ]; then\n  mkdir build\n  cmake -S . -B build\nfi\n\n"
    for name in ("Fluid", "Solid"):
        start, script = f"{VENV}python3 ./{name}Solver.py ../precice-config.xml\n", SERIAL.format(name)
        folders[f"{name.lower()}-python"] = {"run": start, f"{name}Solver.py": script}
        folders[f"{name.lower()}-cpp"] = {"run": f"{build}./build/{name}Solver ../precice-config.xml"}
        folders[f"{name.lower()}-rust"] = {"run": "cargo run --release ../precice-config.xml "}
    return folders


def _oscillator() -> dict[str, dict[str, str]]:
    script = (
        "import numpy as np\nimport precice\nfrom enum import Enum\nimport problemDefinition\n"
        "class Participant(Enum):\n    LEFT = 'Mass-Left'\n"
        "solver_process_index = 0\nsolver_process_size = 1\nconfiguration = '../precice-config.xml'\n"
        "def solve(name):\n"
        "    return precice.Participant(name, configuration, solver_process_index, solver_process_size)\n"
    )
    folders = {"solver-python": {"oscillator.py": script, "problemDefinition.py": ""}}
    fmi = "if [ ! -f ../solver-fmi/Oscillator.fmu ]; then\n  cd ../solver-fmi/fmu\n  make\nfi\n"
    for side in ("Left", "Right"):
        start = f"{VENV.replace('requirements', '../solver-python/requirements')}python3 ../solver-python/oscillator.py"
        folders[f"mass-{side.lower()}-python"] = {"run": f"{start} Mass-{side}\n"}
        folders[f"mass-{side.lower()}-fmi"] = {"run": f"{fmi}{VENV}fmiprecice a.json\npython3 error.py {side}"}
    return folders


def _partitioned_heat(module: str) -> dict[str, dict[str, str]]:
    folders = {"solver-fenics": {"heat.py": "from fenics_that_is_not_here import mesh\n"}}
    for name in ("Dirichlet", "Neumann"):
        branches = (
            f'if [ $# -eq 0 ]\nthen\n    python3 ../solver-fenics/heat.py {name}\nelse\n    case "$1" in\n'
            "        sdc)\n            python3 ../solver-fenics/heat_pySDC.py\n            ;;\n    esac\nfi\n"
        )
        start, script = "NUTILS_RICHOUTPUT=no python3 heat.py", SERIAL.replace("numpy", module).format(name)
        folders[f"{name.lower()}-fenics"] = {"run": VENV + branches}
        folders[f"{name.lower()}-nutils"] = {"run": f"{VENV}rm -rf {name}-*.vtk\n{start}", "heat.py": script}
        folders[f"{name.lower()}-openfoam"] = OPENFOAM
    return folders


def _perpendicular_flap() -> dict[str, dict[str, str]]:
    fake = (
        "from __future__ import division\nimport numpy as np\nimport precice\nname = 'Fluid'\n"
        "solver_process_index = 0\nsolver_process_size = 1\n"
        "interface = precice.Participant(name, '../precice-config.xml', solver_process_index, solver_process_size)\n"
    )
    usage = 'usage() { echo "Usage: run.sh [-modal]" 1>&2; exit 1; }\n\n'
    calculix = (
        "if [ $# -eq 0 ]; then\n    ccx_preCICE -i flap -precice-participant Solid\n"
        "else\n    ccx_preCICE -i frequency\nfi\n"
    )
    dealii = 'EXE="elasticity"\nif test -f "elasticity"; then\n    ./"${EXE}" parameters.prm\nelse\n    echo no\nfi'
    plain = {"fake.py": fake, "run.sh": f"#!/usr/bin/env sh\nset -e -u\n\n{VENV}python3 fake.py\n"}
    return {
        **{f"{side}-fake": plain for side in ("fluid", "solid")},
        **{f"{side}-openfoam": OPENFOAM for side in ("fluid", "solid")},
        "fluid-su2": {"run": "SU2_preCICE_FSI.py -f euler_config_unsteady.cfg --parallel"},
        "solid-calculix": {"run": usage + calculix},
        "solid-dealii": {"run": dealii},
    }


def _two_scale_heat() -> dict[str, dict[str, str]]:
    options = 'while getopts ":sp" opt; do\n  case ${opt} in\n  p)\n    mpiexec -n "$2" PROGRAM\n    ;;\n  esac\ndone\n'
    dumux = 'if [ -z "$*" ] ; then\n  echo "serial"\n  ./macro_dumux params.input\nfi\n\n'
    usage = 'usage() { echo "Usage: cmd [-s] [-p n]" 1>&2; exit 1; }\n'
    micro = 'if [ -z "$*" ] ; then\n  micro-manager-precice micro-manager-config.json\nfi\n\n'
    macro = {"run": f"{VENV}python3 macro.py richoutput=no", "macro.py": SERIAL.format("macro-heat")}
    return {
        "macro-nutils": macro,
        "macro-dumux": {"run": dumux + options.replace("PROGRAM", "macro_dumux params.input")},
        "micro-nutils": {"run": f"{VENV}{usage}{micro}{options}"},
    }


TRANSPORT = SERIAL + "def main():\n    import nutils_that_is_not_here\n"
TUTORIALS = {
    "elastic-tube-1d": Tutorial(
        ("Fluid", "Solid"),
        _elastic_tube(),
        {n: (f"{n.lower()}-python", f"./{n}Solver.py ../precice-config.xml") for n in ("Fluid", "Solid")},
        text="FluidSolver.py:3",
    ),
    "oscillator": Tutorial(
        ("Mass-Left", "Mass-Right"),
        _oscillator(),
        {
            f"Mass-{s}": (f"mass-{s.lower()}-python", f"../solver-python/oscillator.py Mass-{s}")
            for s in ("Left", "Right")
        },
    ),
    # None can start here, so that the marks say what the first of Python lacks.
    "partitioned-heat-conduction without nutils": Tutorial(
        ("Dirichlet", "Neumann"),
        _partitioned_heat("nutils_that_is_not_here"),
        {n: (f"{n.lower()}-nutils", "heat.py") for n in ("Dirichlet", "Neumann")},
        text="dirichlet-fenics, dirichlet-openfoam",
        marks=("nutils_that_is_not_here", "nutils_that_is_not_here"),
        size=0.1,
    ),
    "partitioned-heat-conduction": Tutorial(
        ("Dirichlet", "Neumann"),
        _partitioned_heat("numpy"),
        {n: (f"{n.lower()}-nutils", "heat.py") for n in ("Dirichlet", "Neumann")},
        text='environment = { NUTILS_RICHOUTPUT = "no" }',
        size=0.1,
    ),
    "perpendicular-flap": Tutorial(
        ("Fluid", "Solid"), _perpendicular_flap(), {n: (f"{n.lower()}-fake", "fake.py") for n in ("Fluid", "Solid")}
    ),
    "channel-transport": Tutorial(
        ("Fluid", "Transport"),
        {
            f"{n.lower()}-nutils": {"run": f"{VENV}python3 {n.lower()}.py\n", f"{n.lower()}.py": TRANSPORT.format(n)}
            for n in ("Fluid", "Transport")
        },
        {n: (f"{n.lower()}-nutils", f"{n.lower()}.py") for n in ("Fluid", "Transport")},
    ),
    "two-scale-heat-conduction": Tutorial(
        ("macro-heat", "Micro-Manager"),
        _two_scale_heat(),
        {
            "macro-heat": ("macro-nutils", "macro.py richoutput=no"),
            "Micro-Manager": ("micro-nutils", "micro-manager-precice micro-manager-config.json"),
        },
        text="windows = 2 ",
        marks=("micro-manager-precice", "several ranks"),
        serial=False,
        end=0.02,
    ),
}


@pytest.mark.parametrize("name", TUTORIALS)
def test_public_tutorials(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tutorial = TUTORIALS[name]
    lay_out(*tutorial.names, tutorial.folders, size=tutorial.size, end=tutorial.end)
    text, marks = written(capsys)
    assert tutorial.text in text
    # It runs as it is, one split where both solvers can only be serial, or says what it lacks.
    missing = [word for word in tutorial.marks if not Path(sys.executable).with_name(word).exists()]
    assert len(marks) == len(missing)
    assert all(word in mark for word, mark in zip(missing, marks, strict=True))
    for who, (place, command) in tutorial.runs.items():
        assert f'name = "{who}"\ndirectory = "{place}"\ncommand = "{RECORDED}{command}"' in text
    assert text.count("maximum_ranks = 1  #") == (2 if tutorial.serial else 1)
    if not marks:
        study = read_study("study.toml")
        assert study.bounds == dict.fromkeys(tutorial.names, (1, 1))
        assert (study.budget, study.runs.warmup_windows) == (2, 2)


def test_who_has_run_before_is_whose_command_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("Fluid", "Solid", _perpendicular_flap())
    program("ccx_preCICE")
    header = {"name": "Solid", "rank": 0, "size": 1, "unix_us": "1700000000000000", "tinit": "x", "mode": "fundamental",
              "compression": False, "file_version": 2}  # fmt: skip
    Path("solid-calculix", "precice-profiling").mkdir()
    Path("solid-calculix", "precice-profiling", "Solid-0-1.txt").write_text(json.dumps(header) + "\n")
    text, marks = written(capsys)
    assert commands(read_study("study.toml"))["Solid"] == (
        "solid-calculix",
        "ccx_preCICE -i flap -precice-participant Solid",
    )
    assert marks == ["whether it can run on several ranks: if not, maximum_ranks = 1"]
    assert "present: 1 rank" in text


def test_nothing_known_is_a_valid_file_with_a_mark_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("Left", "Right", {})
    _, marks = written(capsys)
    assert [mark.partition(":")[0] for mark in marks] == ["how Left starts", "how Right starts"]
    # Valid TOML; what is missing is refused by name.
    assert "no such program" in refused(capsys, "calibrate", "study.toml")


def test_an_existing_file_is_never_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("Left", "Right", {"empty": {}})
    Path("study.toml").write_text("mine")
    assert "study.toml: expected no study yet" in refused(capsys, "init")
    assert Path("study.toml").read_text() == "mine"
    assert "expected precice-config.xml" in refused(capsys, "init", "empty")


def test_a_script_that_a_function_of_the_shell_starts(capsys: pytest.CaptureFixture[str]) -> None:
    start = 'use_python ../solver\n\nrun_python "${{1:-2}}" ../solver/solve.py {} --output out.npz "${{@:2}}"'
    runs = {f"{name.lower()}-python": {"run": start.format(name)} for name in ("Left", "Right")}
    lay_out("Left", "Right", {**runs, "solver": {"solve.py": PARALLEL}})
    assert not written(capsys)[1]
    study = read_study("study.toml")
    assert commands(study)["Left"] == ("left-python", f"{RECORDED}../solver/solve.py Left --output out.npz")
    # The script asks MPI for rank and size.
    assert study.bounds == {"Left": (1, 2), "Right": (1, 2)}


def test_bounds_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    lay_out("Left", "Right", {})
    path = Path("precice-config.xml")
    wrong = 'from="A-Mesh" to="B-Mesh" constraint="conservative"'
    path.write_text(path.read_text().replace('from="A-Mesh" to="B-Mesh" constraint="consistent"', wrong))
    assert re.search(r"maximum_ranks = 1 +# conservative read mapping, precice-config.xml:20", written(capsys)[0])


def test_nodes_of_slurm(capsys: pytest.CaptureFixture[str]) -> None:
    runs = {
        f"{name}-python": {"run": "mpirun -np 96 python3 solver.py", "solver.py": PARALLEL}
        for name in ("left", "right")
    }
    lay_out("Left", "Right", runs)
    for name in ("sbatch", "squeue", "scancel", "srun"):
        program(name)
    program("sinfo", '#!/bin/sh\necho "main*|20|2|32"; echo "fat|2|4|16"\n')
    _, marks = written(capsys)
    study = read_study("study.toml")
    assert (study.launcher.name, study.machine.cores_per_node, study.budget) == ("slurm", 64, 64)
    assert commands(study)["Left"] == ("left-python", f"{RECORDED}solver.py")
    assert any("the interface between compute nodes" in mark for mark in marks)
    assert any("fat 2 of 64 cores" in mark for mark in marks)

    # A question without an answer is no empty answer.
    Path("study.toml").unlink()
    program("sinfo", "#!/bin/sh\necho 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1\n")
    _, marks = written(capsys)
    study = read_study("study.toml")
    assert (study.launcher.name, study.budget) == ("mpiexec", 2)
    assert any("sinfo" in mark and "Unable to contact" in mark for mark in marks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpirun -n 4 ./solver -parallel > log 2>&1 &", ["mpirun", "-n", "4", "./solver", "-parallel"]),
        ("export A=1\nsolver \\\n  --mesh fine | tee log", ["solver", "--mesh", "fine"]),
        ("cd build && ./solver", ["./solver"]),
        ("if [ $# -eq 0 ]; then\n  ./one\nelse\n  ./two\nfi\n", ["./one"]),
        ("echo 'unbalanced\n", []),
        ("solve() {\n ./inner\n}\n", []),
    ],
)
def test_the_command_of_a_shell_script(text: str, expected: list[str]) -> None:
    assert first_command(BEGIN + text + END) == expected


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
    assert read_script(tmp_path / "solver.py")[:2] == expected
