/* One run of a search, from its inputs to a result: with a directory every part is kept there and
 * found again, so that an interrupted run goes on, a finished one is not repeated, and a comparison
 * or a report continues from a finished search. */
#ifndef PZ_STUDY_RUN_H
#define PZ_STUDY_RUN_H

#include "store/run_file.h"
#include "study/result.h"
#include "study/study.h"

struct pz_run {
  struct pz_run_options o;
  char *dir; /* the options', copied */
  struct pz_study study;
  struct pz_run_file *file; /* NULL: not kept */
  struct pz_result result;  /* n_answers 0: not found yet */
  struct pz_arena arena;    /* of the result */
  struct pz_run_times times;
  double run_s[PZ_SEARCH_MOST_MODELS + 1]; /* seconds of each objective run; 0: not done */
  struct pz_progress progress;
  atomic_bool stop;
  struct pz_watch watch; /* of these two */
  bool reused;           /* the result was in the directory */
  bool changed;          /* something was found that the directory did not have */
  bool restored;         /* the study's objective runs are done, or were restored */
  bool has_study, looking;
};

/* As pz_run_look, of a file that may be damaged: for verification, which says so. */
PZ_NODISCARD enum pz_status pz_run_look_unchecked(const struct pz_run_options *options,
                                                  struct pz_run **out, struct pz_error *err);

/* The run with these inputs again, into a file in memory: every part of it as it should be.  Rounds come from `rounds`, a run
 * that was looked at, or are searched anew (NULL), as many as it has.  For verification: on all ranks. */
PZ_NODISCARD enum pz_status pz_run_again(const struct pz_run *kept, bool replay, bool detail,
                                         const uint64_t *seed, struct pz_run **out,
                                         struct pz_error *err);

#endif
