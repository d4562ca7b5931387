/* The bash completion script, which `phaze --completion bash` prints. */
#ifndef PZ_CLI_COMPLETION_H
#define PZ_CLI_COMPLETION_H

#include <stdio.h>

void pz_completion_print(FILE *out);

#endif
