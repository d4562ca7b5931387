/* A Megatron-LM run from its arguments: a launch script as people run pretrain_gpt.py, or a plain list of arguments.
 * Names and defaults are those of Megatron-LM's megatron/training/arguments.py (core 0.15); devices are torchrun's nodes and
 * processes, or Slurm's.
 *
 * Arguments that shape the step and are not covered (windows, other optimizers ...) are errors by name; what does not shape it
 * is passed over.  Words that can only be meant for an argument that matters are errors with its name; others that are not
 * known are listed.  Dense models of two shapes: GPT (gelu, LayerNorm) and Llama (swiglu, RMSNorm), with experts those of
 * Mixtral, Qwen3 and DeepSeek-V3. */
#ifndef PZ_LAUNCH_MEGATRON_ARGS_H
#define PZ_LAUNCH_MEGATRON_ARGS_H

#include "plan/plan_file.h"

/* PZ_BAD_INPUT says what is missing, not covered or wrong, with its line.  The arena holds all. */
PZ_NODISCARD enum pz_status pz_megatron_read(const char *name, const char *text, size_t bytes,
                                             const struct pz_run_plan_options *o,
                                             struct pz_arena *arena, struct pz_run_plan *out,
                                             struct pz_error *err);

/* Is an argument, without its dashes, read? */
bool pz_megatron_reads(const char *name);

/* What to change in the arguments of a run to get another plan of the same model, devices and batch:
 * "--micro-batch-size 2", "remove --sequence-parallel"; "" where they are the same. */
PZ_NODISCARD enum pz_status pz_megatron_changes(const struct pz_run_plan *m,
                                                const struct pz_plan *to, struct pz_arena *arena,
                                                const char **text, struct pz_error *err);

#endif
