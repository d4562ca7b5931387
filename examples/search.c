/* The best chip of a design space for two models, with progress, and cancelled after so many
 * reports if a number is given.  In a directory it is kept, compared with other ways to choose,
 * reported as a page, and verified; and shown under the original system's assumptions.
 *
 *     cc examples/search.c $(pkg-config --cflags --libs phaze) -o search
 *     ./search            to the end
 *     ./search 3          cancelled at the third report
 *     ./search 0 DIR      a space of 72 chips, kept in DIR
 */
#include <inttypes.h>
#include <phaze/phaze.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char small[] =
    "{\"name\": \"small\", \"about\": \"a quarter of a TPU v4 and less\", \"base\": \"tpuv4\","
    " \"tensor_cores\": [1, 2, 4], \"rows\": [64, 128], \"cols\": [64, 128],"
    " \"vector_cores\": [1, 2, 4], \"glb_mib\": [4, 16], \"least_part\": 0}";

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

/* The chip of each way to choose, and the report. */
static enum pz_status compare(struct pz_run *run, struct pz_error *err) {
  char *page = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_run_compare(run, NULL, err);
  if (status == PZ_OK) status = pz_run_detail(run, err);
  const struct pz_result *r = pz_run_result(run);
  if (status == PZ_OK) status = pz_result_text(r, PZ_RESULT_PAGE, &page, &bytes, err);
  if (status != PZ_OK) return status;
  const struct pz_comparison_run *common = &r->comparison->runs[r->comparison->n_runs - 1];
  for (uint32_t i = 0; i < common->n_methods; i++)
    if (common->methods[i].chip)
      printf("  %s: %s, %.4g\n", common->methods[i].name, common->methods[i].chip,
             common->methods[i].objective);
  printf("report: %zu bytes\n", bytes);
  pz_text_free(page);
  return status;
}

static void say(void *ctx, bool holds, const char *text) {
  (void)ctx;
  fprintf(stderr, "%s: %s\n", holds ? "holds" : "DOES NOT HOLD", text);
}

static enum pz_status verify(const char *dir, struct pz_error *err) {
  struct pz_verify_options o = pz_verify_options_default();
  bool holds = false;
  o.say = say;
  enum pz_status status = pz_verify(dir, &o, &holds, err);
  if (status == PZ_OK) printf("verified: %s\n", holds ? "every check holds" : "not all hold");
  return status;
}

static enum pz_status original(const struct pz_study_options *study, struct pz_error *err) {
  struct pz_original *found = malloc(sizeof *found);
  enum pz_status status =
      found ? pz_original_run(study, false, 0, NULL, NULL, found, err) : PZ_NO_MEMORY;
  if (status == PZ_OK)
    printf("original assumptions: %u searches, the last has %.4g samples/s of %s\n", found->n_rows,
           found->rows[found->n_rows - 1].samples_per_s[0], found->models[0]);
  free(found);
  return status;
}

/* What the design space is. */
static enum pz_status describe(const char *budget, struct pz_error *err) {
  struct pz_space *space = NULL;
  char *text = NULL;
  enum pz_status status = pz_space_open_text("small", small, strlen(small), &space, err);
  if (status == PZ_OK) status = pz_space_describe(space, budget, &text, err);
  if (status == PZ_OK) printf("space: %.60s ...\n", text);
  pz_text_free(text);
  pz_space_close(space);
  return status;
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
  options.dir = argc > 2 ? argv[2] : NULL;
  options.progress = progress;
  options.ctx = &watcher;
  if (options.dir) {
    study.space_text = small;
    study.evaluator = PZ_EVALUATOR_ORIGINAL;
    study.budget = "60";
  }
  enum pz_status status = options.dir ? describe(study.budget, &err) : PZ_OK;
  if (status == PZ_OK) status = pz_run_open(&study, &options, &run, &err);
  if (status == PZ_OK) status = pz_run_search(run, &err);
  if (status == PZ_OK) tell(pz_run_result(run));
  if (status == PZ_OK && options.dir) status = compare(run, &err);
  pz_run_close(run);
  if (status == PZ_OK && options.dir) status = verify(options.dir, &err);
  if (status == PZ_OK && options.dir) status = original(&study, &err);
  if (status != PZ_OK) fprintf(stderr, "%s\n", err.message);
  if (status == PZ_STOPPED) return 130;
  return status == PZ_OK ? 0 : 2;
}
