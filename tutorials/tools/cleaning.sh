#!/usr/bin/env sh
# For the clean.sh of tutorials.

# Removes what runs leave in this directory: results, logs, what preCICE and precice_lb write.
clean_solver() {
  echo "Cleaning $PWD"
  rm -rf ./precice-run ./precice-profiling ./precice-exports ./precice-lb-store ./precice-lb-run
  rm -f ./*.log ./*.npz ./*.h5 ./*.h5.new
}

# Does so here and in all directories of solvers.
clean_case() {
  for script in ./*/clean.sh; do
    (cd "$(dirname "$script")" && ./clean.sh)
  done
  clean_solver
}
