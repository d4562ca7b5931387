#include "report/ratios.h"

#include <math.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "report/result.h"

struct ratio {
  double v;
  size_t at; /* in the list of models */
};

static int by_size(const void *a, const void *b) {
  const struct ratio *x = a, *y = b;
  if (x->v != y->v) return x->v < y->v ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

static json_t *one_json(const json_t *models, const struct ratio *r) {
  return json_pack("{s:s,s:f}", "model", pz_result_text(json_array_get(models, r->at), "model"),
                   "ratio", r->v);
}

json_t *pz_ratios_json(const json_t *models) {
  size_t all = json_array_size(models), n = 0;
  struct ratio *list = pz_calloc(all + 1, sizeof *list);
  double logs = 0;
  if (!list) return NULL;
  for (size_t i = 0; i < all; i++) {
    double v = pz_result_number(json_array_get(models, i), "ratio_to_reference");
    if (!(v > 0)) continue;
    list[n++] = (struct ratio){v, i};
    logs += log(v);
  }
  qsort(list, n, sizeof *list, by_size);
  size_t last = n ? n - 1 : 0, most = last;
  while (most > 0 && list[most - 1].v == list[last].v) most--;
  json_t *out =
      n < 2 ? json_null()
            : json_pack("{s:I,s:f,s:f,s:o,s:o}", "models", (json_int_t)n, "geometric_mean",
                        exp(logs / (double)n), "median", (list[last / 2].v + list[n / 2].v) / 2,
                        "least", one_json(models, &list[0]), "most", one_json(models, &list[most]));
  pz_free(list);
  return out;
}

void pz_ratios_print(const json_t *ratios, FILE *out) {
  const json_t *least = pz_result_at(ratios, "least"), *most = pz_result_at(ratios, "most");
  fprintf(out, "geometric mean over %.0f models; median %.2f, from %.2f for %s to %.2f for %s",
          pz_result_number(ratios, "models"), pz_result_number(ratios, "median"),
          pz_result_number(least, "ratio"), pz_result_text(least, "model"),
          pz_result_number(most, "ratio"), pz_result_text(most, "model"));
}
