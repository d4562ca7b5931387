/* Options of every subcommand with a MODEL: how its operator graphs are built.  PZ_WORKLOAD_OPTIONS puts them into a table;
 * PZ_IMPORT_OPTIONS are those for ONNX files only. */
#ifndef PZ_CLI_WORKLOAD_OPTIONS_H
#define PZ_CLI_WORKLOAD_OPTIONS_H

#include <stdio.h>
#include <string.h>

#include "cli/command.h"

#define PZ_WORKLOAD_DEFAULTS                                                                       \
  { .size = sizeof(struct pz_workload_options), .mbs = 1, .tp = 1, .dropout = -1 }

/* clang-format off */
/* T: the settings struct; F: its field of type struct pz_workload_options. */
#define PZ_WORKLOAD_OPTIONS(T, F)                                                                  \
  {.name = "seq", .type = PZ_OPTION_INT, .offset = offsetof(T, F.seq), .arg = "S", .min = 1,        \
   .max = 1 << 24, .help = "Sequence length, tokens per sample (default: the model's, at most 8192)"}, \
  {.name = "mbs", .type = PZ_OPTION_INT, .offset = offsetof(T, F.mbs), .arg = "B", .min = 1,        \
   .max = 1 << 20, .help = "Microbatch size, samples"},                                             \
  {.name = "tp", .type = PZ_OPTION_INT, .offset = offsetof(T, F.tp), .arg = "T", .min = 1,          \
   .max = 65536, .help = "Tensor-parallel degree; the graph is that of one of the T devices"},      \
  {.name = "slice", .type = PZ_OPTION_INT, .offset = offsetof(T, F.slice), .arg = "I", .min = 0,    \
   .max = 65535,                                                                                    \
   .help = "Index of the device in the tensor-parallel group, 0 to T-1 (default: 0); devices "       \
           "differ only if T does not divide the vocabulary"},                                      \
  {.name = "sp", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.sequence_parallel),                \
   .help = "Sequence parallelism: divide norms, dropout and residuals by tokens"},                  \
  {.name = "num-layers", .type = PZ_OPTION_INT, .offset = offsetof(T, F.num_layers), .arg = "L",    \
   .min = 1, .max = 65536, .help = "Number of repeated layers (default: the model's)"},              \
  {.name = "kernels", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.kernels),                   \
   .choices = pz_kernels_names,                                                                     \
   .help = "fused: one kernel per norm, softmax, activation; eager: the separate kernels that "     \
           "Hugging Face's PyTorch code runs"},                                                     \
  {.name = "attention", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.attention),               \
   .choices = pz_attention_names,                                                                   \
   .help = "standard: attention scores are written to memory; flash: one fused kernel"},            \
  {.name = "recompute", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.recompute),               \
   .choices = pz_recompute_names,                                                                   \
   .help = "Activation checkpointing: full recomputes each repeated layer in the backward pass"},   \
  {.name = "dropout", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.dropout), .arg = "P",         \
   .min = 0, .max = 0.999,                                                                          \
   .help = "Dropout probability, 0 to 0.999; 0 removes dropout (default: the model's)"},            \
  {.name = "ep", .type = PZ_OPTION_INT, .offset = offsetof(T, F.ep), .arg = "E", .min = 1,          \
   .max = 65536,                                                                                    \
   .help = "Expert-parallel degree: each device holds 1/E of the experts (default: 1)"},            \
  {.name = "etp", .type = PZ_OPTION_INT, .offset = offsetof(T, F.etp), .arg = "N", .min = 1,        \
   .max = 65536, .help = "Devices over which each expert is divided (default: --tp)"},              \
  {.name = "cp", .type = PZ_OPTION_INT, .offset = offsetof(T, F.cp), .arg = "C", .min = 1,          \
   .max = 65536,                                                                                    \
   .help = "Context-parallel degree: each device has 1/C of every sample's tokens (default: 1); "   \
           "needs --attention flash"},                                                              \
  {.name = "cp-form", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.cp_form),                   \
   .choices = pz_context_names,                                                                     \
   .help = "How attention reaches the tokens of other devices: ring passes keys and values; "       \
           "all-to-all changes parts of tokens to parts of heads and back"},                        \
  {.name = "mtp", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.mtp),                             \
   .help = "With the model's multi-token-prediction layers"},                                       \
  {.name = "peft", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.peft), .arg = "TEXT",            \
   .help = "Frozen weights with low-rank adapters: lora:RANK:MODULES or lora:RANK:MODULES:DROPOUT " \
           "with modules all, attention, or a list with + between (phaze predict --help names "     \
           "them; default: none)"},                                                                 \
  PZ_IMPORT_OPTIONS(T, F)

/* Options for ONNX files only. */
#define PZ_IMPORT_OPTIONS(T, F)                                                                     \
  {.name = "dim", .type = PZ_OPTION_TEXTS, .offset = offsetof(T, F.dims), .arg = "NAME=SIZE",       \
   .max = PZ_MOST_DIMS,                                                                             \
   .help = "ONNX: size of a symbolic dimension; repeat for several"},                               \
  {.name = "batch-dim", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.batch_dim), .arg = "DIM",   \
   .help = "ONNX: batch dimension, by name or as INPUT:AXIS (default: the inputs' first)"},         \
  {.name = "layers", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.layers), .arg = "REGEX",       \
   .help = "ONNX: nodes whose names agree in the first group of this regular expression form one "  \
           "layer (default: repeated blocks are detected)"},                                        \
  {.name = "unknown-ops", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.unknown_ops),           \
   .choices = pz_unknown_ops_names,                                                                 \
   .help = "ONNX: reject unknown operator types, or count them as element-wise work"}
/* clang-format on */

/* Returns the number of devices in the largest group that the operators of a workload communicate in, and the name of
 * the option that asks for it. */
static inline int64_t pz_workload_group(const struct pz_workload_options *w, const char **option) {
  const struct {
    const char *name;
    int64_t n;
  } groups[] = {{"tp", w->tp}, {"ep", w->ep}, {"etp", w->etp}, {"cp", w->cp}};
  int largest = 0;
  for (int i = 1; i < 4; i++)
    if (groups[i].n > groups[largest].n) largest = i;
  *option = groups[largest].name;
  return groups[largest].n;
}

/* Writes ", context parallel 4 (ring)" to buf, or "" without context parallelism.  Returns buf. */
static inline const char *pz_workload_context(const struct pz_workload_options *w, char *buf,
                                              size_t size) {
  buf[0] = '\0';
  if (w->cp > 1)
    snprintf(buf, size, ", context parallel %lld (%s)", (long long)w->cp,
             pz_context_names[w->cp_form]);
  return buf;
}

/* Returns the default options with the options for ONNX files of `from`. */
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
