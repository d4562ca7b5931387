/* Reading rental prices of chips from CSV. */
#include "chip/chip.h"

#include <string.h>

#include "core/csv.h"
#include "core/text.h"

static const char *const columns[] = {"chip", "dollars_per_device_hour", "source"};
enum { CHIP, DOLLARS, SOURCE, N_COLUMNS };

/* Returns the dollars of a device for an hour, or 0 for a chip without a row. */
double pz_price_of(const struct pz_price_table *table, const char *chip) {
  for (uint32_t i = 0; i < table->n_rows; i++)
    if (pz_text_same(table->rows[i].chip, chip)) return table->rows[i].dollars_per_device_hour;
  return 0;
}

/* Reads a table of rental prices from CSV.  Raises PZ_BAD_INPUT unless each row has a known chip, which
 * no row before it has, and a price above 0. */
struct pz_price_table pz_price_table_read(struct pz_call *call, const char *name, const char *text,
                                          size_t bytes, const char *chips) {
  if (bytes > PZ_PRICES_MOST_BYTES)
    pz_raise(call, PZ_BAD_INPUT, "%s: %zu bytes; accepted: at most %d", name, bytes,
             PZ_PRICES_MOST_BYTES);
  const struct pz_csv *csv = pz_csv_read(call, name, text, bytes);
  for (uint32_t i = 0; i < csv->columns; i++) {
    int k = 0;
    while (k < N_COLUMNS && strcmp(csv->cells[i], columns[k]) != 0) k++;
    if (k == N_COLUMNS)
      pz_raise(call, PZ_BAD_INPUT,
               "%s:1: unknown column '%.40s'; accepted: chip, dollars_per_device_hour, source",
               name, csv->cells[i]);
  }
  for (int k = CHIP; k <= DOLLARS; k++)
    if (pz_csv_column(csv, columns[k]) == PZ_NONE)
      pz_raise(call, PZ_BAD_INPUT, "%s:1: no column '%s'", name, columns[k]);
  if (csv->rows > PZ_PRICES_MOST_ROWS)
    pz_raise(call, PZ_BAD_INPUT, "%s: %u rows; accepted: at most %d", name, csv->rows,
             PZ_PRICES_MOST_ROWS);
  struct pz_price *rows = pz_alloc(call, csv->rows, sizeof *rows);
  struct pz_price_table table = {.rows = rows};
  uint32_t chip_column = pz_csv_column(csv, columns[CHIP]);
  uint32_t dollars_column = pz_csv_column(csv, columns[DOLLARS]);
  for (uint32_t row = 0; row < csv->rows; row++) {
    struct pz_price price = {.chip = pz_csv_cell(csv, row, chip_column)};
    uint32_t line = csv->lines[row];
    /* `chips` is a list like "a.json,b", or NULL. */
    bool is_known = pz_chip_preset_text(price.chip) != NULL;
    const char *word = chips;
    while (word && !is_known) {
      is_known = pz_text_is(word, strcspn(word, ","), price.chip);
      word = strchr(word, ',');
      if (word) word++;
    }
    if (!is_known)
      pz_raise(call, PZ_BAD_INPUT,
               "%s:%u: unknown chip '%.100s'; accepted: a name listed by 'phaze chips', or a "
               "chip of the comparison",
               name, line, price.chip);
    if (pz_price_of(&table, price.chip) > 0)
      pz_raise(call, PZ_BAD_INPUT,
               "%s:%u: a second price of %.100s; accepted: one row for each chip", name, line,
               price.chip);
    price.dollars_per_device_hour = pz_csv_real(call, name, csv, row, dollars_column, 1e9);
    if (!(price.dollars_per_device_hour > 0))
      pz_raise(call, PZ_BAD_INPUT, "%s:%u: no price of %.100s; accepted: dollars above 0", name,
               line, price.chip);
    rows[table.n_rows] = price;
    table.n_rows++;
  }
  return table;
}
