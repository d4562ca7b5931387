/* Internal interface of this folder: presets, JSON, and checks of the options of a model. */
#ifndef PZ_WORKLOAD_WORKLOAD_H
#define PZ_WORKLOAD_WORKLOAD_H

#include <stdio.h>

#include "core/json.h"

/* The largest config.json that is read; real ones have a few kilobytes. */
enum { PZ_CONFIG_MOST_BYTES = 4 << 20 };

/* Returns the workload of a configuration (config.json).  `name` stands for the text in messages.
 * The caller of the public function owns the workload and frees it with pz_workload_free(). */
struct pz_workload *pz_workload_build(struct pz_call *call, const char *name, const char *text,
                                      size_t bytes, const struct pz_workload_options *options);

/* Frees a struct pz_workload; for pz_defer(). */
static inline void pz_workload_close(void *workload) { pz_workload_free(workload); }

/* ---- presets: models by name, each a configuration that is read like a user's file ----------- */

struct pz_preset {
  const char *name, *hub; /* `hub` is the name on Hugging Face, or NULL */
  const char *config;
};

/* Returns the preset with this name, or this name on Hugging Face, in upper or lower case, or
 * NULL. The path of an existing file or folder is not a preset. */
const struct pz_preset *pz_preset_find(const char *name);

/* Returns whether a word looks like ORGANIZATION/MODEL and not like the path of a file. */
bool pz_preset_hub_like(const char *word);

/* ---- a workload as JSON ---------------------------------------------------------------------- */

/* Returns a workload as JSON, which is released when the call ends or with pz_close(). */
json_t *pz_workload_json(struct pz_call *call, const struct pz_workload *workload);

/* ---- options: the checks that hold for every model ------------------------------------------- */

/* Copies the options of a caller, whose struct may be that of an older header, and parses the
 * description of adapters.  NULL stands for the defaults. */
void pz_copy_workload_options(struct pz_call *call, struct pz_workload_options *copy,
                              const struct pz_workload_options *given);

/* Raises an error if a size or choice is out of range.  `least` is the lower limit of the sequence
 * length and the number of layers; it is 0 if zeros stand for those of the model's file. */
void pz_check_workload_options(struct pz_call *call, const struct pz_workload_options *options,
                               int64_t least);

/* Raises an error if the model lacks linear layers for which adapters are requested.  `found` is
 * the set of enum pz_lora_module of those that it has. */
void pz_check_adapters(struct pz_call *call, const char *model, const struct pz_lora *lora,
                       int found);

/* Returns whether a tensor-parallel degree divides the attention heads and is a divisor or a
 * multiple of the key/value heads (0 stands for as many as attention heads).  If it is a multiple,
 * devices share key/value heads. */
bool pz_heads_divide(int64_t heads, int64_t kv_heads, int64_t tp);

/* Returns whether only some of the linear layers that Megatron Core joins into one have
 * adapters. */
bool pz_lora_divides(const struct pz_lora *lora);

#endif
