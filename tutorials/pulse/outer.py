"""Solver of the outer domain: python outer.py --help."""

import pulse

if __name__ == "__main__":
    pulse.main("Outer")
