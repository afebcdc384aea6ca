#!/usr/bin/env bash
# Records what lies here anew, in a directory that is removed at the end. README.md says more.
set -e -u
here=$(cd "$(dirname "$0")" && pwd)
clone=$here/../../..
mkdir /tmp/record /tmp/record/clock
trap 'rm -rf /tmp/record' EXIT
cd /tmp/record
# Solvers share modules by links, which end here.
cp -rL "$clone"/tutorials/{pulse,elastic-tube} .
cp "$clone/tests/emulated_clock/sitecustomize.py" clock/emulated_clock.py
cat >clock/sitecustomize.py <<'END'
import os, platform, signal

platform.node = lambda: "node1"
import emulated_clock
from precice_lb.embedded.communication import Connection

receive, last = Connection.receive, float(os.environ.get("KILLED_AFTER", "inf"))

def receive_or_die(connection):
    if emulated_clock.now > last * 1e9:
        os.kill(os.getpid(), signal.SIGKILL)
    return receive(connection)

Connection.receive = receive_or_die
END

# Arguments: name, tutorial, more of [runs], budget, more of the study.
study() {
  cat >"$1.toml" <<END
[case]
directory = "$2"

[runs]
warmup_windows = 1
time_limit_seconds = 300
$3

[machine]
ranks = $4

[launcher]
oversubscribe = true

[case.environment]
PRECICE_LB_BACKEND = "embedded"
PRECICE_LB_MESHES = "coordinates"
PYTHONPATH = "$PWD/clock"
EMULATED_EPOCH = "1800000000000000000"

[case.parameter]
refine = 1
$5
END
}

# Arguments: name, directory, solver with its arguments, degrees of freedom.
participant() {
  printf '\n[[participants]]\nname = "%s"\ndirectory = "%s"\ndegrees_of_freedom = %s\n' "$1" "$2" "$4"
  printf 'command = "python -m precice_lb run ../solver-python/%s --load emulated"\n' "$3"
}

inner=$(participant Inner inner-python "pulse.py Inner" 27648)
outer=$(participant Outer outer-python "pulse.py Outer" 41472)
splits='splits = [{ Inner = 4, Outer = 1 }, { Inner = 2, Outer = 2 }, { Inner = 3, Outer = 3 }]'
study pulse pulse $'windows = 8\n'"$splits" 6 "$inner$outer"
precice-lb calibrate pulse.toml --directory pulse-campaign

fluid=$(participant Fluid fluid-python fluid.py 5000)
solid=$(participant Solid solid-python solid.py 400)
splits='splits = [{ Fluid = 2, Solid = 1 }, { Fluid = 1, Solid = 2 }, { Fluid = 3, Solid = 1 }]'
study elastic-tube elastic-tube $'windows = 5\n'"$splits" 4 "$fluid$solid"
precice-lb calibrate elastic-tube.toml --directory elastic-tube-campaign

# A chain of three segments, whose solvers go on where they were.
chain=$'\n[chain]\nwindows = 5\ntotal = 15\nstart = { Inner = 1, Outer = 2 }\ncarry = ["*/restart.h5"]\n'
study pulse-chain pulse "" 3 "$chain${inner/emulated/emulated --restart restart.h5}${outer/emulated/emulated --restart restart.h5}"
precice-lb chain pulse-chain.toml -o chain

# Both participants are killed after 80 seconds of their clock, and what Inner wrote last is cut.
export PRECICE_LB_BACKEND=embedded PYTHONPATH=$PWD/clock EMULATED_EPOCH=1800000000000000000
cp -r pulse killed
for who in Inner:2 Outer:1; do
  name=${who%:*}
  (cd "killed/${name,,}-python" && KILLED_AFTER=80 mpiexec -n "${who#*:}" python -m precice_lb run \
    ../solver-python/pulse.py "$name" --load emulated) &
done
wait || true

truncate -s -100 killed/inner-python/precice-lb-store/Inner-2/Inner-0-2.spool

# Kept are stores, profiling files, and what campaign and chain say of themselves.
pack() { # name, directory, patterns of what is in it
  # shellcheck disable=SC2068
  (cd "$2" && cp -r --parents ${@:3} "$OLDPWD/kept/$1")
  rm -f "$here/$1.zip"
  python -c 'import shutil, sys; shutil.make_archive(sys.argv[1], "zip", sys.argv[2])' "$here/$1" "kept/$1"
}
mkdir -p kept/{pulse,elastic-tube,chain,killed}
mv pulse.toml pulse-campaign
mv pulse-chain.toml chain
cp pulse/precice-config.xml pulse-campaign
cp elastic-tube/precice-config.xml elastic-tube-campaign
pack pulse pulse-campaign precice-config.xml campaign.json recommendation.json pulse.toml 'runs/*/stores' 'runs/*/case/*/precice-profiling'
pack elastic-tube elastic-tube-campaign precice-config.xml 'runs/*/stores' 'runs/*/case/*/precice-profiling'
pack chain chain campaign.json chain.json pulse-chain.toml 'runs/*/stores' 'runs/*/case/*/precice-profiling'
pack killed killed '*/precice-lb-store' '*/precice-profiling'
