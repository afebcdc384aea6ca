/* Run one solver, or two coupled ones, under SimGrid, and print their seconds per time window.

   solvers CORES FLOPS CORE_BANDWIDTH NODE_BANDWIDTH CORE_CACHE NODE_CACHE WINDOWS alone PROGRAM NUMBER...
   solvers ... WINDOWS parallel|serial BYTES RANKS PROGRAM NUMBER... PROGRAM NUMBER...

   smpirun starts one program only, so that the two of a coupled run are one executable that asks for its rank. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct program *const programs[] = {&halo, &multigrid, &unstructured, &fft, &particles};

/* Of the ranks of a solver, those at the interface: they share its length evenly. */
static int at_interface(int size) { return (int)ceil(pow(size, 2.0 / 3)); }

/* Post all messages of this rank with those of the partner that have the same piece of the interface. */
static int post(const struct rank *me, int first, int others, double bytes, int receive, MPI_Request *requests) {
  int mine = at_interface(me->size), theirs = at_interface(others), count = 0;
  for (int other = 0; me->rank < mine && other < theirs; other++) {
    double low = fmax((double)me->rank / mine, (double)other / theirs);
    double high = fmin((me->rank + 1.0) / mine, (other + 1.0) / theirs);
    if (high - low < 1e-12)
      continue;
    if (receive)
      MPI_Irecv(buffer(), ROOM, MPI_BYTE, first + other, 5, MPI_COMM_WORLD, &requests[count++]);
    else
      MPI_Isend(buffer(), (int)(bytes * (high - low)), MPI_BYTE, first + other, 5, MPI_COMM_WORLD, &requests[count++]);
  }
  return count;
}

static void communicate(const struct rank *me, int first, int others, double bytes, int send, int receive,
                        MPI_Request *requests) {
  int count = 0;
  if (receive)
    count += post(me, first, others, bytes, 1, requests);
  if (send)
    count += post(me, first, others, bytes, 0, requests + count);
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  /* All ranks of a solver go on together, as they do after preCICE's advance. */
  MPI_Barrier(me->comm);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size, next = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 10)
    MPI_Abort(MPI_COMM_WORLD, 2);
  double number[7];
  for (int i = 0; i < 7; i++)
    number[i] = atof(argv[next++]);
  struct machine machine = {(int)number[0], number[1], number[2], number[3], number[4], number[5]};
  int windows = (int)number[6], is_alone = !strcmp(argv[next], "alone"), is_serial = !strcmp(argv[next], "serial");
  next++;
  double bytes = is_alone ? 0 : atof(argv[next++]);
  int of_first = is_alone ? size : atoi(argv[next++]), which = rank >= of_first;
  const struct program *mine = NULL;
  double parameters[16];
  for (int solver = 0; solver <= which; solver++) {
    mine = NULL;
    for (int i = 0; next < argc && i < 5; i++)
      if (!strcmp(argv[next], programs[i]->name))
        mine = programs[i];
    if (!mine || next + mine->parameters >= argc)
      MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < mine->parameters; i++)
      parameters[i] = atof(argv[next + 1 + i]);
    next += 1 + mine->parameters;
  }
  struct rank me = {MPI_COMM_WORLD, rank, size, 0, &machine};
  if (!is_alone) {
    MPI_Comm_split(MPI_COMM_WORLD, which, rank, &me.comm);
    MPI_Comm_rank(me.comm, &me.rank);
    MPI_Comm_size(me.comm, &me.size);
  }
  int node = me.rank / machine.cores, left = me.size - node * machine.cores;
  me.active = left < machine.cores ? left : machine.cores;
  void *state = mine->setup(&me, parameters);
  int first = which ? 0 : of_first, others = size - me.size;
  MPI_Request *requests = malloc(2 * sizeof *requests * (size_t)(others + 1));
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime(), solving = 0;
  for (int window = 0; window < windows; window++) {
    /* In a serial scheme the second waits for the first, and the first for the second's answer. */
    if (!is_alone && is_serial && which)
      communicate(&me, first, others, bytes, 0, 1, requests);
    double before = MPI_Wtime();
    mine->window(&me, state);
    MPI_Barrier(me.comm);
    solving += MPI_Wtime() - before;
    if (is_alone)
      continue;
    if (!is_serial)
      communicate(&me, first, others, bytes, 1, 1, requests);
    else {
      communicate(&me, first, others, bytes, 1, 0, requests);
      if (!which)
        communicate(&me, first, others, bytes, 0, 1, requests);
    }
  }
  double whole = MPI_Wtime() - begin;
  if (me.rank == 0)
    printf("%d %.9g %.9g\n", which, solving / windows, whole / windows);
  MPI_Finalize();
  return 0;
}
