/* The common chip under the original system's assumptions: by its own way of looking for one, then
 * by an exact search with all of them, with one after another corrected, with none, and with each
 * of them alone. */
#ifndef PZ_STUDY_ORIGINAL_H
#define PZ_STUDY_ORIGINAL_H

#include "study/study.h"

enum { PZ_ORIGINAL_MOST_ROWS = 2 * PZ_ASSUMPTIONS + 2 };

/* One search. */
struct pz_original_row {
  pz_assumptions assumptions; /* that it made */
  bool walk;                  /* the chip is the one that the original's walk stops with */
  bool alone;                 /* one assumption in this program's own model; else of the sequence */
  struct pz_chip chip;        /* the common one, with the memory it needs */
  double hbm_gib, area_part;  /* of the budget */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  double reference[PZ_SEARCH_MOST_MODELS]; /* samples/s of tpuv4 with the expert plan; 0: none */
  double gap; /* no chip's objective is higher by more than this part; 0: proven the best */
};

struct pz_original {
  struct pz_original_row rows[PZ_ORIGINAL_MOST_ROWS];
  uint32_t n_rows;
  const char *models[PZ_SEARCH_MOST_MODELS]; /* the caller's */
  uint32_t n_models;
};

/* Run every row; options as for a study, whose own assumptions and objective do not count.  The
 * original's memory for optimizer state (SGD) is not among the assumptions: `o->state` holds for
 * all rows.  `alone`: also each assumption by itself.  Cost: five searches for one
 * common chip, eight with `alone`.  `progress` may be NULL. */
PZ_NODISCARD enum pz_status pz_original_run(const struct pz_study_options *o, bool alone,
                                            unsigned threads, struct pz_progress *progress,
                                            struct pz_original *out, struct pz_error *err);

#endif
