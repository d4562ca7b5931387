/* The ranks of a program that was built without MPI: one.  mpirun would start several processes
 * that do not know of each other and write the same files, which pz_ranks_start() refuses. */
#include <stdlib.h>

#include "ranks/start.h"

const char *pz_ranks_library(void) { return NULL; }

void pz_ranks_start(struct pz_call *call, void *unused) {
  const char *size = getenv("OMPI_COMM_WORLD_SIZE");
  (void)unused;
  if (size && atoi(size) >= 2)
    pz_raise(call, PZ_BAD_USE,
             "mpirun started %s processes, but this program was built without MPI; accepted: one",
             size);
}

void pz_ranks_watch(const atomic_bool *stop) { (void)stop; }
void pz_ranks_verbose(void) {}
void pz_ranks_failed(const struct pz_error *err) { (void)err; }
int pz_ranks_end(int code) { return code; }
