/* phaze place with a MODEL: the best plan for every combination of microbatch size, tensor-parallel
 * degree and recomputation. */
#ifndef PZ_CLI_PLACE_MODEL_H
#define PZ_CLI_PLACE_MODEL_H

#include "cli/machine_options.h"
#include "cli/workload_options.h"

struct pz_place_settings {
  struct pz_machine_options machine;
  const char *devices_text; /* a number, or for training plans a list */
  const char *mbs, *tp;     /* lists, or NULL: auto */
  int64_t devices, batch, seq;
  double hbm_gb;                     /* 0: the chip's */
  int recompute;                     /* enum pz_recomputation; PZ_AS_FRAMEWORK: auto */
  int optimizer;                     /* 0: Adam, 1: SGD */
  int emit;                          /* of pz_launch_names */
  const char *trace;                 /* NULL: none */
  bool quiet;                        /* no notes on stderr */
  struct pz_workload_options import; /* what concerns ONNX files alone */
};

/* first_stage: as the original system, gradients of the first stage are all-reduced. */
PZ_NODISCARD enum pz_status pz_place_a_model(const struct pz_place_settings *s, const char *model,
                                             bool first_stage, bool check, bool json,
                                             struct pz_error *err);

#endif
