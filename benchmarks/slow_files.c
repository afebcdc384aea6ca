// Sleeps where preCICE opens or renames a connection file, as a slow file system of the exchange directory would.
//
//     LD_PRELOAD=./slow_files.so SLOW_FILES=0.02 start_up …

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void wait_for(const char *path)
{
  const char *seconds = getenv("SLOW_FILES");
  if (seconds && strstr(path, "precice-run")) {
    const double    whole = atof(seconds);
    struct timespec time  = {(time_t) whole, (long) ((whole - (time_t) whole) * 1e9)};
    nanosleep(&time, NULL);
  }
}

FILE *fopen(const char *path, const char *mode)
{
  wait_for(path);
  return ((FILE * (*) (const char *, const char *) ) dlsym(RTLD_NEXT, "fopen"))(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
  wait_for(path);
  return ((FILE * (*) (const char *, const char *) ) dlsym(RTLD_NEXT, "fopen64"))(path, mode);
}

int rename(const char *old, const char *new)
{
  wait_for(old);
  return ((int (*)(const char *, const char *)) dlsym(RTLD_NEXT, "rename"))(old, new);
}
