/* A chip's bill: known dies, prices, and that more of anything never costs less. */
#include "unit/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "unit/chip_borders.h"

static struct pz_chip load(const char *name) {
  struct pz_chip c;
  struct pz_error err = {0};
  if (pz_test_chip_read(name, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  return c;
}

/* ---- known dies ----------------------------------------------------------------------------- */

struct mean {
  double sum;
  int n;
};

static void add(struct mean *m, double got, double want) {
  m->sum += fabs(got / want - 1);
  m->n++;
}

static void check_mean(const char *what, const struct mean *m, int least, double most) {
  if (m->n < least || m->sum / m->n > most)
    fail_msg("%s: %.3f of %d, at most %.2f of %d", what, m->sum / m->n, m->n, most, least);
}

static bool was_before(size_t i, const char *die) {
  struct pz_known k;
  while (i--)
    if (pz_known_load(pz_chip_preset_name(i), &k, NULL) == PZ_OK && strcmp(k.die, die) == 0)
      return true;
  return false;
}

/* Dies that the shares were fitted to, and the others, each within the limits; a die counts once. */
static void known_dies_have_their_area_and_watts(void **state) {
  (void)state;
  struct mean area[2] = {0}, watts[2] = {0};
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_known k;
    struct pz_chip c = load(pz_chip_preset_name(i));
    assert_int_equal(pz_known_load(c.name, &k, NULL), PZ_OK);
    struct pz_bill b = pz_chip_bill(&c, PZ_BILL_LIKELY);
    if (k.mm2 > 0 && !was_before(i, k.die)) add(&area[k.fitted], b.area_mm2, k.mm2);
    if (k.watts > 0) add(&watts[k.fitted], b.watts, k.watts);
  }
  check_mean("area, fitted", &area[1], 4, 0.2);
  check_mean("area, judged", &area[0], 4, 0.2);
  check_mean("watts, fitted", &watts[1], 4, 0.25);
  check_mean("watts, judged", &watts[0], 4, 0.25);
}

/* Blocks of two dies as measured on die shots (LLMCompass): HBM and links of an A100, mm2. */
static void blocks_of_a_die_shot(void **state) {
  (void)state;
  struct pz_chip c = load("a100-80");
  struct pz_bill b = pz_chip_bill(&c, PZ_BILL_LIKELY);
  assert_true(fabs(b.hbm_mm2 / (58 + 31.77) - 1) < 0.2);
  assert_true(fabs(b.noc_mm2 / 76.44 - 1) < 0.2);
  assert_true(b.link_mm2 > 20.95 && b.link_mm2 < 2 * 20.95);
}

/* ---- prices --------------------------------------------------------------------------------- */

static void dies_cost_what_chiplet_actuary_says(void **state) {
  (void)state;
  static const struct {
    enum pz_tech tech;
    double mm2, dollars;
  } want[] = {{PZ_TECH_7NM, 814, 329}, {PZ_TECH_5NM, 814, 695}, {PZ_TECH_3NM, 814, 2354},
              {PZ_TECH_7NM, 259, 56},  {PZ_TECH_5NM, 259, 108}, {PZ_TECH_3NM, 259, 238}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    double got = pz_tech_die_dollars(pz_tech_at(want[i].tech), want[i].mm2);
    if (fabs(got - want[i].dollars) > 1) fail_msg("%g $, want %g", got, want[i].dollars);
  }
}

static void many_dies_are_cheaper_than_one(void **state) {
  (void)state;
  struct pz_chip c = load("b200");
  struct pz_bill two = pz_chip_bill(&c, PZ_BILL_LIKELY);
  c.package.dies = 1;
  struct pz_bill one = pz_chip_bill(&c, PZ_BILL_LIKELY);
  assert_int_equal(two.dies, 2);
  assert_true(one.die_dollars > two.die_dollars && one.area_mm2 < two.area_mm2);
}

/* ---- the original library ------------------------------------------------------------------- */

static void the_original_library_keeps_its_area_and_watts(void **state) {
  (void)state;
  struct pz_chip c = load("tpuv4");
  struct pz_area a = pz_chip_area(&c);
  struct pz_bill b = pz_chip_bill(&c, PZ_BILL_LIKELY);
  assert_true(b.area_mm2 == pz_area_total_um2(&a) / 1e6);
  assert_true(b.watts == pz_chip_peak_watts(&c));
  assert_true(b.noc_mm2 == 0 && b.link_mm2 == 0 && b.other_mm2 == 0 && b.static_watts == 0);
  assert_true(b.dollars == 0 && b.hbm_dollars == 0 && b.package_dollars == 0);
}

/* ---- monotone ------------------------------------------------------------------------------- */

static int64_t draw(uint64_t *r, int64_t low, int64_t high) {
  return low + (int64_t)(pz_random_next(r) % (uint64_t)(high - low + 1));
}

static struct pz_package random_package(uint64_t *r) {
  if (draw(r, 0, 1)) return (struct pz_package){0};
  return (struct pz_package){.dies = draw(r, 1, 8),
                             .io_dies = draw(r, 0, 4),
                             .tech = (enum pz_tech)draw(r, 0, PZ_TECHS - 1),
                             .io_tech = (enum pz_tech)draw(r, PZ_TECH_16NM, PZ_TECHS - 1),
                             .cores = draw(r, 0, 300),
                             .vector_cores = draw(r, 0, 300),
                             .core_bytes = draw(r, 0, 1 << 20),
                             .fp64_units = draw(r, 0, 64),
                             .sram_bytes = draw(r, 0, 256 << 20),
                             .stacks = draw(r, 0, 12),
                             .die_bytes_per_s = (double)draw(r, 0, 10) * 1e12};
}

static struct pz_chip random_chip(uint64_t *r) {
  struct pz_chip c = load("h100");
  c.tech = (enum pz_tech)draw(r, 0, PZ_TECHS - 1);
  c.clock_hz = (double)draw(r, 3, 30) * 1e8;
  c.tensor.cores = draw(r, 1, 256);
  c.tensor.rows = draw(r, 4, 256);
  c.tensor.cols = draw(r, 4, 256);
  c.tensor.local_bytes = draw(r, 1 << 10, 4 << 20);
  c.vector.cores = draw(r, 1, 256);
  c.vector.lanes = draw(r, 1, 1024);
  c.vector.local_bytes = draw(r, 1 << 10, 1 << 20);
  c.glb_bytes = draw(r, 1 << 20, 256 << 20);
  c.glb_bytes_per_s = (double)draw(r, 1, 60) * 1e12;
  c.hbm.stacks = draw(r, 1, 12);
  c.hbm.bytes_per_stack = draw(r, 8, 48) << 30;
  c.hbm.bytes_per_s_per_stack = (double)draw(r, 2, 20) * 1e11;
  c.link_bytes_per_s = (double)draw(r, 0, 20) * 1e11;
  c.package = random_package(r);
  return c;
}

static int64_t more(uint64_t *r, int64_t v) { return v + draw(r, 1, v); }

static struct pz_chip with_more(const struct pz_chip *c, int axis, uint64_t *r) {
  struct pz_chip d = *c;
  int64_t *const whole[] = {&d.tensor.cores,       &d.tensor.rows,        &d.tensor.cols,
                            &d.vector.cores,       &d.tensor.local_bytes, &d.vector.lanes,
                            &d.glb_bytes,          &d.vector.local_bytes, &d.hbm.stacks,
                            &d.hbm.bytes_per_stack};
  double *const real[] = {&d.clock_hz, &d.glb_bytes_per_s, &d.hbm.bytes_per_s_per_stack,
                          &d.link_bytes_per_s};
  enum { WHOLE = sizeof whole / sizeof *whole };
  if (axis < WHOLE)
    *whole[axis] = more(r, *whole[axis]);
  else
    *real[axis - WHOLE] = *real[axis - WHOLE] * (1 + (double)draw(r, 1, 100) / 100) + 1;
  return d;
}

static void check_not_less(const char *what, int axis, double before, double after) {
  if (!(after >= before * (1 - 1e-12)))
    fail_msg("%s falls from %.9g to %.9g with more of axis %d", what, before, after, axis);
}

static void more_of_anything_never_costs_less(void **state) {
  (void)state;
  enum { CHIPS = 500, AXES = 14 };
  uint64_t r = 22;
  for (int i = 0; i < pz_test_part(CHIPS); i++) {
    struct pz_chip c = random_chip(&r);
    enum pz_bill_range range = (enum pz_bill_range)(i % 3);
    struct pz_bill b = pz_chip_bill(&c, range);
    assert_true(isfinite(b.area_mm2 + b.watts + b.dollars + b.edge_mm + b.edge_room_mm));
    for (int axis = 0; axis < AXES; axis++) {
      struct pz_chip d = with_more(&c, axis, &r);
      struct pz_bill a = pz_chip_bill(&d, range);
      check_not_less("area", axis, b.area_mm2, a.area_mm2);
      check_not_less("watts", axis, b.watts, a.watts);
      check_not_less("dollars", axis, b.dollars, a.dollars);
      check_not_less("edge", axis, b.edge_mm, a.edge_mm);
    }
  }
}

static void ranges_hold_what_is_likely(void **state) {
  (void)state;
  for (size_t i = 0; pz_chip_preset_name(i); i++) {
    struct pz_chip c = load(pz_chip_preset_name(i));
    struct pz_bill b = pz_chip_bill(&c, PZ_BILL_LIKELY), low = pz_chip_bill(&c, PZ_BILL_LOW),
                   high = pz_chip_bill(&c, PZ_BILL_HIGH);
    assert_true(low.area_mm2 <= b.area_mm2 && b.area_mm2 <= high.area_mm2);
    assert_true(low.watts <= b.watts && b.watts <= high.watts);
    assert_true(low.dollars <= b.dollars && b.dollars <= high.dollars);
    assert_true(low.edge_mm <= b.edge_mm && b.edge_mm <= high.edge_mm);
  }
}

/* Newer nodes take no more area or energy for the same. */
static void constants_are_ordered(void **state) {
  (void)state;
  const struct pz_silicon *s;
  size_t n = 0;
  for (; (s = pz_silicon_at(n)); n++) {
    assert_true(s->low <= 1 && s->high >= 1 && s->source[0]);
    for (int k = 1; k < 4; k++)
      if (strstr(s->name, "um2") || strstr(s->name, "_j"))
        assert_true(s->value[k] <= s->value[k - 1]);
  }
  assert_true(n > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_dies_have_their_area_and_watts),
      cmocka_unit_test(blocks_of_a_die_shot),
      cmocka_unit_test(dies_cost_what_chiplet_actuary_says),
      cmocka_unit_test(many_dies_are_cheaper_than_one),
      cmocka_unit_test(the_original_library_keeps_its_area_and_watts),
      cmocka_unit_test(more_of_anything_never_costs_less),
      cmocka_unit_test(ranges_hold_what_is_likely),
      cmocka_unit_test(constants_are_ordered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
