/* Readers of runs of other frameworks than Megatron-LM: torchtitan's job configuration in TOML,
 * alone or in a script that writes it, and programs for NeMo's Megatron Bridge.  Arguments of
 * Megatron-DeepSpeed are read together with those of Megatron-LM (megatron_args.h).  The second
 * half declares what several readers share. */
#ifndef PZ_LAUNCH_RUN_READERS_H
#define PZ_LAUNCH_RUN_READERS_H

#include "plan/plan_file.h"

/* Returns whether a text is torchtitan's configuration, or a script that writes one. */
bool pz_torchtitan_is(const char *name, const char *text, size_t bytes);

/* Read a run, with the same parameters and errors as pz_megatron_read(). */
void pz_torchtitan_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                        const struct pz_run_plan_options *options, struct pz_run_plan *run);
void pz_bridge_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                    const struct pz_run_plan_options *options, struct pz_run_plan *run);

/* Returns the first occurrence of a word in a text, or NULL. */
const char *pz_find_text(const char *text, size_t bytes, const char *word);

/* A file that a shell script writes: cat > NAME <<'EOF' ... EOF. */
struct pz_document {
  const char *text;
  size_t bytes;
  uint32_t line; /* line of the script on which the document begins */
};

/* Finds the first file that a script writes whose name has this ending; returns false for none. */
bool pz_script_document(const char *text, size_t bytes, const char *ending,
                        struct pz_document *out);

/* Sets the chunks of a plan, and the layers of the first and the last chunk, so that its n chunks
 * have these numbers of layers.  Returns false if the number of stages does not divide n, or if the
 * chunks between the first and the last one do not share their layers as evenly as possible. */
bool pz_plan_divide_layers(struct pz_plan *plan, const int64_t *layers, uint32_t n);

/* Replaces moment_bytes, which must not be 0, by 0 (the framework's default) if it equals this
 * default, which depends on whether the model has experts. */
void pz_plan_settle_moments(struct pz_plan *plan, bool experts);

#endif
