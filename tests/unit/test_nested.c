/* Nested mappings: brute force over the whole mapspace, the relaxation as the bound, and a walk
 * through the loops of the mappings found. */
#include "unit/testing.h"

#include <math.h>

#include "chip/chip.h"
#include "cost/mapper.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"

/* ---- random products and chips -------------------------------------------------------------- */

static uint64_t seed = 7;

static uint64_t draw(uint64_t n) { return pz_random_lcg(&seed) % n; }

static double draw_between(double low, double high) {
  return low * pow(high / low, (double)draw(1000) / 999);
}

static int64_t draw_size(int64_t most) { return (int64_t)draw_between(1, (double)most + 0.99); }

/* The buffers of large ones are as small as their tiles allow, or a few hundred times that. */
static struct pz_chip draw_chip(bool small) {
  struct pz_chip c;
  assert_int_equal(pz_test_chip_read("tpuv4", &c, NULL), PZ_OK);
  c.tensor.cores = draw_size(small ? 12 : 4096);
  c.tensor.rows = draw_size(small ? 6 : 256);
  c.tensor.cols = draw_size(small ? 6 : 256);
  c.rules.fill = draw(2);
  c.rules.duplex = draw(2);
  c.rules.partitioned = draw(2);
  c.rules.double_buffer = draw(2);
  c.rules.nested_mapping = true; /* where the base chip has the relaxation */
  c.tensor.register_bytes = 4 << draw(4);
  double local = (double)pz_chip_least_local_bytes(&c), glb = (double)pz_chip_least_glb_bytes(&c);
  c.tensor.local_bytes = (int64_t)draw_between(local, local * (small ? 16 : 64));
  c.glb_bytes = (int64_t)draw_between(glb, glb * (small ? 100 : 1000));
  c.glb_bytes_per_s = draw_between(1e9, 1e13);
  c.hbm.bytes_per_s_per_stack = draw_between(1e8, 1e12);
  c.tech = (enum pz_tech)draw(PZ_TECHS);
  if (draw(3) == 0) c.tensor.local_bytes_per_s = draw_between(1e8, 1e13);
  if (draw(3) == 0) c.tensor.local_total_bytes_per_s = draw_between(1e8, 1e14);
  if (draw(3) == 0) c.calibration.item_s = draw_between(1e-9, 1e-6);

  return c;
}

static struct pz_product draw_product(bool small) {
  int64_t most = small ? 25 : 20000;
  return (struct pz_product){draw_size(small ? 6 : 64), draw_size(most), draw_size(most),
                             draw_size(most), false};
}

static struct pz_mapping map(const struct pz_product *p, const struct pz_chip *c) {
  struct pz_mapping o;
  struct pz_error err = {0};
  if (pz_map_product(p, c, &o, &err) != PZ_OK) fail_msg("%s", err.message);
  return o;
}

/* ---- the mapspace, written down again with nothing shared ----------------------------------- */

enum { M, N, K };
static const int first_of[] = {M, K, M}, second_of[] = {N, N, K}, third_of[] = {K, M, N};

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Is v a size to try for a dimension of D? */
static bool is_size(int64_t v, int64_t D, const struct pz_chip *c) {
  int64_t side = c->tensor.rows < c->tensor.cols ? c->tensor.rows : c->tensor.cols;
  if (v == D) return true;
  for (int64_t q = 2; q < 4 * D; q *= 2)
    if (up(D, q) == v && (v >= side || D <= side || (!c->rules.fill && 8 * v >= side))) return true;
  for (int64_t s = side; s < D; s *= 2)
    if (s == v) return true;
  return false;
}

/* May the tile of the global buffer be g long, where those of the cores are t?  A size to try, made
 * up to whole core tiles, with no fewer tiles for it. */
static bool is_extent(int64_t g, int64_t t, int64_t D, const struct pz_chip *c) {
  if (g != D && g % t != 0) return false;
  for (int64_t x = 1; x <= D; x++) {
    int64_t whole = up(x, t) * t < D ? up(x, t) * t : D;
    if (x >= t && is_size(x, D, c) && whole == g && up(D, g) == up(D, x)) return true;
  }
  return false;
}

static bool is_batch(int64_t b, int64_t B) {
  for (int64_t q = 1; q < 2 * B; q *= 2)
    if (up(B, q) == b) return true;
  return false;
}

/* Values of the third dimension that stand in a buffer at least. */
static int64_t slice_of(const struct pz_chip *c) {
  return c->tensor.rows < 32 ? c->tensor.rows : 32;
}

static bool holds(const struct pz_chip *c, int stationary, const int64_t tile[3], int64_t depth,
                  int64_t bytes, bool parts) {
  int64_t e = c->rules.operand_bytes, a = c->rules.sum_bytes;
  int64_t u = tile[first_of[stationary]], v = tile[second_of[stationary]];
  int64_t twice = c->rules.double_buffer ? 2 : 1;
  int64_t own = (stationary == 0 ? a : e) * u * v;
  int64_t with_u = (stationary == 2 ? a : e) * depth * twice * u;
  int64_t with_v = (stationary == 1 ? a : e) * depth * twice * v;
  return parts ? own <= bytes && with_u <= bytes && with_v <= bytes
               : own + with_u + with_v <= bytes;
}

/* A nested tile of the global buffer. */
struct tile {
  int64_t size[3], batch;
  int stationary;
  bool in_step;
};

static int64_t part(int64_t from, int64_t size, int64_t whole) {
  return from + size < whole ? size : whole - from;
}

/* Rounds, by a walk over the tiles of the global buffer, one after another. */
static int64_t walk(const struct pz_product *p, const struct pz_chip *c, const int64_t core[3],
                    const struct tile *g) {
  int64_t rounds = 0;
  for (int64_t b = 0; b < p->batch; b += g->batch)
    for (int64_t m = 0; m < p->m; m += g->size[M])
      for (int64_t n = 0; n < p->n; n += g->size[N])
        for (int64_t k = 0; k < p->k; k += g->size[K]) {
          int64_t items = part(b, g->batch, p->batch) * up(part(m, g->size[M], p->m), core[M]) *
                          up(part(n, g->size[N], p->n), core[N]) *
                          up(part(k, g->size[K], p->k), core[K]);
          rounds += up(items, c->tensor.cores);
        }
  return rounds;
}

/* Does the tile fit, and where slices alone pass through it, are its items one round of cores that
 * keep the same operand? */
static bool exists(const struct pz_chip *c, const int64_t core[3], const struct tile *g) {
  int64_t slice = slice_of(c), third = g->size[third_of[g->stationary]];
  int64_t depth = g->in_step || third < slice ? slice : third;
  if (!holds(c, g->stationary, g->size, depth, c->glb_bytes / g->batch, false)) return false;
  if (!g->in_step) return true;
  int64_t items = g->batch;
  for (int d = 0; d < 3; d++) items *= up(g->size[d], core[d]);
  return third == core[third_of[g->stationary]] && items <= c->tensor.cores &&
         holds(c, g->stationary, core, slice, c->tensor.local_bytes, c->rules.partitioned);
}

/* ---- brute force ---------------------------------------------------------------------------- */

/* Of a core tile: rounds, HBM seconds and bytes that a tile of the global buffer gives it; those
 * that another is no worse than in all three are dropped. */
struct choice {
  double rounds, hbm_s, hbm_bytes;
};

struct brute {
  const struct pz_product *p;
  const struct pz_chip *c;
  struct choice choice[512];
  int n;
  double limit_s; /* < 0: looking for the least time */
  double best_s, best_j;
  int64_t compared;
};

static double time_of(const struct pz_chip *c, double reads, double writes, double rate) {
  return (c->rules.duplex ? fmax(reads, writes) : reads + writes) / rate;
}

static void add_choice(struct brute *b, struct choice x) {
  int kept = 0;
  for (int i = 0; i < b->n; i++) {
    struct choice y = b->choice[i];
    if (y.rounds <= x.rounds && y.hbm_s <= x.hbm_s && y.hbm_bytes <= x.hbm_bytes) return;
  }
  for (int i = 0; i < b->n; i++) {
    struct choice y = b->choice[i];
    if (x.rounds > y.rounds || x.hbm_s > y.hbm_s || x.hbm_bytes > y.hbm_bytes)
      b->choice[kept++] = y;
  }
  assert_true(kept < 512);
  b->choice[kept++] = x;
  b->n = kept;
}

static void try_tile(struct brute *b, const int64_t core[3], const struct tile *g) {
  const struct pz_product *p = b->p;
  const struct pz_chip *c = b->c;
  double e = (double)c->rules.operand_bytes, a = (double)c->rules.sum_bytes, B = (double)p->batch;
  double D[3] = {(double)p->m, (double)p->n, (double)p->k}, tiles[3];
  if (!exists(c, core, g)) return;
  for (int d = 0; d < 3; d++) tiles[d] = ceil(D[d] / (double)g->size[d]);
  tiles[third_of[g->stationary]] = 1; /* what streams passes a stationary tile whole */
  double again = a * D[M] * D[N] * (tiles[K] - 1);
  double reads = B * (e * (D[M] * D[K] * tiles[N] + D[K] * D[N] * tiles[M]) + again);
  double writes = B * (again + e * D[M] * D[N]);
  b->compared++;
  add_choice(b, (struct choice){(double)walk(p, c, core, g),
                                time_of(c, reads, writes, pz_chip_hbm_bytes_per_s(c)),
                                reads + writes});
}

static void list_choices(struct brute *b, const int64_t t[3]) {
  const struct pz_product *p = b->p;
  struct tile g;
  b->n = 0;
  for (int64_t m = t[M]; m <= p->m; m++)
    for (int64_t n = t[N]; n <= p->n && is_extent(m, t[M], p->m, b->c); n++)
      for (int64_t k = t[K]; k <= p->k && is_extent(n, t[N], p->n, b->c); k++)
        for (int64_t batch = 1; batch <= p->batch && is_extent(k, t[K], p->k, b->c); batch++)
          for (int s = 0; s < 3 && is_batch(batch, p->batch); s++)
            for (int in_step = 0; in_step < 2; in_step++) {
              g = (struct tile){{m, n, k}, batch, s, in_step};
              try_tile(b, t, &g);
            }
}

static void try_mapping(struct brute *b, const int64_t t[3], int x, int y, int r, int s) {
  const struct pz_chip *c = b->c;
  const int64_t size[3] = {b->p->m, b->p->n, b->p->k};
  double B = (double)b->p->batch, e = (double)c->rules.operand_bytes,
         a = (double)c->rules.sum_bytes;
  double n[3], step[3], D[3], cycles = 1, items = B;
  for (int d = 0; d < 3; d++) {
    D[d] = (double)size[d];
    n[d] = (double)up(size[d], t[d]);
    items *= n[d];
    step[d] = n[d] * (double)(d == x   ? up(t[d], c->tensor.rows * r)
                              : d == y ? up(t[d], c->tensor.cols * s)
                                       : 1);
    cycles *= (double)(d == x                                   ? up(t[d], c->tensor.rows)
                       : d == y                                 ? up(t[d], c->tensor.cols)
                       : c->rules.fill && t[d] < c->tensor.rows ? c->tensor.rows
                                                                : t[d]);
  }
  double fill = c->rules.fill ? (double)(c->tensor.rows + c->tensor.cols) : 0;
  double item_s = (cycles + fill) / c->clock_hz + c->calibration.item_s;
  double gr = B * (e * (D[M] * D[K] * n[N] + D[K] * D[N] * n[M]) + a * D[M] * D[N] * (n[K] - 1));
  double gw = B * (a * D[M] * D[N] * (n[K] - 1) + e * D[M] * D[N]);
  double lr = B * (e * (D[M] * D[K] * step[N] + D[K] * D[N] * step[M]) +
                   a * D[M] * D[N] * (step[K] - n[K]));
  double lw = B * a * D[M] * D[N] * step[K];
  double own =
      c->tensor.local_bytes_per_s > 0 ? time_of(c, lr, lw, c->tensor.local_bytes_per_s) : 0;
  double all = c->tensor.local_total_bytes_per_s > 0
                   ? time_of(c, lr, lw, c->tensor.local_total_bytes_per_s)
                   : 0;
  const struct pz_tech_info *tech = pz_tech_at(c->tech);
  for (int i = 0; i < b->n; i++) {
    struct choice h = b->choice[i];
    double time = fmax(fmax(h.rounds * item_s, own * h.rounds / items),
                       fmax(fmax(all, h.hbm_s), time_of(c, gr, gw, c->glb_bytes_per_s)));
    double energy = (lr + lw) * tech->local_j + (gr + gw) * tech->glb_j + h.hbm_bytes * tech->hbm_j;
    if (b->limit_s < 0)
      b->best_s = fmin(b->best_s, time);
    else if (time <= b->limit_s * (1 + 1e-12))
      b->best_j = fmin(b->best_j, energy);
  }
}

static void try_core_tile(struct brute *b, const int64_t t[3]) {
  bool fits = false;
  for (int s = 0; s < 3; s++)
    fits = fits ||
           holds(b->c, s, t, slice_of(b->c), b->c->tensor.local_bytes, b->c->rules.partitioned);
  if (!fits) return;
  list_choices(b, t);
  for (int x = 0; x < 3; x++)
    for (int y = 0; y < 3; y++) {
      int64_t value = x + y == 1 ? b->c->rules.sum_bytes : b->c->rules.operand_bytes;
      for (int r = 1; x != y && r * value <= b->c->tensor.register_bytes; r *= 2)
        for (int s = 1; r * s * value <= b->c->tensor.register_bytes; s *= 2)
          try_mapping(b, t, x, y, r, s);
    }
}

static void try_all(struct brute *b) {
  const struct pz_product *p = b->p;
  int64_t t[3];
  for (t[M] = 1; t[M] <= p->m; t[M]++)
    for (t[N] = 1; t[N] <= p->n && is_size(t[M], p->m, b->c); t[N]++)
      for (t[K] = 1; t[K] <= p->k && is_size(t[N], p->n, b->c); t[K]++)
        if (is_size(t[K], p->k, b->c)) try_core_tile(b, t);
}

static void same(double got, double want, const char *what) {
  if (!(fabs(got - want) <= 1e-11 * fabs(want)))
    fail_msg("%s: %.17g, by brute force %.17g", what, got, want);
}

static void equal_to_brute_force(void **state) {
  (void)state;
  enum { CASES = 520 };
  int slower = 0;
  int64_t compared = 0;
  for (int i = 0; i < pz_test_part(CASES); i++) {
    struct pz_product p = draw_product(true);
    struct pz_chip c = draw_chip(true);
    struct brute b = {.p = &p, .c = &c, .limit_s = -1, .best_s = HUGE_VAL, .best_j = HUGE_VAL};
    struct pz_mapping o = map(&p, &c);
    try_all(&b);
    same(o.latency_s, b.best_s, "latency");
    b.limit_s = b.best_s;
    try_all(&b);
    double macs = (double)p.batch * (double)p.m * (double)p.n * (double)p.k;
    same(o.energy_j, macs * pz_tech_at(c.tech)->mac_j + b.best_j, "energy");
    c.rules.nested_mapping = false;
    slower += o.latency_s > map(&p, &c).latency_s * (1 + 1e-9);
    compared += b.compared / 2;
  }
  print_message(
      "  %d nested mappings equal to brute force over %lld, latency and energy; %d slower "
      "than the relaxation\n",
      pz_test_part(CASES), (long long)compared, slower);
  assert_true(slower >= pz_test_part(CASES) / 10);
}

/* ---- relations ------------------------------------------------------------------------------ */

static void never_faster_than_the_relaxation(void **state) {
  (void)state;
  int slower = 0;
  for (int i = 0; i < pz_test_part(2000); i++) {
    struct pz_product p = draw_product(false);
    struct pz_chip c = draw_chip(false);
    const int64_t cores = c.tensor.cores, glb = c.glb_bytes;
    struct pz_sweep sweep = {&cores, &glb, 1, 1};
    struct pz_mapping nested = map(&p, &c);
    double core_s, hbm_s, startup_s;
    assert_int_equal(pz_map_sweep(&p, &c, &sweep, &core_s, &hbm_s, &startup_s, NULL), PZ_OK);
    c.rules.nested_mapping = false;
    struct pz_mapping relaxed = map(&p, &c);
    same(startup_s + fmax(core_s, hbm_s), relaxed.latency_s, "the bound of the search");
    if (!(nested.latency_s >= relaxed.latency_s * (1 - 1e-12) &&
          nested.rounds >= up(nested.items, cores)))
      fail_msg("nested %.17g s, relaxed %.17g s", nested.latency_s, relaxed.latency_s);
    slower += nested.latency_s > relaxed.latency_s * (1 + 1e-9);
  }
  print_message("  %d of 2000 slower than the relaxation\n", slower);
}

static struct tile tile_of(const struct pz_mapping *o) {
  struct tile g = {{o->glb_tile[M], o->glb_tile[N], o->glb_tile[K]},
                   o->glb_batch,
                   (int)o->glb_stationary,
                   false};
  int64_t *third = &g.size[third_of[g.stationary]], core = o->tile[third_of[g.stationary]];
  g.in_step = *third < core;
  if (g.in_step) *third = core;
  return g;
}

/* What was found fits its buffers and takes the rounds that it says. */
static void found_mappings_exist(void **state) {
  (void)state;
  int in_step = 0;
  for (int i = 0; i < pz_test_part(2000); i++) {
    struct pz_product p = draw_product(i % 2);
    struct pz_chip c = draw_chip(i % 2);
    struct pz_mapping o = map(&p, &c);
    struct tile g = tile_of(&o);
    const int64_t D[3] = {p.m, p.n, p.k};
    double tiles = ceil((double)p.batch / (double)g.batch);
    for (int d = 0; d < 3; d++) {
      assert_true(g.size[d] == D[d] || g.size[d] % o.tile[d] == 0);
      tiles *= (double)up(D[d], g.size[d]);
    }
    /* items no longer than a slice leave no trace of it */
    if (!exists(&c, o.tile, &g)) g.in_step = true;
    assert_true(exists(&c, o.tile, &g));
    assert_true(holds(&c, (int)o.local_stationary, o.tile, slice_of(&c), c.tensor.local_bytes,
                      c.rules.partitioned));
    if (g.in_step) assert_int_equal(o.local_stationary, o.glb_stationary);
    in_step += g.in_step;
    if (tiles < 1e5) assert_int_equal(walk(&p, &c, o.tile, &g), o.rounds);
  }
  print_message("  2000 mappings walked, %d of them in step\n", in_step);
  assert_true(in_step > 0);
}

/* Libraries of measured chips have their tiles, and a cache for a buffer. */
static void calibrated_chips_do_not_nest(void **state) {
  (void)state;
  struct pz_chip c;
  assert_int_equal(pz_test_chip_read("h200", &c, NULL), PZ_OK);
  for (int i = 0; i < pz_test_part(200); i++) {
    struct pz_product p = draw_product(false);
    c.rules.nested_mapping = true;
    struct pz_mapping a = map(&p, &c);
    c.rules.nested_mapping = false;
    struct pz_mapping b = map(&p, &c);
    assert_memory_equal(&a, &b, sizeof a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_to_brute_force),
      cmocka_unit_test(never_faster_than_the_relaxation),
      cmocka_unit_test(found_mappings_exist),
      cmocka_unit_test(calibrated_chips_do_not_nest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
