"""Heat conduction in one half of a plate, coupled by preCICE: python plate.py Left.

A solver as it may come to you: plain Python with numpy, mpi4py and preCICE, which knows nothing of load balancing.
"""

import argparse
import time

import numpy as np
import precice
from mpi4py import MPI

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("name", choices=["Left", "Right"], help="the half: x from -1 to 0, or from 0 to 1")
parser.add_argument(
    "--cost", type=float, nargs=2, metavar=("SERIAL", "WORK"), help="emulated load in seconds: see README.md"
)
parser.add_argument("--output", metavar="FILE.npz", help="write the temperatures at the end")
options = parser.parse_args()
comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
name, partner = options.name, "Right" if options.name == "Left" else "Left"

# Square cells; every rank owns some rows of them, with a row of the ranks beside it at either end.
cells = 32
h = 1.0 / cells
begin, end = rank * cells // ranks, (rank + 1) * cells // ranks
x = (np.arange(cells) + 0.5) * h - (1.0 if name == "Left" else 0.0)
y = (np.arange(begin, end) + 0.5) * h
temperature = np.sin(0.5 * np.pi * x) * np.cos(np.pi * y[:, None])
interface = -1 if name == "Left" else 0  # the column of cells at x = 0
below, above = rank - 1 if rank > 0 else MPI.PROC_NULL, rank + 1 if rank + 1 < ranks else MPI.PROC_NULL


def step(here, there, dt):
    """Return the temperatures after a step of the explicit Euler method; ``there`` are the partner's at x = 0."""
    first, last = here[0].copy(), here[-1].copy()  # nothing passes the plate's edges
    comm.Sendrecv(here[-1].copy(), above, recvbuf=first, source=below)
    comm.Sendrecv(here[0].copy(), below, recvbuf=last, source=above)
    left, right = (here[:, 0], there) if name == "Left" else (there, here[:, -1])
    rows = np.vstack([first, here, last])
    columns = np.column_stack([left, here, right])
    return here + dt / h**2 * (rows[2:] + rows[:-2] + columns[:, 2:] + columns[:, :-2] - 4.0 * here)


participant = precice.Participant(name, "../precice-config.xml", rank, ranks)
ids = participant.set_mesh_vertices(f"{name}-Mesh", np.column_stack([np.zeros_like(y), y]))
if participant.requires_initial_data():
    participant.write_data(f"{name}-Mesh", f"{name}-Temperature", ids, temperature[:, interface])
participant.initialize()
reached = 0.0
while participant.is_coupling_ongoing():
    start = time.perf_counter()
    dt = participant.get_max_time_step_size()
    there = participant.read_data(f"{name}-Mesh", f"{partner}-Temperature", ids, 0.0)
    temperature = step(temperature, there, dt)
    participant.write_data(f"{name}-Mesh", f"{name}-Temperature", ids, temperature[:, interface])
    if options.cost:
        serial, work = options.cost
        time.sleep(max(0.0, start + serial + work / ranks - time.perf_counter()))
    participant.advance(dt)
    reached += dt
participant.finalize()

if options.output:
    parts = comm.gather(temperature)
    if rank == 0:
        np.savez_compressed(options.output, x=x, temperature=np.vstack(parts), time=reached)
