/* Geometric multigrid: V-cycles over ever coarser grids, which fewer and fewer ranks hold.

   Coarse grids cost latency alone, and moving them onto fewer ranks costs more of it. */
#include "common.h"

#include <math.h>
#include <stdlib.h>

enum { N, CYCLES, SMOOTHINGS, FLOPS, BYTES, LEAST };
enum { LEVELS = 12 };

struct level {
  struct rank me; /* with the active ranks of this level */
  struct box box;
  int takes_part, home; /* the rank that holds this one's part of the level */
  double cells, faces[3];
};

struct state {
  int levels;
  double p[LEAST + 1];
  struct level level[LEVELS];
};

static void *setup(const struct rank *me, const double *p) {
  struct state *s = calloc(1, sizeof *s);
  for (int i = 0; i <= LEAST; i++)
    s->p[i] = p[i];
  int stride = 1;
  for (int n = (int)p[N]; n >= 4 && s->levels < LEVELS; n /= 2) {
    struct level *level = &s->level[s->levels++];
    double cells = pow(n, 3);
    /* No rank gets fewer cells than it is worth sending messages for. */
    while (stride < me->size && cells * stride / me->size < p[LEAST])
      stride *= 2;
    level->me = *me;
    level->me.active = (me->active + stride - 1) / stride;
    level->takes_part = me->rank % stride == 0;
    level->home = me->rank - me->rank % stride;
    if (!level->takes_part)
      continue;
    level->box = make_box(me, 3, stride);
    double size[3];
    for (int d = 0; d < 3; d++)
      size[d] = points(&level->box, d, n);
    level->cells = size[0] * size[1] * size[2];
    for (int d = 0; d < 3; d++)
      level->faces[d] = 8 * level->cells / fmax(size[d], 1);
  }
  return s;
}

static void smooth(const struct state *s, const struct level *level, int times) {
  if (!level->takes_part)
    return;
  for (int i = 0; i < times; i++) {
    exchange(&level->me, &level->box, level->faces);
    compute(&level->me, s->p[FLOPS] * level->cells, s->p[BYTES] * level->cells, 32 * level->cells);
  }
}

/* Move a coarse grid to the ranks that hold it, or back from there. */
static void move(const struct rank *me, const struct level *fine, const struct level *coarse, int back) {
  if (!fine->takes_part)
    return;
  int bytes = (int)fine->cells; /* an eighth of the cells, 8 bytes each */
  if (!coarse->takes_part) {
    if (back)
      MPI_Recv(buffer(), ROOM, MPI_BYTE, coarse->home, 9, me->comm, MPI_STATUS_IGNORE);
    else
      MPI_Send(buffer(), bytes, MPI_BYTE, coarse->home, 8, me->comm);
    return;
  }
  for (int other = me->rank + fine->box.stride; other < me->rank + coarse->box.stride && other < me->size;
       other += fine->box.stride) {
    if (back)
      MPI_Send(buffer(), bytes, MPI_BYTE, other, 9, me->comm);
    else
      MPI_Recv(buffer(), ROOM, MPI_BYTE, other, 8, me->comm, MPI_STATUS_IGNORE);
  }
}

static void window(const struct rank *me, void *state) {
  const struct state *s = state;
  for (int cycle = 0; cycle < s->p[CYCLES]; cycle++) {
    for (int l = 0; l < s->levels - 1; l++) {
      smooth(s, &s->level[l], (int)s->p[SMOOTHINGS]);
      move(me, &s->level[l], &s->level[l + 1], 0);
    }
    smooth(s, &s->level[s->levels - 1], 8);
    for (int l = s->levels - 2; l >= 0; l--) {
      move(me, &s->level[l], &s->level[l + 1], 1);
      smooth(s, &s->level[l], (int)s->p[SMOOTHINGS]);
    }
    reduce(me, 1);
  }
}

const struct program multigrid = {"multigrid", LEAST + 1, setup, window};
