#include "chip/price_table.h"

#include <string.h>

#include "core/csv.h"
#include "core/status.h"
#include "core/text.h"

static const char *const heads[] = {"chip", "dollars_per_device_hour", "source"};
enum { CHIP, DOLLARS, SOURCE, HEADS };

double pz_price_of(const struct pz_price_table *t, const char *chip) {
  for (uint32_t i = 0; i < t->n_rows; i++)
    if (pz_text_same(t->rows[i].chip, chip)) return t->rows[i].dollars_per_device_hour;
  return 0;
}

static bool is_listed(const char *chips, const char *chip) {
  for (const char *at = chips; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (pz_text_is(at, strcspn(at, ","), chip)) return true;
  }
  return false;
}

static enum pz_status check_heads(const char *name, const struct pz_csv *csv,
                                  struct pz_error *err) {
  for (uint32_t i = 0; i < csv->columns; i++) {
    int k = 0;
    while (k < HEADS && strcmp(csv->cells[i], heads[k]) != 0) k++;
    if (k == HEADS)
      return pz_fail(
          err, PZ_BAD_INPUT,
          "%s:1: unknown column '%.40s'; accepted: chip, dollars_per_device_hour, source", name,
          csv->cells[i]);
  }
  for (int k = CHIP; k <= DOLLARS; k++)
    if (pz_csv_column(csv, heads[k]) == PZ_NONE)
      return pz_fail(err, PZ_BAD_INPUT, "%s:1: no column '%s'", name, heads[k]);
  if (csv->rows > PZ_PRICES_MOST_ROWS)
    return pz_fail(err, PZ_BAD_INPUT, "%s: %u rows; accepted: at most %d", name, csv->rows,
                   PZ_PRICES_MOST_ROWS);
  return PZ_OK;
}

enum pz_status pz_price_table_read(const char *name, const char *text, size_t bytes,
                                   const char *chips, struct pz_arena *arena,
                                   struct pz_price_table *out, struct pz_error *err) {
  struct pz_csv csv;
  if (bytes > PZ_PRICES_MOST_BYTES)
    return pz_fail(err, PZ_BAD_INPUT, "%s: %zu bytes; accepted: at most %d", name, bytes,
                   PZ_PRICES_MOST_BYTES);
  enum pz_status status = pz_csv_parse(name, text, bytes, arena, &csv, err);
  if (status == PZ_OK) status = check_heads(name, &csv, err);
  if (status != PZ_OK) return status;
  struct pz_price *rows = pz_arena_alloc(arena, csv.rows, sizeof *rows);
  if (!rows) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prices");
  struct pz_price_table t = {.rows = rows};
  uint32_t chip = pz_csv_column(&csv, heads[CHIP]), dollars = pz_csv_column(&csv, heads[DOLLARS]);
  for (uint32_t r = 0; r < csv.rows && status == PZ_OK; r++) {
    struct pz_price one = {.chip = pz_csv_cell(&csv, r, chip)};
    if (!pz_chip_preset_text(one.chip) && !is_listed(chips, one.chip))
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s:%u: unknown chip '%.100s'; accepted: a name listed by 'phaze chips', or a "
                     "chip of the comparison",
                     name, csv.lines[r], one.chip);
    if (pz_price_of(&t, one.chip) > 0)
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s:%u: a second price of %.100s; accepted: one row for each chip", name,
                     csv.lines[r], one.chip);
    status = pz_csv_number(name, &csv, r, dollars, 1e9, &one.dollars_per_device_hour, err);
    if (status == PZ_OK && !(one.dollars_per_device_hour > 0))
      status = pz_fail(err, PZ_BAD_INPUT, "%s:%u: no price of %.100s; accepted: dollars above 0",
                       name, csv.lines[r], one.chip);
    rows[t.n_rows++] = one;
  }
  if (status == PZ_OK) *out = t;
  return status;
}
