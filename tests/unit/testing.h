/* What every unit test includes: cmocka with the headers it wants before it, random numbers, and a
 * workload or a failed test. */
#ifndef PZ_TESTS_TESTING_H
#define PZ_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/num.h"
#include "phaze/phaze.h"

/* So many of n random cases: fewer where ctest sets PHAZE_TEST_PART, as under sanitizers, which are
 * ten times slower. */
static inline int pz_test_part(int n) {
  const char *part = getenv("PHAZE_TEST_PART");
  long by = part ? strtol(part, NULL, 10) : 1;
  return by > 1 ? (int)(n / by) : n;
}

static inline struct pz_workload *pz_test_load(const char *model,
                                               const struct pz_workload_options *o) {
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  struct pz_workload_options standard = pz_workload_options_default();
  if (pz_workload_load(model, o ? o : &standard, &w, &err) != PZ_OK)
    fail_msg("%s: %s", model, err.message);
  return w;
}

#endif
