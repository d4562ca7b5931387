/* Rental prices of chips: CSV with the columns chip and dollars_per_device_hour, and optionally
 * source, which is not read. */
#ifndef PZ_CHIP_PRICE_TABLE_H
#define PZ_CHIP_PRICE_TABLE_H

#include "core/vec.h"
#include "phaze/phaze.h"

enum { PZ_PRICES_MOST_ROWS = 1024 };

struct pz_price {
  const char *chip; /* a preset, or one of the chips in question as it is written there */
  double dollars_per_device_hour;
};

struct pz_price_table {
  const struct pz_price *rows;
  uint32_t n_rows;
};

/* Reads a price table, where `name` stands for it in messages.  `chips` lists names and files that
 * rows may have in addition to presets, separated by commas, or NULL if none.  Raises PZ_BAD_INPUT
 * for unknown columns and chips, a chip with two rows, and invalid prices. */
struct pz_price_table pz_price_table_read(struct pz_call *call, const char *name, const char *text,
                                          size_t bytes, const char *chips);

/* Returns the price of a device for an hour in dollars, or 0 if the chip is not in the table. */
double pz_price_of(const struct pz_price_table *table, const char *chip);

#endif
