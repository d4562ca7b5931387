#include "cost/product_times.h"

#include <string.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/mapper.h"

enum { MOST_KEPT = 1 << 21, MOST_MAPPINGS = 1 << 19 };

/* Of this clock and this memory what is kept is stated. */
static const double CLOCK_HZ = 1e9, HBM_BYTES_PER_S = 1e12;

struct pz_product_times {
  const struct pz_shared_table *shared;
  struct pz_arena arena;
  struct pz_map cores, hbm, nested;
  struct pz_vec seconds;  /* double */
  struct pz_vec mappings; /* struct pz_mapping: nested ones */
};

static void begin(struct pz_product_times *t) {
  pz_arena_init(&t->arena, NULL);
  pz_map_init(&t->cores, &t->arena);
  pz_map_init(&t->hbm, &t->arena);
  pz_map_init(&t->nested, &t->arena);
  pz_vec_init(&t->seconds, &t->arena, sizeof(double));
  pz_vec_init(&t->mappings, &t->arena, sizeof(struct pz_mapping));
}

enum pz_status pz_product_times_new(const struct pz_shared_table *shared,
                                    struct pz_product_times **out, struct pz_error *err) {
  struct pz_product_times *t = pz_calloc(1, sizeof *t);
  if (!t) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the times of products");
  t->shared = shared;
  begin(t);
  *out = t;
  return PZ_OK;
}

void pz_product_times_free(struct pz_product_times *t) {
  if (t) pz_arena_release(&t->arena);
  pz_free(t);
}

/* What both parts depend on. */
static int64_t rules_key(const struct pz_chip *c) {
  const struct pz_rules *r = &c->rules;
  return r->fill | r->duplex << 1 | r->partitioned << 2 | r->double_buffer << 3 |
         r->operand_bytes << 8 | r->sum_bytes << 16;
}

static int64_t bits_of(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* What the cores depend on beside the clock. */
enum { KEY = 14 };
static void core_key(const struct pz_product *p, const struct pz_chip *c, int64_t key[KEY]) {
  const struct pz_tensor_cores *x = &c->tensor;
  const int64_t sizes[] = {p->batch,          p->m,        p->n,     p->k,
                           x->rows,           x->cols,     x->cores, x->local_bytes,
                           x->register_bytes, rules_key(c)};
  memcpy(key, sizes, sizeof sizes);
  key[10] = bits_of(c->glb_bytes_per_s);
  key[11] = bits_of(x->local_bytes_per_s);
  key[12] = bits_of(x->local_total_bytes_per_s);
  key[13] = bits_of(c->calibration.tensor_efficiency);
}

static enum pz_status keep(struct pz_product_times *t, struct pz_map *map, const void *key,
                           size_t bytes, double s, struct pz_error *err) {
  uint32_t at = t->seconds.n;
  if (!pz_vec_push(&t->seconds, &s) || pz_map_put(map, key, bytes, at) != PZ_OK)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the times of products");
  return PZ_OK;
}

enum pz_status pz_product_core_s(const struct pz_product *p, const struct pz_chip *c, double *out,
                                 struct pz_error *err) {
  struct pz_sweep sweep = {.cores = &c->tensor.cores, .n_cores = 1};
  double startup_s;
  return pz_map_sweep(p, c, &sweep, out, NULL, &startup_s, err);
}

/* Seconds on the cores with a clock of CLOCK_HZ; buffers keep their bytes of a cycle. */
static enum pz_status core_s(struct pz_product_times *t, const struct pz_product *p,
                             const struct pz_chip *c, double *out, struct pz_error *err) {
  double slower = CLOCK_HZ / c->clock_hz;
  struct pz_chip one = *c;
  one.clock_hz = CLOCK_HZ;
  one.glb_bytes_per_s *= slower;
  one.tensor.local_bytes_per_s *= slower;
  one.tensor.local_total_bytes_per_s *= slower;
  int64_t key[KEY];
  core_key(p, &one, key);
  uint32_t at = pz_map_get(&t->cores, key, sizeof key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&t->seconds, double, at), PZ_OK;
  enum pz_status status = pz_product_core_s(p, &one, out, err);
  return status == PZ_OK ? keep(t, &t->cores, key, sizeof key, *out, err) : status;
}

/* Seconds at a memory of HBM_BYTES_PER_S. */
static enum pz_status hbm_s(struct pz_product_times *t, const struct pz_product *p,
                            const struct pz_chip *c, double *out, struct pz_error *err) {
  const int64_t key[] = {p->batch,
                         p->m,
                         p->n,
                         p->k,
                         c->tensor.rows,
                         c->tensor.cols,
                         c->glb_bytes,
                         rules_key(c),
                         bits_of(c->calibration.hbm_read_efficiency),
                         bits_of(c->calibration.hbm_write_efficiency)};
  uint32_t at = pz_map_get(&t->hbm, key, sizeof key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&t->seconds, double, at), PZ_OK;
  struct pz_chip one = *c;
  one.hbm.stacks = 1;
  one.hbm.bytes_per_s_per_stack = HBM_BYTES_PER_S;
  struct pz_sweep sweep = {.glb_bytes = &one.glb_bytes, .n_glb = 1};
  double startup_s;
  enum pz_status status = pz_map_sweep(p, &one, &sweep, NULL, out, &startup_s, err);
  return status == PZ_OK ? keep(t, &t->hbm, key, sizeof key, *out, err) : status;
}

/* All of a chip decides about a nested mapping. */
static enum pz_status nested_mapping(struct pz_product_times *t, const struct pz_product *p,
                                     const struct pz_chip *c, struct pz_mapping *out,
                                     struct pz_error *err) {
  int64_t key[8 + KEY] = {PZ_SHARED_MAPPING,
                          p->warm,
                          c->glb_bytes,
                          (int64_t)c->tech,
                          bits_of(c->clock_hz),
                          bits_of(pz_chip_hbm_bytes_per_s(c)),
                          bits_of(c->calibration.hbm_read_efficiency),
                          bits_of(c->calibration.hbm_write_efficiency)};
  core_key(p, c, key + 8);
  uint32_t at = pz_map_get(&t->nested, key, sizeof key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&t->mappings, struct pz_mapping, at), PZ_OK;
  const struct pz_mapping *known = pz_shared_table_get(t->shared, key, sizeof key);
  enum pz_status status = PZ_OK;
  if (known)
    *out = *known;
  else
    status = pz_map_product(p, c, out, err);
  if (status != PZ_OK) return status;
  if (!known) pz_shared_table_put(t->shared, key, sizeof key, out, sizeof *out);
  at = t->mappings.n;
  if (!pz_vec_push(&t->mappings, out) || pz_map_put(&t->nested, key, sizeof key, at) != PZ_OK)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the times of products");
  return PZ_OK;
}

enum pz_status pz_product_times_get(struct pz_product_times *t, const struct pz_product *p,
                                    const struct pz_chip *c, struct pz_mapping *out,
                                    struct pz_error *err) {
  struct pz_mapping o = {0};
  if (t->seconds.n > MOST_KEPT || t->mappings.n > MOST_MAPPINGS) {
    pz_arena_release(&t->arena);
    begin(t);
  }
  if (c->rules.nested_mapping) return nested_mapping(t, p, c, out, err);
  enum pz_status status = core_s(t, p, c, &o.compute_s, err);
  if (status == PZ_OK) status = hbm_s(t, p, c, &o.hbm_s, err);
  if (status != PZ_OK) return status;
  o.compute_s *= CLOCK_HZ / c->clock_hz;
  o.hbm_s *= HBM_BYTES_PER_S / pz_chip_hbm_bytes_per_s(c);
  o.least_hbm_s = o.hbm_s;
  o.startup_s = p->batch > 1 ? c->calibration.batched_startup_s : c->calibration.startup_s;
  o.latency_s = o.startup_s + pz_fmax(o.compute_s, o.hbm_s);
  o.bound = o.hbm_s > o.compute_s ? PZ_BOUND_HBM : PZ_BOUND_COMPUTE;
  *out = o;
  return PZ_OK;
}

enum pz_status pz_product_times_hbm_bytes(struct pz_product_times *t, const struct pz_product *p,
                                          const struct pz_chip *c, double *out,
                                          struct pz_error *err) {
  enum pz_status status = hbm_s(t, p, c, out, err);
  return *out *= HBM_BYTES_PER_S, status;
}
