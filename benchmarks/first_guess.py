r"""Coupling iterations without and with first guesses, on real solvers and libprecice.

    PRECICE_TUTORIALS=DIR python benchmarks/first_guess.py --cases tube-1d
    PRECICE_TUTORIALS=DIR python benchmarks/first_guess.py --cases tube-1d oscillator tube --schemes serial parallel \
        --accelerations IQN-ILS IQN-IMVJ aitken

Each case runs as its directory has it, or with another scheme and acceleration in its configuration; with a guess
through ``precice-lb guess patch`` and ``precice-lb run``, without one as plain Python. Without and with alternate
`--repeats` times: iterations and seconds are medians, seconds those of whole runs. With ``--reference`` a run with
limits of 1e-8, or of a hundredth of the case's own where those are smaller, says how far results are from what each
time window should converge to: the 2-norm of the difference over that of the reference, both over the whole history,
and of all quantities that the solver writes the worst.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from first_guess_parts.cases import CASES
from first_guess_parts.configurations import AS_IT_IS
from first_guess_parts.run import Run, measure


def main(argv: Sequence[str] | None = None) -> None:
    """Run what is asked for and print a row of a table for each."""
    parser = argparse.ArgumentParser(description="Coupling iterations without and with first guesses.")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["tube-1d"])
    parser.add_argument("--schemes", nargs="+", choices=[AS_IT_IS, "serial", "parallel"], default=[AS_IT_IS])
    parser.add_argument("--accelerations", nargs="+", default=[AS_IT_IS], help="such as IQN-ILS, IQN-IMVJ, aitken")
    parser.add_argument("--guesses", nargs="+", default=["none", "auto"], help="the first is what others stand beside")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each, in turn")
    parser.add_argument("--reference", action="store_true", help="compare results with those of small limits")
    parser.add_argument("--windows", action="store_true", help="print the iterations of every window, too")
    options = parser.parse_args(argv)
    print(
        "| case | scheme | acceleration | guess | iterations | over the first | from the 21st on | not converged | s |",
        end="",
    )
    print(" distance |\n|---|---|---|---|---|---|---|---|---|---|")
    for name in options.cases:
        reference = measure(CASES[name], limit=1e-8) if options.reference else None
        for scheme in options.schemes:
            for acceleration in options.accelerations:
                try:
                    _print_rows(name, scheme, acceleration, options, reference)
                except RuntimeError as error:
                    print(
                        f"| {name} | {scheme} | {acceleration} | {str(error).splitlines()[0]} | | | | | | |", flush=True
                    )


def _print_rows(name: str, scheme: str, acceleration: str, options: argparse.Namespace, reference: Run | None) -> None:
    runs: dict[str, list[Run]] = {guess: [] for guess in options.guesses}
    for repeat in range(options.repeats):
        for guess in options.guesses[:: 1 if repeat % 2 == 0 else -1]:
            runs[guess].append(measure(CASES[name], guess, scheme, acceleration))
    first = np.median([run.total for run in runs[options.guesses[0]]])
    for guess, those in runs.items():
        total = np.median([run.total for run in those])
        late, seconds = np.median([run.late for run in those]), np.median([run.seconds for run in those])
        lost = max(int((~run.converged).sum()) for run in those)
        distance = f"{max(run.distance(reference) for run in those):.2g}" if reference else ""
        cells = (name, scheme, acceleration, guess, f"{total:g}", f"{total / first - 1:+.1%}", f"{late:.2f}", lost)
        print(f"| {' | '.join(map(str, cells))} | {seconds:.1f} | {distance} |", flush=True)
        if options.windows:
            print(*those[0].iterations)


if __name__ == "__main__":
    main()
