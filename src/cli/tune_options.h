/* Warnings about a training run that was read from a file, for the subcommands that read one. */
#ifndef PZ_CLI_TUNE_OPTIONS_H
#define PZ_CLI_TUNE_OPTIONS_H

#include "cli/predict_options.h"

/* Prints the notes on a run that was read and the arguments that were ignored, as warnings. */
void pz_tune_warn(bool quiet, const struct pz_run_plan *r);

#endif
