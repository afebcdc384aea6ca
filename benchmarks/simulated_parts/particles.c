/* Molecular dynamics of a droplet in its vapour: boxes of space, forces among near particles, ghosts of neighbours.

   Operations, not memory, bound it. Boxes in the middle hold more particles than those outside, and ghosts take over
   where boxes get as small as the cut-off. */
#include "common.h"

#include <math.h>
#include <stdlib.h>

enum { PARTICLES, CUTOFF, FLOPS, STEPS, DENSER };

struct state {
  struct box box;
  double p[DENSER + 1], owned, ghosts[3], all;
};

/* Share of the particles between two places of an edge of length 1: even, and denser around the middle. */
static double between(double low, double high, double denser) {
  double bump = (sin(2 * M_PI * (low - 0.5)) - sin(2 * M_PI * (high - 0.5))) / (2 * M_PI);
  return high - low - denser / (1 + denser) * bump;
}

static void *setup(const struct rank *me, const double *p) {
  struct state *s = malloc(sizeof *s);
  for (int i = 0; i <= DENSER; i++)
    s->p[i] = p[i];
  s->box = make_box(me, 3, 1);
  s->owned = s->all = p[PARTICLES];
  double share[3], wide[3];
  for (int d = 0; d < 3; d++) {
    double low = (double)s->box.place[d] / s->box.dims[d], high = (s->box.place[d] + 1.0) / s->box.dims[d];
    share[d] = between(low, high, p[DENSER]);
    wide[d] = s->box.dims[d] > 1 ? share[d] + 2 * p[CUTOFF] * share[d] / (high - low) : share[d];
    s->owned *= share[d];
    s->all *= wide[d];
  }
  /* Three coordinates per ghost; direction after direction, so that ghosts are handed on to the corners. */
  double slab = s->owned;
  for (int d = 0; d < 3; d++) {
    s->ghosts[d] = 24 * slab * p[CUTOFF] * s->box.dims[d];
    slab *= wide[d] / share[d];
  }
  return s;
}

static void ghosts(const struct rank *me, const struct state *s, double numbers) {
  for (int d = 0; d < 3; d++) {
    double bytes[3] = {0, 0, 0};
    struct box one = s->box;
    for (int side = 0; side < 6; side++)
      if (side / 2 != d)
        one.neighbours[side] = MPI_PROC_NULL;
    bytes[d] = numbers * s->ghosts[d];
    exchange(me, &one, bytes);
  }
}

static void window(const struct rank *me, void *state) {
  const struct state *s = state;
  for (int step = 0; step < s->p[STEPS]; step++) {
    if (step % 4 == 0) {
      /* Particles move on, and lists of near ones are built anew, of ghosts as well. */
      ghosts(me, s, 0.1);
      compute(me, 0.5 * s->p[FLOPS] * s->all, 200 * s->all, 100 * s->all);
      reduce(me, 1);
    }
    ghosts(me, s, 1);
    compute(me, s->p[FLOPS] * s->owned, 150 * s->all, 150 * s->all);
    ghosts(me, s, 1);
  }
  reduce(me, 6);
}

const struct program particles = {"particles", DENSER + 1, setup, window};
