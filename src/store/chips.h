/* A chip of a study as a row of the run file. */
#ifndef PZ_STORE_CHIPS_H
#define PZ_STORE_CHIPS_H

#include "store/run_file.h"
#include "study/study.h"

enum { PZ_RUN_CHIP_NAME = sizeof((struct pz_chip *)0)->name };

/* The row of the i-th point; `name` holds its name. */
struct pz_run_chip pz_run_chip_of(const struct pz_study *s, uint32_t i,
                                  char name[PZ_RUN_CHIP_NAME]);

#endif
