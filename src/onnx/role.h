/* Roles: which tensors are parameters, which are data, which carry gradients; which are views of
 * others; what the outputs depend on. */
#ifndef PZ_ONNX_ROLE_H
#define PZ_ONNX_ROLE_H

#include "onnx/graph.h"

/* Fill role and root of every value, and `table` of initializers that are constants of the
 * architecture (rotary angles, masks).  `eager`: broadcasts are copies, not views. */
void pz_onnx_roles(struct pz_onnx_graph *g, bool eager);

/* Mark as tables initializers that have the exported batch as their first dimension and are added
 * to, or multiplied with, something sample by sample: parameters serve all samples alike. */
void pz_onnx_batch_tables(struct pz_onnx_graph *g, int64_t batch);

/* The shape of everything that carries a gradient is known; otherwise an error that names the
 * tensor. */
PZ_NODISCARD enum pz_status pz_onnx_check_shapes(const struct pz_onnx_graph *g);

/* Mark what the outputs need as live, the other nodes as gone. */
void pz_onnx_live(struct pz_onnx_graph *g);

#endif
