/* ONNX files as models: from a file to a workload. */
#ifndef PZ_ONNX_IMPORT_H
#define PZ_ONNX_IMPORT_H

#include "core/status.h"

/* Like pz_workload_parse_onnx(), from the file at `path`. */
PZ_NODISCARD enum pz_status pz_onnx_load(const char *path,
                                         const struct pz_workload_options *options,
                                         struct pz_workload **out, struct pz_error *err);

#endif
