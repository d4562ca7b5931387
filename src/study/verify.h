/* Verification of a run: everything is recomputed from its inputs and compared; plans are checked
 * by code that shares nothing with their solver, and a sample of the excluded chips is evaluated
 * without bounds. */
#ifndef PZ_STUDY_VERIFY_H
#define PZ_STUDY_VERIFY_H

#include "core/progress.h"
#include "study/run.h"

struct pz_verify_options {
  unsigned threads;
  uint32_t sample; /* exclusions evaluated, of each objective run */
  const atomic_bool *stop;
  struct pz_progress *progress; /* NULL: none */
  /* Told of each check in turn. */
  void (*say)(void *ctx, bool holds, const char *text);
  void *ctx;
};

/* The finished run in a directory.  PZ_OK: the checks could be made; *holds: and all hold. */
PZ_NODISCARD enum pz_status pz_verify(const char *dir, const struct pz_verify_options *o,
                                      bool *holds, struct pz_error *err);

#endif
