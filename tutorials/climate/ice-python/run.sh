#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF climate.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python ../solver-python
run_python "${1:-1}" ../solver-python/climate.py Ice --output ice.npz "${@:2}"
