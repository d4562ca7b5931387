/* How well does the H200's calibration carry over to operators it was not fitted to?  The measured
 * rows are halved at random; all fitted constants start 15% off, are refitted on one half by
 * coordinate search, and judged on the other. Columns: seed, rows and mean error of the fit and of
 * the judgement, for products and for vector operators. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/random.h"
#include "cost/ops_table.h"

enum { MOST_ROWS = 512, MOST_CONSTANTS = 64 };

struct rows {
  char *line[MOST_ROWS];
  double us[MOST_ROWS];
  bool vector[MOST_ROWS], counted[MOST_ROWS], held[MOST_ROWS];
  int n;
  const char *head;
};

struct constants {
  double *at[MOST_CONSTANTS];
  int n;
};

static uint64_t seed;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

/* Lines of the table, with their measured time and what they count as. */
static void read_rows(char *text, struct rows *r) {
  static const char *const others[] = {"flash_causal", "transpose_copy", "embedding",
                                       "cross_entropy"};
  r->head = strtok(text, "\n");
  for (char *line = strtok(NULL, "\n"); line && r->n < MOST_ROWS; line = strtok(NULL, "\n")) {
    char op[32];
    int i = r->n++;
    r->line[i] = line;
    r->counted[i] = true;
    if (sscanf(line, "%31[^,],%*d,%*d,%*d,%*d,%*[^,],%*f,%lf", op, &r->us[i]) != 2) exit(1);
    for (int k = 0; k < 4; k++)
      if (strcmp(op, others[k]) == 0) r->counted[i] = false;
    r->vector[i] = strcmp(op, "gemm") != 0 && strncmp(op, "bmm", 3) != 0;
  }
}

/* Mean error over the rows of one kind on one side of the split. */
static double mean_error(const struct pz_chip *chip, const struct rows *r, bool vector, bool held,
                         int *n) {
  struct pz_arena arena;
  struct pz_cost cost;
  struct pz_csv csv;
  struct pz_error err = {0};
  const double *us = NULL;
  static char text[1 << 17];
  size_t used = (size_t)snprintf(text, sizeof text, "%s\n", r->head);
  double sum = 0;
  *n = 0;
  for (int i = 0; i < r->n; i++)
    if (r->counted[i] && r->vector[i] == vector && r->held[i] == held)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s\n", r->line[i]);
  pz_arena_init(&arena, NULL);
  pz_cost_init(&cost, chip, NULL);
  if (pz_csv_parse("rows", text, used, &arena, &csv, &err) != PZ_OK ||
      pz_ops_predict(&cost, "rows", &csv, &arena, &us, &err) != PZ_OK)
    exit(1);
  for (int i = 0; i < r->n; i++)
    if (r->counted[i] && r->vector[i] == vector && r->held[i] == held) {
      sum += fabs(us[*n] / r->us[i] - 1);
      (*n)++;
    }
  pz_cost_release(&cost);
  pz_arena_release(&arena);
  return sum / *n;
}

static void add(struct constants *c, double *v) {
  if (*v > 0 && c->n < MOST_CONSTANTS) c->at[c->n++] = v;
}

/* What was fitted: of products, or of vector operators. */
static void collect(struct pz_chip *chip, bool vector, struct constants *c) {
  struct pz_calibration *k = &chip->calibration;
  c->n = 0;
  if (!vector) {
    double *v[] = {
        &k->startup_s,           &k->batched_startup_s,    &k->tile_value_s, &k->tensor_efficiency,
        &k->hbm_read_efficiency, &k->hbm_write_efficiency, &k->boost_s,      &k->even_rows};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) add(c, v[i]);
    return;
  }
  for (int i = 0; i < k->n_kernels; i++) {
    struct pz_kernel *q = &k->kernels[i];
    double *v[] = {&q->startup_s, &q->cycles,         &q->hbm_efficiency, &q->value_latency_s,
                   &q->row_s,     &q->long_row_again, &q->block_row_s,    &q->block_value_s};
    for (size_t f = 0; f < sizeof v / sizeof *v; f++) add(c, v[f]);
  }
}

static void fit(struct pz_chip *chip, const struct rows *r, bool vector) {
  struct constants c;
  int n;
  collect(chip, vector, &c);
  for (int i = 0; i < c.n; i++) *c.at[i] *= draw(2) ? 1.15 : 0.85;
  double best = mean_error(chip, r, vector, false, &n);
  double step = 0.16;
  for (int halving = 0; halving < 6; halving++, step /= 2)
    for (int round = 0; round < 4; round++)
      for (int i = 0; i < c.n; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
          double old = *c.at[i];
          *c.at[i] *= 1 + sign * step;
          double error = mean_error(chip, r, vector, false, &n);
          if (error < best)
            best = error;
          else
            *c.at[i] = old;
        }
}

int main(int argc, char **argv) {
  static struct rows r;
  const char *path = argc > 1 ? argv[1] : "tests/data/h200_ops.csv";
  char *text = NULL;
  size_t bytes = 0;
  if (pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, NULL) != PZ_OK) return 1;
  read_rows(text, &r);
  printf("seed,kind,fitted_rows,fitted_error,held_rows,held_error\n");
  for (unsigned s = 1; s <= 3; s++)
    for (int vector = 0; vector < 2; vector++) {
      struct pz_chip chip;
      int fitted, held;
      seed = s;
      if (pz_chip_load("h200", &chip, NULL) != PZ_OK) return 1;
      for (int i = 0; i < r.n; i++) r.held[i] = draw(2);
      fit(&chip, &r, vector);
      double a = mean_error(&chip, &r, vector, false, &fitted),
             b = mean_error(&chip, &r, vector, true, &held);
      printf("%u,%s,%d,%.4f,%d,%.4f\n", s, vector ? "vector" : "products", fitted, a, held, b);
      fflush(stdout);
    }
  free(text);
  return 0;
}
