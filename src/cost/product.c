#include "cost/product.h"

#include "core/num.h"

/* Values of an operand stay exact in doubles (2^53), and tiles, of which there are no more than
 * multiplications, stay within an int64_t.  2^62 multiplications are the 2^63 FLOP a graph counts.
 */
static const double MOST_VALUES = 0x1p53, MOST_MACS = 0x1p62;

enum pz_status pz_product_check(const struct pz_product *p, struct pz_error *err) {
  const int64_t v[] = {p->batch, p->m, p->n, p->k};
  static const char *const name[] = {"batch", "m", "n", "k"};
  for (int i = 0; i < 4; i++)
    if (v[i] < 1 || v[i] > 1LL << 40)
      return pz_fail(err, PZ_BAD_INPUT, "product: %s is %lld; accepted: 1 to 2^40", name[i],
                     (long long)v[i]);
  double b = (double)p->batch, m = (double)p->m, n = (double)p->n, k = (double)p->k;
  double values = b * pz_fmax(m * n, pz_fmax(m * k, n * k)), macs = b * m * n * k;
  if (values > MOST_VALUES)
    return pz_fail(err, PZ_BAD_INPUT,
                   "product: an operand has %.4g values; accepted: at most 2^53 (%.4g)", values,
                   MOST_VALUES);
  if (macs > MOST_MACS)
    return pz_fail(err, PZ_BAD_INPUT,
                   "product: %.4g multiplications; accepted: at most 2^62 (%.4g)", macs, MOST_MACS);
  return PZ_OK;
}

const char *pz_dim_name(enum pz_dim d) {
  static const char *const name[] = {"m", "n", "k"};
  return (size_t)d < PZ_DIMS ? name[d] : "unknown";
}

const char *pz_stationary_name(enum pz_stationary s) {
  static const char *const name[] = {"results", "weights", "inputs"};
  return (size_t)s < PZ_STATIONARITIES ? name[s] : "unknown";
}
