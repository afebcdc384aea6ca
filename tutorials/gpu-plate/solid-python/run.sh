#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF plate.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python ../solver-python
run_python "${1:-1}" ../solver-python/plate.py Solid --output solid.npz "${@:2}"
