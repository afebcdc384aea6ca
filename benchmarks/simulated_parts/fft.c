/* A pseudo-spectral solver: Fourier transforms of a cube in slabs or pencils, with all-to-all transpositions between.

   In slabs, ranks beyond the number of planes have nothing to do, and a plane is never cut. */
#include "common.h"

#include <math.h>
#include <stdlib.h>

enum { N, PENCILS, TRANSFORMS, POINTWISE };

struct state {
  int dims[2];
  struct rank me; /* with the ranks that have planes */
  MPI_Comm row, column;
  double points, p[POINTWISE + 1];
};

static void *setup(const struct rank *me, const double *p) {
  struct state *s = calloc(1, sizeof *s);
  for (int i = 0; i <= POINTWISE; i++)
    s->p[i] = p[i];
  int n = (int)p[N], working = me->size;
  if (p[PENCILS] > 0)
    MPI_Dims_create(me->size, 2, s->dims);
  else {
    s->dims[0] = working = me->size < n ? me->size : n;
    s->dims[1] = 1;
  }
  s->me = *me;
  int mine = me->rank < working, first = me->rank / me->machine->cores * me->machine->cores;
  s->me.active = working - first < me->active ? working - first : me->active;
  MPI_Comm_split(me->comm, mine ? me->rank / s->dims[1] : MPI_UNDEFINED, me->rank, &s->row);
  MPI_Comm_split(me->comm, mine ? me->rank % s->dims[1] : MPI_UNDEFINED, me->rank, &s->column);
  if (!mine)
    return s;
  /* Padded to equal blocks, as an all-to-all wants them: the first rank's share, whole lines of the cube. */
  s->points = p[N] * ceil(p[N] / s->dims[0]) * ceil(p[N] / s->dims[1]);
  return s;
}

static void transpose(const struct state *s, MPI_Comm comm, int parts) {
  /* Packing and unpacking go through memory, of one rank as well. */
  compute(&s->me, 0, 64 * s->points, 32 * s->points);
  if (parts == 1)
    return;
  int counts[parts], starts[parts];
  for (int i = 0; i < parts; i++) {
    counts[i] = (int)(16 * s->points / parts);
    starts[i] = i * counts[i];
  }
  /* Not MPI_Alltoall, for which SimGrid's MPICH takes an algorithm that wants a power of two of ranks. */
  MPI_Alltoallv(buffer(), counts, starts, MPI_BYTE, buffer(), counts, starts, MPI_BYTE, comm);
}

static void lines(const struct state *s) {
  compute(&s->me, 5 * s->points * log2(s->p[N]), 32 * s->points, 16 * s->points);
}

static void window(const struct rank *me, void *state) {
  const struct state *s = state;
  if (s->points > 0)
    for (int i = 0; i < s->p[TRANSFORMS]; i++) {
      lines(s);
      if (s->p[PENCILS] > 0)
        transpose(s, s->row, s->dims[1]);
      lines(s);
      transpose(s, s->column, s->dims[0]);
      lines(s);
      compute(&s->me, s->p[POINTWISE] * s->points, 48 * s->points, 48 * s->points);
    }
  reduce(me, 4);
}

const struct program fft = {"fft", POINTWISE + 1, setup, window};
