"""Compare the end of a run with where the bar's temperature settles.

The heat flux along the bar is the same everywhere then, so that the conductivity's integral over temperature, from the
cold end to a place, grows with the place in proportion (Kirchhoff's transformation). The coupling has no part in it.
"""

import sys

import numpy as np
from cell import cell, effective

LENGTH = 2.0


def steady(x):
    """Steady temperature at places along a bar whose ends are at 0 and 1."""
    temperature = np.linspace(0.0, 1.0, 401)
    middles = (temperature[1:] + temperature[:-1]) / 2
    integral = np.cumsum([0.0, *(effective(cell(middle)) for middle in middles)])
    return np.interp(x, LENGTH * integral / integral[-1], temperature)


if __name__ == "__main__":
    with np.load(sys.argv[1]) as run:
        error = run["temperature"] - steady(run["x"][:, 0])
    print(f"largest difference from the steady temperature: {np.abs(error).max():.2e}")
