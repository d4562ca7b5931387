#include "place/part_rates.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"

/* A product of a shape, so many times in a part. */
struct product_use {
  uint32_t product;
  int part;
  double times;
};

struct net_entry {
  uint64_t key;
  double *s; /* of collectives, by shape and part */
};

/* Of every shape and part of its plans. */
static double *new_numbers(struct pz_part_tables *t) {
  return pz_arena_alloc(t->arena, t->space->shapes.n, PZ_PART_NUMBERS * sizeof(double));
}

static void add_whole(const struct pz_step_shape *x, double *v) {
  for (int p = 0; p < PZ_PART_SEND; p++) v[PZ_PART_WHOLE] += pz_part_layers(x, p) * v[p];
}

/* ---- products ------------------------------------------------------------------------------- */

/* Products are few: shapes with as many tokens on a device have the same. */
static enum pz_status add_op_product(void *ctx, const struct pz_op *op, int part, double times) {
  struct pz_part_tables *t = ctx;
  if (!pz_part_has_product(op)) return PZ_OK;
  struct pz_product p = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  const int64_t key[] = {p.batch, p.m, p.n, p.k};
  uint32_t at = pz_map_get(&t->product_at, key, sizeof key);
  if (at == PZ_NONE) {
    at = t->products.n;
    if (!pz_vec_push(&t->products, &p) || pz_map_put(&t->product_at, key, sizeof key, at) != PZ_OK)
      return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  }
  struct product_use one = {at, part, times};
  if (!pz_vec_push(&t->uses, &one))
    return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  return PZ_OK;
}

static enum pz_status find_products(struct pz_part_tables *t) {
  uint32_t n = t->space->shapes.n;
  enum pz_status status = PZ_OK;
  t->first_use = pz_arena_alloc(t->arena, n + 1, sizeof *t->first_use);
  if (!t->first_use) return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    status = pz_part_ops(pz_vec_at(&t->space->shapes, struct pz_step_shape, i),
                         t->space->q->plan.saved, add_op_product, t, t->space->err);
    t->first_use[i + 1] = t->uses.n;
  }
  t->product_number = pz_arena_alloc(t->arena, t->products.n, sizeof(double));
  t->sums = new_numbers(t);
  return t->product_number && t->sums
             ? status
             : pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
}

static enum pz_status map_products(struct pz_part_tables *t, const struct pz_chip *c) {
  for (uint32_t i = 0; i < t->products.n; i++) {
    const struct pz_product *p = pz_vec_at(&t->products, struct pz_product, i);
    enum pz_status status = pz_product_core_s(p, c, &t->product_number[i], t->space->err);
    if (status != PZ_OK) return status;
    t->product_number[i] *= c->clock_hz;
  }
  return PZ_OK;
}

/* The numbers of products at hand, summed by shape and part. */
static void add_products(const struct pz_part_tables *t, double *out) {
  for (uint32_t i = 0; i < t->space->shapes.n; i++) {
    double *one = out + (size_t)i * PZ_PART_NUMBERS;
    for (uint32_t k = t->first_use[i]; k < t->first_use[i + 1]; k++) {
      const struct product_use *u = pz_vec_at(&t->uses, struct product_use, k);
      one[u->part] += u->times * t->product_number[u->product];
    }
    add_whole(pz_vec_at(&t->space->shapes, struct pz_step_shape, i), one);
  }
}

static enum pz_status sum_cycles(struct pz_part_tables *t, const struct pz_chip *c, const void *key,
                                 size_t key_bytes, const double **out) {
  size_t bytes = (size_t)t->space->shapes.n * PZ_PART_NUMBERS * sizeof(double);
  memset(t->sums, 0, bytes);
  enum pz_status status = map_products(t, c);
  if (status != PZ_OK) return status;
  add_products(t, t->sums);
  *out = pz_shared_table_put(t->space->q->shared, key, key_bytes, t->sums, bytes);
  if (*out) return PZ_OK;
  double *own = new_numbers(t);
  if (!own) return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  memcpy(own, t->sums, bytes);
  return *out = own, PZ_OK;
}

/* On one core with its part of the global buffer's rate: several cores take no less of all their cycles together. */
static enum pz_status array_cycles(struct pz_part_tables *t, const struct pz_chip *chip,
                                   const double **out) {
  struct pz_chip c = *chip;
  c.rules.nested_mapping = false;
  c.tensor.cores = 1;
  c.tensor.local_bytes_per_s = c.tensor.local_total_bytes_per_s = 0;
  c.clock_hz = 1e9;
  c.glb_bytes_per_s = chip->glb_bytes_per_s / (double)chip->tensor.cores / chip->clock_hz * 1e9;
  c.glb_bytes = INT64_C(1) << 40;
  c.hbm.bytes_per_s_per_stack = 1e18;
  const double key[] = {PZ_SHARED_CYCLES,
                        t->space->q->shared_as,
                        (double)chip->tensor.rows,
                        (double)chip->tensor.cols,
                        (double)chip->tensor.local_bytes,
                        (double)chip->tensor.register_bytes,
                        c.glb_bytes_per_s,
                        chip->rules.fill,
                        chip->rules.duplex,
                        chip->rules.partitioned,
                        chip->rules.double_buffer,
                        (double)chip->rules.operand_bytes,
                        (double)chip->rules.sum_bytes};
  uint32_t at = pz_map_get(&t->array_at, key, sizeof key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&t->arrays, const double *, at), PZ_OK;
  const double *cycles = pz_shared_table_get(t->space->q->shared, key, sizeof key);
  enum pz_status status = cycles ? PZ_OK : sum_cycles(t, &c, key, sizeof key, &cycles);
  if (status != PZ_OK) return status;
  at = t->arrays.n;
  if (!pz_vec_push(&t->arrays, &cycles) || pz_map_put(&t->array_at, key, sizeof key, at) != PZ_OK)
    return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  return *out = cycles, PZ_OK;
}

enum pz_status pz_part_traffic(struct pz_part_tables *t, const struct pz_chip *c,
                               const double **out) {
  const int64_t key[] = {c->tensor.rows, c->tensor.cols, c->glb_bytes};
  uint32_t at = pz_map_get(&t->traffic_at, key, sizeof key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&t->traffic, double *, at), PZ_OK;
  double *bytes = new_numbers(t);
  if (!bytes) return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < t->products.n; i++) {
    const struct pz_product *p = pz_vec_at(&t->products, struct pz_product, i);
    enum pz_status status =
        pz_product_times_hbm_bytes(t->times, p, c, &t->product_number[i], t->space->err);
    if (status != PZ_OK) return status;
  }
  add_products(t, bytes);
  at = t->traffic.n;
  if (!pz_vec_push(&t->traffic, &bytes) || pz_map_put(&t->traffic_at, key, sizeof key, at) != PZ_OK)
    return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  return *out = bytes, PZ_OK;
}

/* ---- collectives ---------------------------------------------------------------------------- */

static double shown_s(const struct pz_layer_step *l) {
  return l->forward.collectives_s + l->backward.collectives_s + l->forward.expert_s +
         l->backward.expert_s;
}

/* Collectives that show on a chip beside whose attention everything hides that can. */
static enum pz_status shape_collectives(struct pz_part_tables *t, struct pz_step_shape *x,
                                        const struct pz_cluster *net, double *out) {
  struct pz_plan p = pz_step_shape_plan(t->space->q, x);
  struct pz_chip slow = *t->space->q->job.chip;
  slow.clock_hz = 1;
  slow.rules.nested_mapping = false;
  slow.hbm.bytes_per_s_per_stack = slow.glb_bytes_per_s = 1;
  p.recompute = PZ_RECOMPUTATION_FULL;
  x->timed_for = 0;
  enum pz_status status = pz_step_model_set_chip(x->m, &slow, net, &p, t->times, t->space->err);
  if (status == PZ_OK) status = pz_step_model_time(x->m, &p, 2, t->space->err);
  if (status != PZ_OK) return status;
  const struct pz_model_steps *m = &x->m->steps;
  for (uint32_t k = 0; k < x->m->kinds.n; k++) {
    out[k] = shown_s(&m->block[k]);
    out[PZ_PART_KINDS + k] = pz_fmax(0, shown_s(&m->again[k]) - out[k]);
  }
  out[PZ_PART_ENDS] = shown_s(&m->before);
  out[PZ_PART_ENDS + 1] = shown_s(&m->after);
  add_whole(x, out);
  return PZ_OK;
}

static uint64_t net_key(const struct pz_cluster *net) {
  double v[2 * PZ_CLUSTER_MOST_LEVELS] = {0};
  for (int l = 0; l < net->n_levels; l++) {
    v[2 * l] = (double)net->level[l].devices;
    v[2 * l + 1] = net->level[l].bytes_per_s;
  }
  return pz_hash(v, sizeof v);
}

static enum pz_status net_collectives(struct pz_part_tables *t, const struct pz_cluster *net,
                                      const double **out) {
  struct net_entry one = {net_key(net), NULL};
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < t->nets.n; i++) {
    const struct net_entry *e = pz_vec_at(&t->nets, struct net_entry, i);
    if (e->key == one.key) return *out = e->s, PZ_OK;
  }
  one.s = new_numbers(t);
  if (!one.s) return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < t->space->shapes.n && status == PZ_OK; i++)
    status = shape_collectives(t, pz_vec_at(&t->space->shapes, struct pz_step_shape, i), net,
                               one.s + (size_t)i * PZ_PART_NUMBERS);
  if (status == PZ_OK && !pz_vec_push(&t->nets, &one))
    status = pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  if (status == PZ_OK) *out = one.s;
  return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

enum pz_status pz_part_rates_of(struct pz_part_tables *t, const struct pz_chip *c,
                                const struct pz_cluster *net, struct pz_part_rates *r) {
  *r = (struct pz_part_rates){.cycle = 1 / ((double)c->tensor.cores * c->clock_hz),
                              .flop = 1 / pz_chip_tensor_flop_per_s(c),
                              .op = 1 / pz_chip_vector_op_per_s(c),
                              .byte = 1 / pz_chip_hbm_bytes_per_s(c)};
  enum pz_status status = array_cycles(t, c, &r->cycles);
  return status == PZ_OK ? net_collectives(t, net, &r->collectives) : status;
}

static enum pz_status find_work(struct pz_part_tables *t) {
  uint32_t n = t->space->shapes.n;
  t->work = pz_arena_alloc(t->arena, n, PZ_PART_NUMBERS * sizeof *t->work);
  t->share = pz_arena_alloc(t->arena, n, sizeof *t->share);
  if (!t->work || !t->share)
    return pz_fail(t->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < n; i++) {
    struct pz_step_shape *x = pz_vec_at(&t->space->shapes, struct pz_step_shape, i);
    enum pz_status status = pz_step_shape_open(t->space->q, x, t->space->err);
    if (status != PZ_OK) return status;
    if (x->m->kinds.n > PZ_PART_KINDS)
      return pz_fail(t->space->err, PZ_LIMIT, "%u kinds of layers; accepted: at most %d",
                     x->m->kinds.n, PZ_PART_KINDS);
    t->share[i] = pz_step_shape_share(t->space->q, x);
    status = pz_part_work_of(t->space->q, x, t->work + (size_t)i * PZ_PART_NUMBERS, t->space->err);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

void pz_part_tables_init(struct pz_part_tables *t, struct pz_plan_space *space,
                         struct pz_arena *arena) {
  *t = (struct pz_part_tables){.space = space, .arena = arena};
  pz_map_init(&t->product_at, arena);
  pz_map_init(&t->array_at, arena);
  pz_map_init(&t->traffic_at, arena);
  pz_vec_init(&t->products, arena, sizeof(struct pz_product));
  pz_vec_init(&t->uses, arena, sizeof(struct product_use));
  pz_vec_init(&t->arrays, arena, sizeof(const double *));
  pz_vec_init(&t->traffic, arena, sizeof(double *));
  pz_vec_init(&t->nets, arena, sizeof(struct net_entry));
}

void pz_part_tables_release(struct pz_part_tables *t) { pz_product_times_free(t->times); }

enum pz_status pz_part_tables_begin(struct pz_part_tables *t) {
  enum pz_status status = pz_product_times_new(t->space->q->shared, &t->times, t->space->err);
  if (status == PZ_OK) status = find_work(t);
  return status == PZ_OK ? find_products(t) : status;
}
