/* phaze place with a MODEL: the best plan for every combination of microbatch size, tensor-parallel
 * degree and recomputation. */
#ifndef PZ_CLI_PLACE_MODEL_H
#define PZ_CLI_PLACE_MODEL_H

#include "cli/machine_options.h"
#include "cli/workload_options.h"

/* --recompute */
enum {
  PZ_PLACE_AUTO,
  PZ_PLACE_ON,
  PZ_PLACE_OFF,
  PZ_PLACE_SELECTIVE,
  PZ_PLACE_ALTERNATE,
  PZ_PLACE_HALF,
  PZ_PLACE_FULL, /* as on */
  PZ_PLACE_NONE  /* as off */
};

struct pz_place_settings {
  struct pz_machine_options machine;
  const char *devices_text; /* a number, or for training plans a list */
  const char *mbs, *tp;     /* lists, or NULL: auto */
  int64_t devices, batch, seq;
  double hbm_gb;                     /* 0: the chip's */
  int recompute;                     /* the first three are enum pz_checkpointing */
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
