/* Is a run what it says?  Everything is made again from its inputs and compared; plans are checked
 * by code that shares nothing with their solver, and a sample of what bounds excluded is evaluated
 * without any bound. */
#ifndef PZ_REPORT_VERIFY_H
#define PZ_REPORT_VERIFY_H

#include "core/progress.h"
#include "store/run_file.h"

struct pz_verify_options {
  unsigned threads;
  uint32_t sample; /* exclusions evaluated, of each contest */
  const atomic_bool *stop;
  struct pz_progress *progress; /* NULL: none */
  /* Told of each check in turn. */
  void (*say)(void *ctx, bool holds, const char *text);
  void *ctx;
};

/* PZ_OK: the checks could be made; *holds: and all hold. */
PZ_NODISCARD enum pz_status pz_verify(struct pz_run_file *f, const struct pz_verify_options *o,
                                      bool *holds, struct pz_error *err);

#endif
