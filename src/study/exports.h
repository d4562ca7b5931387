/* Files that a search writes for other commands: the best chip and maybe its cluster. */
#ifndef PZ_STUDY_EXPORTS_H
#define PZ_STUDY_EXPORTS_H

#include "study/result.h"

enum { PZ_EXPORTS = 2 };
extern const char *const pz_export_names[PZ_EXPORTS]; /* "chip.json", "cluster.json" */

/* Writes the files; another file of the same name is renamed, as to chip-1.json. */
void pz_exports_write(struct pz_call *call, const char *dir, const struct pz_result *result);

enum pz_export_state { PZ_EXPORT_MISSING, PZ_EXPORT_SAME, PZ_EXPORT_OTHER };

/* Compares file i with the export of the result; without an export it is missing. */
enum pz_export_state pz_export_check(struct pz_call *call, const char *dir,
                                     const struct pz_result *result, int i);

#endif
