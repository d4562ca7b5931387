/* The command line that reproduces a study, to be pasted into a shell. */
#ifndef PZ_REPORT_COMMAND_LINE_H
#define PZ_REPORT_COMMAND_LINE_H

#include <stdio.h>

#include "study/result.h"

/* Options at their defaults are omitted, and words are quoted for the shell.  The command is 'phaze search' unless the seed
 * differs from the comparison's default, which only 'phaze compare' can set.  A design space or network that is no preset is
 * named as the file that it would be read from. */
void pz_command_line_print(const struct pz_result_inputs *in, uint64_t seed, FILE *out);

#endif
