"""Solver of the middle domain: python middle.py --help."""

import airfoil

if __name__ == "__main__":
    airfoil.main("Middle")
