"""What the recorder writes besides calls and sections: numbers of features, time in MPI, time on the CPU."""

from __future__ import annotations

from precice_lb.store.columns import register

COUNTS = register(
    "counts",
    ("window", "<i8", "1", "time window from which on the rank holds as much"),
    ("name", "<i4", "1", "feature, as a position in `/count_names`"),
    ("count", "<f8", "1", "how much of it; the last one counts"),
    names="count_names",
)
MPI = register(
    "mpi",
    ("window", "<i8", "1", "time window; rows of one add up"),
    ("mpi_ns", "<i8", "ns", "time in MPI within solve"),
)
CPU = register(
    "cpu",
    ("window", "<i8", "1", "time window; rows of one add up"),
    ("cpu_ns", "<i8", "ns", "CPU time of the rank's process, of all its threads, within solve"),
)
