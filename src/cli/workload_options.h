/* Options of every command that takes a MODEL: how it is to be built. */
#ifndef PZ_CLI_WORKLOAD_OPTIONS_H
#define PZ_CLI_WORKLOAD_OPTIONS_H

#include <string.h>

#include "cli/command.h"
#include "workload/workload.h"

#define PZ_WORKLOAD_DEFAULTS                                                                       \
  { .mbs = 1, .tp = 1, .dropout = -1 }

/* clang-format off */
/* T: the settings struct; F: its field of type struct pz_workload_options. */
#define PZ_WORKLOAD_OPTIONS(T, F)                                                                  \
  {.name = "seq", .type = PZ_OPTION_INT, .offset = offsetof(T, F.seq), .arg = "S", .min = 1,        \
   .max = 1 << 24, .help = "Tokens per sample (default: the model's, at most 8192)"},               \
  {.name = "mbs", .type = PZ_OPTION_INT, .offset = offsetof(T, F.mbs), .arg = "B", .min = 1,        \
   .max = 1 << 20, .help = "Samples per microbatch"},                                               \
  {.name = "tp", .type = PZ_OPTION_INT, .offset = offsetof(T, F.tp), .arg = "T", .min = 1,          \
   .max = 65536, .help = "Tensor-parallel width: the graph of one of T devices"},                   \
  {.name = "slice", .type = PZ_OPTION_INT, .offset = offsetof(T, F.slice), .arg = "I", .min = 0,    \
   .max = 65535,                                                                                    \
   .help = "Which of the T devices (they differ where T does not divide the vocabulary)"},          \
  {.name = "sp", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.sequence_parallel),                \
   .help = "Sequence parallelism between the tensor-parallel regions"},                             \
  {.name = "num-layers", .type = PZ_OPTION_INT, .offset = offsetof(T, F.num_layers), .arg = "L",    \
   .min = 1, .max = 65536, .help = "Repeated layers instead of the model's number"},                \
  {.name = "kernels", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.kernels),                   \
   .choices = pz_kernels_names,                                                                     \
   .help = "One kernel per norm, softmax, ...; or the steps Hugging Face's PyTorch code runs"},     \
  {.name = "attention", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.attention),               \
   .choices = pz_attention_names,                                                                   \
   .help = "Scores written to memory, or one flash-attention operator"},                            \
  {.name = "recompute", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.recompute),               \
   .choices = pz_recompute_names,                                                                   \
   .help = "Keep activations, or make each repeated layer's again"},                                \
  {.name = "dropout", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.dropout), .arg = "P",         \
   .min = 0, .max = 0.999,                                                                          \
   .help = "Probability where the model has dropout; 0 removes it (default: the model's)"},         \
  PZ_IMPORT_OPTIONS(T, F)

/* Options of an ONNX file alone. */
#define PZ_IMPORT_OPTIONS(T, F)                                                                     \
  {.name = "dim", .type = PZ_OPTION_TEXTS, .offset = offsetof(T, F.dims), .arg = "NAME=SIZE",       \
   .max = PZ_MOST_DIMS,                                                                             \
   .help = "ONNX: size of a symbolic dimension; may be given several times"},                       \
  {.name = "batch-dim", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.batch_dim), .arg = "DIM",   \
   .help = "ONNX: the batch dimension, by name or as INPUT:AXIS (default: the first of inputs)"},   \
  {.name = "layers", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.layers), .arg = "REGEX",       \
   .help = "ONNX: nodes whose names agree in its first group are a layer (default: found)"},        \
  {.name = "unknown-ops", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.unknown_ops),           \
   .choices = pz_unknown_ops_names,                                                                 \
   .help = "ONNX: an operator type that is not known is an error, or element-wise work"}
/* clang-format on */

/* The defaults with these options of an ONNX file. */
static inline struct pz_workload_options
pz_workload_import(const struct pz_workload_options *from) {
  struct pz_workload_options w = pz_workload_options_default();
  memcpy(w.dims, from->dims, sizeof w.dims);
  w.layers = from->layers;
  w.batch_dim = from->batch_dim;
  w.unknown_ops = from->unknown_ops;
  return w;
}

#endif
