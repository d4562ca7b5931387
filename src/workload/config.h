/* What config.json fields of all families have in common: ranges of sizes, activations, dropout. */
#ifndef PZ_WORKLOAD_CONFIG_H
#define PZ_WORKLOAD_CONFIG_H

#include "core/fields.h"
#include "workload/arch.h"

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

#endif
