/* Without MPI: one rank. */
#include <stdlib.h>

#include "ranks/start.h"

const char *pz_ranks_library(void) { return NULL; }

enum pz_status pz_ranks_start(struct pz_error *err) {
  const char *size = getenv("OMPI_COMM_WORLD_SIZE");
  if (!size || atoi(size) < 2) return PZ_OK;
  return pz_fail(
      err, PZ_BAD_USE,
      "mpirun started %s processes, but this program was built without MPI; accepted: one", size);
}

void pz_ranks_watch(const atomic_bool *stop) { (void)stop; }
void pz_ranks_verbose(void) {}
void pz_ranks_failed(const struct pz_error *err) { (void)err; }
int pz_ranks_end(int code) { return code; }
