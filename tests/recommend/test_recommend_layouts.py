"""Participants that were measured with threads are split by cores, and said so everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_helpers import row, write_store

from precice_lb.dataset import load_measurements
from precice_lb.exceptions import DataError, InfeasibleError
from precice_lb.ingest import read_csv, write_csv
from precice_lb.layout import Layout, Layouts
from precice_lb.recommend import Machine, load_sources, recommend_split
from precice_lb.report import facts, split_table
from precice_lb.report.recommendation import answer

NAMES = {"Fluid": "Fluid", "Solid": "Solid"}


def table(path: Path, solid: list[tuple[int, int]], threads: bool = True) -> Path:
    """Exact times of laws with a best split: 24 cores are best as 18 ranks and 6 cores."""
    lines = [f"participant,ranks,seconds{',threads' if threads else ''}"]
    for ranks in (2, 4, 8, 12, 16, 20):
        lines.append(f"Fluid,{ranks},{36 / ranks:.9g}{',' if threads else ''}")
    for ranks, each in solid:
        lines.append(f"Solid,{ranks},{12 / ranks / each:.9g}{f',{each}' if threads else ''}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def threaded(tmp_path: Path) -> Path:
    return table(tmp_path / "threaded.csv", [(1, 1), (1, 2), (1, 4), (1, 8)])


@pytest.mark.parametrize(
    ("solid", "message"),
    [
        ([(1, 4), (4, 1)], "measurements of Solid: .*one way to use 4 cores, found two"),
        ([(1, 0)], "at least 1 in column threads, found '0'"),
    ],
)
def test_one_number_of_cores_used_in_two_ways_is_refused(
    tmp_path: Path, solid: list[tuple[int, int]], message: str
) -> None:
    path = tmp_path / "two.csv"
    path.write_text("participant,ranks,threads,seconds\n" + "".join(f"Solid,{r},{t},1.0\n" for r, t in solid))
    with pytest.raises(DataError, match=message) as caught:
        read_csv(path)
    assert "\n" not in str(caught.value)


def test_two_versions_may_use_one_number_of_cores_in_two_ways(tmp_path: Path) -> None:
    path, again = tmp_path / "two.csv", tmp_path / "again.csv"
    rows = [f"Fluid,,{p},1,{36 / p}" for p in (2, 4, 8, 16)]
    rows += [f"Solid,mpi,{p},1,{16 / p}\nSolid,omp,1,{p},{12 / p}" for p in (2, 4, 8)]
    path.write_text("\n".join(["participant,version,ranks,threads,seconds", *rows]) + "\n")
    write_csv(read_csv(path), again)
    layouts = {"Fluid": Layouts(), "Solid:mpi": Layouts(), "Solid:omp": Layouts(1, None)}
    assert read_csv(path).layouts == read_csv(again).layouts == load_sources([path, again]).layouts == layouts
    found = recommend_split(path, 24, learner="bayes")
    by_version = {choice.versions["Solid"]: choice for choice in found.choices}
    assert by_version["mpi"].layouts == {}
    assert by_version["omp"].layouts == {"Solid": Layout(1, by_version["omp"].split["Solid"])}


def test_stores_tell_the_threads_of_their_ranks(tmp_path: Path) -> None:
    for run, (ranks, threads) in enumerate([(1, 1), (1, 2), (1, 4)]):
        for name, size, each in (("A", ranks, threads), ("B", 2, 1)):
            calls = [row(window, 1.0 / size / each, 0.01, 0.005) for window in range(1, 8)]
            for rank in range(size):
                more = {"threads": each} if each > 1 else {}
                began = {"started_unix_ns": 1_700_000_000_000_000_000 + run * 10**12}
                write_store(tmp_path / str(run), calls, name, rank, size, seconds=36.0, **more, **began)
    found = load_measurements([tmp_path])
    assert found.layouts == {"A": Layouts(1, None), "B": Layouts()}
    assert found.samples["A"][:, 0].tolist() == [1, 2, 4]
    assert sorted(run.split["A"] for run in found.runs) == [1, 2, 4]
    # 36 s of 1 + 2, 2 + 2 and 4 + 2 cores.
    assert found.core_hours == pytest.approx(0.01 * (3 + 4 + 6))


def test_the_planted_split_is_found_and_said_with_threads(threaded: Path) -> None:
    found = recommend_split(threaded, 24, learner="pmnf", present={"Fluid": 16, "Solid": 8}, within=0.2)
    assert found.split == {"Fluid": 18, "Solid": 6}
    assert found.used == {"ranks": 19, "cores": 24}
    assert answer(found, NAMES).startswith("Give Fluid 18 ranks and Solid 1 x 6 threads: one time window should take ")
    assert [line[1] for line in split_table(found, NAMES).rows] == ["18", "1 x 6 threads", "24"]
    said = dict(facts(found, NAMES))
    assert said["budget"] == "24 of 24 cores"
    assert said["model of Solid"].endswith("4 measurements at 1 to 8 cores")
    told = json.loads(json.dumps(found.to_dict()))
    assert told["layouts"] == {"Solid": {"ranks": 1, "threads": 6}}
    assert {(each["ranks"], each["threads"]) for each in told["measurements"]["samples"]["Solid"]} == {
        (1, 1), (1, 2), (1, 4), (1, 8),
    }  # fmt: skip


def test_layouts_that_agree_with_what_was_measured_are_the_same(tmp_path: Path) -> None:
    path = table(tmp_path / "four.csv", [(1, 4), (2, 4), (3, 4), (4, 4)])
    by_data = recommend_split(path, cores=24, learner="pmnf")
    agreed = recommend_split(path, cores=24, learner="pmnf", layouts={"Solid": Layouts(None, 4)})
    assert by_data.split == agreed.split
    assert by_data.window_seconds == agreed.window_seconds
    assert agreed.layouts == {"Solid": Layouts(None, 4)}
    with pytest.raises(InfeasibleError, match="Solid with ranks of 8 threads, as is said of it, found such with 1 x 4"):
        recommend_split(path, cores=24, layouts={"Solid": Layouts(None, 8)})
    with pytest.raises(InfeasibleError, match="Solid with 1 rank, as is said of it, found such with 2 x 4 threads"):
        recommend_split(path, cores=24, layouts={"Solid": Layouts(1, None)})


@pytest.mark.parametrize("stated", [Layouts(1, None), Layouts(2, 8), Layouts(None, None, (Layout(1, 4), Layout(2, 4)))])
def test_measured_ranks_are_not_taken_for_threads(tmp_path: Path, stated: Layouts) -> None:
    solid = [(2, 1), (4, 1), (8, 1)]
    path = table(tmp_path / "mpi.csv", solid)
    with pytest.raises(InfeasibleError, match=r"found such with 2 ranks or 4 ranks or 8 ranks; say") as found:
        recommend_split(path, 24, layouts={"Solid": stated})
    assert "\n" not in str(found.value)
    # Numbers of a table that tells no threads are cores.
    untold = table(tmp_path / "untold.csv", solid, threads=False)
    assert recommend_split(untold, 24, layouts={"Solid": Layouts(1, None)}).layouts == {"Solid": Layouts(1, None)}


def test_said_layouts_go_before_the_measured_ones(threaded: Path) -> None:
    pairs = Layouts(None, None, (Layout(1, 4), Layout(1, 8)))
    found = recommend_split(threaded, 24, learner="pmnf", machine=Machine(layouts={"Solid": pairs}))
    assert found.split == {"Fluid": 16, "Solid": 8}
    nodes = recommend_split(threaded, learner="pmnf", nodes=3, cores_per_node=4, whole_nodes=True)
    # The threads of a rank lie on one node.
    assert nodes.split["Solid"] <= 4


def test_a_present_split_of_other_layouts_is_refused(threaded: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InfeasibleError, match="expected Solid on 1 x 8 threads, as it is split, found 2 x 4 threads; say"
    ):
        recommend_split(threaded, 24, present={"Fluid": 16, "Solid": "2x4"})
    assert recommend_split(threaded, 24, present={"Fluid": 16, "Solid": 8}).alternatives["present"].split["Solid"] == 8
    path = tmp_path / "versions.csv"
    path.write_text("participant,version,ranks,threads,seconds\nFluid,,1,1,1\nSolid,omp,1,4,1\nSolid,mpi,4,1,1\n")
    with pytest.raises(DataError, match="expected the cores of Solid, which has versions, found 1x4"):
        recommend_split(path, 8, present={"Fluid": 4, "Solid": "1x4"})
