/* What would make a training run faster: one of Megatron-LM's launch scripts, a plan file, or a plan made here.
 *
 *     cc examples/tune.c $(pkg-config --cflags --libs phaze) -o tune
 *     ./tune h100 dgx-h100 pretrain_llama.sh
 */
#include <phaze/phaze.h>
#include <stdio.h>
#include <stdlib.h>

/* A file as text, the caller's to free; NULL: it cannot be read. */
static char *read_file(const char *path, size_t *bytes) {
  FILE *in = fopen(path, "rb");
  char *text = in ? malloc(PZ_PLAN_FILE_MOST_BYTES) : NULL;
  *bytes = text ? fread(text, 1, PZ_PLAN_FILE_MOST_BYTES, in) : 0;
  if (in) fclose(in);
  return text;
}

static void tell(const struct pz_plan_tuning *t) {
  for (uint32_t i = 0; i < t->n_fields; i++)
    if (t->fields[i].shown)
      printf("%-12s %-12s %s\n", t->fields[i].name, t->fields[i].value, t->fields[i].from);
  printf("\n%.4g s per step, %.1f GB: %s\n", t->own.p.step_s, t->own.p.peak_bytes / 1e9,
         t->fits ? "fits" : "does not fit");
  if (t->has_best)
    printf("best plan: %.4g s (%+.1f%%): %s\n", t->best.p.step_s, -100 * t->best.gain,
           t->best.megatron ? t->best.megatron : t->best.options);
  for (uint32_t i = 0; i < t->n_changes && i < 3; i++)
    printf("change: %.4g s (%+.1f%%): %s\n", t->changes[i].p.step_s, -100 * t->changes[i].gain,
           t->changes[i].megatron ? t->changes[i].megatron : t->changes[i].options);
}

int main(int argc, char **argv) {
  struct pz_run_plan own = pz_run_plan_default(), *read = NULL;
  struct pz_run_plan_options options = pz_run_plan_options_default();
  struct pz_plan_tuning *found = NULL;
  struct pz_chip *chip = NULL;
  struct pz_cluster net;
  struct pz_error err = {0};
  char *plan_file = NULL;
  own.model = "llama2-7b";
  own.plan.devices = 64;
  own.plan.batch = 512;
  enum pz_status status = pz_plan_set(&own.plan, "tp", "8", &err);
  options.vocab = 32000;
  if (status == PZ_OK) status = pz_chip_load(argc > 1 ? argv[1] : "h100", &chip, &err);
  if (status == PZ_OK) status = pz_cluster_load(argc > 2 ? argv[2] : "dgx-h100", &net, &err);
  if (status == PZ_OK && argc > 3) {
    size_t bytes;
    char *text = read_file(argv[3], &bytes);
    if (!text) return fprintf(stderr, "%s cannot be read\n", argv[3]), 2;
    status = pz_run_plan_read(argv[3], text, bytes, &options, &read, &err);
    free(text);
  }
  if (status == PZ_OK) status = pz_plan_tune(read ? read : &own, chip, &net, NULL, &found, &err);
  if (status == PZ_OK) tell(found);
  if (status == PZ_OK) status = pz_run_plan_text(read ? read : &own, &plan_file, &err);
  if (status == PZ_OK) printf("\nas a plan file:\n%s", plan_file);
  if (status != PZ_OK) fprintf(stderr, "%s\n", err.message);
  pz_text_free(plan_file);
  pz_plan_tuning_free(found);
  pz_run_plan_free(read);
  pz_chip_free(chip);
  return status == PZ_OK ? 0 : 2;
}
