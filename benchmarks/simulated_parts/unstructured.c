/* Finite volumes on an unstructured mesh: parts of uneven size, with some ten neighbours, and a linear solver.

   A partitioner keeps parts equal up to some share, which grows as parts shrink; a part of the cells (near walls, with
   chemistry) costs more, and not every part has as many of them. */
#include "common.h"

#include <math.h>
#include <stdlib.h>

enum { CELLS, ITERATIONS, FLOPS, BYTES, UNEVEN, COSTLY, SUMS };
enum { MOST = 14 };

struct state {
  double p[SUMS + 1], cells, assembly;
  int count, other[MOST], length[MOST];
};

static void *setup(const struct rank *me, const double *p) {
  struct state *s = calloc(1, sizeof *s);
  for (int i = 0; i <= SUMS; i++)
    s->p[i] = p[i];
  double mean = p[CELLS] / me->size;
  /* Parts of 1,000 cells differ by twice as much as parts of 8,000: it is the surface that a partitioner trades. */
  double uneven = p[UNEVEN] * cbrt(8000 / mean) * (me->size > 1);
  s->cells = mean * (1 + uneven * (2 * hashed(me->rank, me->size) - 1));
  double share = me->size > 1 ? hashed(me->rank, 7 * me->size + 1) : 0.5;
  s->assembly = s->cells * (1 + p[COSTLY] * pow(share, 3));
  /* Parts are numbered along a space-filling curve: neighbours are near in number, and one layer further. */
  int layer = (int)ceil(pow(me->size, 2.0 / 3)), row = (int)ceil(cbrt(me->size));
  int steps[7] = {1, 2, row, row + 1, layer, layer + 1, layer + row};
  double face = 8 * pow(mean, 2.0 / 3);
  for (int i = 0; i < 7; i++)
    for (int sign = -1; sign <= 1; sign += 2) {
      int other = me->rank + sign * steps[i], low = other < me->rank ? other : me->rank, seen = 0;
      for (int k = 0; k < i; k++)
        seen |= steps[k] == steps[i];
      /* Both sides draw the same number, by the lower rank. */
      if (seen || other < 0 || other >= me->size || hashed(1000 + low, 13 * me->size + steps[i]) < 0.25)
        continue;
      s->other[s->count] = other;
      s->length[s->count++] = (int)(face * (0.2 + hashed(low, 31 * me->size + steps[i])));
    }
  return s;
}

static void swap(const struct rank *me, const struct state *s) {
  MPI_Request requests[2 * MOST];
  for (int i = 0; i < s->count; i++) {
    MPI_Irecv(buffer(), ROOM, MPI_BYTE, s->other[i], 3, me->comm, &requests[2 * i]);
    MPI_Isend(buffer(), s->length[i], MPI_BYTE, s->other[i], 3, me->comm, &requests[2 * i + 1]);
  }
  MPI_Waitall(2 * s->count, requests, MPI_STATUSES_IGNORE);
}

static void window(const struct rank *me, void *state) {
  const struct state *s = state;
  swap(me, s);
  /* Fluxes and matrix: many operations per byte. */
  compute(me, 40 * s->p[FLOPS] * s->assembly, 4 * s->p[BYTES] * s->assembly, 8 * s->p[BYTES] * s->cells);
  for (int i = 0; i < s->p[ITERATIONS]; i++) {
    swap(me, s);
    compute(me, s->p[FLOPS] * s->cells, s->p[BYTES] * s->cells, s->p[BYTES] * s->cells);
    for (int sum = 0; sum < s->p[SUMS]; sum++)
      reduce(me, 2);
  }
}

const struct program unstructured = {"unstructured", SUMS + 1, setup, window};
