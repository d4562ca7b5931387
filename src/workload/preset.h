/* Presets: models by name, each a configuration text read like a user's file. */
#ifndef PZ_WORKLOAD_PRESET_H
#define PZ_WORKLOAD_PRESET_H

struct pz_preset {
  const char *name;
  const char *config;
};

/* NULL when there is none of that name. */
const struct pz_preset *pz_preset_find(const char *name);

#endif
