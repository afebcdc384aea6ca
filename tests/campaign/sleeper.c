/* A compiled solver that only sleeps: sleeper NAME SECONDS. It divides SECONDS by the number of its ranks, which it
   takes from the environment of the launcher; preCICE itself starts MPI. */
#include <precice/preciceC.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int from_launcher(const char *a, const char *b, int otherwise)
{
  const char *text = getenv(a) ? getenv(a) : getenv(b);
  return text ? atoi(text) : otherwise;
}

int main(int argc, char **argv)
{
  if (argc != 3)
    return 2;
  const int    left  = strcmp(argv[1], "Left") == 0;
  const char  *mesh  = left ? "A-Mesh" : "B-Mesh";
  const char  *write = left ? "Heat" : "Flux", *read = left ? "Flux" : "Heat";
  const int    rank  = from_launcher("PMI_RANK", "OMPI_COMM_WORLD_RANK", 0);
  const int    size  = from_launcher("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", 1);
  const double cost  = atof(argv[2]) / size;
  double       points[8], values[4];
  int          ids[4];
  for (int i = 0; i < 4; ++i) {
    points[2 * i]     = 0.0;
    points[2 * i + 1] = rank + 0.25 * i;
    values[i]         = 1.0;
  }
  precicec_createParticipant(argv[1], "precice-config.xml", rank, size);
  precicec_setMeshVertices(mesh, 4, points, ids);
  precicec_initialize();
  while (precicec_isCouplingOngoing()) {
    const double dt = precicec_getMaxTimeStepSize();
    precicec_readData(mesh, read, 4, ids, 0.0, values);
    struct timespec pause = {(time_t)cost, (long)((cost - (double)(time_t)cost) * 1e9)};
    nanosleep(&pause, NULL);
    precicec_writeData(mesh, write, 4, ids, values);
    precicec_advance(dt);
  }
  precicec_finalize();
  return 0;
}
