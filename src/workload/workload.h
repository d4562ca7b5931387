/* The interface of this folder to others in the library, beside the public one in phaze.h: models built into layers. */
#ifndef PZ_WORKLOAD_WORKLOAD_H
#define PZ_WORKLOAD_WORKLOAD_H

#include <stdio.h>

#include "core/json.h"

/* Like pz_workload_parse(), from the config.json at `path`. */
PZ_NODISCARD enum pz_status pz_workload_load_config(const char *path,
                                                    const struct pz_workload_options *options,
                                                    struct pz_workload **out, struct pz_error *err);

/* ---- presets: models by name, each a configuration that is read like a user's file ---------- */

struct pz_preset {
  const char *name, *hub; /* hub is the name on Hugging Face, or NULL */
  const char *config;
};

/* Returns the preset of this name, on Hugging Face or here, in any case of letters, or NULL.  A path that exists is
 * not a preset. */
const struct pz_preset *pz_preset_find(const char *name);

/* Does the word look like ORGANIZATION/MODEL, and not like the path of a file? */
bool pz_preset_hub_like(const char *word);

/* ---- a workload as JSON --------------------------------------------------------------------- */

/* Returns a new reference, which belongs to the caller, or NULL if there is no memory. */
json_t *pz_workload_json(const struct pz_workload *w);

/* ---- options: the checks that hold for every model ------------------------------------------ */

/* Copies the options of a caller, whose struct may be that of an older header, and reads the text that describes
 * adapters.  NULL stands for the defaults. */
void pz_copy_workload_options(struct pz_call *call, struct pz_workload_options *own,
                              const struct pz_workload_options *given);

/* Raises an error if a size or choice is out of range.  The sequence length and the number of layers are at least
 * `least`, which is 0 if a zero stands for what the model's file has. */
void pz_check_workload_options(struct pz_call *call, const struct pz_workload_options *o,
                               int64_t least);

/* Raises an error if the model lacks linear layers that should have adapters.  `found` is the set of those that it
 * has, of enum pz_lora_module. */
void pz_check_adapters(struct pz_call *call, const char *model, const struct pz_lora *lora,
                       int found);

/* Does the tensor-parallel degree divide the attention heads, and is it a divisor or a multiple of the number of
 * key/value heads (0 for as many)?  If it is a multiple, devices share a head. */
bool pz_heads_divide(int64_t heads, int64_t kv_heads, int64_t tp);

/* Does only a part of the layers that Megatron Core joins into one have adapters? */
bool pz_lora_divides(const struct pz_lora *lora);

#endif
