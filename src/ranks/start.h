/* The ranks of a job that mpirun started.  One of two files is built: mpi.c where MPI was found,
 * otherwise one.c.  Only the command uses this; the library knows core/ranks.h alone. */
#ifndef PZ_RANKS_START_H
#define PZ_RANKS_START_H

#include <stdatomic.h>

#include "core/call.h"

/* Returns the name and version of the MPI library, such as "Open MPI 4.1.4", or NULL if none is
 * built in. */
const char *pz_ranks_library(void);

/* Under mpirun with two ranks or more, starts MPI and sets the transport (pz_ranks_use); ranks
 * other than 0 lose stdout and stderr.  Otherwise does nothing.  A function for pz_border(); the
 * second parameter is not used. */
void pz_ranks_start(struct pz_call *call, void *unused);

/* Registers a flag that becomes true when a signal arrives.  From then on this rank waits only
 * briefly for other ranks, which may have died. */
void pz_ranks_watch(const atomic_bool *stop);

/* Makes pz_ranks_end() print the counts of the exchanges to stderr. */
void pz_ranks_verbose(void);

/* Records the error that ends the command on this rank.  pz_ranks_end() sends it to the others. */
void pz_ranks_failed(const struct pz_error *err);

/* Waits until the command has ended on all ranks.  `code` is its exit status on this rank; returns
 * the exit status of the process. */
int pz_ranks_end(int code);

#endif
