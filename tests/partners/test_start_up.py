"""The start-up model: what it counts."""

from __future__ import annotations

from typing import Any

import pytest

from precice_lb.partners import CostModel
from precice_lb.partners.analysis import start_up


def test_a_model_counts_steps_vertices_and_files_as_stated() -> None:
    ones = CostModel(latency=1.0, turn=100.0, file=0.0, vertex=0.0, copy=0.0)
    case: dict[str, Any] = {
        "ranks": (4, 8), "vertices": (1000, 600), "most_own": 300, "partners": 3, "received": 2000,
        "most_received": 500, "kept": 1200,
    }  # fmt: skip
    one, two = (start_up(ones, two_level=levels, cores=4, **case) for levels in (False, True))
    # Twelve ranks on four cores wait for two others on their core, eight of the receiver for one.
    assert one.parts["connect primary ranks"] == 4 * (1 + 2 * 100)
    assert one.parts["settle owners"] == 8 * (1 + 100)
    assert one.parts["broadcast distributions"] == 12 * (1 + 2 * 100)
    assert one.primary_bytes == one.rank_bytes == 1000 * 72 + 2200 * 4
    assert two.seconds == one.seconds - one.parts["broadcast distributions"]
    assert two.rank_bytes == 4 * ones.box_bytes + 500 * ones.vertex_bytes
    assert two.primary_bytes == two.rank_bytes + 8 * ones.box_bytes
    vertices = CostModel(latency=0.0, turn=0.0, file=10.0, vertex=1.0, copy=0.1)
    one, two = (start_up(vertices, two_level=levels, cores=4, **case) for levels in (False, True))
    assert one.parts["set up own vertices"] == two.parts["set up own vertices"] == 1600 / 4
    assert one.parts["gather and send the mesh"] == 2000
    assert one.parts["broadcast the mesh"] == pytest.approx(0.1 * 1000 * 2)
    assert one.parts["broadcast distributions"] == pytest.approx(0.1 * 2200 * 3)
    assert two.parts["exchange pieces"] == pytest.approx(0.1 * 500)
    assert (one.parts["connect"], two.parts["connect"]) == (110, 80)
    # With a core for every rank nobody waits for a turn, and the rank with most vertices decides.
    assert start_up(ones, two_level=False, **case).seconds == 4 + 8 + 12
    assert start_up(vertices, two_level=False, **case).parts["set up own vertices"] == 300
