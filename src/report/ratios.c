/* Prints throughput ratios as a sentence and as a table cell. */
#include "report/ratios.h"

#include <math.h>

/* Prints the mean, the median and the range of throughput ratios in a sentence. */
void pz_ratios_print(const struct pz_ratios *ratios, FILE *out) {
  fprintf(out, "geometric mean over %u models; median %.2f, from %.2f for %s to %.2f for %s",
          ratios->n_models, ratios->median, ratios->least, ratios->least_model, ratios->most,
          ratios->most_model);
}

/* Adds a ratio, "no fit" without throughput, or "-" without a reference. */
void pz_ratio_cell(struct pz_table *table, double samples_per_s, double ratio) {
  if (!(samples_per_s > 0))
    pz_table_cell(table, "no fit");
  else
    pz_table_known(table, !isnan(ratio), "%.2fx", ratio);
}
