/* Writer of rehearsal scripts.  A rehearsal runs some ranks of a training job, one after another
 * and each alone on one GPU, and prints a line of CSV for each.
 *
 * The script contains a harness (rehearse.py), which it runs in place of torchrun, and the launch
 * script of the job, which runs unchanged.  The harness gives the job PyTorch's fake process group,
 * so that collectives complete at once. */
#ifndef PZ_LAUNCH_REHEARSAL_H
#define PZ_LAUNCH_REHEARSAL_H

#include "chip/embedded.h"
#include "core/buffer.h"

extern const struct pz_embedded pz_embedded_harness[]; /* its entry "rehearse" is rehearse.py */

/* The columns of the results, as the header line of the CSV. */
#define PZ_REHEARSAL_COLUMNS                                                                       \
  "plan,framework,version,torch,device,rank,stage,status,step_s,peak_bytes,reserved_bytes,"        \
  "static_bytes,device_bytes,microbatches,left_out,message"

struct pz_rehearsal_job {
  const char *model;
  const struct pz_plan *plan; /* with every field filled in */
  const char *digest;         /* hash of the plan that identifies it in the results */
  const char *launch;         /* text of the launch script */
  bool emitted;  /* the launch script was written by pz_launch_text(), not by the user */
  int64_t vocab; /* vocabulary size for a user's script that does not state it, otherwise 0 */
  const char *const *set;     /* variables NAME=VALUE for the script; ends with NULL, may be NULL */
  const int64_t *stages;      /* pipeline stages, from 0, whose first rank is run */
  const char *const *reasons; /* for people: why each of these stages is run */
  int n_stages;
};

/* Returns the first rank of a pipeline stage, whose ranks are consecutive in both frameworks. */
static inline int64_t pz_rehearsal_rank(const struct pz_plan *plan, int64_t stage) {
  return stage * (plan->devices / plan->pp);
}

/* Raises PZ_BAD_USE if plans of this framework cannot be rehearsed.  Returns the variable of launch
 * scripts that contains the folder of the framework's sources. */
const char *pz_require_rehearsable(struct pz_call *call, int framework);

/* Returns the script of a rehearsal. */
struct pz_buffer *pz_write_rehearsal(struct pz_call *call, const struct pz_rehearsal_job *job);

#endif
