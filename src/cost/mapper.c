#include "cost/mapper.h"

#include <float.h>

#include "core/num.h"
#include "cost/mapping_cost.h"
#include "cost/mapping_search.h"

/* ---- products ----------------------------------------------------------------------------------- */

/* Values of an operand stay exact in doubles (2^53), and tiles, of which there are no more than
 * multiplications, stay within an int64_t.  2^62 multiplications are the 2^63 FLOP a graph counts.
 */
static const double MOST_VALUES = 0x1p53, MOST_MACS = 0x1p62;

static enum pz_status check_product(const struct pz_product *p, struct pz_error *err) {
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

/* ---- the tile in the global buffer, and its stationary operand: traffic with HBM ---------------- */

struct glb_mapping {
  double bytes, s; /* of HBM; DBL_MAX where nothing fits */
  int u, v;        /* tiles of the two dimensions of the stationary operand; the third is whole */
  enum pz_stationary stationary;
};

/* Between HBM and the global buffer steps are tiles. */
static struct glb_mapping mapping_at(const struct pz_mapspace *m, enum pz_stationary s, int u,
                                     int v) {
  enum pz_dim first = pz_stationary_first(s), second = pz_stationary_second(s);
  double tiles[PZ_DIMS] = {1, 1, 1};
  tiles[first] = m->glb_tile[first].tiles[u];
  tiles[second] = m->glb_tile[second].tiles[v];
  struct pz_traffic t = pz_boundary_traffic(m, tiles, 1, m->operand_bytes);
  return (struct glb_mapping){t.reads + t.writes, pz_hbm_s(m, t), u, v, s};
}

/* The fastest with a buffer of so many bytes (limit_s < 0), or the one with the least traffic that
 * takes no longer than limit_s.  For each size of the one dimension the largest of the other that fits is
 * the best. */
static struct glb_mapping best_glb_mapping(const struct pz_mapspace *m, double glb_bytes,
                                           double limit_s) {
  struct glb_mapping best = {.bytes = DBL_MAX, .s = DBL_MAX};
  for (enum pz_stationary s = 0; s < PZ_STATIONARITIES; s++) {
    const struct pz_tile_sizes *tu = &m->glb_tile[pz_stationary_first(s)],
                               *tv = &m->glb_tile[pz_stationary_second(s)];
    for (int u = 0, v = tv->n - 1; u < tu->n; u++) {
      while (v >= 0 && !pz_mapspace_fits(m, s, tu->size[u], tv->size[v], glb_bytes, false)) v--;
      if (v < 0) break;
      struct glb_mapping g = mapping_at(m, s, u, v);
      if (limit_s < 0 ? g.s < best.s : g.s <= limit_s && g.bytes < best.bytes) best = g;
    }
  }
  return best;
}

/* ---- a mapping in full -------------------------------------------------------------------------- */

static enum pz_bound bound_of(const struct pz_mapping *o) {
  double worst = pz_fmax(pz_fmax(o->compute_s, o->hbm_s), pz_fmax(o->glb_s, o->local_s));
  if (o->startup_s > worst) return PZ_BOUND_STARTUP;
  if (o->compute_s >= worst) return PZ_BOUND_COMPUTE;
  if (o->hbm_s >= worst) return PZ_BOUND_HBM;
  return o->glb_s >= worst ? PZ_BOUND_GLB : PZ_BOUND_LOCAL;
}

static void describe_core(const struct pz_mapspace *m, const struct pz_mapping_search *b,
                          struct pz_mapping *o) {
  const struct pz_spatial *p = &b->spatial;
  struct pz_traffic local = pz_mapping_local_traffic(m, p, b->at),
                    glb = pz_mapping_glb_traffic(m, b->at);
  double items = pz_mapping_items(m, b->at);
  double rounds = m->nested ? b->nested.rounds : pz_mapping_rounds(m, items);
  for (int d = 0; d < PZ_DIMS; d++) o->tile[d] = (int64_t)m->tile[d].size[b->at[d]];
  o->items = (int64_t)items;
  o->rounds = (int64_t)rounds;
  o->along_rows = pz_spatial_way[p->way].rows;
  o->along_cols = pz_spatial_way[p->way].cols;
  o->keep_rows = (int64_t)p->keep_rows;
  o->keep_cols = (int64_t)p->keep_cols;
  o->local_stationary =
      m->nested && b->nested.in_step ? b->nested.stationary : pz_mapspace_stationary(m, b->at);
  o->compute_s = pz_mapping_compute_s(m, b->at, pz_mapping_cycles(m, p->way, b->at), rounds);
  o->local_s = pz_local_s(m, local, items, rounds);
  o->local_bytes = local.reads + local.writes;
  o->glb_bytes = glb.reads + glb.writes;
  o->glb_s = pz_traffic_s(m, glb, m->glb);
}

static void describe_glb(const struct pz_mapspace *m, const struct glb_mapping *g,
                         struct pz_mapping *o) {
  enum pz_dim first = pz_stationary_first(g->stationary),
              second = pz_stationary_second(g->stationary);
  for (int d = 0; d < PZ_DIMS; d++) o->glb_tile[d] = (int64_t)m->size[d];
  o->glb_tile[first] = (int64_t)m->glb_tile[first].size[g->u];
  o->glb_tile[second] = (int64_t)m->glb_tile[second].size[g->v];
  o->glb_stationary = g->stationary;
  o->glb_batch = 1;
  o->hbm_bytes = g->bytes;
  o->hbm_s = g->s;
}

static void describe_nested(const struct pz_mapspace *m, const struct pz_mapping_search *b,
                            struct pz_mapping *o) {
  const struct pz_nested_mapping *g = &b->nested;
  for (int d = 0; d < PZ_DIMS; d++) {
    double size = g->per[d] * m->tile[d].size[b->at[d]];
    bool slices = g->in_step && d != (int)pz_stationary_first(g->stationary) &&
                  d != (int)pz_stationary_second(g->stationary);
    o->glb_tile[d] = (int64_t)pz_fmin(m->size[d], slices ? pz_fmin(size, m->slice) : size);
  }
  o->glb_stationary = g->stationary;
  o->glb_batch = (int64_t)g->batch;
  o->hbm_bytes = g->hbm_bytes;
  o->hbm_s = g->hbm_s;
}

static void conclude(const struct pz_mapspace *m, struct pz_mapping *o) {
  o->startup_s = m->startup_s;
  double work = pz_fmax(pz_fmax(o->compute_s, o->hbm_s), pz_fmax(o->glb_s, o->local_s));
  o->latency_s = m->startup_s + work;
  o->energy_j = m->macs * m->tech->mac_j + o->local_bytes * m->tech->local_j +
                o->glb_bytes * m->tech->glb_j + o->hbm_bytes * m->tech->hbm_j;
  o->utilisation = 2 * m->macs / (pz_chip_tensor_flop_per_s(m->chip) * o->latency_s);
  o->bound = bound_of(o);
}

static enum pz_status no_tile(const struct pz_chip *c, struct pz_error *err) {
  return pz_fail(err, PZ_BAD_INPUT,
                 "chip %s: no tile fits its buffers of %lld bytes in a core and %lld in all; "
                 "accepted: at least %lld and %lld",
                 c->name, (long long)c->tensor.local_bytes, (long long)c->glb_bytes,
                 (long long)pz_chip_least_local_bytes(c), (long long)pz_chip_least_glb_bytes(c));
}

double pz_cold_part(const struct pz_chip *c, double bytes) {
  const struct pz_calibration *w = &c->calibration;
  if (bytes <= w->warm_from_bytes) return 0;
  return bytes >= w->warm_to_bytes
             ? 1
             : (bytes - w->warm_from_bytes) / (w->warm_to_bytes - w->warm_from_bytes);
}

static double cold_part(const struct pz_mapspace *m, const struct pz_product *p) {
  return p->warm ? pz_cold_part(m->chip, m->operand_bytes * (m->inputs + m->weights + m->results))
                 : 1;
}

enum pz_status pz_map_product(const struct pz_product *p, const struct pz_chip *c,
                              struct pz_mapping *out, struct pz_error *err) {
  enum pz_status status = check_product(p, err);
  if (status != PZ_OK) return status;
  struct pz_mapspace m;
  pz_mapspace_init(&m, p, c);
  double cold = m.cold = cold_part(&m, p);
  double hbm_s = best_glb_mapping(&m, (double)c->glb_bytes, -1).s * cold;
  m.nested = c->rules.nested_mapping && !c->calibration.n_tiles;
  struct pz_mapping_search b;
  pz_mapping_fastest(&m, hbm_s, &b);
  if (b.core_s == DBL_MAX || hbm_s == DBL_MAX) return no_tile(c, err);
  /* the two passes add the same numbers in different order */
  b.core_s = pz_fmax(b.core_s, hbm_s) * (1 + 1e-12);
  struct glb_mapping glb =
      best_glb_mapping(&m, (double)c->glb_bytes, cold > 0 ? b.core_s / cold : DBL_MAX);
  glb.s *= cold;
  glb.bytes *= cold;
  if (m.nested) b.least_hbm_bytes = glb.bytes;
  pz_mapping_cheapest(&m, &b);
  struct pz_mapping o = {0};
  describe_core(&m, &b, &o);
  m.nested ? describe_nested(&m, &b, &o) : describe_glb(&m, &glb, &o);
  o.least_hbm_s = hbm_s;
  conclude(&m, &o);
  *out = o;
  return PZ_OK;
}

enum pz_status pz_map_sweep(const struct pz_product *p, const struct pz_chip *c,
                            const struct pz_sweep *sweep, double *core_s, double *hbm_s,
                            double *startup_s, struct pz_error *err) {
  enum pz_status status = check_product(p, err);
  if (status != PZ_OK) return status;
  struct pz_mapspace m;
  pz_mapspace_init(&m, p, c);
  double cold = cold_part(&m, p);
  for (size_t j = 0; j < sweep->n_glb; j++) {
    double s = best_glb_mapping(&m, (double)sweep->glb_bytes[j], -1).s;
    if (s == DBL_MAX) return no_tile(c, err);
    hbm_s[j] = s * cold;
  }
  for (size_t i = 0; i < sweep->n_cores; i++) {
    struct pz_mapping_search b;
    pz_mapspace_set_cores(&m, (double)sweep->cores[i]);
    pz_mapping_fastest(&m, 0, &b);
    if (b.core_s == DBL_MAX) return no_tile(c, err); /* for the first count or for none */
    core_s[i] = b.core_s;
  }
  *startup_s = m.startup_s;
  return PZ_OK;
}

const char *pz_bound_name(enum pz_bound b) {
  static const char *const name[] = {"compute", "hbm", "glb", "local", "startup", "link"};
  return (size_t)b < PZ_BOUNDS ? name[b] : "unknown";
}

const char *pz_dim_name(enum pz_dim d) {
  static const char *const name[] = {"m", "n", "k"};
  return (size_t)d < PZ_DIMS ? name[d] : "unknown";
}

const char *pz_stationary_name(enum pz_stationary s) {
  static const char *const name[] = {"results", "weights", "inputs"};
  return (size_t)s < PZ_STATIONARITIES ? name[s] : "unknown";
}
