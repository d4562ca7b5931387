/* Files that are built into the library, such as the presets of chips (see cmake/embed.cmake). */
#ifndef PZ_CHIP_EMBEDDED_H
#define PZ_CHIP_EMBEDDED_H

#include <stddef.h>

#include "core/call.h"

/* A file, by the name of its preset. */
struct pz_embedded {
  const char *name, *text;
};

/* Tables of presets.  A table ends with a NULL name. */
extern const struct pz_embedded pz_embedded_chips[], pz_embedded_clusters[], pz_embedded_spaces[];

/* Returns the name of entry i of a table of struct pz_embedded, or NULL after the last (a
 * pz_name_at). */
const char *pz_embedded_name(const void *table, size_t i);

/* Returns the text of the entry with this name, ignoring the case of letters, or NULL. */
const char *pz_embedded_text(const struct pz_embedded *table, const char *name);

/* Returns the text of the entry or file that `word` names, and sets *bytes to its length.  The text
 * is released when the call ends.  Errors call it a `kind`, such as "chip", and list `names` as the
 * accepted ones, or all entries if `names` is NULL. */
const char *pz_embedded_load(struct pz_call *call, const struct pz_embedded *table,
                             const char *kind, const char *names, const char *word, size_t *bytes);

#endif
