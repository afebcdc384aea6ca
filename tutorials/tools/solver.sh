#!/usr/bin/env bash
# For the run.sh of tutorials: a Python environment, and MPI ranks with a log.
set -o pipefail

# Takes this Python where it has got precice_lb, or else an environment with it, beside a solver's requirements.txt and
# with these. Participants that share them share it: the first makes it, the others wait.
use_python() { # DIRECTORY-OF-REQUIREMENTS
  if python3 -c "import precice_lb" 2>/dev/null; then
    return
  fi
  (
    flock 9
    [ -e "$1/.venv/installed-packages.txt" ] || make_environment "$1"
  ) 9>../.venv.lock
  # shellcheck source=/dev/null
  . "$1/.venv/bin/activate"
}

make_environment() { # DIRECTORY-OF-REQUIREMENTS
  local package=../../.. requirements
  command -v mpiexec >/dev/null || package="${package}[mpich]"
  requirements="$(cat "$1/requirements.txt")"
  # pyprecice compiles against libprecice; without them precice_lb couples by its embedded backend.
  pkg-config --exists libprecice || requirements="$(grep -v '^pyprecice' <<<"$requirements")"
  echo "making an environment in $(realpath "$1")/.venv: this takes a minute or two" >&2
  python3 -m venv "$1/.venv"
  "$1/.venv/bin/pip" install --quiet --requirement /dev/stdin "$package" <<<"$requirements"
  "$1/.venv/bin/pip" freeze >"$1/.venv/installed-packages.txt"
}

# Starts a solver on so many ranks; what it says is written to a log named after the directory as well. At Ctrl-C, tee goes
# on: mpiexec has something to say.
run_ranks() { # RANKS COMMAND...
  if ! [[ $1 =~ ^[1-9][0-9]*$ ]]; then
    echo "$0: expected a number of ranks as the first argument, found '$1'; ./run.sh alone takes the usual number" >&2
    exit 2
  fi
  mpiexec -n "$1" "${@:2}" 2>&1 | tee -i "$(basename "$PWD").log"
}

# The same for a solver in Python, recorded in precice-lb-store.
run_python() { # RANKS SOLVER [ARGUMENTS]
  run_ranks "$1" python3 -m precice_lb run "${@:2}"
}

# Starts the run.sh of all solvers of a case; if one fails, the others are stopped. What they say is in their logs.
run_all() {
  local script
  set -m # each solver with its ranks is a process group
  trap 'exit 1' TERM
  trap 'exec 2>/dev/null; kill -- $(jobs -p | sed "s/^/-/") || true; wait' EXIT
  for script in ./*/run.sh; do
    {
      (cd "$(dirname "$script")" && ./run.sh >/dev/null) && exit
      echo "$script failed; its log says why. The other solvers are stopped." >&2
      kill -TERM $$
    } &
  done
  wait
}
