/* Files beside a run for other commands: the best chip, and by the evaluator training the cluster of it. */
#ifndef PZ_STUDY_EXPORTS_H
#define PZ_STUDY_EXPORTS_H

#include "study/result.h"

enum { PZ_EXPORTS = 2 };
extern const char *const pz_export_names[PZ_EXPORTS]; /* "chip.json", "cluster.json" */

/* Write them into the run's directory; another file of the name is renamed, chip.json to chip-1.json. */
PZ_NODISCARD enum pz_status pz_exports_write(const char *dir, const struct pz_result *r,
                                             struct pz_error *err);

/* Is file i what the run says?  *there: false where there is none. */
PZ_NODISCARD enum pz_status pz_export_same(const char *dir, const struct pz_result *r, int i,
                                           bool *there, bool *same, struct pz_error *err);

#endif
