/* Model families: functions that read the fields of a config.json into a struct pz_arch, by the
 * model_type. */
#ifndef PZ_WORKLOAD_FAMILY_H
#define PZ_WORKLOAD_FAMILY_H

#include "core/fields.h"
#include "workload/arch.h"

struct pz_family {
  const char *model_type; /* as in config.json */
  void (*read)(struct pz_fields *c, struct pz_arch *a);
};

/* Returns family i of the table, or NULL after the last one; and the family of a model_type, or
 * NULL if it is unknown. */
const struct pz_family *pz_family_at(size_t i);
const struct pz_family *pz_family_find(const char *model_type);

/* Reads a configuration.  A recurrence that no layer uses is removed. */
void pz_family_read(const struct pz_family *family, struct pz_fields *config, struct pz_arch *arch);

/* Returns the feature of a model of unknown type for which there are no operators, if its type or a
 * field shows one, else NULL.  *key receives the field, or NULL if the type shows it. */
const char *pz_family_missing_feature(struct pz_fields *config, const char *model_type,
                                      const char **key);

/* Returns the configuration of the text model (text_config) if the model has several, else the
 * whole configuration. */
json_t *pz_config_text(json_t *root);

/* Reads the fields of Llama, which many families share.  `defaults` has the defaults in which a
 * family differs; 0 and NULL stand for those of Llama. */
struct pz_llama_defaults {
  int64_t kv_heads, head_dim, positions;
  int64_t ffn; /* 0 if the field is required */
  const char *act_keys, *act;
  bool tied, bias;
};
void pz_llama_read(struct pz_fields *config, struct pz_arch *arch,
                   struct pz_llama_defaults defaults);

/* Sets head_dim from hidden and heads unless it is set, and refuses heads that do not divide
 * evenly. */
void pz_check_heads(struct pz_fields *config, struct pz_arch *arch, const char *hidden_keys,
                    const char *kv_keys);

void pz_read_deepseek_v3(struct pz_fields *config, struct pz_arch *arch);

/* family_sparse.c */
void pz_read_deepseek_sparse(struct pz_fields *config, struct pz_arch *arch);
void pz_read_glm_sparse(struct pz_fields *config, struct pz_arch *arch);

/* family_hybrid.c */
void pz_read_nemotron_h(struct pz_fields *config, struct pz_arch *arch);
void pz_read_qwen3_next(struct pz_fields *config, struct pz_arch *arch);
void pz_read_qwen3_5(struct pz_fields *config, struct pz_arch *arch);
void pz_read_granite_hybrid(struct pz_fields *config, struct pz_arch *arch);
void pz_read_bamba(struct pz_fields *config, struct pz_arch *arch);
void pz_read_jamba(struct pz_fields *config, struct pz_arch *arch);
void pz_read_falcon_h1(struct pz_fields *config, struct pz_arch *arch);

/* Reads the sliding window of Qwen2 and Qwen3, which the layers from max_window_layers on have. */
void pz_qwen_window(struct pz_fields *config, struct pz_arch *arch);

/* ---- fields that all families share ---------------------------------------------------------- */

/* Accepted ranges.  Larger sizes are regarded as mistakes; products of accepted ones stay far below
 * 2^63. */
extern const struct pz_range PZ_RANGE_LAYERS, PZ_RANGE_HIDDEN, PZ_RANGE_HEADS, PZ_RANGE_FFN,
    PZ_RANGE_VOCAB, PZ_RANGE_POSITIONS, PZ_RANGE_EXPERTS;

enum pz_act pz_config_act(struct pz_fields *config, const char *keys, const char *absent);

/* Returns whether a field is present with the value null. */
bool pz_config_null(const struct pz_fields *config, const char *key);

/* Returns the width of the rotated part of a head, from its fraction in the configuration. */
int64_t pz_config_rotary(struct pz_fields *config, const struct pz_arch *arch, double absent);

/* Reads the sliding window of all layers.  It is ignored if the flag `use` (unless NULL) is not
 * set. */
void pz_config_window(struct pz_fields *config, struct pz_arch *arch, const char *use);

/* Reads routed experts: their number from `keys`, and how many a token uses.  With a field `width`
 * for the width of an expert, the width of the feed-forward is that of dense layers. */
void pz_config_experts(struct pz_fields *config, struct pz_arch *arch, const char *keys,
                       const char *width);

/* Reads a dropout probability, at least 0 and below 1. */
double pz_config_dropout(struct pz_fields *config, const char *keys, double absent);

/* ---- mixed.c: models whose layers differ ----------------------------------------------------- */

/* The layers of one kind.  The name is "block" if there is only one kind, and otherwise
 * "block_window", "block_moe", ... */
struct pz_kind {
  const char *name;
  int64_t count;
  struct pz_arch arch;
};

/* The most kinds: four of attention, the recurrence, or no mixer; each with experts, a dense
 * feed-forward, or neither. */
enum { PZ_MOST_KINDS = 18 };

/* The name of a layer type in a configuration, and its properties. */
struct pz_layer_type {
  const char *name; /* NULL ends a list */
  unsigned properties;
};

/* Reads the list of field `key`, which has one of these names for every layer. */
void pz_mixed_types(struct pz_fields *config, struct pz_arch *arch, const char *key,
                    const struct pz_layer_type *known);

/* Reads which layers have local attention from the field layer_types.  Without that field, the last
 * of every `period` layers is full, or none if `period` is 0.  Does nothing for a model without a
 * window or chunk. */
void pz_mixed_attention(struct pz_fields *config, struct pz_arch *arch, int64_t period);

/* Gives a layer these properties. */
void pz_mixed_mark(struct pz_arch *arch, int64_t layer, unsigned properties);

/* Gives the layers in the list of field `key` these properties, or removes them. */
void pz_mixed_list(struct pz_fields *config, struct pz_arch *arch, const char *key,
                   unsigned properties, bool give);

/* Removes the recurrence of a model without recurrent layers. */
void pz_mixed_settle(struct pz_arch *arch);

/* Returns the shape of a layer with these properties. */
struct pz_arch pz_mixed_arch(const struct pz_arch *arch, unsigned properties);

/* Lists the kinds of the first n layers in order of appearance, and returns their number. n may
 * exceed the model's number of layers. kind_index receives the kind of each of the n layers. */
int pz_mixed_kinds(struct pz_call *call, const struct pz_arch *arch, int64_t n,
                   struct pz_kind *kinds, uint32_t *kind_index);

#endif
