#!/usr/bin/env bash
# ./run.sh [RANKS [ARGUMENTS OF pulse.py]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python ../solver-python
run_python "${1:-2}" ../solver-python/pulse.py Inner --output inner.npz "${@:2}"
