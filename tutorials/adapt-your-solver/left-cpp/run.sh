#!/usr/bin/env bash
# ./run.sh [RANKS [SERIAL WORK]]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

make -C ../solver-cpp plate
run_ranks "${1:-2}" ../solver-cpp/plate Left "${2:-0}" "${3:-0}" left.txt
