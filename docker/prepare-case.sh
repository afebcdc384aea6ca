#!/bin/sh
# prepare-case CASE TARGET INTERFACE PARTICIPANT...
#
# Copies a case once per participant, to TARGET/PARTICIPANT, so that each has a working directory of its own. In the
# copies the participants meet in TARGET/exchange and over INTERFACE. All get the same configuration, byte for byte, as
# preCICE demands.
set -eu

if [ "$#" -lt 4 ]; then
  echo "usage: prepare-case CASE TARGET INTERFACE PARTICIPANT..." >&2
  exit 2
fi
case_directory=$1
target=$2
interface=$3
shift 3

mkdir -p "$target/exchange"
# Addresses of an earlier run would be waited at in vain.
rm -rf "${target:?}/exchange/precice-run" "${target:?}/exchange/precice-lb-run"
for participant in "$@"; do
  rm -rf "${target:?}/$participant"
  cp -R "$case_directory" "$target/$participant"
  python3 - "$case_directory/precice-config.xml" "$target/$participant/precice-config.xml" "$target/exchange" "$interface" <<'PYTHON'
import sys

from precice_lb.precice_xml import patch_configuration

source, copy, exchange, interface = sys.argv[1:]
patch_configuration(source, copy, exchange_directory=exchange, network=interface)
PYTHON
done
