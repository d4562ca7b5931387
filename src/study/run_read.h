/* A finished run read back from its file: inputs, result and comparison. */
#ifndef PZ_STUDY_RUN_READ_H
#define PZ_STUDY_RUN_READ_H

#include "core/json.h"
#include "store/run_file.h"

struct pz_finished {
  json_t *inputs, *result;
  json_t *comparison; /* NULL: the run has none */
};

/* All of it, the caller's to release whatever comes back.  PZ_BAD_INPUT for a run that has not
 * finished, or that another version made. */
PZ_NODISCARD enum pz_status pz_finished_read(struct pz_run_file *f, struct pz_finished *out,
                                             struct pz_error *err);
void pz_finished_release(struct pz_finished *run);

/* One of them alone, new reference; NULL where there is none. */
PZ_NODISCARD enum pz_status pz_finished_result(struct pz_run_file *f, json_t **out,
                                               struct pz_error *err);
PZ_NODISCARD enum pz_status pz_finished_comparison(struct pz_run_file *f, json_t **out,
                                                   struct pz_error *err);

#endif
