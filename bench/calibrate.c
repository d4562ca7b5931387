/* How well does a calibration carry over to operators it was not fitted to?  The measured rows are
 * halved at random; all fitted constants of the H200 start 15% off, are refitted on one half, and
 * judged on the other.  Columns: seed, kind, rows and mean error of the fit and of the judgement. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/num.h"
#include "cost/calibrate.h"
#include "unit/chip_borders.h"
#include "unit/core_borders.h"
#include "unit/cost_borders.h"

enum { MOST_ROWS = 1024 };

static const char *const kinds[] = {"products", "vector", "attention"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int kind_of(const struct pz_ops_row *row) {
  const char *kernel = pz_ops_kernel(row);
  if (strstr(pz_ops_name(row->op), "gemm") || (kernel && !*kernel)) return 0;
  return kernel && strncmp(kernel, "attention", 9) == 0 ? 2 : 1;
}

static uint64_t seed;

static void disturb(void *base, const struct pz_key *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double *v = (double *)((char *)base + list[i].offset);
    if (*v > 0 && *v != list[i].absent)
      *v = fmin(*v * (pz_random_lcg(&seed) % 2 ? 1.15 : 0.85), list[i].max);
  }
}

static bool judge(const char *table, const struct pz_measured *m, unsigned s) {
  static bool use[MOST_ROWS];
  static double errors[MOST_ROWS];
  struct pz_chip chip;
  struct pz_error err = {0};
  size_t n;
  seed = s;
  if (pz_test_chip_read("h200", &chip, &err) != PZ_OK) return false;
  const struct pz_key *list = pz_kernel_constants(&n);
  for (int i = 0; i < chip.calibration.n_kernels; i++)
    disturb(&chip.calibration.kernels[i], list, n);
  chip.calibration.startup_s *= 1.15;
  chip.calibration.tensor_efficiency *= 0.85;
  chip.calibration.hbm_read_efficiency *= 0.85;
  for (uint32_t i = 0; i < m->n; i++) use[i] = pz_random_lcg(&seed) % 2;
  if (pz_calibrate_fit(&chip, m, use, &err) != PZ_OK ||
      pz_calibrate_errors(&chip, m, errors, &err) != PZ_OK)
    return false;
  for (int kind = 0; kind < KINDS; kind++) {
    double sum[2] = {0};
    int rows[2] = {0};
    for (uint32_t i = 0; i < m->n; i++)
      if (kind_of(&m->rows[i]) == kind) {
        sum[use[i]] += fabs(errors[i]);
        rows[use[i]]++;
      }
    printf("%s,%u,%s,%d,%.4f,%d,%.4f\n", table, s, kinds[kind], rows[1], sum[1] / rows[1], rows[0],
           sum[0] / rows[0]);
  }
  return true;
}

static bool run(const char *path) {
  struct pz_arena arena;
  struct pz_csv csv;
  struct pz_measured m;
  char *text = NULL;
  size_t bytes = 0;
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  pz_arena_init(&arena);
  bool ok = pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, NULL) == PZ_OK &&
            pz_csv_parse(path, text, bytes, &arena, &csv, NULL) == PZ_OK &&
            pz_measured_read(path, &csv, &arena, &m, NULL) == PZ_OK && m.n <= MOST_ROWS;
  for (unsigned s = 1; s <= 3 && ok; s++) ok = judge(name, &m, s);
  pz_free(text);
  pz_arena_release(&arena);
  return ok;
}

int main(int argc, char **argv) {
  printf("table,seed,kind,fitted_rows,fitted_error,held_rows,held_error\n");
  if (argc > 1) return !run(argv[1]);
  return !(run("tests/data/h200_ops.csv") && run("tests/data/h200_ops2.csv"));
}
