/* The best plan of a training run, proved: told how far the search is, and cancelled after the given number of
 * reports; then where its fields come from, its pipeline as a trace, and its launch script.
 *
 *     cc examples/choose.c $(pkg-config --cflags --libs phaze) -o choose
 *     ./choose llama3-8b h100 64 > launch.sh
 */
#include <phaze/phaze.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool told(void *ctx, const struct pz_progress_state *state) {
  int *left = ctx;
  if (state->ended)
    fprintf(stderr, "%s: %llu %s\n", state->phase, (unsigned long long)state->done, state->unit);
  return *left < 0 || (*left)-- > 0;
}

/* Where the fields of the plan come from, and the constant that counts most. */
static enum pz_status explain(const char *model, const struct pz_chip *chip,
                              const struct pz_cluster *net, const struct pz_plan *plan,
                              struct pz_error *err) {
  struct pz_explanation *e = NULL;
  enum pz_status status = pz_training_explain(model, chip, net, plan, &e, err);
  if (status != PZ_OK) return status;
  const struct pz_constant_effect *most = NULL;
  for (uint32_t i = 0; i < e->n_fields; i++)
    if (strcmp(e->fields[i].name, "tp") == 0)
      fprintf(stderr, "tp %s: %s\n", e->fields[i].value, e->fields[i].from);
  for (uint32_t i = 0; i < e->n_constants; i++)
    if (!most || e->constants[i].step_change > most->step_change) most = &e->constants[i];
  if (most)
    fprintf(stderr, "%s a tenth larger: step %+.2f%% (%s)\n", most->name, 100 * most->step_change,
            most->part);
  pz_explanation_free(e);
  return PZ_OK;
}

static enum pz_status tell(const char *model, const struct pz_chip *chip,
                           const struct pz_cluster *net, const struct pz_training_plans *found,
                           struct pz_error *err) {
  const struct pz_training_run *best = found->runs[0];
  char line[PZ_PLAN_LINE_MOST], *trace = NULL, *script = NULL;
  fprintf(stderr, "%.4g s per step: %s\n", best->p.step_s,
          pz_plan_line(&best->plan, true, line, sizeof line));
  fprintf(stderr, "layers: %s; recompute: %s\n", best->layers_text, best->recompute_text);
  fprintf(stderr, "%llu plans, %llu simulated, gap %g\n",
          (unsigned long long)found->certificate.plans,
          (unsigned long long)found->certificate.solved, found->certificate.gap);
  enum pz_status status = explain(model, chip, net, &best->plan, err);
  if (status == PZ_OK) status = pz_training_run_trace(best, model, &trace, err);
  if (status == PZ_OK) fprintf(stderr, "trace: %zu bytes\n", strlen(trace));
  if (status == PZ_OK) status = pz_launch_text(model, chip, net, &best->plan, &script, err);
  if (status == PZ_OK) fputs(script, stdout);
  pz_text_free(trace);
  pz_text_free(script);
  return status;
}

int main(int argc, char **argv) {
  const char *model = argc > 1 ? argv[1] : "llama3-8b";
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_training_plans *found = NULL;
  struct pz_network at;
  struct pz_chip *chip = NULL;
  struct pz_error err = {0};
  int left = argc > 4 ? atoi(argv[4]) : -1;
  o.plan.devices = argc > 3 ? atoll(argv[3]) : 64;
  o.plan.batch = 8 * o.plan.devices;
  o.plan.framework = pz_framework_find("megatron");
  o.tie = 0.01;
  o.events = true;
  o.progress = told;
  o.ctx = &left;
  enum pz_status status = pz_chip_load(argc > 2 ? argv[2] : "h100", &chip, &err);
  if (status == PZ_OK) status = pz_network_find(chip, NULL, o.plan.devices, "devices", &at, &err);
  const struct pz_cluster *net = status == PZ_OK && !at.own_link ? &at.cluster : NULL;
  if (status == PZ_OK) status = pz_launch_check(model, chip, o.plan.framework, &err);
  if (status == PZ_OK) status = pz_training_place(model, chip, net, &o, &found, &err);
  if (status == PZ_OK && !found->n)
    status = pz_training_nothing_fits(model, chip, net, &o, false, found, &err);
  if (status == PZ_OK) status = tell(model, chip, net, found, &err);
  pz_training_plans_free(found);
  pz_chip_free(chip);
  if (status == PZ_OK) return 0;
  fprintf(stderr, "%s\n", err.message);
  return status == PZ_STOPPED ? 130 : status == PZ_NO_ANSWER ? 1 : 2;
}
