"""A better first guess for implicit coupling: fewer coupling iterations per time window."""
