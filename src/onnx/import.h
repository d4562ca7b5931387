/* ONNX files as models: from bytes to a workload. */
#ifndef PZ_ONNX_IMPORT_H
#define PZ_ONNX_IMPORT_H

#include <stddef.h>

#include "core/status.h"

/* As pz_workload_parse_onnx, with memory from `mem` (NULL: the C library). */
struct pz_mem;
PZ_NODISCARD enum pz_status pz_onnx_build(const char *name, const void *data, size_t bytes,
                                          const struct pz_workload_options *options,
                                          const struct pz_mem *mem, struct pz_workload **out,
                                          struct pz_error *err);

/* As pz_workload_parse_onnx, from the file at `path`. */
PZ_NODISCARD enum pz_status pz_onnx_load(const char *path,
                                         const struct pz_workload_options *options,
                                         struct pz_workload **out, struct pz_error *err);

#endif
