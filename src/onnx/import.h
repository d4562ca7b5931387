/* ONNX files as models: from a file to a workload. */
#ifndef PZ_ONNX_IMPORT_H
#define PZ_ONNX_IMPORT_H

#include "core/call.h"

/* Returns the workload of the ONNX file at `path`, as pz_workload_parse_onnx() builds it.  It
 * belongs to the caller of the public function, who frees it with pz_workload_free(). */
struct pz_workload *pz_onnx_load(struct pz_call *call, const char *path,
                                 const struct pz_workload_options *options);

#endif
