/* Interface of the workload module: models built into layers (see phaze.h), and the result as JSON
 * or as a Graphviz drawing. */
#ifndef PZ_WORKLOAD_WORKLOAD_H
#define PZ_WORKLOAD_WORKLOAD_H

#include <stdio.h>

#include "core/json.h"

/* As pz_workload_parse, with memory from `mem` (NULL: the C library). */
struct pz_mem;
PZ_NODISCARD enum pz_status pz_workload_build(const char *name, const char *text, size_t bytes,
                                              const struct pz_workload_options *options,
                                              const struct pz_mem *mem, struct pz_workload **out,
                                              struct pz_error *err);

/* As pz_workload_parse, from the config.json at `path`. */
PZ_NODISCARD enum pz_status pz_workload_load_config(const char *path,
                                                    const struct pz_workload_options *options,
                                                    struct pz_workload **out, struct pz_error *err);

#endif
