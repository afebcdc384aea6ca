#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF pulse.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python ../solver-python
run_python "${1:-3}" ../solver-python/pulse.py Outer --output outer.npz "${@:2}"
