/* Presets by name, and other files of the same kind by path. */
#include "chip/embedded.h"

#include <string.h>

#include "core/file.h"
#include "core/text.h"

enum { MOST_BYTES = 1 << 20 };

const char *pz_embedded_name(const void *table, size_t i) {
  const struct pz_embedded *entries = table;
  for (size_t k = 0; k <= i; k++)
    if (!entries[k].name) return NULL;
  return entries[i].name;
}

/* Returns the text of a preset, ignoring the case of letters in its name, or NULL. */
const char *pz_embedded_text(const struct pz_embedded *entry, const char *name) {
  for (; entry->name; entry++)
    if (pz_text_same(entry->name, name)) return entry->text;
  return NULL;
}

/* Returns the text of a preset or file.  An error about an unknown name suggests similar names. */
const char *pz_embedded_load(struct pz_call *call, const struct pz_embedded *table,
                             const char *kind, const char *names, const char *word, size_t *bytes) {
  const char *preset = pz_embedded_text(table, word);
  if (preset) {
    *bytes = strlen(preset);
    return preset;
  }
  if (pz_file_named(word)) return pz_file_text(call, word, MOST_BYTES, bytes);
  char suggestion[240], list[400];
  if (!names) names = pz_text_join(list, sizeof list, pz_embedded_name, table);
  pz_raise(call, PZ_BAD_INPUT, "unknown %s '%s'%s; accepted: %s, or the path of a %s.json", kind,
           word, pz_text_meant(suggestion, sizeof suggestion, word, pz_embedded_name, table), names,
           kind);
}
