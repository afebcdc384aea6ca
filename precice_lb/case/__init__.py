"""The case: who is coupled, how each participant starts, and where it may run."""
