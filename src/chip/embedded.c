#include "chip/embedded.h"

#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"

enum { MOST_BYTES = 1 << 20 };

const char *pz_embedded_name(const struct pz_embedded *table, size_t i) {
  for (size_t k = 0; k <= i; k++)
    if (!table[k].name) return NULL;
  return table[i].name;
}

static const char *name_at(const void *table, size_t i) { return pz_embedded_name(table, i); }

const char *pz_embedded_text(const struct pz_embedded *table, const char *name) {
  for (; table->name; table++)
    if (pz_text_same(table->name, name)) return table->text;
  return NULL;
}

enum pz_status pz_embedded_load(const struct pz_embedded *table, const char *kind,
                                const char *names, const char *word, char **text, size_t *bytes,
                                struct pz_error *err) {
  const char *own = pz_embedded_text(table, word);
  char meant[240], list[400];
  if (own) {
    *text = pz_strdup(own);
    *bytes = strlen(own);
    return *text ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for %s %s", kind, word);
  }
  if (pz_file_named(word)) return pz_file_read(word, MOST_BYTES, text, bytes, err);
  return pz_fail(err, PZ_BAD_INPUT, "unknown %s '%s'%s; accepted: %s, or the path of a %s.json",
                 kind, word, pz_text_meant(meant, sizeof meant, word, name_at, table),
                 names ? names : pz_text_join(list, sizeof list, name_at, table), kind);
}
