/* Files that are built into the library, such as the presets of chips (see cmake/embed.cmake). */
#ifndef PZ_CHIP_EMBEDDED_H
#define PZ_CHIP_EMBEDDED_H

#include <stddef.h>

#include "core/call.h"

struct pz_embedded {
  const char *name, *text;
};

/* Tables of presets.  A table ends with a NULL name. */
extern const struct pz_embedded pz_embedded_chips[], pz_embedded_clusters[], pz_embedded_spaces[];

/* Returns the name of entry i of a table, or NULL after the last. */
const char *pz_embedded_name(const struct pz_embedded *table, size_t i);

/* Returns the text of the entry of that name in any case of letters, or NULL. */
const char *pz_embedded_text(const struct pz_embedded *table, const char *name);

/* Returns the text of the entry, or of the file, that `word` names.  It is released when the call
 * ends.  Messages call it a `kind` ("chip", "cluster"), and tell with `names` which entries there
 * are; NULL lists them. */
const char *pz_embedded_load(struct pz_call *call, const struct pz_embedded *table,
                             const char *kind, const char *names, const char *word, size_t *bytes);

#endif
