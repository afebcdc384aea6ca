#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF macro.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python .
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # else numerical libraries start threads on all cores in each rank
run_python "${1:-1}" macro.py --output macro.npz "${@:2}"
