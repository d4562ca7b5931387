#include "schedule/options.h"

#include <stddef.h>
#include <string.h>

#include "core/text.h"

const struct pz_tuning pz_tuning_default = {
#define TECHNIQUE(name, reason) .name = true,
#define TUNED(type, name, value, least, most, reason) .name = value,
#define CONSTANT(type, name, value, least, most, reason) .name = value,
#include "schedule/options.def"
};

static const struct {
  const char *name, *reason;
  size_t offset;
} techniques[PZ_TECHNIQUES + 1] = {
#define TECHNIQUE(name, reason) {#name, reason, offsetof(struct pz_tuning, name)},
#define TUNED(type, name, value, least, most, reason)
#define CONSTANT(type, name, value, least, most, reason)
#include "schedule/options.def"
    {"none", "", 0}};

const char *pz_technique_name(enum pz_technique t) { return techniques[t].name; }

const char *pz_technique_reason(enum pz_technique t) { return techniques[t].reason; }

static const char *name_at(const void *ctx, size_t i) {
  (void)ctx;
  return i < PZ_TECHNIQUES ? techniques[i].name : NULL;
}

enum pz_status pz_tuning_disable(struct pz_tuning *t, const char *list, struct pz_error *err) {
  for (const char *at = list;; at++) {
    size_t n = strcspn(at, ",");
    int k = 0;
    while (k < PZ_TECHNIQUES &&
           (strlen(techniques[k].name) != n || memcmp(techniques[k].name, at, n) != 0))
      k++;
    if (k == PZ_TECHNIQUES) {
      char all[800];
      return pz_fail(err, PZ_BAD_USE, "the scheduler has no technique '%.*s'; accepted: %s",
                     n < 40 ? (int)n : 40, at, pz_text_join(all, sizeof all, name_at, NULL));
    }
    *(bool *)((char *)t + techniques[k].offset) = false;
    at += n;
    if (!*at) return PZ_OK;
  }
}

/* Written so that NaN fails. */
static enum pz_status check_range(const char *name, double value, double least, double most,
                                  struct pz_error *err) {
  if (value >= least && value <= most) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE, "scheduler constant %s is %g; accepted: %g to %g", name, value,
                 least, most);
}

enum pz_status pz_tuning_check(const struct pz_tuning *t, struct pz_error *err) {
  enum pz_status status = PZ_OK;
#define TECHNIQUE(name, reason)
#define TUNED(type, name, value, least, most, reason)                                              \
  if (status == PZ_OK) status = check_range(#name, (double)t->name, least, most, err);
#define CONSTANT TUNED
#include "schedule/options.def"
  return status;
}
