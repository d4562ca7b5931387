/* phaze place with a MODEL: the options of all its semantics, and the search of the original and
 * corrected semantics, whose plans divide scheduled layers into pipeline stages. */
#ifndef PZ_CLI_PLACE_MODEL_H
#define PZ_CLI_PLACE_MODEL_H

#include "cli/machine_options.h"
#include "cli/workload_options.h"

struct pz_place_settings {
  struct pz_machine_options machine;
  const char *devices_text; /* a number; training semantics accept a list */
  const char *mbs, *tp;     /* lists of sizes and degrees, or NULL for auto */
  int64_t devices, batch, seq;
  double hbm_gb;                     /* GiB of memory per device, or 0 for that of the chip */
  int recompute;                     /* enum pz_recomputation, or PZ_AS_FRAMEWORK if auto */
  int optimizer;                     /* 0: Adam, 1: SGD */
  int emit;                          /* index into pz_launch_names, or 0 if none */
  const char *trace;                 /* NULL if none */
  bool quiet;                        /* prints no notes on stderr */
  struct pz_workload_options import; /* options for ONNX files only */
};

/* Prints the best plan over all microbatch sizes, tensor-parallel degrees and recomputation.  If
 * `first_stage` is set, only the gradients of the first stage are all-reduced, as in the
 * original system. */
void pz_place_partition(struct pz_call *call, struct pz_place_settings *settings, const char *model,
                        bool first_stage, bool check, bool json);

#endif
