/* What is known of a real chip's dies, from its preset: to judge the bill. */
#ifndef PZ_CHIP_KNOWN_H
#define PZ_CHIP_KNOWN_H

#include <phaze/phaze.h>

struct pz_known {
  char die[32];      /* presets of one die have its name; "": nothing is known */
  double mm2, watts; /* of all dies of the package; TDP; 0: not known */
  bool fitted;       /* the bill's shares were fitted to this die */
};

/* Of a preset's "known"; nothing for other chips. */
PZ_NODISCARD enum pz_status pz_known_load(const char *chip, struct pz_known *out,
                                          struct pz_error *err);

#endif
