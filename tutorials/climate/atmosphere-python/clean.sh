#!/usr/bin/env sh
set -e -u
cd "$(dirname "$0")"
. ../../tools/cleaning.sh

clean_solver
