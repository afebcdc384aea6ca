/* Conjugate gradients on a structured grid: a sweep over all cells, the halo, and two sums, again and again.

   The grid is cut into boxes of whole cells, so that the largest box sets the time; prime numbers of ranks make slices. */
#include "common.h"

#include <math.h>
#include <stdlib.h>

enum { NX, NY, NZ, DIMENSIONS, SWEEPS, FLOPS, BYTES, SET, FIELDS, SUMS, SERIAL };

struct state {
  struct box box;
  double cells, faces[3], p[SERIAL + 1];
};

static void *setup(const struct rank *me, const double *p) {
  struct state *s = malloc(sizeof *s);
  for (int i = 0; i <= SERIAL; i++)
    s->p[i] = p[i];
  s->box = make_box(me, (int)p[DIMENSIONS], 1);
  double n[3];
  for (int d = 0; d < 3; d++)
    n[d] = points(&s->box, d, (int)p[NX + d]);
  s->cells = n[0] * n[1] * n[2];
  for (int d = 0; d < 3; d++)
    s->faces[d] = 8 * p[FIELDS] * s->cells / fmax(n[d], 1);
  return s;
}

static void window(const struct rank *me, void *state) {
  const struct state *s = state;
  for (int sweep = 0; sweep < s->p[SWEEPS]; sweep++) {
    exchange(me, &s->box, s->faces);
    compute(me, s->p[FLOPS] * s->cells, s->p[BYTES] * s->cells, s->p[SET] * s->cells);
    for (int sum = 0; sum < s->p[SUMS]; sum++)
      reduce(me, 1);
  }
  /* What one rank does for all while they wait, such as a table of the outlet: bytes of traffic. */
  if (s->p[SERIAL] > 0) {
    if (me->rank == 0)
      compute(me, 0, s->p[SERIAL], 0);
    MPI_Bcast(buffer(), 4096, MPI_BYTE, 0, me->comm);
  }
}

const struct program halo = {"halo", SERIAL + 1, setup, window};
