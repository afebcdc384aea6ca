"""What a recommendation makes of full nodes, and that it asks for what it does not know, once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from coupled_runs import coupled_run

from precice_lb.dataset import measurements_from_runs
from precice_lb.models import make_learner
from precice_lb.recommend import Recommendation, recommend_split

RANKS = np.array([4, 8, 16, 32])
# Memory saturates within a node of 32 cores, and every further full node brings as much again.
SECONDS = np.array([25.0, 14.0, 9.0, 8.0])


def frame(ranks: np.ndarray, seconds: np.ndarray, nodes: np.ndarray | None = None) -> pd.DataFrame:
    parts = [pd.DataFrame({"participant": name, "ranks": ranks, "seconds": cost * seconds})
             for name, cost in (("Fluid", 1.0), ("Solid", 0.5))]  # fmt: skip
    table = pd.concat(parts)
    if nodes is not None:
        table["nodes"] = np.tile(nodes, 2)
    return table


def asked(found: Recommendation) -> list[str]:
    return [warning.values["participants"] for warning in found.warnings if warning.code == "more-nodes"]


def test_beyond_a_full_node_every_further_one_counts_in_full() -> None:
    ranks, seconds = RANKS[:, None].astype(float), SECONDS
    known = make_learner("bayes").fit(ranks, seconds, cores=32).predict([32.0, 64, 128])
    unknown = make_learner("bayes").fit(ranks, seconds).predict([32.0, 64, 128])
    assert known[1] / known[0] == pytest.approx(0.5, abs=0.1)
    assert known[2] / known[0] == pytest.approx(0.25, abs=0.1)
    # Whoever does not know goes on as within the node.
    assert unknown[2] / unknown[0] > 0.6


def test_who_goes_beyond_what_was_measured_is_asked_for_the_cores_of_a_node_once() -> None:
    table = frame(RANKS, SECONDS)
    assert asked(recommend_split(table, 256)) == ["Fluid and Solid"]
    assert asked(recommend_split(table, nodes=8, cores_per_node=32)) == []
    assert asked(recommend_split(table, 40)) == []


def test_a_column_of_nodes_tells_the_cores_of_one_and_is_no_parameter() -> None:
    ranks, nodes = np.array([8, 16, 32, 63, 93]), np.array([1, 1, 1, 2, 3])
    seconds = np.array([14.0, 9.0, 8.0, 4.0, 2.7])
    found = recommend_split(frame(ranks, seconds, nodes), 384)
    assert found.measurements.node_ranks == {"Fluid": 32, "Solid": 32}
    assert asked(found) == []
    assert found.measurements.parameters["Fluid"] == {}
    # On one node alone nothing is known of a full one.
    alone = recommend_split(frame(RANKS, SECONDS, np.ones(4)), 256)
    assert alone.measurements.node_ranks == {}
    assert len(asked(alone)) == 1


def test_hosts_in_stores_tell_the_ranks_of_a_full_node(tmp_path: Path) -> None:
    run = coupled_run(
        "one", {"A": 6, "B": 4}, {"A": np.full(20, 1.0), "B": np.full(20, 0.5)}, np.ones(20), serial=False
    )
    run.participants["A"].places.update({"n1": (4, frozenset(range(4))), "n2": (2, frozenset(range(2)))})
    run.participants["B"].places.update({"n2": (4, frozenset(range(4)))})
    assert measurements_from_runs([run]).node_ranks == {"A": 4}
