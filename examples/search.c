/* The best chip of a design space for two models, with progress, and cancelled after so many
 * reports if a number is given.
 *
 *     cc examples/search.c $(pkg-config --cflags --libs phaze) -o search
 *     ./search            to the end
 *     ./search 3          cancelled at the third report
 */
#include <inttypes.h>
#include <phaze/phaze.h>
#include <stdio.h>
#include <stdlib.h>

struct watcher {
  long reports, most; /* most 0: never cancelled */
};

/* Returning false cancels the search. */
static bool progress(void *ctx, const struct pz_progress_state *s) {
  struct watcher *w = ctx;
  fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " %s\n", s->phase, s->done, s->total, s->unit);
  return !w->most || ++w->reports < w->most;
}

static void tell(const struct pz_result *r) {
  const struct pz_answer *best = &r->answers[r->n_answers - 1];
  printf("%s: %.4g times the reference, %.1f mm2, %.0f GiB\n", pz_chip_name(best->chip),
         best->objective, best->area_mm2, best->hbm_gib);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_answer_model *m = &best->models[i];
    printf("  %s: %.4g samples/s, %u stages x %" PRId64 " replicas\n", m->model, m->samples_per_s,
           m->plan->pp, m->plan->dp);
  }
  printf("%" PRId64 " of %" PRId64 " chips evaluated; no chip is more than %.2g%% better\n",
         best->certificate.n_evaluated, best->certificate.n_chips, 100 * best->certificate.gap);
}

int main(int argc, char **argv) {
  struct pz_error err = {0};
  struct watcher watcher = {0, argc > 1 ? strtol(argv[1], NULL, 10) : 0};
  struct pz_study_options study = pz_study_options_default();
  struct pz_run_options options = pz_run_options_default();
  struct pz_run *run = NULL;
  study.models[0] = "bert-base";
  study.models[1] = "gpt2";
  study.n_models = 2;
  study.budget = "12"; /* mm2 */
  study.devices = 64;
  study.batch = 256;
  options.progress = progress;
  options.ctx = &watcher;
  enum pz_status status = pz_run_open(&study, &options, &run, &err);
  if (status == PZ_OK) status = pz_run_search(run, &err);
  if (status == PZ_OK)
    tell(pz_run_result(run));
  else
    fprintf(stderr, "%s\n", err.message);
  pz_run_close(run);
  if (status == PZ_STOPPED) return 130;
  return status == PZ_OK ? 0 : 2;
}
