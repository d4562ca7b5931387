/* The command that makes a study again, for people to paste. */
#ifndef PZ_REPORT_AGAIN_H
#define PZ_REPORT_AGAIN_H

#include <stdio.h>

#include "search/study.h"

/* Options at their defaults are left out; words are quoted for the shell.  A space or network that
 * is no preset is named as the file it would come from. */
void pz_again_print(const struct pz_study *s, FILE *out);

#endif
