/* Preset files, built into the library (see cmake/embed.cmake). */
#ifndef PZ_CHIP_EMBEDDED_H
#define PZ_CHIP_EMBEDDED_H

struct pz_embedded {
  const char *name, *text;
};

/* Both tables end with a NULL name. */
extern const struct pz_embedded pz_embedded_chips[], pz_embedded_clusters[];

#endif
