/* Tables: operators on a chip beside what was measured, a chip fitted to them, their power, and training runs.
 *
 *     cc examples/tables.c $(pkg-config --cflags --libs phaze) -o tables
 *     ./tables h200 tests/data/h200_ops.csv examples/runs.csv [power.csv]
 */
#include <math.h>
#include <phaze/phaze.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_BYTES = 16 << 20 };

static char *read_file(const char *path, size_t *bytes) {
  FILE *in = fopen(path, "rb");
  char *text = in ? malloc(MOST_BYTES) : NULL;
  *bytes = text ? fread(text, 1, MOST_BYTES, in) : 0;
  if (in) fclose(in);
  return text;
}

static enum pz_status operators(const struct pz_chip *chip, const char *path,
                                struct pz_error *err) {
  struct pz_cost *cost = NULL;
  struct pz_op_times *t = NULL;
  size_t bytes;
  char *text = read_file(path, &bytes);
  double sum = 0;
  enum pz_status status = pz_cost_new(chip, NULL, &cost, err);
  if (status == PZ_OK) status = pz_cost_table(cost, path, text, bytes, &t, err);
  for (uint32_t i = 0; status == PZ_OK && i < t->n_rows; i++)
    if (t->rows[i].measured_us > 0) sum += fabs(t->rows[i].us / t->rows[i].measured_us - 1);
  if (status == PZ_OK)
    printf("%u operators on %s: mean error %.1f%%\n", t->n_rows, pz_chip_name(chip),
           100 * sum / (t->n_rows ? t->n_rows : 1));
  pz_op_times_free(t);
  pz_cost_free(cost);
  free(text);
  return status;
}

static enum pz_status calibrate(const struct pz_chip *chip, const char *path,
                                struct pz_error *err) {
  struct pz_calibrate_options o = pz_calibrate_options_default();
  struct pz_calibrated *c = NULL;
  o.ops = path;
  enum pz_status status = pz_calibrate(chip, &o, &c, err);
  if (status == PZ_OK)
    printf("fitted to %u rows: %.1f%% before, %.1f%% after; %u constants changed\n", c->all.rows,
           100 * c->all.before, 100 * c->all.after, c->n_changes);
  pz_calibrated_free(c);
  return status;
}

static enum pz_status runs(const char *path, struct pz_error *err) {
  struct pz_runs *r = NULL;
  size_t bytes, written = 0;
  char *text = read_file(path, &bytes), *csv = NULL;
  enum pz_status status = pz_runs_predict(path, text, bytes, 0, &r, err);
  if (status == PZ_OK) status = pz_runs_csv(r, &csv, &written, err);
  for (uint32_t i = 0; status == PZ_OK && i < r->n_groups; i++)
    printf("%s: %u runs, mean error %.1f%%\n", r->groups[i].name, r->groups[i].n,
           100 * r->groups[i].mean);
  if (status == PZ_OK) printf("table with predictions: %zu bytes\n", written);
  pz_text_free(csv);
  pz_runs_free(r);
  free(text);
  return status;
}

static enum pz_status power(const struct pz_chip *chip, const char *path, struct pz_error *err) {
  struct pz_power_table *t = NULL;
  size_t bytes;
  char *text = read_file(path, &bytes);
  enum pz_status status = pz_power_table(chip, path, text, bytes, &t, err);
  if (status == PZ_OK && t->n_rows)
    printf("%s: %.0f W, %.0f measured\n", t->rows[0].op, t->rows[0].called.watts, t->rows[0].watts);
  pz_power_table_free(t);
  free(text);
  return status;
}

/* The chip's bill beside what is known of its dies, and that of one with another stack of HBM. */
static enum pz_status bill(const char *name, const struct pz_chip *chip, struct pz_error *err) {
  struct pz_known known;
  struct pz_chip *more = NULL;
  double stacks;
  struct pz_bill b = pz_chip_bill(chip, PZ_BILL_LIKELY);
  enum pz_status status = pz_known_load(name, &known, err);
  if (status == PZ_OK)
    printf("%.0f mm2 (known %.0f), %.0f W; %s: %g %s\n", b.area_mm2, known.mm2, b.watts,
           pz_silicon_at(0)->name, pz_silicon_at(0)->value[2], pz_silicon_at(0)->unit);
  if (status == PZ_OK) status = pz_chip_copy(chip, &more, err);
  if (status == PZ_OK) status = pz_chip_number(more, "hbm.stacks", &stacks, err);
  if (status == PZ_OK) status = pz_chip_set_number(more, "hbm.stacks", stacks + 1, err);
  if (status == PZ_OK)
    printf("with %.0f stacks of HBM %.0f mm2\n", stacks + 1,
           pz_chip_bill(more, PZ_BILL_LIKELY).area_mm2);
  pz_chip_free(more);
  return status;
}

int main(int argc, char **argv) {
  struct pz_chip *chip = NULL;
  struct pz_error err = {0};
  if (argc < 4) return fprintf(stderr, "usage: tables CHIP OPS.csv RUNS.csv [POWER.csv]\n"), 2;
  enum pz_status status = pz_chip_load(argv[1], &chip, &err);
  if (status == PZ_OK) status = bill(argv[1], chip, &err);
  if (status == PZ_OK) status = operators(chip, argv[2], &err);
  if (status == PZ_OK) status = calibrate(chip, argv[2], &err);
  if (status == PZ_OK) status = runs(argv[3], &err);
  if (status == PZ_OK && argc > 4) status = power(chip, argv[4], &err);
  pz_chip_free(chip);
  if (status == PZ_OK) return 0;
  fprintf(stderr, "%s\n", err.message);
  return 2;
}
