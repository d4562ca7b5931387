/* Reads what nccl-tests (all_reduce_perf and its siblings, also of rccl-tests) print: the times of collectives by size, and the
 * ranks with their hosts.  Lines that are no row and no rank, as those of launchers, are skipped. */
#ifndef PZ_COST_NCCL_LOG_H
#define PZ_COST_NCCL_LOG_H

#include "core/vec.h"
#include "cost/network.h"

enum { PZ_NCCL_MOST_ROWS = 1 << 12, PZ_NCCL_MOST_RANKS = 1 << 16, PZ_NCCL_MOST_HOSTS = 1 << 12 };

/* A measured collective. */
struct pz_nccl_row {
  const char *log; /* file */
  uint32_t line;
  const char *test; /* "all_reduce" */
  enum pz_collective kind;
  double bytes, s;
  int64_t devices, per_node; /* of the group, and of them in one node */
  /* For the fit of a network: */
  struct pz_group group;
  int level; /* outermost one that it crosses */
  bool left_out;
};

struct pz_nccl_logs {
  struct pz_vec rows; /* struct pz_nccl_row */
  char device[64];    /* of the first log that names it: "NVIDIA H100 80GB HBM3" */
  uint32_t others;    /* rows of tests that are not read, as broadcast_perf */
  /* Where they are above 0, devices and devices of a node of every log. */
  int64_t devices, per_node;
};

/* Adds the rows of a log, whose text ends with a zero and is changed.  PZ_BAD_INPUT for a row whose numbers contradict each
 * other, whose test or devices are unknown, and for a log without rows. */
PZ_NODISCARD enum pz_status pz_nccl_log_read(const char *name, char *text, struct pz_arena *arena,
                                             struct pz_nccl_logs *logs, struct pz_error *err);

#endif
