#include "workload/workload.h"

#include <string.h>

static const struct pz_preset table[] = {
#define MODEL(name, ...) {name, #__VA_ARGS__},
#include "workload/presets.def"
#undef MODEL
};

const char *pz_preset_name(size_t i) {
  return i < sizeof table / sizeof *table ? table[i].name : NULL;
}

const struct pz_preset *pz_preset_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}
