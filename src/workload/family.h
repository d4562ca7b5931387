/* Model families.  A family is a function in family.c that reads its config.json fields into a pz_arch,
 * and a row of the table there. */
#ifndef PZ_WORKLOAD_FAMILY_H
#define PZ_WORKLOAD_FAMILY_H

#include "workload/config.h"
#include "workload/mixed.h"

struct pz_family {
  const char *model_type; /* as in config.json */
  const char *about;
  void (*read)(struct pz_fields *c, struct pz_arch *a);
};

/* Family i of the table, NULL after the last; the family of a model_type, or NULL. */
const struct pz_family *pz_family_at(size_t i);
const struct pz_family *pz_family_find(const char *model_type);

/* Llama's fields, which many families vary.  default_kv: key/value heads where the field is absent; 0:
 * as many as there are heads. */
void pz_llama_read(struct pz_fields *c, struct pz_arch *a, int64_t default_kv);
/* The sliding window of Qwen2 and Qwen3: in the layers from max_window_layers on. */
void pz_qwen_window(struct pz_fields *c, struct pz_arch *a);

#endif
