/* The command line that reproduces a study, ready to paste. */
#ifndef PZ_REPORT_COMMAND_LINE_H
#define PZ_REPORT_COMMAND_LINE_H

#include <stdio.h>

#include "study/result.h"

/* Options at their defaults are left out, and so is the seed of the comparison, with which it is
 * 'phaze search'; words are quoted for the shell.  A space or network that
 * is no preset is named as the file it would come from. */
void pz_command_line_print(const struct pz_result_inputs *in, uint64_t seed, FILE *out);

#endif
