/* What each constant of the model of a training run brings: the mean error over a table of runs (dense models in bf16, quality ok; of a
 * constant about experts those with experts) with the
 * constant a fifth lower, a fifth higher and at zero or one, where it does nothing.
 *     bench_terms RUNS.csv [GROUP-PREFIX-TO-LEAVE-OUT...]
 * bench/terms.csv is of all published runs on GPUs: without the groups maxtext_tpu and tpu. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "cost/constants.h"
#include "step/run_table.h"
#include "study/points.h"
#include "unit/core_borders.h"
#include "unit/step_borders.h"

struct table {
  const char *path;
  char *text;
  size_t bytes;
  char **without;
  int n_without;
};

static bool left_out(const struct table *t, const char *group) {
  for (int i = 0; i < t->n_without; i++)
    if (strncmp(group, t->without[i], strlen(t->without[i])) == 0) return true;
  return false;
}

/* Mean error and bias with these constants; false: the table cannot be read. */
static bool score(const struct table *t, const struct pz_constants *k, bool experts, double *error,
                  double *bias, int *rows) {
  struct pz_arena arena;
  struct pz_run_table runs;
  struct pz_error err = {0};
  double sum = 0, sign = 0;
  *rows = 0;
  pz_arena_init(&arena);
  bool good = try_read_runs_with(&(struct pz_run_terms){.constants = k}, t->path, t->text, t->bytes,
                                 &arena, &runs, &err) == PZ_OK;
  if (!good) fprintf(stderr, "%s\n", err.message);
  for (uint32_t i = 0; good && i < runs.n_rows; i++) {
    const struct pz_run_row *r = &runs.rows[i];
    if (!r->predicted || !(r->measured_s > 0) || strcmp(r->quality, "ok") != 0 ||
        left_out(t, r->group) ||
        !(experts ? r->p.active_params < r->p.params : pz_run_is_dense_bf16(&runs.csv, i)))
      continue;
    double e = r->p.step_s / r->measured_s - 1;
    sum += fabs(e);
    sign += e;
    ++*rows;
  }
  *error = sum / (*rows ? *rows : 1);
  *bias = sign / (*rows ? *rows : 1);
  pz_arena_release(&arena);
  return good;
}

/* What the constant is where its term does nothing: factors and efficiencies 1, others 0. */
static double neutral(const struct pz_constant_info *c) {
  static const char *const factors[] = {"lockstep", "grace_launch", "burst", "small_rate",
                                        "expert_streams"};
  bool factor = strstr(c->name, "efficiency") != NULL;
  for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
    factor |= strcmp(c->name, factors[i]) == 0;
  if (strstr(c->name, "smooth")) return 64;             /* the larger of the two */
  if (strcmp(c->name, "waiting_from") == 0) return 1e9; /* no run has so many devices */
  return factor ? 1 : 0;
}

static bool about_experts(const struct pz_constant_info *c) {
  static const char *const words[] = {"expert", "dispatch", "combine", "native"};
  bool found = false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    found |= strstr(c->source, words[i]) || strstr(c->name, words[i]);
  return found;
}

static bool line(const struct table *t, const struct pz_constant_info *c, double value) {
  struct pz_constants k = pz_constants_default;
  double error, bias;
  int rows;
  *(double *)((char *)&k + c->offset) = value;
  if (!score(t, &k, about_experts(c), &error, &bias, &rows)) return false;
  printf(",%.4f,%.4f", error, bias);
  return true;
}

int main(int argc, char **argv) {
  struct pz_error err = {0};
  if (argc < 2) return fprintf(stderr, "usage: bench_terms RUNS.csv [GROUP...]\n"), 2;
  struct table t = {.path = argv[1], .without = argv + 2, .n_without = argc - 2};
  if (pz_file_read(t.path, PZ_CSV_MOST_BYTES, &t.text, &t.bytes, &err) != PZ_OK)
    return fprintf(stderr, "%s\n", err.message), 1;
  double error, bias;
  int rows;
  bool good = score(&t, NULL, false, &error, &bias, &rows);
  printf("constant,value,unit,kind,lower_error,lower_bias,higher_error,higher_bias,off,off_error,"
         "off_bias\n");
  printf("as they are (%d runs),,,,%.4f,%.4f,%.4f,%.4f,,%.4f,%.4f\n", rows, error, bias, error,
         bias, error, bias);
  good = good && score(&t, NULL, true, &error, &bias, &rows);
  printf("as they are (%d runs with experts),,,,%.4f,%.4f,%.4f,%.4f,,%.4f,%.4f\n", rows, error,
         bias, error, bias, error, bias);
  for (size_t i = 0; good && pz_constant_at(i); i++) {
    const struct pz_constant_info *c = pz_constant_at(i);
    double v = *(const double *)((const char *)&pz_constants_default + c->offset);
    printf("%s,%g,%s,%s", c->name, v, c->unit, c->kind);
    good = line(&t, c, 0.8 * v) && line(&t, c, 1.2 * v);
    printf(",%g", neutral(c));
    good = good && line(&t, c, neutral(c));
    printf("\n");
  }
  pz_free(t.text);
  return good ? 0 : 1;
}
