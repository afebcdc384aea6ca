#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF laminate.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python ../solver-fenicsx
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # else numerical libraries start threads on all cores in each rank
run_python "${1:-2}" ../solver-fenicsx/laminate.py --output laminate.npz "${@:2}"
