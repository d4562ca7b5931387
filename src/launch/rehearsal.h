/* The script of a rehearsal: it runs some ranks of a training job, one after another, each alone on one GPU, and prints a
 * line of CSV for each.
 *
 * The script contains a harness (rehearse.py), which it puts in the place of torchrun, and the launch script of the job,
 * which runs unchanged.  The harness gives the job PyTorch's fake process group, so that collectives complete at once. */
#ifndef PZ_LAUNCH_REHEARSAL_H
#define PZ_LAUNCH_REHEARSAL_H

#include "chip/embedded.h"

extern const struct pz_embedded pz_embedded_harness[]; /* the entry "rehearse" */

/* The columns of the results, as the header line of the CSV. */
#define PZ_REHEARSAL_COLUMNS                                                                       \
  "plan,framework,version,torch,device,rank,stage,status,step_s,peak_bytes,reserved_bytes,"        \
  "static_bytes,device_bytes,microbatches,left_out,message"

struct pz_rehearsal_job {
  const char *model;
  const struct pz_plan *plan; /* filled */
  const char *digest;         /* of the plan */
  const char *launch;         /* the launch script */
  bool emitted;               /* pz_launch_text wrote it; else it is the user's own */
  int64_t vocab;              /* tokens that the user's own script trains; 0: it states them */
  const char *const *set;     /* NAME=VALUE for the script, NULL after the last; NULL: none */
  const int64_t *stages;      /* from 0, whose first ranks are run */
  const char *const *reasons; /* why each of these, for people */
  int n_stages;
};

/* The rank of the job that is the first of a stage: the pipeline is the outermost dimension in both frameworks. */
static inline int64_t pz_rehearsal_rank(const struct pz_plan *p, int64_t stage) {
  return stage * (p->devices / p->pp);
}

/* Can plans of this framework be rehearsed?  PZ_BAD_USE says which can. */
PZ_NODISCARD enum pz_status pz_rehearsal_check(int framework, struct pz_error *err);

/* *text is the caller's to pz_free. */
PZ_NODISCARD enum pz_status pz_rehearsal_write(const struct pz_rehearsal_job *job, char **text,
                                               struct pz_error *err);

#endif
