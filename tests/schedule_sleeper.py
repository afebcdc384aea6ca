"""A participant of a real preCICE run that only sleeps: name, seconds per iteration, other participants, configuration.

Prints the mean seconds per time window, without the first and the last windows.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import precice

SKIPPED = 3

name, cost, others, path = sys.argv[1:]
participant = precice.Participant(name, path, 0, 1)
mesh = f"{name}-Mesh"
vertices = participant.set_mesh_vertices(mesh, np.array([[0.0, 0.0], [1.0, 0.0]]))
for other in others:
    participant.set_mesh_access_region(f"{other}-Mesh", np.array([-1.0, 2.0, -1.0, 1.0]))
participant.initialize()
times = []
while participant.is_coupling_ongoing():
    participant.requires_writing_checkpoint()
    step = participant.get_max_time_step_size()
    time.sleep(float(cost))
    participant.write_data(mesh, f"From{name}", vertices, np.ones(2))
    participant.advance(step)
    participant.requires_reading_checkpoint()
    if participant.is_time_window_complete():
        times.append(time.perf_counter())
participant.finalize()
print("seconds per window:", (times[-1 - SKIPPED] - times[SKIPPED]) / (len(times) - 1 - 2 * SKIPPED))
