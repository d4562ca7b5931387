/* Readers of runs in the form of frameworks other than Megatron-LM: torchtitan's job configuration in TOML, alone or in a
 * script that writes it, and a program for NeMo's Megatron Bridge.  Arguments of DeepSpeed's Megatron are read together with
 * Megatron-LM's (megatron_args.h).  Also what several readers share. */
#ifndef PZ_LAUNCH_RUN_READERS_H
#define PZ_LAUNCH_RUN_READERS_H

#include "plan/plan_file.h"

bool pz_torchtitan_is(const char *name, const char *text, size_t bytes);
bool pz_bridge_is(const char *text, size_t bytes);

/* Like pz_megatron_read(). */
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
  uint32_t line; /* of the script, on which the document begins */
};

/* Finds the first such file whose name has this ending.  Returns false if there is none. */
bool pz_script_document(const char *text, size_t bytes, const char *ending,
                        struct pz_document *out);

/* Sets the chunks of a plan, and the layers of its first and last chunk, so that its n chunks have these numbers of layers.
 * Returns false if the number of stages does not divide that of the chunks, or if the layers between the ends are not
 * divided as evenly as possible. */
bool pz_plan_divide_layers(struct pz_plan *plan, const int64_t *layers, uint32_t n);

/* Sets moment_bytes to 0 if the plan's framework uses that type by default.  A value of 0 stands for fp32 here. */
void pz_plan_settle_moments(struct pz_plan *plan, bool experts);

#endif
