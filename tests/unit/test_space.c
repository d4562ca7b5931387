/* Design spaces: files and what is refused of them, chips and their numbers, limits and budgets, boxes that cover. */
#include "unit/core_borders.h"
#include "unit/search_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/json.h"
#include "search/search.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"

static uint64_t seed = 3;

static uint32_t draw(uint32_t n) { return pz_random_lcg(&seed) % n; }

static struct pz_space parse(const char *text) {
  struct pz_space s;
  struct pz_error err = {0};
  if (pz_space_parse("space", text, strlen(text), &s, &err) != PZ_OK) fail_msg("%s", err.message);
  return s;
}

static struct pz_space load(const char *name) {
  struct pz_space s;
  struct pz_error err = {0};
  if (pz_space_load(name, &s, &err) != PZ_OK) fail_msg("%s", err.message);
  return s;
}

static struct pz_limits complete(const struct pz_space *s, const char *budget) {
  struct pz_limits l = {.mm2 = 0};
  struct pz_error err = {0};
  if (pz_limits_complete(s, budget, NULL, &l, &err) != PZ_OK) fail_msg("%s", err.message);
  return l;
}

/* ---- the paper's space ---------------------------------------------------------------------- */

/* Every chip has its number, and the order among equals is one. */
static void the_papers_space_has_29360_chips(void **state) {
  (void)state;
  struct pz_space s = load("paper");
  struct pz_limits l = complete(&s, NULL);
  struct pz_error err = {0};
  struct pz_arena arena;
  struct pz_point *points;
  uint32_t n;
  assert_int_equal(pz_space_chips(&s), 75712);
  assert_true(fabs(l.mm2 - 278.82667631216) < 1e-10);
  assert_true(fabs(l.least_mm2 - 0.3 * l.mm2) < 1e-9);
  pz_arena_init(&arena);
  assert_int_equal(pz_space_list(&s, &l, &arena, &points, &n, &err), PZ_OK);
  assert_int_equal(n, 29360);
  bool tpuv4 = false;
  for (uint32_t i = 0; i < n; i++) {
    struct pz_chip c;
    uint64_t id = pz_space_id(&s, &points[i]);
    struct pz_point again = pz_space_point(&s, id);
    pz_space_chip(&s, &points[i], &c);
    assert_memory_equal(again.at, points[i].at, sizeof again.at);
    assert_int_equal(again.kind, points[i].kind);
    assert_true(id < 75712);
    assert_true(i == 0 || pz_point_order(&s, &points[i - 1], &points[i]) < 0);
    tpuv4 = tpuv4 || strcmp(c.name, "8x128x128-2x128-128M") == 0;
  }
  assert_true(tpuv4); /* it is its own budget */
  pz_arena_release(&arena);
}

static void numbers_are_of_chips(void **state) {
  (void)state;
  struct pz_space s = load("modern");
  for (uint32_t kind = 0; kind < pz_space_kinds(&s); kind += 7) {
    struct pz_point p = {.kind = kind};
    for (int a = 0; a < PZ_AXES; a++) p.at[a] = (uint8_t)draw((uint32_t)s.n[a]);
    struct pz_point again = pz_space_point(&s, pz_space_id(&s, &p));
    assert_int_equal(again.kind, p.kind);
    assert_memory_equal(again.at, p.at, sizeof p.at);
    struct pz_box one = pz_box_of(&p);
    struct pz_point back = pz_box_point(&one);
    assert_true(pz_box_is_chip(&one) && pz_box_chips(&one) == 1);
    assert_memory_equal(back.at, p.at, sizeof p.at);
  }
}

/* The sums of ../shared/ref/published/area_22nm.csv, where it is. */
static void areas_are_the_published_ones(void **state) {
  (void)state;
  static const char path[] = PZ_TEST_SHARED "published/area_22nm.csv";
  struct pz_error err = {0};
  struct pz_arena arena;
  struct pz_csv csv;
  char *text = NULL;
  size_t bytes = 0;
  if (!pz_test_has(path)) skip();
  assert_int_equal(pz_file_read(path, 1 << 20, &text, &bytes, &err), PZ_OK);
  pz_arena_init(&arena);
  assert_int_equal(pz_csv_parse(path, text, bytes, &arena, &csv, &err), PZ_OK);
  int checked = 0;
  for (uint32_t r = 0; r < csv.rows; r++) {
    double size = atof(pz_csv_cell(&csv, r, 1)), area = atof(pz_csv_cell(&csv, r, 2));
    struct pz_chip c;
    assert_int_equal(pz_test_chip_read("tpuv4", &c, &err), PZ_OK);
    if (strcmp(pz_csv_cell(&csv, r, 0), "tensor_core_macs") != 0) continue;
    c.tensor = (struct pz_tensor_cores){.cores = 1, .rows = (int64_t)size, .cols = 1};
    c.tensor.local_bytes = 16 * size > 1024 ? (int64_t)(16 * size) : 1024;
    struct pz_area a = pz_chip_area(&c);
    assert_true(fabs(a.tensor_um2 + a.tensor_local_um2 - area) < 0.001);
    checked++;
  }
  assert_true(checked > 5);
  free(text);
  pz_arena_release(&arena);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void bad_spaces_say_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"{}", "field 'nodes' is missing"},
      {"{\"tensor_cores\":[]}", "increasing integers"},
      {"{\"tensor_cores\":[4,2],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2]}",
       "increasing integers"},
      {"{\"tensor_cores\":[1],\"rows\":[0],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2]}",
       "rows"},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2],"
       "\"base\":\"nosuch\"}",
       "unknown chip"},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mb\":[2]}",
       "space.json: unknown key 'glb_mb'; did you mean 'glb_mib'?"},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2],"
       "\"budget\":5}",
       "space.json: unknown key 'budget'; accepted: name, about, "},
      {"{\"tensor_cores\":[1],\"rows\":[2],\"cols\":[2],\"vector_cores\":[1],\"glb_mib\":[2],"
       "\"base\":{\"clock\":1}}",
       "space.json: base: unknown key 'clock'; "},
      {"{\"tensor_cores\":[1],\"rows\":[8,1024],\"cols\":[8,1024],\"vector_cores\":[1],"
       "\"glb_mib\":[1,2]}",
       "no buffer of the space holds a tile of an array of 1024 x 1024; accepted: local_kib of "},
      {"{\"base\":\"tpuv4\",\"axes\":3}", "field 'axes' is 3; accepted: an object"},
      {"{\"base\":\"tpuv4\",\"tensor_cores\":[1],\"axes\":{\"tensor_cores\":[2]}}",
       "field 'tensor_cores' is [1]; accepted: it in \"axes\" alone, where it is given too"},
      {"{\"base\":\"tpuv4\",\"rows\":[8],\"axes\":{\"rows\":[8],\"cols\":[8]}}", "field 'rows' is"},
      {"[1]", "object"},
      {"{", "space.json"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_space s;
    struct pz_error err = {0};
    if (pz_space_parse("space.json", cases[i].text, strlen(cases[i].text), &s, &err) == PZ_OK)
      fail_msg("accepted: %s", cases[i].text);
    if (!strstr(err.message, cases[i].says)) print_message("%s\n", err.message);
    assert_non_null(strstr(err.message, cases[i].says));
  }
}

/* Small arrays would get less than a tile from a base chip with small buffers, and from one whose
 * library has large tiles. */
static void every_chip_of_a_space_has_tiles(void **state) {
  (void)state;
  static const char tight[] = "{\"tech\":\"22nm\",\"clock_hz\":1e9,\"tensor\":{\"cores\":8,"
                              "\"rows\":128,\"cols\":128,\"local_bytes\":98304},\"vector\":{"
                              "\"cores\":2,\"lanes\":128},\"glb\":{\"bytes\":8388608,"
                              "\"bytes_per_s\":1e12},\"hbm\":{\"stacks\":1,\"bytes_per_stack\":"
                              "17179869184,\"bytes_per_s_per_stack\":1e12}}";
  static const char *const bases[] = {tight, "\"h200\"", "\"tpuv4\""};
  for (int i = 0; i < 3; i++) {
    char text[1024];
    struct pz_space s;
    struct pz_error err = {0};
    snprintf(text, sizeof text,
             "{\"tensor_cores\":[1],\"rows\":[2,16,48,128],\"cols\":[2,16,48,256],"
             "\"vector_cores\":[1],\"glb_mib\":[1],\"base\":%s}",
             bases[i]);
    if (pz_space_parse("space", text, strlen(text), &s, &err) != PZ_OK) fail_msg("%s", err.message);
    for (uint64_t id = 0; id < (uint64_t)pz_space_chips(&s); id++) {
      struct pz_point p = pz_space_point(&s, id);
      struct pz_product product = {1, 4096, 777, 1000, false};
      struct pz_mapping o;
      struct pz_chip c;
      pz_space_chip(&s, &p, &c);
      if (pz_map_product(&product, &c, &o, &err) != PZ_OK) fail_msg("%s", err.message);
    }
  }
}

#define HEAD "{\"nodes\":[\"5nm\"],\"arrays\":[\"16x16\"],\"hbm\":[\"hbm3\"],\"axes\":{"
#define AXES                                                                                       \
  "\"local_kib\":[64],\"vector_cores\":[4],\"lanes\":[16],\"glb_mib\":[4],"                        \
  "\"glb_bytes_per_cycle\":[256],\"clock_mhz\":[1000],\"hbm_stacks\":[2],\"link_gb_per_s\":[50]}"

static void spaces_are_read(void **state) {
  static const struct {
    const char *text;
    enum pz_status status;
    int64_t chips;
    const char *message;
  } cases[] = {
      {HEAD "\"tensor_cores\":[1,2,4]," AXES "}", PZ_OK, 3, NULL},
      {HEAD "\"tensor_cores\":{\"from\":4,\"to\":12,\"step\":4}," AXES "}", PZ_OK, 3, NULL},
      {HEAD "\"tensor_cores\":[2,2]," AXES "}", PZ_BAD_INPUT, 0, "increasing"},
      {HEAD "\"tensor_cores\":{\"from\":4,\"to\":12}," AXES "}", PZ_BAD_INPUT, 0, "step"},
      {HEAD "\"tensor_cores\":{\"from\":1,\"to\":1000,\"step\":1}," AXES "}", PZ_BAD_INPUT, 0,
       "250"},
      {HEAD AXES "}", PZ_BAD_INPUT, 0, "tensor_cores"},
      {HEAD "\"tensor_cores\":[1],\"tensor_core\":[1]," AXES "}", PZ_BAD_INPUT, 0, "tensor_core"},
      {HEAD "\"tensor_cores\":[1]," AXES ",\"limit\":3}", PZ_BAD_INPUT, 0, "limit"},
      {"{\"nodes\":[\"6nm\"],\"arrays\":[\"16x16\"],\"hbm\":[\"hbm3\"],\"axes\":{\"tensor_cores\":["
       "1]," AXES "}",
       PZ_BAD_INPUT, 0, "5nm"},
      {"{\"nodes\":[\"5nm\"],\"arrays\":[\"16*16\"],\"hbm\":[\"hbm3\"],\"axes\":{\"tensor_cores\":["
       "1]," AXES "}",
       PZ_BAD_INPUT, 0, "64x128"},
      {"{\"nodes\":[\"5nm\"],\"arrays\":[\"256x256\"],\"hbm\":[\"hbm3\"],\"axes\":{\"tensor_"
       "cores\":[1]," AXES "}",
       PZ_BAD_INPUT, 0, "local_kib"},
      {"{\"base\":\"h200\",\"axes\":{}}", PZ_OK, 1, NULL},
      {"{\"base\":\"h200\",\"hbm\":[\"hbm3\",\"hbm3e\"],\"axes\":{\"clock_mhz\":[1000,1500]}}",
       PZ_OK, 4, NULL},
      {"{\"base\":\"h200\",\"axes\":{\"lanes\":\"columns\",\"glb_mib\":[16,32]}}", PZ_OK, 2, NULL},
      {"{\"base\":\"h200\",\"axes\":{\"glb_mib\":\"columns\"}}", PZ_BAD_INPUT, 0, "glb_mib"},
      {"{\"base\":\"h2000\",\"axes\":{}}", PZ_BAD_INPUT, 0, "base: unknown chip"},
      {"{\"base\":{\"tech\":\"5nm\"},\"axes\":{}}", PZ_BAD_INPUT, 0, "space: base"},
      {"{\"base\":[1],\"axes\":{}}", PZ_BAD_INPUT, 0, "base"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_space s;
    struct pz_error err = {0};
    enum pz_status status = pz_space_parse("space", cases[i].text, strlen(cases[i].text), &s, &err);
    if (status != cases[i].status) print_message("%s\n", cases[i].text);
    assert_int_equal(status, cases[i].status);
    if (status == PZ_OK) assert_int_equal(pz_space_chips(&s), cases[i].chips);
    if (cases[i].message) assert_non_null(strstr(err.message, cases[i].message));
  }
}

static void modern_is_large(void **state) {
  (void)state;
  struct pz_space s = load("modern");
  struct pz_error err = {0};
  assert_int_equal(pz_space_set_node(&s, "5nm", &err), PZ_OK);
  assert_true(pz_space_chips(&s) >= 100000000);
  assert_int_equal(pz_space_set_node(&s, "7nm", &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "accepted: those of the space modern, 5nm"));
  struct pz_arena arena;
  struct pz_point *points;
  uint32_t n;
  pz_arena_init(&arena);
  assert_int_equal(pz_space_list(&s, &(struct pz_limits){.mm2 = 814}, &arena, &points, &n, &err),
                   PZ_LIMIT);
  pz_arena_release(&arena);
}

/* All that chips are made of, but for the padding between fields. */
static void same_chip(const struct pz_chip *a, const struct pz_chip *b) {
  assert_memory_equal(&a->tensor, &b->tensor, sizeof a->tensor);
  assert_memory_equal(&a->vector, &b->vector, sizeof a->vector);
  assert_memory_equal(&a->hbm, &b->hbm, sizeof a->hbm);
  assert_true(a->glb_bytes == b->glb_bytes && a->glb_bytes_per_s == b->glb_bytes_per_s);
  assert_true(a->clock_hz == b->clock_hz && a->link_bytes_per_s == b->link_bytes_per_s);
  assert_true(a->tech == b->tech && a->execution == b->execution);
  assert_string_equal(a->name, b->name);
}

static void same_space(const struct pz_space *a, const struct pz_space *b) {
  int64_t n = pz_space_chips(a);
  assert_int_equal(pz_space_chips(b), n);
  assert_true(a->least_part == b->least_part && a->has_base == b->has_base);
  for (int64_t id = 0; id < n; id++) {
    struct pz_point p = pz_space_point(a, (uint64_t)id);
    struct pz_chip x, y;
    pz_space_chip(a, &p, &x);
    pz_space_chip(b, &p, &y);
    same_chip(&x, &y);
  }
}

/* The same grid with its axes beside the other keys and in "axes", with rows and columns and with arrays; and each of them
 * written and read. */
static void forms_of_a_space_are_one_space(void **state) {
  (void)state;
  static const char *const forms[][4] = {
      {"{\"tensor_cores\":[4,8],\"rows\":[32,64],\"cols\":[32,64],\"vector_cores\":[2,8],"
       "\"glb_mib\":[4,16],\"least_part\":0.25}",
       "{\"base\":\"tpuv4\",\"least_part\":0.25,\"axes\":{\"tensor_cores\":{\"from\":4,\"to\":8,"
       "\"step\":4},\"rows\":[32,64],\"cols\":[32,64],\"vector_cores\":[2,8],\"lanes\":"
       "\"columns\",\"glb_mib\":[4,16]}}",
       "{\"base\":\"tpuv4\",\"least_part\":0.25,\"arrays\":[\"32x32\",\"32x64\",\"64x32\","
       "\"64x64\"],\"nodes\":[\"22nm\"],\"axes\":{\"tensor_cores\":[4,8],\"vector_cores\":[2,8],"
       "\"lanes\":\"columns\",\"glb_mib\":[4,16]}}"},
      {"{\"tensor_cores\":[66,132],\"rows\":[32,64],\"cols\":[32],\"vector_cores\":[66,132],"
       "\"lanes\":[64,128],\"glb_mib\":[32,60],\"base\":\"h200\"}",
       "{\"base\":\"h200\",\"axes\":{\"tensor_cores\":[66,132],\"rows\":[32,64],\"cols\":[32],"
       "\"vector_cores\":[66,132],\"lanes\":[64,128],\"glb_mib\":[32,60]}}"},
      {HEAD "\"tensor_cores\":[1,2,4]," AXES "}",
       HEAD "\"tensor_cores\":[1,2,4]," AXES ",\"about\":\"the same\"}"}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    struct pz_space first = parse(forms[i][0]);
    for (int k = 0; k < 4 && forms[i][k]; k++) {
      struct pz_space s = parse(forms[i][k]);
      json_t *json = pz_space_json(&s);
      char *text = pz_json_dump(json, JSON_COMPACT);
      struct pz_space again = parse(text);
      same_space(&first, &s);
      same_space(&s, &again);
      pz_free(text);
      json_decref(json);
    }
  }
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Chips with several cores of both kinds take at least a part of the area; those with one do not have to. */
static void least_part_is_of_the_area(void **state) {
  (void)state;
  struct pz_space s = load("paper");
  struct pz_limits l = complete(&s, NULL), none = l;
  uint32_t small = 0, several = 0;
  none.least_mm2 = 0;
  for (uint64_t id = 0; id < (uint64_t)pz_space_chips(&s); id += 11) {
    struct pz_point p = pz_space_point(&s, id);
    struct pz_chip c;
    pz_space_chip(&s, &p, &c);
    struct pz_taken t = pz_chip_taken(&c);
    const char *broken = pz_limits_broken(&l, &t, &t), *other = pz_limits_broken(&none, &t, &t);
    bool both = c.tensor.cores > 1 && c.vector.cores > 1, least = both && t.mm2 < 0.3 * l.mm2;
    assert_int_equal(t.several, both);
    assert_true(other ? broken != NULL : least == (broken != NULL));
    if (least) assert_string_equal(broken, other ? other : "least area");
    small += least;
    several += both;
  }
  assert_true(small > 100 && several > small);
  s.least_part = 0;
  assert_true(complete(&s, NULL).least_mm2 == 0);
  s.least_part = 0.5;
  assert_true(complete(&s, "100").least_mm2 == 50);
}

/* The area of a chip is its bill's, whatever the form of its space and its base. */
static void areas_are_bills(void **state) {
  (void)state;
  static const char *const texts[] = {
      "{\"tensor_cores\":[66,132],\"rows\":[32,64],\"cols\":[32],\"vector_cores\":[66,132],"
      "\"glb_mib\":[32,60],\"base\":\"h200\"}",
      "{\"tensor_cores\":[4,8],\"rows\":[32,64],\"cols\":[32],\"vector_cores\":[2],\"glb_mib\":[4,"
      "16]}",
      HEAD "\"tensor_cores\":[1,2,4]," AXES "}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct pz_space s = parse(texts[i]);
    for (uint64_t id = 0; id < (uint64_t)pz_space_chips(&s); id++) {
      struct pz_point p = pz_space_point(&s, id);
      struct pz_chip c;
      pz_space_chip(&s, &p, &c);
      struct pz_bill b = pz_chip_bill(&c, PZ_BILL_LIKELY);
      struct pz_taken t = pz_chip_taken(&c);
      assert_true(t.mm2 == b.area_mm2 && t.dollars == b.dollars && t.edge_mm == b.edge_mm);
      struct pz_area own = pz_chip_area(&c);
      if (i == 1) assert_true(fabs(t.mm2 * 1e6 / pz_area_total_um2(&own) - 1) < 1e-12);
    }
    if (s.has_base)
      assert_true(complete(&s, NULL).mm2 == pz_chip_bill(&s.base, PZ_BILL_LIKELY).area_mm2);
  }
}

/* A budget is a chip's bill where its technology has one; of another technology it is refused. */
static void budgets_are_bills(void **state) {
  (void)state;
  struct pz_space s = load("modern"), paper = load("paper");
  struct pz_limits l = {.watts = 500};
  struct pz_error err = {0};
  assert_int_equal(pz_limits_complete(&s, "a100-80", NULL, &l, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "--node 7nm"));
  err = (struct pz_error){0};
  assert_int_equal(pz_limits_complete(&paper, "h100", NULL, &l, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "a chip of 5nm, and the space paper has chips of 22nm"));
  assert_int_equal(pz_limits_complete(&s, "h100", "5nm", &l, &err), PZ_OK);
  assert_int_equal(pz_space_set_node(&s, "5nm", &err), PZ_OK);
  l = (struct pz_limits){.watts = 500};
  assert_int_equal(pz_limits_complete(&s, "h100", NULL, &l, &err), PZ_OK);
  assert_true(fabs(l.mm2 - 804.45) < 0.01 && l.watts == 500 && fabs(l.dollars - 1916) < 1);
  l = complete(&paper, "tpuv4"); /* its library has no bill of HBM and links: area alone */
  assert_true(fabs(l.mm2 - 278.82667631216) < 1e-10 && l.watts == 0 && l.dollars == 0);
  l = complete(&paper, "33.5");
  assert_true(l.mm2 == 33.5 && fabs(l.least_mm2 - 0.3 * 33.5) < 1e-12);
  static const char *const wrong[] = {"-3", "0", "1e12", "nan"};
  for (int i = 0; i < 4; i++) {
    l = (struct pz_limits){.mm2 = 0};
    assert_int_equal(pz_limits_complete(&paper, wrong[i], NULL, &l, &err), PZ_BAD_USE);
  }
  assert_int_equal(pz_limits_complete(&paper, "tpuv44", NULL, &l, &err), PZ_BAD_INPUT);
}

static struct pz_box draw_box(const struct pz_space *s) {
  struct pz_box b = {.kind = draw(pz_space_kinds(s))};
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    uint8_t x = (uint8_t)draw((uint32_t)s->n[a]), y = (uint8_t)draw((uint32_t)s->n[a]);
    b.lo[a] = x < y ? x : y;
    b.hi[a] = x < y ? y : x;
  }
  return b;
}

/* What a chip of a box takes lies between its smallest and its largest, and a box that breaks a limit has no chip that
 * keeps it. */
static void chips_take_what_their_box_says(void **state) {
  (void)state;
  static const char *const names[] = {"modern", "paper"};
  static const double hair = 1 + 1e-12;
  int broken = 0;
  for (int i = 0; i < pz_test_part(4000); i++) {
    struct pz_space s = load(names[i % 2]);
    struct pz_limits l = {i % 2 ? 10 + draw(300) : 100 + draw(800), 100 + draw(1000), draw(2) * 800,
                          i % 2 ? draw(80) : 0};
    for (int k = 0; k < 10; k++, i++) {
      struct pz_box b = draw_box(&s), one = b;
      struct pz_boxed x, c;
      for (enum pz_axis a = 0; a < PZ_AXES; a++)
        one.lo[a] = one.hi[a] = (uint8_t)(b.lo[a] + draw((uint32_t)(b.hi[a] - b.lo[a] + 1)));
      pz_boxed_set(&s, &b, &x);
      pz_boxed_set(&s, &one, &c);
      const struct pz_taken *least = &x.least, *t = &c.least, *most = &x.most;
      assert_true(least->mm2 <= t->mm2 * hair && t->mm2 <= most->mm2 * hair);
      assert_true(least->watts <= t->watts * hair && t->watts <= most->watts * hair);
      assert_true(least->dollars <= t->dollars * hair && t->dollars <= most->dollars * hair);
      assert_true(least->owner_dollars <= t->owner_dollars * hair);
      assert_true(least->static_watts <= t->static_watts * hair);
      assert_true(least->voltage2 <= t->voltage2 && least->several <= t->several);
      if (!pz_boxed_breaks(&x, &l)) continue;
      assert_non_null(pz_boxed_breaks(&c, &l));
      broken++;
    }
  }
  assert_true(broken > 0);
}

/* ---- covers --------------------------------------------------------------------------------- */

static void covers_are_told(void **state) {
  (void)state;
  struct pz_space s = parse(HEAD "\"tensor_cores\":[1,2,3]," AXES "}");
  struct pz_closed_box list[3];
  for (int i = 0; i < 3; i++) list[i] = (struct pz_closed_box){.box = pz_box_all(&s, 0)};
  list[0].box.hi[0] = 0;
  list[1].box.lo[0] = 1;
  assert_true(pz_boxes_cover(&s, list, 2));
  list[0] = (struct pz_closed_box){.box = pz_box_all(&s, 0)}; /* twice */
  assert_false(pz_boxes_cover(&s, list, 2));
  list[0].box = list[1].box = pz_box_all(&s, 0);
  list[0].box.hi[0] = 0;
  list[1].box.lo[0] = 2; /* a hole */
  assert_false(pz_boxes_cover(&s, list, 2));
  assert_false(pz_boxes_cover(&s, list, 0));
  list[0].box = pz_box_all(&s, 0);
  assert_true(pz_boxes_cover(&s, list, 1));
  list[0].box.hi[0] = 3; /* beyond the space */
  assert_false(pz_boxes_cover(&s, list, 1));
  list[0].box = pz_box_all(&s, 0);
  list[0].box.kind = 1;
  assert_false(pz_boxes_cover(&s, list, 1));
}

/* Boxes that come of cuts of a space cover it in any order, and none of them can be left out, given twice or changed. */
static void cuts_cover(void **state) {
  (void)state;
  struct pz_space s = load("paper");
  for (int i = 0; i < pz_test_part(100); i++) {
    struct pz_closed_box list[200], again[200];
    uint32_t n = pz_space_kinds(&s);
    for (uint32_t k = 0; k < n; k++) list[k] = (struct pz_closed_box){.box = pz_box_all(&s, k)};
    while (n < 190) {
      uint32_t k = draw(n);
      enum pz_axis a = (enum pz_axis)draw(PZ_AXES);
      if (list[k].box.lo[a] == list[k].box.hi[a]) continue;
      int at = list[k].box.lo[a] + (int)draw((uint32_t)(list[k].box.hi[a] - list[k].box.lo[a]));
      list[n] = list[k];
      list[k].box.hi[a] = (uint8_t)at;
      list[n++].box.lo[a] = (uint8_t)(at + 1);
    }
    memcpy(again, list, sizeof list);
    assert_true(pz_boxes_cover(&s, again, n));
    uint32_t k = draw(n), other = (k + 1 + draw(n - 1)) % n;
    memcpy(again, list, sizeof list);
    again[k] = again[n - 1];
    assert_false(pz_boxes_cover(&s, again, n - 1));
    memcpy(again, list, sizeof list);
    again[n] = again[k];
    assert_false(pz_boxes_cover(&s, again, n + 1));
    memcpy(again, list, sizeof list);
    again[k] = again[other];
    assert_false(pz_boxes_cover(&s, again, n));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_papers_space_has_29360_chips),
      cmocka_unit_test(numbers_are_of_chips),
      cmocka_unit_test(areas_are_the_published_ones),
      cmocka_unit_test(bad_spaces_say_what_is_accepted),
      cmocka_unit_test(every_chip_of_a_space_has_tiles),
      cmocka_unit_test(spaces_are_read),
      cmocka_unit_test(modern_is_large),
      cmocka_unit_test(forms_of_a_space_are_one_space),
      cmocka_unit_test(least_part_is_of_the_area),
      cmocka_unit_test(areas_are_bills),
      cmocka_unit_test(budgets_are_bills),
      cmocka_unit_test(chips_take_what_their_box_says),
      cmocka_unit_test(covers_are_told),
      cmocka_unit_test(cuts_cover),
  };
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
