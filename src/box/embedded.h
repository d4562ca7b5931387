/* Built-in spaces of ranges; the last has no name. */
#ifndef PZ_BOX_EMBEDDED_H
#define PZ_BOX_EMBEDDED_H

#include "chip/embedded.h"

extern const struct pz_embedded pz_embedded_range_spaces[];

#endif
