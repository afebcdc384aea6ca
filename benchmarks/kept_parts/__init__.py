"""Parts of the benchmark of kept figures."""
