"""All splits of small problems, with window times of their own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from precice_xml_helpers import coupling

from precice_lb.schedule import Schedule

Array = np.ndarray[Any, np.dtype[np.float64]]
CHAIN = coupling("ABC", ("serial-explicit", "AB"), ("serial-explicit", "BC"))
SCHEDULES = {
    "parallel of two": Schedule.parallel(list("AB")),
    "serial of two": Schedule.serial(list("AB")),
    "parallel of three": Schedule.parallel(list("ABC")),
    "serial of three": Schedule.serial(list("ABC")),
    "serial chain": CHAIN,
    "mixed chain": coupling("ABC", ("serial-explicit", "AB"), ("parallel-explicit", "BC")),
    "implicit and explicit": coupling(
        "ABC", ("serial-implicit", "AB"), ("parallel-explicit", "BC"), iterations=dict.fromkeys("ABC", 3)
    ),
    "parallel of four": Schedule.parallel(list("ABCD")),
    "program order": coupling(
        "ABCD",
        ("serial-implicit", "AB"),
        ("serial-explicit", "AD"),
        ("serial-explicit", "BC"),
        iterations=dict.fromkeys("ABCD", 2),
    ),
}


def every_window(
    schedule: Schedule, times: Mapping[str, Array], budget: int, low: int = 1
) -> dict[tuple[int, ...], float]:
    """Seconds per window of each split within a budget."""
    splits = [s for s in product(range(low, budget + 1), repeat=len(times)) if sum(s) <= budget]
    columns = zip(schedule.participants, np.array(splits).T, strict=True)
    seconds = schedule.window_seconds({name: times[name][ranks - 1] for name, ranks in columns})
    return dict(zip(splits, seconds.tolist(), strict=True))
