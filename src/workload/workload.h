/* Interface of the workload module: models built into layers (see phaze.h). */
#ifndef PZ_WORKLOAD_WORKLOAD_H
#define PZ_WORKLOAD_WORKLOAD_H

#include <stdio.h>

#include "core/json.h"

/* As pz_workload_parse, with memory from `mem` (NULL: the C library). */
struct pz_mem;
PZ_NODISCARD enum pz_status pz_workload_build(const char *name, const char *text, size_t bytes,
                                              const struct pz_workload_options *options,
                                              const struct pz_mem *mem, struct pz_workload **out,
                                              struct pz_error *err);

/* As pz_workload_parse, from the config.json at `path`. */
PZ_NODISCARD enum pz_status pz_workload_load_config(const char *path,
                                                    const struct pz_workload_options *options,
                                                    struct pz_workload **out, struct pz_error *err);

/* ---- presets: models by name, each a configuration text read like a user's file ----------------- */

struct pz_preset {
  const char *name, *hub; /* hub: its name on Hugging Face, or NULL */
  const char *config;
};

/* By either name, whatever the case of letters; a path that exists is none.  NULL: there is none. */
const struct pz_preset *pz_preset_find(const char *name);

/* Is the word no path of a file, but an organization and a model? */
bool pz_preset_hub_like(const char *word);

/* ---- a workload as JSON and as a Graphviz drawing ----------------------------------------------- */

/* New reference, the caller's; NULL when out of memory. */
json_t *pz_workload_json(const struct pz_workload *w);

/* ---- options: the checks that hold for every model ---------------------------------------------- */

/* The options of a caller, whose struct may be of an older header; NULL: the defaults. */
PZ_NODISCARD enum pz_status pz_workload_options_take(const struct pz_workload_options *caller,
                                                     struct pz_workload_options *out,
                                                     struct pz_error *err);

/* All sizes and choices in range.  `least` is 1 for the sequence length and the number of
 * layers, or 0 where 0 stands for what the model's file has. */
PZ_NODISCARD enum pz_status pz_workload_options_check(const struct pz_workload_options *o,
                                                      int64_t least, struct pz_error *err);

/* Does the tensor-parallel degree divide the heads, and divide those of keys and values (0: as many) or come out even
 * over them?  Then devices share a head. */
bool pz_heads_divide(int64_t heads, int64_t kv_heads, int64_t tp);

/* Are adapters on some but not all layers that Megatron Core has as one? */
bool pz_lora_divides(const struct pz_lora *lora);

/* Has the model, whose linear layers are these of enum pz_lora_module, those that are named? */
PZ_NODISCARD enum pz_status pz_lora_check(const char *model, const struct pz_lora *lora, int found,
                                          struct pz_error *err);

#endif
