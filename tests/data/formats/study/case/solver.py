"""Stands for a solver: studies are read here, and nothing is run."""
