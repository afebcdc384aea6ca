// One rank of a participant that sets its part of a mesh and initialises preCICE: what benchmarks/start_up.py measures.
//
//     mpiexec -n 4 start_up A precice-config.xml A-Mesh : -n 2 start_up B precice-config.xml B-Mesh
//
// Both participants share one MPI start, so that no rank initialises before the last one is there. A mesh file has the
// number of dimensions, that of ranks and the vertices of each of them as 64-bit integers, then the coordinates.

#include <mpi.h>
#include <precice/precice.hpp>

#include <cstdint>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

int main(int count, char **arguments)
{
  if (count != 4) {
    return 2;
  }
  MPI_Init(&count, &arguments);
  const std::string name = arguments[1];
  // Participants have names of one letter.
  MPI_Comm own;
  int      world, rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  MPI_Comm_split(MPI_COMM_WORLD, name[0], world, &own);
  MPI_Comm_rank(own, &rank);
  MPI_Comm_size(own, &size);

  std::ifstream file(arguments[3], std::ios::binary);
  std::int64_t  shape[2];
  file.read(reinterpret_cast<char *>(shape), sizeof(shape));
  std::vector<std::int64_t> vertices(shape[1]);
  file.read(reinterpret_cast<char *>(vertices.data()), vertices.size() * sizeof(std::int64_t));
  const auto before = std::accumulate(vertices.begin(), vertices.begin() + rank, std::int64_t{0});
  file.seekg(before * shape[0] * sizeof(double), std::ios::cur);
  std::vector<double> coordinates(vertices[rank] * shape[0]);
  file.read(reinterpret_cast<char *>(coordinates.data()), coordinates.size() * sizeof(double));
  if (!file || shape[1] != size) {
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  {
    precice::Participant participant(name, arguments[2], rank, size, &own);
    std::vector<int>     ids(vertices[rank]);
    participant.setMeshVertices(name + "-Mesh", coordinates, ids);
    MPI_Barrier(MPI_COMM_WORLD);
    participant.initialize();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
