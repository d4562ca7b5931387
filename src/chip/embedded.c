#include "chip/embedded.h"

#include <string.h>

const char *pz_embedded_name(const struct pz_embedded *table, size_t i) {
  for (size_t k = 0; k <= i; k++)
    if (!table[k].name) return NULL;
  return table[i].name;
}

const char *pz_embedded_text(const struct pz_embedded *table, const char *name) {
  for (; table->name; table++)
    if (strcmp(table->name, name) == 0) return table->text;
  return NULL;
}
