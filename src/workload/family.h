/* Model families.  Each is a function that reads the fields of a config.json with a certain
 * model_type into a struct pz_arch. */
#ifndef PZ_WORKLOAD_FAMILY_H
#define PZ_WORKLOAD_FAMILY_H

#include "core/fields.h"
#include "workload/arch.h"

struct pz_family {
  const char *model_type; /* value of the field model_type in config.json */
  void (*read)(struct pz_fields *config, struct pz_arch *arch);
};

/* All families.  The last row has no model_type. */
extern const struct pz_family pz_families[];

/* Returns the family of a model_type, or NULL if it is unknown. */
const struct pz_family *pz_family_find(const char *model_type);

/* Reads a configuration with its family.  A recurrence that no layer uses is removed. */
void pz_family_read(const struct pz_family *family, struct pz_fields *config, struct pz_arch *arch);

/* Returns the name of a feature without operators that a model of unknown type has, or NULL if
 * none is recognized.  *key receives the field that shows the feature, or NULL if model_type
 * does. */
const char *pz_family_unsupported_feature(struct pz_fields *config, const char *model_type,
                                          const char **key);

/* Returns the configuration of the text model (text_config) of a multimodal model, otherwise the
 * whole configuration. */
json_t *pz_config_text(json_t *root);

/* Defaults in which a family differs from Llama.  A zero or NULL stands for the default of
 * Llama. */
struct pz_llama_defaults {
  int64_t kv_heads, head_dim, positions;
  int64_t ffn; /* default of the feed-forward width, or 0 if the field is required */
  const char *act_keys, *act;
  bool tied, bias;
};
/* Reads the fields of Llama, which many families share. */
void pz_llama_read(struct pz_fields *config, struct pz_arch *arch,
                   struct pz_llama_defaults defaults);

/* Sets head_dim to hidden / heads unless it is set.  Refuses heads that do not divide evenly; the
 * keys name the fields in the error. */
void pz_check_heads(struct pz_fields *config, struct pz_arch *arch, const char *hidden_keys,
                    const char *kv_keys);

/* family_hybrid.c */
void pz_read_nemotron_h(struct pz_fields *config, struct pz_arch *arch);
void pz_read_qwen_hybrid(struct pz_fields *config, struct pz_arch *arch);
void pz_read_granite_hybrid(struct pz_fields *config, struct pz_arch *arch);
void pz_read_bamba(struct pz_fields *config, struct pz_arch *arch);
void pz_read_jamba(struct pz_fields *config, struct pz_arch *arch);
void pz_read_falcon_h1(struct pz_fields *config, struct pz_arch *arch);

/* Reads the sliding window of Qwen2 and Qwen3, which applies from layer max_window_layers on. */
void pz_qwen_window(struct pz_fields *config, struct pz_arch *arch);

/* ---- fields that all families share ---------------------------------------------------------- */

/* Accepted ranges.  Larger sizes are regarded as mistakes, and products of accepted sizes stay far
 * below 2^63. */
extern const struct pz_range PZ_RANGE_LAYERS, PZ_RANGE_HIDDEN, PZ_RANGE_HEADS, PZ_RANGE_FFN,
    PZ_RANGE_VOCAB, PZ_RANGE_POSITIONS, PZ_RANGE_EXPERTS;

/* Reads the name of an activation function.  `absent` is the default name. */
enum pz_act pz_config_act(struct pz_fields *config, const char *keys, const char *absent);

/* Returns whether the configuration has this model_type. */
bool pz_config_is(struct pz_fields *config, const char *model_type);

/* Returns the number of rotated values of a head, rounded down to an even number, from the field
 * with their fraction of the head, whose default is `absent`. */
int64_t pz_config_rotary(struct pz_fields *config, const struct pz_arch *arch, double absent);

/* Reads the sliding window of all layers.  It is ignored if `use` names a flag that is not set. */
void pz_config_window(struct pz_fields *config, struct pz_arch *arch, const char *use);

/* Reads the number of routed experts from the field `keys`, and how many of them a token uses.  If
 * `width` is not NULL, it names the field with the width of an expert, and the feed-forward width
 * becomes that of dense layers. */
void pz_config_experts(struct pz_fields *config, struct pz_arch *arch, const char *keys,
                       const char *width);

/* Reads a dropout probability, at least 0 and below 1. */
double pz_config_dropout(struct pz_fields *config, const char *keys, double absent);

/* ---- mixed.c: models whose layers differ ----------------------------------------------------- */

/* The layers of one kind.  The name is "block" if all layers are of one kind, and otherwise
 * "block_window", "block_moe", ... */
struct pz_kind {
  const char *name;
  int64_t count;
  struct pz_arch arch;
};

/* Most kinds of layers: four of attention, the recurrence, or no mixer, each of them with experts,
 * a dense feed-forward, or neither. */
enum { PZ_MOST_KINDS = 18 };

/* A layer type: its name in a configuration, and its PZ_LAYER_* properties. */
struct pz_layer_type {
  const char *name; /* NULL ends a list */
  unsigned properties;
};

/* Reads the properties of all layers from the field `key`, a list of known type names. */
void pz_mixed_read_types(struct pz_fields *config, struct pz_arch *arch, const char *key,
                         const struct pz_layer_type *known);

/* Reads from the field layer_types which layers have local attention.  Without that field, the
 * last of every `period` layers has full attention, or none if `period` is 0.  Does nothing for a
 * model without a window or chunk. */
void pz_mixed_read_attention(struct pz_fields *config, struct pz_arch *arch, int64_t period);

/* Adds properties to those of a layer. */
void pz_mixed_mark(struct pz_arch *arch, int64_t layer, unsigned properties);

/* Adds properties to the layers that the field `key` lists, or removes them if `adds` is not
 * set. */
void pz_mixed_mark_listed(struct pz_fields *config, struct pz_arch *arch, const char *key,
                          unsigned properties, bool adds);

/* Returns the shape of a layer with the properties `kind`, a set of PZ_LAYER_*. */
struct pz_arch pz_mixed_layer_arch(const struct pz_arch *arch, unsigned kind);

/* Lists the kinds of the first n layers in the order of their first layers, and returns their
 * number. n may exceed the number of layers of the model. kind_index[i] receives the index of the
 * kind of layer i. */
int pz_mixed_kinds(struct pz_call *call, const struct pz_arch *arch, int64_t n,
                   struct pz_kind *kinds, uint32_t *kind_index);

#endif
