"""Parts of the benchmark of first guesses: its cases, their configurations, and runs."""
