"""Solver of the inner domain: python inner.py --help."""

import pulse

if __name__ == "__main__":
    pulse.main("Inner")
