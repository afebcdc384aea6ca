"""Solver of the fluid: python fluid.py --help."""

import plate

if __name__ == "__main__":
    plate.main("Fluid")
