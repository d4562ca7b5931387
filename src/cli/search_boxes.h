/* 'phaze search' in a space of ranges: chips judged by training plans, closed box by box. */
#ifndef PZ_CLI_SEARCH_BOXES_H
#define PZ_CLI_SEARCH_BOXES_H

#include "box/range_space.h"
#include "cli/command.h"

struct pz_box_settings {
  const char *node, *gap;
  double limit_mm2, limit_watts, limit_dollars, outer_gb_per_s;
  int64_t scale_up, rounds, seconds;
  int per;
};

/* outer: one 400 Gb/s interface a device, as a DGX H100 has. */
#define PZ_BOX_SETTINGS_DEFAULT                                                                    \
  { .gap = "1%", .scale_up = 8, .outer_gb_per_s = 50 }

extern const char *const pz_per_names[]; /* ends with NULL */

/* clang-format off */
#define PZ_BOX_OPTIONS(T, F)                                                                             \
  {.name = "node", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.node), .arg = "NODE",                 \
   .help = "Space of ranges: technology of the chips (default: every one of the space)"},               \
  {.name = "limit-mm2", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.limit_mm2), .arg = "MM2",        \
   .min = 0, .max = 1e9, .help = "Space of ranges: area of a chip's die at most (0: any)"},             \
  {.name = "limit-watts", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.limit_watts), .arg = "W",      \
   .min = 0, .max = 1e9, .help = "Space of ranges: sustained power of a chip at most (0: any)"},        \
  {.name = "limit-dollars", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.limit_dollars), .arg = "D",  \
   .min = 0, .max = 1e9, .help = "Space of ranges: die, HBM and package of a chip at most (0: any)"},   \
  {.name = "scale-up", .type = PZ_OPTION_INT, .offset = offsetof(T, F.scale_up), .arg = "N", .min = 1,   \
   .max = 1 << 20, .help = "Space of ranges: devices joined by the chip's own links"},                  \
  {.name = "outer-rate", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.outer_gb_per_s), .arg = "GBS",  \
   .min = 1e-3, .max = 1e6, .help = "Space of ranges: GB/s of a device to those outside of its scale-up group"}, \
  {.name = "per", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.per), .choices = pz_per_names,       \
   .help = "Space of ranges: maximise throughput per chip, dollar of its bill, watt, dollar of ownership, or joule"},                            \
  {.name = "gap", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.gap), .arg = "GAP",                    \
   .help = "Space of ranges: stop when no chip can be better by more (default: 1%)"},                   \
  {.name = "rounds", .type = PZ_OPTION_INT, .offset = offsetof(T, F.rounds), .arg = "N", .min = 0,       \
   .max = 1e15, .help = "Space of ranges: effort limit, in rounds of 64 boxes (0: none)"},              \
  {.name = "seconds", .type = PZ_OPTION_INT, .offset = offsetof(T, F.seconds), .arg = "S", .min = 0,     \
   .max = 1e9, .help = "Space of ranges: begin no round after so many seconds (0: none)"}
/* clang-format on */

struct pz_box_call {
  const struct pz_common *common;
  const struct pz_box_settings *box;
  char **models;
  int n_models;
  int64_t devices, batch, seq, threads;
  const char *budget; /* a chip, or NULL */
  const char *dir;    /* NULL: nothing is saved */
  bool report;        /* ... and DIR/report.html is written */
};

/* The whole command; the exit status. */
enum pz_exit pz_search_boxes(const struct pz_box_call *call, struct pz_range_space *space);

#endif
