/* What the simulated solvers share: the machine that computing is charged to, halo exchange, and one interface. */
#ifndef COMMON_H
#define COMMON_H

#include <mpi.h>
#include <smpi/smpi.h>
#include <stddef.h>

/* What the platform says that a core does in a second: `platform` in run.py. */
#define SPEED 1e9

/* Of one node. Nothing is computed: SimGrid is told how long it would take. */
struct machine {
  int cores;
  double flops;          /* per second and core */
  double core_bandwidth; /* bytes per second of memory that one core can draw */
  double node_bandwidth; /* that all cores of a node share */
  double core_cache;     /* bytes of its own */
  double node_cache;     /* bytes that active cores share */
};

struct rank {
  MPI_Comm comm;
  int rank, size;
  int active; /* ranks that compute on its node; nodes are filled one after the other */
  const struct machine *machine;
};

/* One kind of solver: numbers from the command line, its state, and one time window. */
struct program {
  const char *name;
  int parameters;
  void *(*setup)(const struct rank *me, const double *parameters);
  void (*window)(const struct rank *me, void *state);
};

extern const struct program halo, multigrid, unstructured, fft, particles;

/* Charge computing: so many operations, or so many bytes of memory traffic, out of a working set of so many bytes. */
void compute(const struct rank *me, double flops, double bytes, double set);

/* Where all ranks send from and receive to, as nobody looks into it: SimGrid knows that it need not copy it. */
enum { ROOM = 1 << 27 };
char *buffer(void);

/* A box of ranks. Neighbours are counted in the given stride: on coarse grids, only some ranks take part. */
struct box {
  int dims[3], place[3];
  int stride;
  int neighbours[6]; /* below and above in each direction, MPI_PROC_NULL outside */
};

struct box make_box(const struct rank *me, int dimensions, int stride);

/* Points of this rank out of n along a direction. */
int points(const struct box *box, int direction, int n);

/* Exchange with all neighbours: bytes per face of each direction. */
void exchange(const struct rank *me, const struct box *box, const double bytes[3]);

/* The sum of a few numbers over all ranks. */
void reduce(const struct rank *me, int numbers);

/* A random number between 0 and 1 that depends on what is given alone, so that all ranks agree. */
double hashed(unsigned a, unsigned b);

#endif
