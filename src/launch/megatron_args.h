/* Reader of a Megatron-LM run from its arguments: a launch script as users run pretrain_gpt.py, or
 * a plain list of arguments.
 *
 * Names and defaults are those of Megatron-LM's megatron/training/arguments.py (core 0.15).  The
 * number of devices follows from torchrun's nodes and processes, or from Slurm's.  Dense models of
 * two shapes are read, GPT (gelu, LayerNorm) and Llama (swiglu, RMSNorm), models with experts of
 * Mixtral, Qwen3 and DeepSeek-V3, and the hybrids Nemotron-H and Qwen3-Next.
 *
 * Arguments that change the step and are not covered (attention windows, other optimizers ...) are
 * errors.  Arguments that do not change the step are skipped.  A word that looks like a misspelt
 * argument of the first kind or of one that is read is an error that suggests its name; other
 * unknown words are listed. */
#ifndef PZ_LAUNCH_MEGATRON_ARGS_H
#define PZ_LAUNCH_MEGATRON_ARGS_H

#include "plan/plan_file.h"

/* Reads a run.  `name` stands for the text in messages.  Raises PZ_BAD_INPUT, with the line, if
 * arguments are missing, not covered or wrong.  The run is undefined after an error. */
void pz_megatron_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                      const struct pz_run_plan_options *options, struct pz_run_plan *run);

/* Returns whether an argument, given without its dashes, is read. */
bool pz_megatron_reads(const char *name);

/* Returns the changes to the arguments of a run that make it another plan of the same model,
 * devices and batch, for example "--micro-batch-size 2; remove --sequence-parallel", or "" if the
 * plans are the same. */
const char *pz_megatron_describe_changes(struct pz_call *call, const struct pz_run_plan *run,
                                         const struct pz_plan *to);

#endif
