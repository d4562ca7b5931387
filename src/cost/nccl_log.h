/* Reads the output of nccl-tests (all_reduce_perf and its siblings, also those of rccl-tests): the
 * times of collectives by size, and the ranks with their hosts. */
#ifndef PZ_COST_NCCL_LOG_H
#define PZ_COST_NCCL_LOG_H

#include "core/vec.h"
#include "cost/network.h"

enum { PZ_NCCL_MOST_ROWS = 1 << 12, PZ_NCCL_MOST_RANKS = 1 << 16, PZ_NCCL_MOST_HOSTS = 1 << 12 };

/* A measured collective. */
struct pz_nccl_row {
  const char *log; /* name of the file */
  uint32_t line;
  const char *test; /* "all_reduce" */
  enum pz_collective kind;
  double bytes, s;           /* size of the tensor, and measured time in seconds */
  int64_t devices, per_node; /* devices of the group, and how many of them are in one node */
  /* Set by the fit of a network (network_fit.c): */
  struct pz_group group;
  int level;     /* the outermost level of the network that the group crosses */
  bool left_out; /* excluded from the fit, because the model lacks the algorithm that ran */
};

struct pz_nccl_logs {
  struct pz_vec rows;        /* struct pz_nccl_row */
  char device[64];           /* name of the device, from the first log that has it */
  uint32_t n_unused;         /* rows of tests that are not modelled, such as broadcast_perf */
  int64_t devices, per_node; /* if above 0, they hold for every log, whatever its ranks say */
};

/* Appends the rows of a log to logs->rows.  The text is changed.  Raises PZ_BAD_INPUT for a row
 * whose numbers contradict each other, or whose test or devices are unknown, and for a log without
 * rows. */
void pz_nccl_log_parse(struct pz_call *call, const char *name, char *text,
                       struct pz_nccl_logs *logs);

#endif
