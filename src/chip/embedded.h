/* Preset files, built into the library (see cmake/embed.cmake). */
#ifndef PZ_CHIP_EMBEDDED_H
#define PZ_CHIP_EMBEDDED_H

#include <stddef.h>

#include "core/status.h"

struct pz_embedded {
  const char *name, *text;
};

/* Tables of them end with a NULL name. */
extern const struct pz_embedded pz_embedded_chips[], pz_embedded_clusters[], pz_embedded_spaces[];

/* The name of entry i of a table, NULL after the last; the text of the entry of that name, NULL if
 * there is none. */
const char *pz_embedded_name(const struct pz_embedded *table, size_t i);
const char *pz_embedded_text(const struct pz_embedded *table, const char *name);

/* The text of the entry of that name, or of the file that `word` names: *text is the caller's to
 * pz_free.  `kind` is "chip", "cluster", ...; `names` says in messages which there are. */
PZ_NODISCARD enum pz_status pz_embedded_load(const struct pz_embedded *table, const char *kind,
                                             const char *names, const char *word, char **text,
                                             size_t *bytes, struct pz_error *err);

#endif
