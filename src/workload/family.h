/* Model families.  A family is a function in family.c that reads its config.json fields into a pz_arch,
 * and a row of the table there. */
#ifndef PZ_WORKLOAD_FAMILY_H
#define PZ_WORKLOAD_FAMILY_H

#include "core/fields.h"
#include "workload/arch.h"

struct pz_family {
  const char *model_type; /* as in config.json */
  void (*read)(struct pz_fields *c, struct pz_arch *a);
};

/* Family i of the table, NULL after the last; the family of a model_type, or NULL. */
const struct pz_family *pz_family_at(size_t i);
const struct pz_family *pz_family_find(const char *model_type);

/* The configuration as the family reads it; a recurrence that no layer has is none. */
void pz_family_read(const struct pz_family *f, struct pz_fields *c, struct pz_arch *a);

/* What a model of an unknown type has that there are no operators for, if its type or a field says so, and the field
 * (NULL: the type); else NULL. */
const char *pz_family_lacks(struct pz_fields *c, const char *model_type, const char **key);

/* Where a configuration has a text model beside others (text_config): that; else all of it. */
json_t *pz_config_text(json_t *root);

/* What is not Llama's default; 0, NULL: as Llama. */
struct pz_llama_defaults {
  int64_t kv_heads, head_dim, positions;
  int64_t ffn; /* 0: the field has to be there */
  const char *act_keys, *act;
  bool tied, bias;
};
void pz_llama_read_as(struct pz_fields *c, struct pz_arch *a, struct pz_llama_defaults d);

/* head_dim from hidden and heads where the configuration does not give it; heads go evenly to key/value heads. */
void pz_check_heads(struct pz_fields *c, struct pz_arch *a, const char *hidden_keys,
                    const char *kv_keys);

void pz_read_deepseek_v3(struct pz_fields *c, struct pz_arch *a);

/* family_sparse.c */
void pz_read_deepseek_sparse(struct pz_fields *c, struct pz_arch *a);
void pz_read_glm_sparse(struct pz_fields *c, struct pz_arch *a);

/* family_hybrid.c */
void pz_read_nemotron_h(struct pz_fields *c, struct pz_arch *a);
void pz_read_qwen3_next(struct pz_fields *c, struct pz_arch *a);
void pz_read_qwen3_5(struct pz_fields *c, struct pz_arch *a);
void pz_read_granite_hybrid(struct pz_fields *c, struct pz_arch *a);
void pz_read_bamba(struct pz_fields *c, struct pz_arch *a);
void pz_read_jamba(struct pz_fields *c, struct pz_arch *a);
void pz_read_falcon_h1(struct pz_fields *c, struct pz_arch *a);

/* Llama's fields, which many families vary.  default_kv: key/value heads where the field is absent; 0:
 * as many as there are heads. */
void pz_llama_read(struct pz_fields *c, struct pz_arch *a, int64_t default_kv);
/* The sliding window of Qwen2 and Qwen3: in the layers from max_window_layers on. */
void pz_qwen_window(struct pz_fields *c, struct pz_arch *a);

/* ---- what config.json fields of all families have in common ------------------------------------- */

/* The most that is read: real configurations have a few kilobytes. */
enum { PZ_CONFIG_MOST_BYTES = 4 << 20 };

/* Sizes beyond these are taken for mistakes; products of them stay far inside 64 bits. */
extern const struct pz_range PZ_RANGE_LAYERS, PZ_RANGE_HIDDEN, PZ_RANGE_HEADS, PZ_RANGE_FFN,
    PZ_RANGE_VOCAB, PZ_RANGE_POSITIONS, PZ_RANGE_EXPERTS;

enum pz_act pz_config_act(struct pz_fields *c, const char *keys, const char *absent);

/* Is the field there, with null for a value? */
bool pz_config_null(const struct pz_fields *c, const char *key);

/* Width of the rotated part of a head, from the part that the configuration gives. */
int64_t pz_config_rotary(struct pz_fields *c, const struct pz_arch *a, double absent);

/* Sliding window of all layers, where the configuration has one and the field `use` (NULL: none) says
 * that it holds. */
void pz_config_window(struct pz_fields *c, struct pz_arch *a, const char *use);

/* Routed experts: their number, those of a token, and the width of each (NULL: that of the
 * feed-forward, else the feed-forward's is that of dense layers). */
void pz_config_experts(struct pz_fields *c, struct pz_arch *a, const char *keys, const char *width);

/* A dropout probability, 0 <= p < 1. */
double pz_config_dropout(struct pz_fields *c, const char *keys, double absent);

/* ---- mixed.c: models whose layers differ: which layer is of which kind, and the shape of each kind --- */

/* Layers of one kind.  The name is "block" if there is only one kind, and otherwise "block_window", "block_moe", ... */
struct pz_kind {
  const char *name;
  int64_t count;
  struct pz_arch arch;
};

/* Four of attention, one of the recurrence, or none; each with experts, a dense feed-forward or none. */
enum { PZ_MOST_KINDS = 18 };

/* A name in a list of layers' types. */
struct pz_layer_type {
  const char *name; /* NULL after the last */
  unsigned properties;
};

/* Reads the list of field `key`, which has one of these names for every layer. */
void pz_mixed_types(struct pz_fields *c, struct pz_arch *a, const char *key,
                    const struct pz_layer_type *known);

/* Reads which layers have local attention from the field layer_types.  Without that field, the last of every `period` layers
 * is full, or none if `period` is 0.  Does nothing for a model without a window or chunk. */
void pz_mixed_attention(struct pz_fields *c, struct pz_arch *a, int64_t period);

/* Gives a layer these properties. */
void pz_mixed_mark(struct pz_arch *a, int64_t layer, unsigned properties);

/* Gives the layers in the list of field `key` these properties, or removes them. */
void pz_mixed_list(struct pz_fields *c, struct pz_arch *a, const char *key, unsigned properties,
                   bool give);

/* Removes the recurrence of a model without recurrent layers. */
void pz_mixed_settle(struct pz_arch *a);

/* The shape of a layer with these properties. */
struct pz_arch pz_mixed_arch(const struct pz_arch *a, unsigned properties);

/* Lists the kinds of the first n layers in order of appearance, and returns their number.  n may exceed the model's number of
 * layers.  kind_index receives the kind of each of the n layers. */
int pz_mixed_kinds(struct pz_call *call, const struct pz_arch *a, int64_t n, struct pz_kind *kinds,
                   uint32_t *kind_index);

#endif
