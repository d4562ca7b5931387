/* The table of techniques, built from options.def, and switching them off by name. */
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
  size_t offset; /* offset of the technique's switch in struct pz_techniques */
} techniques[PZ_TECHNIQUES + 1] = {
#define TECHNIQUE(name, reason) {#name, offsetof(struct pz_techniques, name)},
#include "schedule/options.def"
    {"none", 0}};

const char *pz_technique_name(enum pz_technique technique) { return techniques[technique].name; }

/* Returns the name of technique i for pz_text_join(), or NULL after the last. */
static const char *technique_name_at(const void *ctx, size_t i) {
  (void)ctx;
  return i < PZ_TECHNIQUES ? techniques[i].name : NULL;
}

/* Switches off the techniques of a comma-separated list of names. */
void pz_techniques_disable(struct pz_call *call, struct pz_techniques *switched_on,
                           const char *list) {
  for (const char *name = list;; name++) {
    size_t length = strcspn(name, ",");
    int k = 0;
    while (k < PZ_TECHNIQUES &&
           (strlen(techniques[k].name) != length || memcmp(techniques[k].name, name, length) != 0))
      k++;
    if (k == PZ_TECHNIQUES) {
      char accepted[800];
      pz_raise(call, PZ_BAD_USE, "disable: there is no technique '%.*s'; accepted: %s",
               length < 40 ? (int)length : 40, name,
               pz_text_join(accepted, sizeof accepted, technique_name_at, NULL));
    }
    *(bool *)((char *)switched_on + techniques[k].offset) = false;
    name += length;
    if (!*name) return;
  }
}
