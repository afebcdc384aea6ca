"""Solver of the solid: python solid.py --help."""

import plate

if __name__ == "__main__":
    plate.main("Solid")
