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

/* A dropout probability, 0 <= p < 1. */
double pz_config_dropout(struct pz_fields *c, const char *keys, double absent);

#endif
