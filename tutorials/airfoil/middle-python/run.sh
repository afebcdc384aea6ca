#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF airfoil.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python ../solver-python
run_python "${1:-1}" ../solver-python/airfoil.py Middle --output middle.npz "${@:2}"
