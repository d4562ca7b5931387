/* Terminal properties: emphasis (not with NO_COLOR, no-color.org, or TERM=dumb) and columns. */
#ifndef PZ_CORE_COLOUR_H
#define PZ_CORE_COLOUR_H

#include <stdio.h>

#include "core/status.h"

enum pz_colour { PZ_PLAIN, PZ_BOLD, PZ_RED, PZ_GREEN };

/* Is `out` a terminal that shall have colour? */
bool pz_colour_on(FILE *out);

/* What switches to a colour on `out`, or "". */
const char *pz_colour(FILE *out, enum pz_colour c);

/* Columns of the terminal; many where `out` is none. */
int pz_terminal_columns(FILE *out);

#endif
