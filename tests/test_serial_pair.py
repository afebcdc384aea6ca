"""Two participants of a serial scheme: their work sums to the window, also where they share a core."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from precice_xml_helpers import configuration, scheme
from store_helpers import row, write_store

from precice_lb.check import check_runs
from precice_lb.dataset import CoupledRun, load_runs

SERIAL = configuration("AB", [scheme("serial-explicit", "AB", [("A", "B"), ("B", "A")])])
A, B, TRANSFER = 0.03, 0.05, 0.002


def recorded(directory: Path, hidden: float, windows: int = 40) -> CoupledRun:
    """Stores of A and B, of whose waits ``hidden`` seconds each lie in the sending part of ``advance``."""
    noise = 1 + 0.01 * np.random.default_rng(3).standard_normal((2, windows + 1))
    for name, own, other, first in (("A", A * noise[0], B * noise[1], False), ("B", B * noise[1], A * noise[0], True)):
        rows = []
        for window in range(windows):
            # B waits for the work of A's next window.
            wait = other[window + 1 if first else window] + 2 * TRANSFER
            rows.append(row(window + 1, own[window], wait, wait - hidden))
        write_store(directory, rows, name, configuration=SERIAL)
    (run,) = load_runs([directory])
    return run


@pytest.mark.parametrize("hidden", [0.0, 0.01])
def test_work_sums_to_the_window_and_hidden_waits_count_as_waits(tmp_path: Path, hidden: float) -> None:
    run = recorded(tmp_path, hidden)
    parts = {name: (part, run.steady(name)) for name, part in run.participants.items()}
    own = {name: float(np.median(part.own_seconds[steady])) for name, (part, steady) in parts.items()}
    window = float(np.median(parts["A"][0].window_seconds[parts["A"][1]]))
    assert sum(own.values()) == pytest.approx(window, rel=0.005)
    assert window == pytest.approx(A + B + 2 * TRANSFER, rel=0.01)
    assert own["A"] == pytest.approx(A + TRANSFER, abs=TRANSFER)
    assert own["B"] == pytest.approx(B + TRANSFER, abs=TRANSFER)
    found = [finding.kind for finding in check_runs([run]).findings]
    assert found == (["shared cores"] * 2 if hidden else [])
    assert (parts["A"][0].hidden_wait > 0) == (hidden > 0)
