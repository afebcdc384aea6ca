#include "common.h"

#include <math.h>
#include <stdlib.h>

void compute(const struct rank *me, double flops, double bytes, double set) {
  const struct machine *m = me->machine;
  double cache = m->core_cache + m->node_cache / me->active;
  /* The smaller the working set beside the caches, the less of it comes from memory. Some always does. */
  double missed = set > 0 ? fmax(set / (set + cache), 0.2) : 1;
  double bandwidth = fmin(m->core_bandwidth, m->node_bandwidth / me->active);
  double seconds = fmax(flops / m->flops, missed * bytes / bandwidth);
  /* Not smpi_execute, which leaves out what is below a microsecond. */
  smpi_execute_flops(seconds * SPEED);
}

char *buffer(void) {
  /* One for all ranks, which are threads of one process without privatization. */
  static char *memory = NULL;
  if (!memory)
    memory = SMPI_SHARED_MALLOC(ROOM);
  return memory;
}

struct box make_box(const struct rank *me, int dimensions, int stride) {
  struct box box = {{0, 1, 1}, {0, 0, 0}, stride, {0}};
  int size = (me->size + stride - 1) / stride, rest = me->rank / stride;
  for (int d = 0; d < dimensions; d++)
    box.dims[d] = 0;
  MPI_Dims_create(size, dimensions, box.dims);
  int step[3] = {box.dims[1] * box.dims[2], box.dims[2], 1};
  for (int d = 0; d < 3; d++) {
    box.place[d] = rest / step[d];
    rest %= step[d];
  }
  for (int d = 0; d < 3; d++) {
    box.neighbours[2 * d] = box.place[d] > 0 ? me->rank - stride * step[d] : MPI_PROC_NULL;
    box.neighbours[2 * d + 1] = box.place[d] < box.dims[d] - 1 ? me->rank + stride * step[d] : MPI_PROC_NULL;
  }
  return box;
}

int points(const struct box *box, int direction, int n) {
  int parts = box->dims[direction];
  return n / parts + (box->place[direction] < n % parts);
}

void exchange(const struct rank *me, const struct box *box, const double bytes[3]) {
  MPI_Request requests[12];
  int count = 0;
  for (int side = 0; side < 6; side++) {
    int other = box->neighbours[side];
    if (other == MPI_PROC_NULL)
      continue;
    MPI_Irecv(buffer(), ROOM, MPI_BYTE, other, side ^ 1, me->comm, &requests[count++]);
    MPI_Isend(buffer(), (int)bytes[side / 2], MPI_BYTE, other, side, me->comm, &requests[count++]);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

void reduce(const struct rank *me, int numbers) {
  double local[16] = {0}, global[16];
  MPI_Allreduce(local, global, numbers, MPI_DOUBLE, MPI_SUM, me->comm);
}

double hashed(unsigned a, unsigned b) {
  unsigned long long x = 0x9E3779B97F4A7C15ull * (a + 1) ^ 0xBF58476D1CE4E5B9ull * (b + 0x1234567);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}
