/* The page of `phaze explore`: settings to begin with, the files that it needs, and the program as WebAssembly. */
#ifndef PZ_REPORT_EXPLORE_PAGE_H
#define PZ_REPORT_EXPLORE_PAGE_H

#include "core/json.h"

struct pz_explore {
  json_t *models;               /* names or paths */
  json_t *files;                /* texts by path */
  json_t *state;                /* settings by name, as the page's address has them */
  json_t *presets, *frameworks; /* names to choose from */
  const char *wasm;
  size_t wasm_bytes;
};

/* The text is malloc'd, the caller's to free. */
PZ_NODISCARD enum pz_status pz_explore_page(const struct pz_explore *e, char **text, size_t *bytes,
                                            struct pz_error *err);

#endif
