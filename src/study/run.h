/* One run of a search, from its inputs to a result: with a directory every part is kept there and
 * found again, so that an interrupted run goes on, a finished one is not repeated, and a comparison
 * or a report continues from a finished search. */
#ifndef PZ_STUDY_RUN_H
#define PZ_STUDY_RUN_H

#include "store/run_file.h"
#include "study/result.h"

struct pz_run_options {
  const char *dir;  /* NULL: nothing is kept */
  bool fresh;       /* a run that stands there is moved aside */
  unsigned threads; /* 0: one per processor */
  struct pz_watch watch;
};

/* How long its parts took; 0: not done. */
struct pz_run_times {
  double bounds_s, search_s, result_s;
  double run_s[PZ_SEARCH_MOST_MODELS + 1]; /* by objective run */
  uint64_t n_variants;                     /* workload variants evaluated */
};

struct pz_run {
  struct pz_run_options o;
  struct pz_study study;
  struct pz_run_file *file; /* NULL: not kept */
  struct pz_result result;  /* n_answers 0: not found yet */
  struct pz_run_times times;
  bool reused;   /* the result was in the directory */
  bool changed;  /* something was found that the directory did not have */
  bool restored; /* the study's objective runs are done, or were restored */
  bool has_study, looking;
};

/* Inputs read and checked, the directory opened; nothing is searched yet.  To be closed, whatever
 * comes back.  PZ_BAD_INPUT for a directory that holds another run. */
PZ_NODISCARD enum pz_status pz_run_open(struct pz_run *r, const struct pz_study_options *study,
                                        const struct pz_run_options *o, struct pz_error *err);

/* The finished run in a directory, to be read: nothing is written there.  PZ_BAD_INPUT for a run
 * that has not finished, or was made by another version. */
PZ_NODISCARD enum pz_status pz_run_look(struct pz_run *r, const struct pz_run_options *o,
                                        struct pz_error *err);

/* The search: run->result, from the directory or by searching. */
PZ_NODISCARD enum pz_status pz_run_search(struct pz_run *r, struct pz_error *err);

/* After the search, the comparison with baselines: as the directory has it, if that was made with
 * this seed (NULL: any), or by running every baseline. */
PZ_NODISCARD enum pz_status pz_run_compare(struct pz_run *r, const uint64_t *seed,
                                           struct pz_error *err);

/* After the search, what a report shows beside: as the directory has it, or made. */
PZ_NODISCARD enum pz_status pz_run_detail(struct pz_run *r, struct pz_error *err);

/* Accepts one that was never opened, if it is zeroed. */
void pz_run_close(struct pz_run *r);

#endif
