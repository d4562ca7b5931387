/* Tables built into the library (see cmake/embed.cmake). */
#ifndef PZ_STEP_EMBEDDED_H
#define PZ_STEP_EMBEDDED_H

#include "chip/embedded.h"

extern const struct pz_embedded pz_embedded_expected[];

#endif
