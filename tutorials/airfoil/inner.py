"""Solver of the inner domain: python inner.py --help."""

import airfoil

if __name__ == "__main__":
    airfoil.main("Inner")
