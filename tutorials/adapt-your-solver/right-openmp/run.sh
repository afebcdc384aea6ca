#!/usr/bin/env bash
# ./run.sh [RANKS [SERIAL WORK]], with OMP_NUM_THREADS threads of each rank
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

make -C ../solver-cpp plate-threads
OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" run_ranks "${1:-1}" ../solver-cpp/plate-threads Right "${2:-0}" "${3:-0}" right.txt
