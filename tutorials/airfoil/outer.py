"""Solver of the outer domain: python outer.py --help."""

import airfoil

if __name__ == "__main__":
    airfoil.main("Outer")
