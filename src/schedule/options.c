/* The table of techniques, and switching them off by name. */
#include "schedule/options.h"

#include <stddef.h>
#include <string.h>

#include "core/text.h"

const struct pz_techniques pz_techniques_all = {
#define TECHNIQUE(name, reason) .name = true,
#include "schedule/options.def"
};

static const struct {
  const char *name;
  size_t offset;
} techniques[PZ_TECHNIQUES + 1] = {
#define TECHNIQUE(name, reason) {#name, offsetof(struct pz_techniques, name)},
#include "schedule/options.def"
    {"none", 0}};

const char *pz_technique_name(enum pz_technique t) { return techniques[t].name; }

static const char *technique_name_at(const void *ctx, size_t i) {
  (void)ctx;
  return i < PZ_TECHNIQUES ? techniques[i].name : NULL;
}

enum pz_status pz_techniques_disable(struct pz_techniques *t, const char *list,
                                     struct pz_error *err) {
  for (const char *at = list;; at++) {
    size_t n = strcspn(at, ",");
    int k = 0;
    while (k < PZ_TECHNIQUES &&
           (strlen(techniques[k].name) != n || memcmp(techniques[k].name, at, n) != 0))
      k++;
    if (k == PZ_TECHNIQUES) {
      char all[800];
      return pz_fail(err, PZ_BAD_USE, "disable: there is no technique '%.*s'; accepted: %s",
                     n < 40 ? (int)n : 40, at,
                     pz_text_join(all, sizeof all, technique_name_at, NULL));
    }
    *(bool *)((char *)t + techniques[k].offset) = false;
    at += n;
    if (!*at) return PZ_OK;
  }
}
