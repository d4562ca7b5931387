/* Runs in the words of other frameworks than Megatron-LM, as people write them and as `--emit` does: torchtitan's job
 * configuration in TOML, alone or in a script that writes it, and a program for NeMo's Megatron Bridge.  Arguments of
 * DeepSpeed's Megatron are read with Megatron's (megatron_args.h). */
#ifndef PZ_LAUNCH_RUN_READERS_H
#define PZ_LAUNCH_RUN_READERS_H

#include "plan/plan_file.h"

/* A file that a shell script writes: cat > NAME <<'EOF' ... EOF. */
struct pz_document {
  const char *text;
  size_t bytes;
  uint32_t line; /* of the script, where it begins */
};

/* The first whose name has this ending; false: there is none. */
bool pz_script_document(const char *text, size_t bytes, const char *ending,
                        struct pz_document *out);

/* Is the text one of these? */
bool pz_torchtitan_is(const char *name, const char *text, size_t bytes);
bool pz_bridge_is(const char *text, size_t bytes);

/* As pz_megatron_read. */
PZ_NODISCARD enum pz_status pz_torchtitan_read(const char *name, const char *text, size_t bytes,
                                               const struct pz_run_plan_options *o,
                                               struct pz_arena *arena, struct pz_run_plan *out,
                                               struct pz_error *err);
PZ_NODISCARD enum pz_status pz_bridge_read(const char *name, const char *text, size_t bytes,
                                           const struct pz_run_plan_options *o,
                                           struct pz_arena *arena, struct pz_run_plan *out,
                                           struct pz_error *err);

/* Chunks, and the layers of the first and the last one, of a plan whose n chunks have so many layers each.  False: the
 * stages do not divide the chunks, or the layers between the ends are not divided as evenly as can be. */
bool pz_division_read(struct pz_plan *p, const int64_t *layers, uint32_t n);

/* Moments of Adam that were read (moment_bytes 0: in fp32) as a plan says them: 0 where its framework has the same. */
void pz_moments_settle(struct pz_plan *p, bool experts);

#endif
