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

/* As pz_workload_parse_onnx, with memory from `mem`. */
PZ_NODISCARD enum pz_status pz_workload_build_onnx(const char *name, const void *data, size_t bytes,
                                                   const struct pz_workload_options *options,
                                                   const struct pz_mem *mem,
                                                   struct pz_workload **out, struct pz_error *err);

/* Names of the choices in pz_workload_options, in the order of the enums; each list ends with NULL.
 */
extern const char *const pz_kernels_names[],
    *const pz_attention_names[], *const pz_recompute_names[], *const pz_unknown_ops_names[];

/* New reference, the caller's; NULL when out of memory. */
json_t *pz_workload_json(const struct pz_workload *w);

/* Both directions of every layer as one drawing. */
void pz_workload_dot(const struct pz_workload *w, FILE *out);

#endif
