/* What every unit test includes: cmocka with the headers it wants before it, random numbers, references that are not in
 * the repository, and a workload or a failed test. */
#ifndef PZ_TESTS_TESTING_H
#define PZ_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Under sanitizers: smaller studies of the same kind. */
static inline bool pz_test_is_short(void) { return pz_test_part(12) < 2; }

/* References beside the repository, which who cloned it need not have. */
#define PZ_TEST_SHARED PHAZE_TEST_DATA "/../../../shared/ref/"

/* Was one not there? */
static inline bool *pz_test_missed(void) {
  static bool missed;
  return &missed;
}

/* Is such a reference there?  Without it what needs it is left out, and pz_test_end says so to ctest. */
static inline bool pz_test_has(const char *path) {
  if (access(path, R_OK) == 0) return true;
  print_message("skipped: no ..%s\n", strstr(path, "/shared/"));
  *pz_test_missed() = true;
  return false;
}

/* The status of a program whose tests may have missed a reference: 77 if one has and none failed. */
static inline int pz_test_end(int failed) { return !failed && *pz_test_missed() ? 77 : failed; }

static inline struct pz_workload *pz_test_load(const char *model,
                                               const struct pz_workload_options *o) {
  struct pz_workload *w = NULL;
  struct pz_error err = {0};
  struct pz_workload_options standard = pz_workload_options_default();
  if (pz_workload_load(model, o ? o : &standard, &w, &err) != PZ_OK)
    fail_msg("%s: %s", model, err.message);
  return w;
}

/* The least tensor-parallel degree above 1, of at most 5, that divides a model; 1: none does. */
static inline int64_t pz_test_width(const char *model) {
  for (int64_t tp = 2; tp <= 5; tp++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    o.tp = tp;
    enum pz_status status = pz_workload_load(model, &o, &w, NULL);
    pz_workload_free(w);
    if (status == PZ_OK) return tp;
  }
  return 1;
}

#endif
