// Heat conduction in one half of a plate, coupled by preCICE: plate Left|Right [SERIAL WORK [FILE]].
//
// The same solver as plate.py in C++. With SERIAL and WORK, every time window lasts SERIAL + WORK / ranks seconds.
// The temperatures at the end go to FILE, a row of cells per line. Compiled with OpenMP, the ranks divide their rows
// among OMP_NUM_THREADS threads, and WORK is shared by all of them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <precice/precice.hpp>

constexpr int cells = 32;
constexpr double h = 1.0 / cells;
using Field = std::vector<double>;  // rows of cells, with a row of the rank beside at either end

int main(int argc, char **argv)
{
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  const std::string name = argc > 1 ? argv[1] : "";
  if ((argc != 2 && argc != 4 && argc != 5) || (name != "Left" && name != "Right")) {
    std::fprintf(stderr, "usage: plate Left|Right [SERIAL WORK [FILE]]\n");
    MPI_Finalize();
    return 2;
  }
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int threads = 1;
#ifdef _OPENMP
#pragma omp parallel
#pragma omp single
  threads = omp_get_num_threads();
  if (rank == 0)
    std::printf("%s: %d x %d threads, each rank on %d cores\n", name.c_str(), ranks, threads, omp_get_num_procs());
#endif
  const bool        left    = name == "Left";
  const std::string partner = left ? "Right" : "Left", mesh = name + "-Mesh";
  const double      serial = argc > 3 ? std::atof(argv[2]) : 0.0, work = argc > 3 ? std::atof(argv[3]) : 0.0;
  const int         begin = rank * cells / ranks, rows = (rank + 1) * cells / ranks - begin;
  const int         below = rank > 0 ? rank - 1 : MPI_PROC_NULL, above = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;

  const double pi = std::acos(-1.0);
  Field        temperature((rows + 2) * cells), next(temperature.size());
  const auto   at = [](int row, int column) { return (row + 1) * cells + column; };
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < cells; ++column) {
      const double x              = (column + 0.5) * h - (left ? 1.0 : 0.0);
      temperature[at(row, column)] = std::sin(0.5 * pi * x) * std::cos(pi * (begin + row + 0.5) * h);
    }

  precice::Participant participant(name, "../precice-config.xml", rank, ranks);
  std::vector<double>  points, here(rows), there(rows);
  std::vector<int>     ids(rows);
  for (int row = 0; row < rows; ++row)
    points.insert(points.end(), {0.0, (begin + row + 0.5) * h});
  participant.setMeshVertices(mesh, points, ids);
  const auto write = [&] {
    for (int row = 0; row < rows; ++row)
      here[row] = temperature[at(row, left ? cells - 1 : 0)];
    participant.writeData(mesh, name + "-Temperature", ids, here);
  };
  if (participant.requiresInitialData())
    write();
  participant.initialize();

  while (participant.isCouplingOngoing()) {
    const auto   start = std::chrono::steady_clock::now();
    const double dt    = participant.getMaxTimeStepSize();
    participant.readData(mesh, partner + "-Temperature", ids, 0.0, there);
    // Nothing passes the plate's edges: what is behind them is as warm.
    std::copy_n(&temperature[at(0, 0)], cells, &temperature[at(-1, 0)]);
    std::copy_n(&temperature[at(rows - 1, 0)], cells, &temperature[at(rows, 0)]);
    MPI_Sendrecv(&temperature[at(rows - 1, 0)], cells, MPI_DOUBLE, above, 0, &temperature[at(-1, 0)], cells, MPI_DOUBLE,
                 below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&temperature[at(0, 0)], cells, MPI_DOUBLE, below, 0, &temperature[at(rows, 0)], cells, MPI_DOUBLE,
                 above, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#ifdef _OPENMP
#pragma omp parallel for
#endif
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < cells; ++column) {
        const double own  = temperature[at(row, column)];
        const double west = column > 0 ? temperature[at(row, column - 1)] : left ? own : there[row];
        const double east = column < cells - 1 ? temperature[at(row, column + 1)] : left ? there[row] : own;
        const double both = temperature[at(row - 1, column)] + temperature[at(row + 1, column)];
        next[at(row, column)] = own + dt / (h * h) * (both + west + east - 4.0 * own);
      }
    temperature.swap(next);
    write();
    if (serial + work > 0.0)
      std::this_thread::sleep_until(start + std::chrono::duration<double>(serial + work / (ranks * threads)));
    participant.advance(dt);
  }
  participant.finalize();

  if (argc > 4)
    for (int turn = 0; turn < ranks; ++turn) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (turn != rank)
        continue;
      std::FILE *file = std::fopen(argv[4], rank == 0 ? "w" : "a");
      if (file == nullptr) {
        std::perror(argv[4]);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      for (int row = 0; row < rows; ++row)
        for (int column = 0; column < cells; ++column)
          std::fprintf(file, "%.17g%c", temperature[at(row, column)], column < cells - 1 ? ' ' : '\n');
      std::fclose(file);
    }
  MPI_Finalize();
  return 0;
}
