#include "report/ratios.h"

#include <math.h>

void pz_ratios_print(const struct pz_ratios *r, FILE *out) {
  fprintf(out, "geometric mean over %u models; median %.2f, from %.2f for %s to %.2f for %s",
          r->n_models, r->median, r->least, r->least_model, r->most, r->most_model);
}

void pz_ratio_cell(struct pz_table *t, double samples_per_s, double ratio) {
  if (!(samples_per_s > 0))
    pz_table_cell(t, "no fit");
  else
    pz_table_known(t, !isnan(ratio), "%.2fx", ratio);
}
