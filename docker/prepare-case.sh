#!/bin/sh
# prepare-case CASE TARGET INTERFACE
#
# Copies a case to TARGET/case, each of whose participants has a directory of its own there. In the copy they meet in
# TARGET/exchange and over INTERFACE.
set -eu

if [ "$#" -ne 3 ]; then
  echo "usage: prepare-case CASE TARGET INTERFACE" >&2
  exit 2
fi
case_directory=$1
target=$2
interface=$3

mkdir -p "$target/exchange"
# Addresses of an earlier run would be waited at in vain.
rm -rf "${target:?}/exchange/precice-run" "${target:?}/exchange/precice-lb-run" "${target:?}/case"
cp -R "$case_directory" "$target/case"
python3 - "$target/case/precice-config.xml" "$target/exchange" "$interface" <<'PYTHON'
import sys

from precice_lb.case import patch_configuration

path, exchange, interface = sys.argv[1:]
patch_configuration(path, path, exchange_directory=exchange, network=interface)
PYTHON
