"""Parts of the benchmark of simulated solvers: MPI programs in C, the clusters that they run on, and their curves."""
