/* Preset files, built into the library (see cmake/embed.cmake). */
#ifndef PZ_CHIP_EMBEDDED_H
#define PZ_CHIP_EMBEDDED_H

#include <stddef.h>

struct pz_embedded {
  const char *name, *text;
};

/* Tables of them end with a NULL name. */
extern const struct pz_embedded pz_embedded_chips[], pz_embedded_clusters[];

/* The name of entry i of a table, NULL after the last; the text of the entry of that name, NULL if
 * there is none. */
const char *pz_embedded_name(const struct pz_embedded *table, size_t i);
const char *pz_embedded_text(const struct pz_embedded *table, const char *name);

#endif
