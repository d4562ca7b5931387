/* The mapper: lower bounds, relations, brute force over the whole mapspace, and a published
 * mapper's answers. */
#include "unit/testing.h"

#include <math.h>

#include "chip/chip.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"
#include "unit/published.h"

/* ---- random products and chips -------------------------------------------------------------- */

static uint64_t seed = 42;

static uint64_t draw(uint64_t n) { return pz_random_lcg(&seed) % n; }

static double draw_between(double low, double high) {
  return low * pow(high / low, (double)draw(1000) / 999);
}

static int64_t draw_size(int64_t most) { return (int64_t)draw_between(1, (double)most); }

static struct pz_chip draw_chip(bool small) {
  struct pz_chip c;
  assert_int_equal(pz_test_chip_read(!small && draw(3) == 0 ? "h200" : "tpuv4", &c, NULL), PZ_OK);
  if (c.calibration.n_tiles) { /* a calibrated chip with other resources */
    c.tensor.cores = draw_size(500);
    c.glb_bytes = (int64_t)draw_between(1e5, 2e8);
    c.glb_bytes_per_s = draw_between(1e10, 1e14);
    c.hbm.bytes_per_s_per_stack = draw_between(1e9, 1e13);
    return c;
  }
  c.tensor.cores = draw_size(small ? 9 : 4096);
  c.tensor.rows = draw_size(small ? 8 : 256);
  c.tensor.cols = draw_size(small ? 8 : 256);
  c.tensor.local_bytes = (int64_t)draw_between(64, small ? 4096 : 4e6);
  c.tensor.register_bytes = 4 << draw(5);
  c.glb_bytes = (int64_t)draw_between(256, small ? 65536 : 2e8);
  c.glb_bytes_per_s = draw_between(1e9, 1e13);
  c.hbm.bytes_per_s_per_stack = draw_between(1e8, 1e13);
  c.clock_hz = draw_between(1e8, 3e9);
  c.tech = (enum pz_tech)draw(PZ_TECHS);
  c.rules.fill = draw(2);
  c.rules.duplex = draw(2);
  c.rules.partitioned = draw(2);
  c.rules.double_buffer = draw(2);
  c.rules.nested_mapping = !small && draw(4) == 0;
  if (draw(2)) c.tensor.local_bytes_per_s = draw_between(1e8, 1e13);
  if (draw(2)) c.tensor.local_total_bytes_per_s = draw_between(1e8, 1e14);
  if (draw(3) == 0) c.calibration.startup_s = draw_between(1e-8, 1e-5);
  c.calibration.batched_startup_s = c.calibration.startup_s;
  if (draw(3) == 0) c.calibration.item_s = draw_between(1e-9, 1e-6);
  if (draw(3) == 0) c.calibration.tensor_efficiency = draw_between(0.1, 1);
  return c;
}

static struct pz_product draw_product(bool small) {
  int64_t most = small ? 40 : 20000;
  return (struct pz_product){draw_size(small ? 4 : 64), draw_size(most), draw_size(most),
                             draw_size(most), false};
}

static bool map(const struct pz_product *p, const struct pz_chip *c, struct pz_mapping *o) {
  struct pz_error err = {0};
  if (pz_map_product(p, c, o, &err) == PZ_OK) return true;
  if (!strstr(err.message, "no tile fits its buffers")) fail_msg("%s", err.message);
  return false;
}

/* ---- lower bounds and relations ----------------------------------------------------------- */

static void at_least(double latency, double lower_bound, const char *what) {
  if (!(latency >= lower_bound * (1 - 1e-12)))
    fail_msg("%.17g s is below the lower bound of %s, %.17g s", latency, what, lower_bound);
}

static void check_floors(const struct pz_product *p, const struct pz_chip *c,
                         const struct pz_mapping *o) {
  double B = (double)p->batch, M = (double)p->m, N = (double)p->n, K = (double)p->k;
  double e = (double)c->rules.operand_bytes, duplex = c->rules.duplex ? 2 : 1;
  at_least(o->latency_s, 2 * B * M * N * K / pz_chip_tensor_flop_per_s(c), "arithmetic");
  at_least(o->latency_s, e * B * (M * K + K * N) / pz_chip_hbm_bytes_per_s(c), "compulsory reads");
  at_least(o->latency_s, e * B * (M * K + K * N + M * N) / duplex / pz_chip_hbm_bytes_per_s(c),
           "compulsory traffic");
  at_least(o->latency_s, o->hbm_bytes / duplex / pz_chip_hbm_bytes_per_s(c), "HBM traffic");
  at_least(o->latency_s, o->glb_bytes / duplex / c->glb_bytes_per_s, "global traffic");
  at_least(o->glb_bytes, e * B * (M * K + K * N + M * N), "GLB bytes");
  double local = c->tensor.local_bytes_per_s * (double)c->tensor.cores;
  if (local > 0) at_least(o->latency_s, o->local_bytes / duplex / local, "local traffic");
  at_least(o->hbm_bytes, e * B * (M * K + K * N + M * N), "HBM bytes");
  if (!(o->utilisation <= 1 + 1e-12 && o->utilisation > 0 && o->energy_j > 0))
    fail_msg("utilisation %.17g, energy %.17g", o->utilisation, o->energy_j);
}

static void grow(struct pz_chip *c) {
  switch (draw(8)) {
  case 0: c->tensor.cores += draw_size(4096); break;
  case 1: c->tensor.local_bytes += draw_size(1000000); break;
  case 2: c->glb_bytes += draw_size(100000000); break;
  case 3: c->glb_bytes_per_s *= draw_between(1.001, 10); break;
  case 4: c->hbm.bytes_per_s_per_stack *= draw_between(1.001, 10); break;
  case 5: c->tensor.local_bytes_per_s *= draw_between(1.001, 10); break;
  case 6: c->tensor.local_total_bytes_per_s *= draw_between(1.001, 10); break;
  default: c->tensor.register_bytes *= 2; break;
  }
}

static void nothing_is_below_a_floor_and_more_never_hurts(void **state) {
  (void)state;
  int checked = 0;
  while (checked < pz_test_part(10000)) {
    struct pz_product p = draw_product(false);
    struct pz_chip c = draw_chip(false);
    struct pz_mapping before, after;
    if (!map(&p, &c, &before)) continue;
    check_floors(&p, &c, &before);
    grow(&c);
    assert_true(map(&p, &c, &after));
    at_least(before.latency_s, after.latency_s, "a larger chip");
    checked++;
  }
}

/* ---- brute force ---------------------------------------------------------------------------- */

/* The relaxed mapspace as mapper.h declares it, written down again with nothing shared; that of
 * nested mappings is in test_nested.c. */
static int tiles_of(int64_t D, const struct pz_chip *c, int64_t *t) {
  int64_t side = c->tensor.rows < c->tensor.cols ? c->tensor.rows : c->tensor.cols;
  int n = 0;
  for (int64_t v = 1; v <= D; v++) {
    bool in = v == D;
    for (int64_t q = 2; q < 4 * D; q *= 2) {
      int64_t part = (D + q - 1) / q;
      if (part == v && (part >= side || D <= side || (!c->rules.fill && 8 * part >= side)))
        in = true;
    }
    for (int64_t s = side; s < D; s *= 2) in = in || s == v;
    if (in) t[n++] = v;
  }
  return n;
}

struct brute {
  const struct pz_chip *c;
  double B, D[3];
  double core_s, hbm_s;
  double energy_j, hbm_bytes;
  double limit_s; /* < 0: looking for the least time */
};

static double cdiv(double a, double b) { return ceil(a / b); }

static bool buffer_holds(const struct brute *b, int stay, double u, double v, double bytes,
                         bool parts) {
  double e = (double)b->c->rules.operand_bytes, a = (double)b->c->rules.sum_bytes;
  double slice = fmin(32, (double)b->c->tensor.rows) * (b->c->rules.double_buffer ? 2 : 1);
  /* bytes of: what stays, the operand that shares u, the one that shares v */
  double own = (stay == 0 ? a : e) * u * v;
  double with_u = (stay == 2 ? a : e) * slice * u, with_v = (stay == 1 ? a : e) * slice * v;
  return parts ? own <= bytes && with_u <= bytes && with_v <= bytes
               : own + with_u + with_v <= bytes;
}

static double time_of(const struct brute *b, double reads, double writes, double rate) {
  return (b->c->rules.duplex ? fmax(reads, writes) : reads + writes) / rate;
}

/* One core mapping: tile t, dimension x on rows, y on columns, r and s values kept. */
static void try_core(struct brute *b, const double t[3], int x, int y, double r, double s) {
  const struct pz_chip *c = b->c;
  double M = b->D[0], N = b->D[1], K = b->D[2], B = b->B;
  double e = (double)c->rules.operand_bytes, a = (double)c->rules.sum_bytes;
  double rows = (double)c->tensor.rows, cols = (double)c->tensor.cols;
  double n[3], step[3], cycles = 1;
  for (int d = 0; d < 3; d++) {
    n[d] = cdiv(b->D[d], t[d]);
    step[d] = n[d] * (d == x ? cdiv(t[d], rows * r) : d == y ? cdiv(t[d], cols * s) : 1);
    cycles *= d == x          ? cdiv(t[d], rows)
              : d == y        ? cdiv(t[d], cols)
              : c->rules.fill ? fmax(t[d], rows)
                              : t[d];
  }
  double items = B * n[0] * n[1] * n[2], rounds = cdiv(items, (double)c->tensor.cores);
  double fill = c->rules.fill ? rows + cols : 0;
  double time = rounds * ((cycles + fill) / (c->clock_hz * c->calibration.tensor_efficiency) +
                          c->calibration.item_s);
  double gr = B * (e * (M * K * n[1] + K * N * n[0]) + a * M * N * (n[2] - 1));
  double gw = B * (a * M * N * (n[2] - 1) + e * M * N);
  double lr = B * (e * (M * K * step[1] + K * N * step[0]) + a * M * N * (step[2] - n[2]));
  double lw = B * a * M * N * step[2];
  time = fmax(time, time_of(b, gr, gw, c->glb_bytes_per_s));
  if (c->tensor.local_bytes_per_s > 0)
    time = fmax(time, time_of(b, lr, lw, c->tensor.local_bytes_per_s) * rounds / items);
  if (c->tensor.local_total_bytes_per_s > 0)
    time = fmax(time, time_of(b, lr, lw, c->tensor.local_total_bytes_per_s));
  const struct pz_tech_info *tech = pz_tech_at(c->tech);
  double energy = (lr + lw) * tech->local_j + (gr + gw) * tech->glb_j;
  if (b->limit_s < 0)
    b->core_s = fmin(b->core_s, time);
  else if (time <= b->limit_s * (1 + 1e-12))
    b->energy_j = fmin(b->energy_j, energy);
}

static void brute_core(struct brute *b, int64_t t[3][64], const int n[3]) {
  static const int first[] = {0, 2, 0}, second[] = {1, 1, 2};
  for (int i = 0; i < n[0]; i++)
    for (int j = 0; j < n[1]; j++)
      for (int k = 0; k < n[2]; k++) {
        double tile[3] = {(double)t[0][i], (double)t[1][j], (double)t[2][k]};
        bool fits = false;
        for (int s = 0; s < 3; s++)
          fits = fits || buffer_holds(b, s, tile[first[s]], tile[second[s]],
                                      (double)b->c->tensor.local_bytes, b->c->rules.partitioned);
        for (int x = 0; fits && x < 3; x++)
          for (int y = 0; y < 3; y++) {
            double most = (double)b->c->tensor.register_bytes /
                          (double)(x + y == 1 ? b->c->rules.sum_bytes : b->c->rules.operand_bytes);
            for (double r = 1; x != y && r <= most; r *= 2)
              for (double s = 1; r * s <= most; s *= 2) try_core(b, tile, x, y, r, s);
          }
      }
}

static void brute_glb(struct brute *b, int64_t t[3][64], const int n[3]) {
  static const int first[] = {0, 2, 0}, second[] = {1, 1, 2};
  double M = b->D[0], N = b->D[1], K = b->D[2], e = (double)b->c->rules.operand_bytes;
  double a = (double)b->c->rules.sum_bytes, rate = pz_chip_hbm_bytes_per_s(b->c);
  for (int s = 0; s < 3; s++)
    for (int i = 0; i < n[first[s]]; i++)
      for (int j = 0; j < n[second[s]]; j++) {
        double u = (double)t[first[s]][i], v = (double)t[second[s]][j], tiles[3] = {1, 1, 1};
        if (!buffer_holds(b, s, u, v, (double)b->c->glb_bytes, false)) continue;
        tiles[first[s]] = cdiv(b->D[first[s]], u);
        tiles[second[s]] = cdiv(b->D[second[s]], v);
        double reads =
            b->B * (e * (M * K * tiles[1] + K * N * tiles[0]) + a * M * N * (tiles[2] - 1));
        double writes = b->B * (a * M * N * (tiles[2] - 1) + e * M * N);
        double time = time_of(b, reads, writes, rate);
        if (b->limit_s < 0)
          b->hbm_s = fmin(b->hbm_s, time);
        else if (time <= b->limit_s * (1 + 1e-12))
          b->hbm_bytes = fmin(b->hbm_bytes, reads + writes);
      }
}

static void same(double got, double want, const char *what) {
  if (!(fabs(got - want) <= 1e-11 * fabs(want)))
    fail_msg("%s: %.17g, by brute force %.17g", what, got, want);
}

static bool compare_with_brute_force(const struct pz_product *p, const struct pz_chip *c) {
  struct brute b = {c,
                    (double)p->batch,
                    {(double)p->m, (double)p->n, (double)p->k},
                    (double)INFINITY,
                    (double)INFINITY,
                    (double)INFINITY,
                    (double)INFINITY,
                    -1};
  int64_t t[3][64];
  int n[3] = {tiles_of(p->m, c, t[0]), tiles_of(p->n, c, t[1]), tiles_of(p->k, c, t[2])};
  struct pz_mapping o;
  brute_core(&b, t, n);
  brute_glb(&b, t, n);
  if (!map(p, c, &o)) {
    assert_true(b.core_s == (double)INFINITY || b.hbm_s == (double)INFINITY);
    return false;
  }
  b.limit_s = fmax(b.core_s, b.hbm_s);
  same(o.latency_s, b.limit_s + c->calibration.startup_s, "latency");
  brute_core(&b, t, n);
  brute_glb(&b, t, n);
  const struct pz_tech_info *tech = pz_tech_at(c->tech);
  double macs = b.B * b.D[0] * b.D[1] * b.D[2];
  same(o.energy_j, macs * tech->mac_j + b.energy_j + b.hbm_bytes * tech->hbm_j, "energy");
  return true;
}

static void equal_to_brute_force(void **state) {
  (void)state;
  int compared = 0;
  for (int i = 0; i < pz_test_part(600); i++) {
    struct pz_product p = draw_product(true);
    struct pz_chip c = draw_chip(true);
    compared += compare_with_brute_force(&p, &c);
  }
  print_message("  %d mappings equal to brute force, latency and energy\n", compared);
  assert_true(compared >= pz_test_part(300));
}

/* ---- batch evaluation ----------------------------------------------------------------------- */

static void a_sweep_is_many_single_calls(void **state) {
  (void)state;
  static const int64_t cores[] = {1, 2, 3, 8, 64, 1000}, glb[] = {2 << 20, 16 << 20, 128 << 20};
  for (int i = 0; i < pz_test_part(100); i++) {
    struct pz_product p = draw_product(false);
    struct pz_chip c = draw_chip(false);
    c.rules.nested_mapping = false;
    struct pz_error err = {0};
    double core_s[6], hbm_s[3], startup_s;
    struct pz_sweep sweep = {cores, glb, 6, 3};
    if (pz_map_sweep(&p, &c, &sweep, core_s, hbm_s, &startup_s, &err) != PZ_OK) continue;
    for (int a = 0; a < 6; a++)
      for (int b = 0; b < 3; b++) {
        struct pz_mapping o;
        c.tensor.cores = cores[a];
        c.glb_bytes = glb[b];
        assert_true(map(&p, &c, &o));
        same(startup_s + fmax(core_s[a], hbm_s[b]), o.latency_s, "sweep");
      }
  }
}

/* ---- against others ------------------------------------------------------------------------- */

static void never_slower_than_the_published_mapper(void **state) {
  (void)state;
  FILE *f = fopen(PHAZE_TEST_DATA "/published_mapper.csv", "r");
  char head[512];
  struct pz_published r;
  double worst = 0, sum = 0;
  int n = 0;
  assert_non_null(f);
  assert_non_null(fgets(head, sizeof head, f));
  for (; pz_published_read(f, &r); n++) {
    struct pz_mapping o;
    assert_true(map(&r.product, &r.chip, &o));
    double ratio = o.latency_s * r.chip.clock_hz / r.cycles;
    worst = fmax(worst, ratio);
    sum += ratio;
  }
  fclose(f);
  print_message("  %d rows: ours over theirs %.3f on average, %.3f at most\n", n, sum / n, worst);
  assert_true(n >= 250 && worst <= 1.0001 && sum / n < 0.6);
}

static void tpuv4_behaves(void **state) {
  (void)state;
  struct pz_chip c;
  struct pz_product p = {1, 4096, 4096, 4096, false};
  struct pz_mapping eight, one, slow;
  assert_int_equal(pz_test_chip_read("tpuv4", &c, NULL), PZ_OK);
  assert_true(map(&p, &c, &eight));
  double flops = 2.0 * 4096 * 4096 * 4096 / eight.latency_s;
  print_message("  tpuv4, 4096^3: %.0f TFLOP/s, bound by %s\n", flops / 1e12,
                pz_bound_name(eight.bound));
  assert_true(flops >= 0.6 * 275e12);
  assert_int_equal(eight.bound, PZ_BOUND_COMPUTE);
  c.tensor.cores = 1;
  assert_true(map(&p, &c, &one));
  print_message("  eight cores are %.2f times faster than one\n", one.latency_s / eight.latency_s);
  assert_true(one.latency_s >= 5 * eight.latency_s && one.latency_s <= 8 * eight.latency_s);
  c.tensor.cores = 8;
  c.hbm.bytes_per_s_per_stack /= 10;
  assert_true(map(&p, &c, &slow));
  assert_int_equal(slow.bound, PZ_BOUND_HBM);
  assert_true(slow.latency_s >= slow.hbm_bytes / c.hbm.bytes_per_s_per_stack * (1 - 1e-12));
  assert_true(slow.latency_s > eight.latency_s);
}

/* What counts is batch x m x n x k: a long dimension is counted once. */
static void long_products_are_mapped(void **state) {
  (void)state;
  static const struct pz_product long_ones[] = {
      {1, 1, 1LL << 31, 16, false},
      {32, 131072, 131072, 128, false},    /* scores of llama3-8b, 128k tokens */
      {32, 1048576, 1048576, 128, false},  /* of a million */
      {1, 128256, 4096, 1LL << 24, false}, /* its head's weight gradients */
      {1, 1LL << 21, 1LL << 21, 1LL << 20, true} /* 2^62 multiplications */};
  static const char *const chips[] = {"tpuv4", "h200"};
  for (size_t i = 0; i < 2 * sizeof long_ones / sizeof *long_ones; i++) {
    const struct pz_product *p = &long_ones[i / 2];
    double macs = (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
    struct pz_chip c;
    struct pz_mapping o;
    struct pz_error err = {0};
    assert_int_equal(pz_test_chip_read(chips[i % 2], &c, NULL), PZ_OK);
    if (pz_map_product(p, &c, &o, &err) != PZ_OK) fail_msg("%s", err.message);
    assert_true(o.latency_s >= 2 * macs / pz_chip_tensor_flop_per_s(&c) * (1 - 1e-12));
    assert_true(o.utilisation > 0 && o.utilisation <= 1 + 1e-12);
    assert_true(o.items > 0 && o.rounds > 0);
  }
}

static void nonsense_products_are_refused(void **state) {
  (void)state;
  static const struct {
    struct pz_product p;
    const char *message;
  } bad[] = {{{0, 1, 1, 1, false}, "batch is 0; accepted: 1 to 2^40"},
             {{1, -1, 1, 1, false}, "m is -1; accepted: 1 to 2^40"},
             {{1, 1, 1LL << 41, 1, false}, "n is 2199023255552; accepted: 1 to 2^40"},
             {{1LL << 40, 1LL << 40, 1LL << 40, 1, false},
              "an operand has 1.329e+36 values; accepted: at most 2^53"},
             {{1, 67108863, 67108863, 67108863, false},
              "3.022e+23 multiplications; accepted: at most 2^62"}};
  struct pz_chip c;
  assert_int_equal(pz_test_chip_read("tpuv4", &c, NULL), PZ_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_mapping o;
    struct pz_error err = {0};
    assert_int_equal(pz_map_product(&bad[i].p, &c, &o, &err), PZ_BAD_INPUT);
    assert_non_null(strstr(err.message, bad[i].message));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_below_a_floor_and_more_never_hurts),
      cmocka_unit_test(equal_to_brute_force),
      cmocka_unit_test(a_sweep_is_many_single_calls),
      cmocka_unit_test(never_slower_than_the_published_mapper),
      cmocka_unit_test(tpuv4_behaves),
      cmocka_unit_test(long_products_are_mapped),
      cmocka_unit_test(nonsense_products_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
