/* Built-in design spaces; the last has no name. */
#ifndef PZ_SPACE_EMBEDDED_H
#define PZ_SPACE_EMBEDDED_H

#include "chip/embedded.h"

extern const struct pz_embedded pz_embedded_spaces[];

#endif
