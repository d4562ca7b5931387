/* The ranks of a job that mpirun started.  One of two files is built: mpi.c where MPI was found, else
 * one.c.  Only the command uses this; the library knows core/ranks.h alone. */
#ifndef PZ_RANKS_START_H
#define PZ_RANKS_START_H

#include <stdatomic.h>

#include "core/status.h"

/* As in "Open MPI 4.1.4"; NULL: not built in. */
const char *pz_ranks_library(void);

/* Under mpirun with two ranks or more: pz_ranks_use; ranks other than 0 lose stdout and stderr.
 * Otherwise nothing, and MPI is not started. */
PZ_NODISCARD enum pz_status pz_ranks_start(struct pz_error *err);

/* A flag that a signal sets: with it a rank does not wait for long for others, which may be dead.
 * `verbose`: what the ranks did is told on stderr at the end. */
void pz_ranks_watch(const atomic_bool *stop);
void pz_ranks_verbose(void);

/* An error that ends this rank's command: told to rank 0, unless it has its own. */
void pz_ranks_failed(const struct pz_error *err);

/* The command has ended on this rank with this exit status: wait for all.  The process's status. */
int pz_ranks_end(int code);

#endif
