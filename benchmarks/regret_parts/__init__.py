"""Parts of the regret benchmark: families of solvers, readings, decisions, the oracle, peers and statistics."""
