"""The embedded backend does what preCICE does: the same solvers on both, everything they were told compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedded_helpers import case, points, run, write_configuration

pytestmark = [pytest.mark.precice, pytest.mark.mpi]

BOTH_WAYS = "Heat:A>B Force:B>A"


@dataclass(frozen=True)
class Case:
    name: str
    exchanges: list[tuple[str, str, str, str]]
    ranks: dict[str, int]
    configuration: dict[str, Any] = field(default_factory=dict)
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    vertices: tuple[int, ...] = (23, 17, 11)


CASES = [
    Case(
        "serial 2-D, vector back", [("serial-explicit", "A", "B", BOTH_WAYS)], {"A": 1, "B": 1}, {"vector": ["Force"]}
    ),
    Case(
        "serial 3-D, vector, initial data of the second, 2 + 1 ranks",
        [("serial-explicit", "A", "B", BOTH_WAYS)],
        {"A": 2, "B": 1},
        {"dimensions": 3, "vector": ["Heat", "Force"], "initialize": ["Force"]},
    ),
    Case(
        "serial 2-D, initial data of the first, 2 + 3 ranks, no finalize",
        [("serial-explicit", "A", "B", BOTH_WAYS)],
        {"A": 2, "B": 3},
        {"initialize": ["Heat"]},
        {"A": {"finalize": False}, "B": {"finalize": False}},
    ),
    Case(
        "parallel 2-D, both initialize, 1 + 2 ranks, two data one way of which one is initialized",
        [("parallel-explicit", "A", "B", "Heat:A>B Flux:A>B Force:B>A")],
        {"A": 1, "B": 2},
        {"vector": ["Flux"], "initialize": ["Heat", "Force"]},
    ),
    Case(
        "parallel 3-D, 2 + 3 ranks, ranks without vertices",
        [("parallel-explicit", "A", "B", BOTH_WAYS)],
        {"A": 2, "B": 3},
        {"dimensions": 3, "vector": ["Force"]},
        {"A": {"owners": 1}, "B": {"owners": 2}},
    ),
    Case(
        "parallel, cut window and subcycling, what is written before a window's last step is lost",
        [("parallel-explicit", "A", "B", BOTH_WAYS)],
        {"A": 1, "B": 1},
        {"end": '<max-time value="0.25" />'},
        {"A": {"step": 0.04, "write_first_only": 2}, "B": {"step": 0.03}},
    ),
    Case(
        "serial, cut window and subcycling between both ends of a window",
        [("serial-explicit", "A", "B", BOTH_WAYS)],
        {"A": 1, "B": 2},
        {"end": '<max-time value="0.25" />\n<max-time-windows value="7" />', "initialize": ["Heat", "Force"]},
        {"A": {"step": 0.04}, "B": {"step": 0.03}},
    ),
    Case(
        "serial, constant in time",
        [("serial-explicit", "A", "B", BOTH_WAYS)],
        {"A": 1, "B": 1},
        {"degrees": {"Heat": 0, "Force": 0}},
        {"B": {"step": 0.03}},
    ),
    Case(
        "serial, write direction",
        [("serial-explicit", "A", "B", BOTH_WAYS)],
        {"A": 1, "B": 1},
        {"write_direction": True, "vector": ["Heat"], "initialize": ["Force"]},
    ),
    Case("serial, one direction", [("serial-explicit", "A", "B", "Heat:A>B")], {"A": 1, "B": 2}),
    Case("parallel, against the order", [("parallel-explicit", "A", "B", "Force:B>A")], {"A": 1, "B": 1}),
    Case(
        "no geometric filter, interfaces apart",
        [("parallel-explicit", "A", "B", BOTH_WAYS)],
        {"A": 2, "B": 2},
        {"receive": 'geometric-filter="no-filter" ', "directory": "exchange"},
        {"B": {"points": [[x + 4.0, y] for x, y in points(9, 2, 5)]}},
    ),
    Case(
        "the geometric filter hides the nearest neighbour of a small part",
        [("parallel-explicit", "A", "B", "Heat:A>B")],
        {"A": 1, "B": 2},
        {},
        {
            "A": {"points": [[0.03, 0.0], [0.1, 0.06], [1.0, 0.0]]},
            "B": {"points": [[0, 0], [0.1, 0], [0.9, 0], [1, 0]]},
        },
    ),
    Case(
        "chain of three, both serial",
        [("serial-explicit", "A", "B", BOTH_WAYS), ("serial-explicit", "B", "C", "Load:B>C Shift:C>B")],
        {"A": 1, "B": 2, "C": 1},
        {"initialize": ["Shift"]},
    ),
    Case(
        "chain of three, serial and parallel, the same data to both neighbours",
        [("serial-explicit", "A", "B", BOTH_WAYS), ("parallel-explicit", "C", "B", "Force:B>C Shift:C>B")],
        {"A": 1, "B": 1, "C": 2},
        {"vector": ["Force"], "end": '<max-time value="1/4" />'},
        {"B": {"step": 0.06}},
    ),
    Case(
        "many windows that add up in rounding",
        [("parallel-explicit", "A", "B", "Heat:A>B")],
        {"A": 1, "B": 1},
        {"window": 0.7e-3, "end": '<max-time value="0.35" />'},
        {"A": {"step": 0.1e-3}},
    ),
]


CONVERGENCE = (
    '<max-iterations value="30" /><relative-convergence-measure limit="1e-6" data:Heat />'
    '<absolute-convergence-measure limit="1e-6" data:Force />'
)
QUASI_NEWTON = "<acceleration:IQN-ILS><data name:Heat /><data name:Force /></acceleration:IQN-ILS>"
CASES += [
    Case(
        "serial-implicit with substeps, 1 + 2 ranks",
        [("serial-implicit", "A", "B", BOTH_WAYS)],
        {"A": 1, "B": 2},
        {"iteration": CONVERGENCE, "vector": ["Force"], "initialize": ["Force"]},
        {"A": {"step": 0.04}, "B": {"step": 0.03}},
    ),
    Case(
        "parallel-implicit, Aitken, without substeps",
        [("parallel-implicit", "A", "B", BOTH_WAYS)],
        {"A": 1, "B": 1},
        {
            "iteration": CONVERGENCE + "<acceleration:aitken><data name:Force /></acceleration:aitken>",
            "substeps": {"Heat": False, "Force": False},
        },
        {"A": {"step": 0.04}},
    ),
    Case(
        "parallel-implicit, IQN-ILS, 2 + 2 ranks",
        [("parallel-implicit", "A", "B", BOTH_WAYS)],
        {"A": 2, "B": 2},
        {"iteration": CONVERGENCE + QUASI_NEWTON, "vector": ["Heat"]},
    ),
]


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_the_same_as_libprecice(one: Case, tmp_path: Path, mpiexec: str) -> None:
    configuration = write_configuration(
        tmp_path / "precice-config.xml",
        participants={name: [] for name in one.ranks},
        exchanges=one.exchanges,
        **one.configuration,
    )
    items = [item.split(":") for *_, what in one.exchanges for item in what.split()]
    roles = {}
    for number, name in enumerate(one.ranks):
        roles[name] = {
            "points": points(one.vertices[number], one.configuration.get("dimensions", 2), number),
            "writes": list(dict.fromkeys(data for data, way in items if way.split(">")[0] == name)),
            "reads": list(dict.fromkeys(data for data, way in items if way.split(">")[1] == name)),
            **one.roles.get(name, {}),
        }
    results = {
        backend: run(mpiexec, case(tmp_path / backend, configuration, roles, backend), one.ranks)
        for backend in ("libprecice", "embedded")
    }
    for who, expected in results["libprecice"].items():
        found = results["embedded"][who]
        assert set(expected) <= set(found)
        for key, values in expected.items():
            np.testing.assert_allclose(found[key], values, rtol=1e-12, atol=1e-12, err_msg=f"{who} {key}")
    received = [
        values for of_rank in results["libprecice"].values() for key, values in of_rank.items() if key.endswith("@end")
    ]
    assert any(np.abs(values).max() > 0.1 for values in received if values.size)
