/* Options of every subcommand with a MODEL: how its operator graphs are built.
 * PZ_WORKLOAD_OPTIONS puts them into a table; PZ_IMPORT_OPTIONS are those for ONNX files only. */
#ifndef PZ_CLI_WORKLOAD_OPTIONS_H
#define PZ_CLI_WORKLOAD_OPTIONS_H

#include <stdio.h>
#include <string.h>

#include "cli/command.h"

#define PZ_WORKLOAD_DEFAULTS                                                                       \
  { .size = sizeof(struct pz_workload_options), .mbs = 1, .tp = 1, .dropout = -1 }

/* clang-format off */
/* T: the settings struct; F: its field of type struct pz_workload_options. */
#define PZ_WORKLOAD_OPTIONS(T, F) \
  PZ_INT_OPTION("seq", offsetof(T, F.seq), "S", 1, 1 << 24, "Sequence length, tokens per sample (default: the model's, at most 8192)"), \
  PZ_INT_OPTION("mbs", offsetof(T, F.mbs), "B", 1, 1 << 20, "Microbatch size, samples"), \
  PZ_INT_OPTION("tp", offsetof(T, F.tp), "T", 1, 65536, "Tensor-parallel degree; the graph is that of one of the T devices"), \
  PZ_INT_OPTION("slice", offsetof(T, F.slice), "I", 0, 65535, "Index of the device in the tensor-parallel group, 0 to T-1 (default: 0); devices differ only if T does not divide the vocabulary"), \
  PZ_FLAG_OPTION("sp", offsetof(T, F.sequence_parallel), "Sequence parallelism: divide norms, dropout and residuals by tokens"), \
  PZ_INT_OPTION("num-layers", offsetof(T, F.num_layers), "L", 1, 65536, "Number of repeated layers (default: the model's)"), \
  PZ_CHOICE_OPTION("kernels", offsetof(T, F.kernels), pz_kernels_names, "fused: one kernel per norm, softmax, activation; eager: the separate kernels that Hugging Face's PyTorch code runs"), \
  PZ_CHOICE_OPTION("attention", offsetof(T, F.attention), pz_attention_names, "standard: attention scores are written to memory; flash: one fused kernel"), \
  PZ_CHOICE_OPTION("recompute", offsetof(T, F.recompute), pz_recompute_names, "Activation checkpointing: full recomputes each repeated layer in the backward pass"), \
  PZ_REAL_OPTION("dropout", offsetof(T, F.dropout), "P", 0, 0.999, "Dropout probability, 0 to 0.999; 0 removes dropout (default: the model's)"), \
  PZ_INT_OPTION("ep", offsetof(T, F.ep), "E", 1, 65536, "Expert-parallel degree: each device holds 1/E of the experts (default: 1)"), \
  PZ_INT_OPTION("etp", offsetof(T, F.etp), "N", 1, 65536, "Devices over which each expert is divided (default: --tp)"), \
  PZ_INT_OPTION("cp", offsetof(T, F.cp), "C", 1, 65536, "Context-parallel degree: each device has 1/C of every sample's tokens (default: 1); needs --attention flash"), \
  PZ_CHOICE_OPTION("cp-form", offsetof(T, F.cp_form), pz_context_names, "How attention reaches the tokens of other devices: ring passes keys and values; all-to-all changes parts of tokens to parts of heads and back"), \
  PZ_FLAG_OPTION("mtp", offsetof(T, F.mtp), "With the model's multi-token-prediction layers"), \
  PZ_TEXT_OPTION("peft", offsetof(T, F.peft), "TEXT", "Frozen weights with low-rank adapters: lora:RANK:MODULES or lora:RANK:MODULES:DROPOUT with modules all, attention, or a list with + between (phaze predict --help names them; default: none)"), \
  PZ_IMPORT_OPTIONS(T, F)

/* Options for ONNX files only. */
#define PZ_IMPORT_OPTIONS(T, F) \
  PZ_TEXTS_OPTION("dim", offsetof(T, F.dims), "NAME=SIZE", PZ_MOST_DIMS, "ONNX: size of a symbolic dimension; repeat for several"), \
  PZ_TEXT_OPTION("batch-dim", offsetof(T, F.batch_dim), "DIM", "ONNX: batch dimension, by name or as INPUT:AXIS (default: the inputs' first)"), \
  PZ_TEXT_OPTION("layers", offsetof(T, F.layers), "REGEX", "ONNX: nodes whose names agree in the first group of this regular expression form one layer (default: repeated blocks are detected)"), \
  PZ_CHOICE_OPTION("unknown-ops", offsetof(T, F.unknown_ops), pz_unknown_ops_names, "ONNX: reject unknown operator types, or count them as element-wise work")
/* clang-format on */

static inline void pz_free_workload(void *workload) { pz_workload_free(workload); }

/* Returns the operator graphs of a model, which the call owns, and prints their warning. */
static inline const struct pz_workload *pz_workload_open(struct pz_call *call, const char *model,
                                                         const struct pz_workload_options *options,
                                                         bool quiet) {
  struct pz_workload *workload = NULL;
  pz_must(call, pz_workload_load(model, options, &workload, pz_call_error(call)));
  pz_defer(call, pz_free_workload, workload);
  pz_command_warn(quiet, workload->warning);
  return workload;
}

/* Returns the size of the largest group of devices in which the operators of a workload
 * communicate, and the name of the option that sets it. */
static inline int64_t pz_workload_group(const struct pz_workload_options *options,
                                        const char **option) {
  const struct {
    const char *name;
    int64_t n;
  } groups[] = {
      {"tp", options->tp}, {"ep", options->ep}, {"etp", options->etp}, {"cp", options->cp}};
  int largest = 0;
  for (int i = 1; i < 4; i++)
    if (groups[i].n > groups[largest].n) largest = i;
  *option = groups[largest].name;
  return groups[largest].n;
}

/* Writes ", context parallel 4 (ring)" to buf, or "" without context parallelism.  Returns buf. */
static inline const char *pz_workload_context(const struct pz_workload_options *options, char *buf,
                                              size_t size) {
  buf[0] = '\0';
  if (options->cp > 1)
    snprintf(buf, size, ", context parallel %lld (%s)", (long long)options->cp,
             pz_context_names[options->cp_form]);
  return buf;
}

/* Returns the default options with the options for ONNX files of `from`. */
static inline struct pz_workload_options
pz_workload_import(const struct pz_workload_options *from) {
  struct pz_workload_options options = pz_workload_options_default();
  memcpy(options.dims, from->dims, sizeof options.dims);
  options.layers = from->layers;
  options.batch_dim = from->batch_dim;
  options.unknown_ops = from->unknown_ops;
  return options;
}

#endif
