#!/usr/bin/env bash
set -e -u
cd "$(dirname "$0")"
. ../tools/solver.sh

run_all
