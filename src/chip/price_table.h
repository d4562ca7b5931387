/* Prices of renting chips, which people keep in a table: CSV with the columns chip and dollars_per_device_hour, and where they
 * are from (source), which is not read.  A table is small: a row for each chip. */
#ifndef PZ_CHIP_PRICE_TABLE_H
#define PZ_CHIP_PRICE_TABLE_H

#include "core/vec.h"
#include "phaze/phaze.h"

enum { PZ_PRICES_MOST_ROWS = 1024 };

struct pz_price {
  const char *chip; /* a preset, or as one of the chips in question is written */
  double dollars_per_device_hour;
};

struct pz_price_table {
  const struct pz_price *rows;
  uint32_t n_rows;
};

/* Read; texts and rows live in the arena.  `chips`: names and files that rows may have beside presets, comma-separated; NULL:
 * none.  PZ_BAD_INPUT with its line for columns and chips that are not known, a chip that is there twice, and what is no
 * price. */
PZ_NODISCARD enum pz_status pz_price_table_read(const char *name, const char *text, size_t bytes,
                                                const char *chips, struct pz_arena *arena,
                                                struct pz_price_table *out, struct pz_error *err);

/* Dollars of a device for an hour; 0: the table does not have the chip. */
double pz_price_of(const struct pz_price_table *t, const char *chip);

#endif
