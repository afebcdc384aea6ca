"""With how many ranks preCICE starts participants: the rules, who keeps to them, and libprecice's own word."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from calibrate_helpers import changed, edited, refusals, write_case, write_study
from record_helpers import environment, finish, start
from report_helpers import refused

from precice_lb.campaign import CalibrationDesign, read_study
from precice_lb.case import accepted_ranks, parse_configuration, read_configuration
from precice_lb.exceptions import InfeasibleError, StudyError
from precice_lb.ingest import read_csv
from precice_lb.layout import Layouts, layout_from
from precice_lb.recommend import recommend_split
from precice_lb.schedule import Schedule
from precice_lb.split import Constraints, optimize_split

DATA = Path(__file__).parents[1] / "data"
TWO_LEVEL, TABLE = DATA / "configurations" / "two-level.xml", DATA / "two_level.csv"
TEXT = TWO_LEVEL.read_text()


def _rule(block: str) -> tuple[str, dict[str, tuple[str, int, str]]]:
    """Read a text, and of each that is bound whether at least or at most, its ranks and what is said one beyond."""
    lines = block.split("\n")[1:]
    bounds = [match for match in (re.fullmatch(r"(\w+) ([<>])= (\d): (.*)", line) for line in lines) if match]
    text = edited(TEXT, lines[: len(lines) - len(bounds)])
    return text, {match[1]: (match[2], int(match[3]), match[4]) for match in bounds}


RULES = {block.split("\n")[0][2:]: _rule(block) for block in refusals("ranks-accepted.txt")}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_names_who_is_bound_and_the_line(rule: str) -> None:
    text, bounds = RULES[rule]
    found = accepted_ranks(parse_configuration(text))
    assert set(found) == set(bounds)
    for name, (side, ranks, beyond) in bounds.items():
        accepted = found[name]
        assert (accepted.least.ranks if side == ">" else accepted.most.ranks) == ranks
        assert side == "<" or accepted.most.ranks > 10**9
        assert accepted.problem(name, ranks) == ""
        assert accepted.problem(name, ranks + (1 if side == "<" else -1)) == beyond


# --- who keeps to them -----------------------------------------------------------------------------------------------


@pytest.fixture
def serial(tmp_path: Path) -> Path:
    """A configuration whose Shell starts on one rank only."""
    (tmp_path / "serial.xml").write_text(RULES["consistent write"][0])
    return tmp_path / "serial.xml"


def test_bounds_hold_in_python_where_a_configuration_is_given(serial: Path) -> None:
    times = {"Flow": lambda ranks: 8.0 / ranks, "Shell": lambda ranks: 0.4 / ranks}
    for coupling in (TWO_LEVEL, str(TWO_LEVEL), Schedule.from_config(TWO_LEVEL)):
        assert optimize_split(times, 5, coupling=coupling).split == {"Flow": 3, "Shell": 2}
    assert optimize_split(times, 5).split == {"Flow": 4, "Shell": 1}
    assert optimize_split({"Flow": times["Shell"], "Shell": times["Flow"]}, 5, coupling=serial).split["Shell"] == 1
    design = CalibrationDesign(["Flow", "Shell"], 8, coupling=serial)
    assert design.ask() == {"Flow": 7, "Shell": 1}


def test_bounds_are_of_ranks_where_a_split_counts_cores(serial: Path) -> None:
    times = {"Flow": lambda cores: 1.0 / cores, "Shell": lambda cores: 8.0 / cores}

    def split(config: Path, layouts: Layouts) -> int:
        found = optimize_split(times, 12, coupling=config, constraints=Constraints(layouts={"Shell": layouts}))
        return found.split["Shell"]

    # One rank with as many threads as help; ranks of four threads; ranks and threads in pairs.
    assert split(serial, Layouts(1, None)) > 4
    assert split(serial, Layouts(None, 4)) == 4
    assert split(serial, Layouts(None, None, tuple(map(layout_from, ("1x2", "2x2", "1x3", "3x3"))))) == 3
    assert split(TWO_LEVEL, Layouts(None, 4)) == 8
    for config, layouts in ((TWO_LEVEL, Layouts(1, None)), (serial, Layouts(2, None))):
        with pytest.raises(InfeasibleError, match=r"two-level initialisation|consistent write mapping"):
            split(config, layouts)


def test_recorded_runs_bring_the_bounds_of_their_configuration() -> None:
    recorded = dataclasses.replace(read_csv(TABLE), configuration=TEXT)
    assert recommend_split(recorded, 5).split["Shell"] == 2
    unreadable = dataclasses.replace(recorded, configuration="<nothing/>")
    assert recommend_split(unreadable, 5).split["Shell"] == 1


def _study(directory: Path, old: str, new: str, **tables: str) -> Path:
    """A study of Left and Right on four ranks, whose configuration was changed."""
    case = write_case(directory)
    changed(case / "precice-config.xml", (old, new))
    return write_study(directory, **tables)


def _two_levels(directory: Path, **tables: str) -> Path:
    return _study(directory, "<m2n:sockets ", '<m2n:sockets use-two-level-initialization="true" ', **tables)


def test_campaigns_measure_what_preCICE_starts(tmp_path: Path) -> None:
    study = read_study(_two_levels(tmp_path / "two"))
    assert (study.bounds, study.has_one_split) == ({"Left": (2, 4), "Right": (2, 4)}, True)
    # One rank of as many threads as cores help is one rank.
    for number, (left, bounds) in enumerate(
        {"": (1, 1), 'ranks = 1\nthreads = "free"': (1, 4), "threads = 2": (2, 2)}.items()
    ):
        changes = '<participant name="Left">', '<participant name="Left"><export:vtk/>'
        assert read_study(_study(tmp_path / str(number), *changes, left=left)).bounds["Left"] == bounds


def test_a_study_that_asks_for_more_is_refused(tmp_path: Path) -> None:
    for where, tables in (
        (r"runs.splits\[2\]", {"runs": "splits = [{Left = 2, Right = 2}, {Left = 3, Right = 1}]"}),
        (r"chain.start", {"extra": "[chain]\nwindows = 2\nstart = {Left = 3, Right = 1}"}),
    ):
        expected = (
            rf"{where}: expected at least 2 ranks of Right, found 1, with which preCICE refuses to start "
            r"\(two-level.*precice-config.xml:\d+\); change the ranks, or switch use-two-level-initialization off"
        )
        with pytest.raises(StudyError, match=expected):
            read_study(_two_levels(tmp_path / where[:4], **tables))


def test_a_split_that_preCICE_refuses_is_not_launched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = _two_levels(tmp_path)
    monkeypatch.chdir(tmp_path / "case")
    solvers = ("--write", "scripts", "--", "python", "solver.py", ":", "python", "solver.py")
    for split, words in (
        ("Left=2,Right=1", solvers), ("Left=2,Right=1x4", solvers), ("Left=2,Right=1", ("--study", study))
    ):  # fmt: skip
        assert "expected at least 2 ranks of Right, found 1" in refused(capsys, "launch", "--split", split, *words)
    assert not Path("scripts").exists()


# --- libprecice ------------------------------------------------------------------------------------------------------

# Constructs participants of configurations one after the other on all ranks, and says which of them preCICE refuses.
CONSTRUCT = """
import json, sys
import precice
from mpi4py import MPI

rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
refused = []
for name, configuration in json.loads(sys.argv[1]):
    try:
        precice.Participant(name, configuration, rank, size).finalize()
        refused.append("")
    except RuntimeError as error:
        refused.append(str(error))
if rank == 0:
    open(sys.argv[2], "w").write(json.dumps(refused))
"""
# Couples what provides meshes, whose vertices are divided among the ranks, to the end.
COUPLE = """
import json, sys
import numpy as np
import precice
from mpi4py import MPI

name, configuration, meshes, accessed, vertices = json.loads(sys.argv[1])
rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
participant = precice.Participant(name, configuration, rank, size)
for mesh in meshes:
    dimensions = participant.get_mesh_dimensions(mesh)
    points = np.indices((vertices, 2, 2)[:dimensions] if vertices > 1 else (1,) * dimensions).reshape(dimensions, -1).T
    mine = np.array_split(points / vertices, size)[rank]
    ids = participant.set_mesh_vertices(mesh, mine)
    if participant.requires_mesh_connectivity_for(mesh):
        participant.set_mesh_edges(mesh, [[ids[at], ids[at + 1]] for at in range(len(ids) - 1)])
for mesh in accessed:
    participant.set_mesh_access_region(mesh, [-1.0, 2.0] * participant.get_mesh_dimensions(mesh))
participant.requires_initial_data()
participant.initialize()
while participant.is_coupling_ongoing():
    participant.requires_writing_checkpoint()
    participant.advance(participant.get_max_time_step_size())
    participant.requires_reading_checkpoint()
participant.finalize()
"""


def refused_by(mpiexec: str, configurations: list[Path], ranks: int, directory: Path) -> dict[tuple[Path, str], str]:
    """Ask libprecice with so many ranks about each participant of configurations: why it refuses, or nothing."""
    asked = [(path, name) for path in configurations for name in read_configuration(path).participants]
    answer = directory / f"refused-{ranks}.json"
    pairs = json.dumps([(name, str(path)) for path, name in asked])
    subprocess.run(
        [mpiexec, "-n", str(ranks), sys.executable, "-c", CONSTRUCT, pairs, str(answer)],
        cwd=directory, env=environment(), capture_output=True, text=True, timeout=300, check=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return dict(zip(asked, json.loads(answer.read_text()), strict=True))


@pytest.mark.precice
@pytest.mark.mpi
@pytest.mark.parametrize("rule", [rule for rule, (_, bounds) in RULES.items() if bounds])
def test_libprecice_starts_a_split_at_the_bound_and_refuses_one_beyond(rule: str, mpiexec: str, tmp_path: Path) -> None:
    text, bounds = RULES[rule]
    path = tmp_path / "precice-config.xml"
    path.write_text(text)
    configuration = read_configuration(path)
    accepted = accepted_ranks(configuration)
    names = list(configuration.participants)
    # One more rank than bound of those that are not.
    split = {name: bounds[name][1] if name in bounds else 2 for name in names}
    vertices = 1 if "axial" in rule else 3
    commands = {}
    for name in names:
        participant = configuration.participants[name]
        accessed = [mesh.name for mesh in participant.receives if mesh.api_access]
        told = json.dumps([name, str(path), participant.provides, accessed, vertices])
        commands[name] = [mpiexec, "-n", str(split[name]), sys.executable, "-c", COUPLE, told]
    results = finish(start(tmp_path, commands, dict.fromkeys(names, environment())))
    assert [result.returncode for result in results.values()] == [0] * len(names), results
    for ranks in (1, 2):
        for (_, name), why in refused_by(mpiexec, [path], ranks, tmp_path).items():
            assert bool(why) == (name in accepted and bool(accepted[name].problem(name, ranks))), (name, ranks, why)


@pytest.mark.precice
@pytest.mark.mpi
@pytest.mark.tutorials
def test_libprecice_refuses_ranks_of_its_tutorials_as_the_rules_say(
    mpiexec: str, tmp_path: Path, precice_tutorials: Path
) -> None:
    paths = sorted(precice_tutorials.rglob("precice-config*.xml"))
    accepted = {path: accepted_ranks(read_configuration(path)) for path in paths}
    alone, beside = (refused_by(mpiexec, paths, ranks, tmp_path) for ranks in (1, 2))
    bound = set()
    for (path, name), why in beside.items():
        if alone[path, name]:
            # Whatever it is, it is not their number.
            continue
        expected = accepted[path].get(name)
        assert bool(why) == bool(expected and expected.problem(name, 2)), (path, name, why)
        bound |= {path.parent.name} if why else set()
    assert {"channel-transport", "oscillator", "resonant-circuit", "flow-over-heated-plate"} <= bound
