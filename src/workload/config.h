/* Typed fields of a Hugging Face config.json.  Keys may be given as alternatives,
 * "n_embd|hidden_size": the first that is present and not null counts; "a.b" is field b of the
 * object a.  Errors are sticky and name file, field, value and what is accepted. */
#ifndef PZ_WORKLOAD_CONFIG_H
#define PZ_WORKLOAD_CONFIG_H

#include "core/json.h"
#include "workload/arch.h"

struct pz_config {
  const char *name;
  const json_t *root;
  struct pz_error *err;
  enum pz_status status;
};

/* The most that is read: real configurations have a few kilobytes. */
enum { PZ_CONFIG_MOST_BYTES = 4 << 20 };

struct pz_range {
  int64_t min, max;
};

/* Sizes beyond these are taken for mistakes; products of them stay far inside 64 bits. */
extern const struct pz_range PZ_RANGE_LAYERS, PZ_RANGE_HIDDEN, PZ_RANGE_HEADS, PZ_RANGE_FFN,
    PZ_RANGE_VOCAB, PZ_RANGE_POSITIONS, PZ_RANGE_EXPERTS;

int64_t pz_config_int(struct pz_config *c, const char *keys, struct pz_range range);
int64_t pz_config_int_or(struct pz_config *c, const char *keys, struct pz_range range,
                         int64_t absent);
double pz_config_real_or(struct pz_config *c, const char *keys, double min, double max,
                         double absent);
bool pz_config_bool_or(struct pz_config *c, const char *keys, bool absent);
/* The text of a field, or `absent`.  Lives as long as the configuration. */
const char *pz_config_text_or(struct pz_config *c, const char *keys, const char *absent);
enum pz_act pz_config_act(struct pz_config *c, const char *keys, const char *absent);

/* A dropout probability, 0 <= p < 1. */
double pz_config_dropout(struct pz_config *c, const char *keys, double absent);

/* Is there a non-null field with this name? */
bool pz_config_has(const struct pz_config *c, const char *key);

/* Refuse a field's value; `accepted` says what would do. */
void pz_config_refuse(struct pz_config *c, const char *keys, const char *accepted);

#endif
