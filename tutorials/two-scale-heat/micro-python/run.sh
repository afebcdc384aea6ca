#!/usr/bin/env bash
# ./run.sh [RANKS]
set -e -u
cd "$(dirname "$0")"
. ../../tools/solver.sh

use_python .
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # else numerical libraries start threads on all cores in each rank
ranks="${1:-2}"
sed "s/{ranks}/$ranks/" micro-manager-config.json.in >micro-manager-config.json
run_python "$ranks" micro-manager-precice micro-manager-config.json
