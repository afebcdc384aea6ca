#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF heat.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python ../solver-fenicsx
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # else numerical libraries start threads on all cores in each rank
run_python "${1:-1}" ../solver-fenicsx/heat.py Neumann --output neumann.npz "${@:2}"
