/* phaze compare: the searched chip beside every baseline, under one cost model. */
#include <stdlib.h>

#include "cli/study_options.h"
#include "report/compared.h"

struct settings {
  struct pz_common common;
  struct pz_study_settings study;
  int64_t seed;
};

static const struct settings defaults = {.study = PZ_STUDY_SETTINGS_DEFAULT, .seed = 1};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_STUDY_OPTIONS(struct settings, study),
    {.name = "seed", .type = PZ_OPTION_INT, .offset = AT(seed), .arg = "N", .min = 0, .max = 1e15,
     .help = "Of the baselines that draw at random"},
};
/* clang-format on */

struct job {
  const struct settings *s;
  struct pz_study study;
  struct pz_progress progress;
  struct pz_vec list; /* struct pz_compared */
  struct pz_error *err;
};

static enum pz_status add(struct job *j, struct pz_compared *c, double since_s) {
  c->seconds = pz_clock_s() - since_s;
  return pz_vec_push(&j->list, c) ? PZ_OK
                                  : pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the rows");
}

static enum pz_status run_search(struct job *j, uint32_t contest) {
  struct pz_compared c = {0};
  double since = pz_clock_s();
  enum pz_status status = pz_study_contest(&j->study, contest, j->err);
  if (status != PZ_OK) return status;
  pz_compared_search(&j->study, contest, &c);
  return add(j, &c, since);
}

static enum pz_status run_baseline(struct job *j, const struct pz_baseline *b, uint32_t contest) {
  struct pz_compared_task t = {&j->study, b, contest, (uint64_t)j->s->seed, NULL};
  struct pz_compared c = {0};
  double since = pz_clock_s();
  enum pz_status status = pz_compared_baseline(&t, &c, j->err);
  if (status != PZ_OK) return status;
  return add(j, &c, since);
}

/* The search comes first, because a baseline may ask how much it looked at; it is shown last. */
static enum pz_status run_contest(struct job *j, uint32_t contest) {
  uint32_t first = j->list.n;
  enum pz_status status = run_search(j, contest);
  for (size_t i = 0; pz_baseline_at(i) && status == PZ_OK; i++)
    status = run_baseline(j, pz_baseline_at(i), contest);
  if (status != PZ_OK) return status;
  struct pz_compared *list = j->list.items, own = list[first];
  for (uint32_t i = first; i + 1 < j->list.n; i++) list[i] = list[i + 1];
  list[j->list.n - 1] = own;
  return PZ_OK;
}

static enum pz_status run_all(struct job *j) {
  struct pz_search_options o = {0};
  enum pz_status status = pz_study_prepare(&j->study, &o, j->err);
  enum pz_progress_style style =
      j->s->common.quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr);
  pz_progress_start(&j->progress, stderr, style, "comparing", "contests", j->study.n_contests);
  for (uint32_t i = 0; i < j->study.n_contests && status == PZ_OK; i++) {
    pz_progress_update(&j->progress, i, pz_study_contest_name(&j->study, i));
    status = run_contest(j, i);
  }
  pz_progress_finish(&j->progress, NULL);
  return status;
}

static enum pz_status tell(struct job *j) {
  json_t *result = pz_compared_json(&j->study, j->list.items, j->list.n);
  if (!result) return pz_fail(j->err, PZ_NO_MEMORY, "out of memory for the result");
  if (j->s->common.json) return pz_command_json(result, j->err);
  enum pz_status status = pz_compared_print(result, &j->study.arena, stdout);
  json_decref(result);
  return status;
}

static enum pz_status compare(const struct settings *s, char **models, int n,
                              struct pz_error *err) {
  struct pz_study_options o;
  struct job j = {.s = s, .err = err};
  enum pz_status status = pz_study_read(&s->study, models, n, &o, err);
  if (status == PZ_OK) status = pz_study_init(&j.study, &o, (unsigned)s->study.threads, err);
  if (status != PZ_OK) return status;
  pz_vec_init(&j.list, &j.study.arena, sizeof(struct pz_compared));
  status = run_all(&j);
  if (status == PZ_OK) status = tell(&j);
  pz_study_release(&j.study);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_error err = {0};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_compare, argc, argv, &s, &n_args, &code)) return code;
  if (n_args < 1) return pz_command_misuse(&pz_cmd_compare, "wants one or more MODELs");
  return compare(&s, argv + 1, n_args, &err) == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

const struct pz_command pz_cmd_compare = {
    .name = "compare",
    .synopsis = "MODEL... [--space SPACE] [--budget CHIP|MM2] [--devices N] [--batch B] [--seed N]",
    .summary = "The searched chip beside every baseline, under one cost model",
    .detail =
        "Ways to choose a chip and plans: tpuv4 and tpuv4-real (with the real chip's vector\n"
        "units), each with the expert's plan and with the best one; spotlight, which looks for\n"
        "the chip alone; original, the original system's walk over areas; random; and the\n"
        "search.  For each model alone, and for one chip common to all.\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
