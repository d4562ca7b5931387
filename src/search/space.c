#include "search/space.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "chip/embedded.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/num.h"
#include "core/text.h"

static const char *const axis_names[PZ_AXES] = {"tensor_cores", "rows",  "cols",
                                                "vector_cores", "lanes", "glb_mib"};
static const int64_t most_value[PZ_AXES] = {1 << 20, 1 << 14, 1 << 14, 1 << 20, 1 << 20, 1 << 20};

const char *pz_axis_name(enum pz_axis axis) {
  return (size_t)axis < PZ_AXES ? axis_names[axis] : NULL;
}

const char *pz_space_preset_name(size_t i) { return pz_embedded_name(pz_embedded_spaces, i); }

/* ---- reading -------------------------------------------------------------------------------- */

static void read_axis(struct pz_fields *f, enum pz_axis axis, struct pz_space *s) {
  const json_t *list = pz_fields_value(f, axis_names[axis]), *item;
  char accepted[96];
  size_t i;
  snprintf(accepted, sizeof accepted, "1 to %d increasing integers, the largest at most %lld",
           PZ_SPACE_MOST_VALUES, (long long)most_value[axis]);
  size_t n = json_array_size(list);
  if (n < 1 || n > PZ_SPACE_MOST_VALUES) {
    pz_fields_refuse(f, axis_names[axis], accepted);
    return;
  }
  json_array_foreach((json_t *)(uintptr_t)list, i, item) {
    int64_t v = json_integer_value(item), before = i ? s->value[axis][i - 1] : 0;
    if (!json_is_integer(item) || v <= before || v > most_value[axis]) {
      pz_fields_refuse(f, axis_names[axis], accepted);
      return;
    }
    s->value[axis][i] = v;
  }
  s->n[axis] = (int)n;
}

static void read_axes(struct pz_fields *f, struct pz_space *s) {
  s->n[PZ_AXIS_LANES] = 1;
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    if (a != PZ_AXIS_LANES || pz_fields_value(f, axis_names[a])) read_axis(f, a, s);
  for (int i = 0; i < s->n[PZ_AXIS_GLB] && f->status == PZ_OK; i++)
    s->value[PZ_AXIS_GLB][i] *= 1 << 20;
  double points = 1;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) points *= s->n[a];
  if (f->status == PZ_OK && points > PZ_SPACE_MOST_POINTS)
    f->status = pz_fail(f->err, PZ_LIMIT, "%s: %.0f points; accepted: at most %d", f->name, points,
                        PZ_SPACE_MOST_POINTS);
}

static double chip_um2(const struct pz_chip *c) {
  struct pz_area a = pz_chip_area(c);
  return pz_area_total_um2(&a);
}

/* The smallest global buffer is to hold a tile of the largest array. */
static void check_glb(struct pz_fields *f, const struct pz_space *s) {
  enum { MIB = 1 << 20 };
  struct pz_chip c = s->base;
  char accepted[120];
  c.tensor.rows = s->value[PZ_AXIS_ROWS][s->n[PZ_AXIS_ROWS] - 1];
  c.tensor.cols = s->value[PZ_AXIS_COLS][s->n[PZ_AXIS_COLS] - 1];
  int64_t least = pz_chip_least_glb_bytes(&c);
  snprintf(accepted, sizeof accepted, "at least %lld, for a tile of an array of %lld x %lld",
           (long long)pz_ceil_div(least, MIB), (long long)c.tensor.rows, (long long)c.tensor.cols);
  if (s->value[PZ_AXIS_GLB][0] < least) pz_fields_refuse(f, axis_names[PZ_AXIS_GLB], accepted);
}

static void read_space(struct pz_fields *f, struct pz_space *s) {
  static const char *const words[] = {"sources"};
  pz_text_plain(pz_text_copy(s->name, sizeof s->name, pz_fields_text_or(f, "name", f->name)));
  pz_text_copy(s->about, sizeof s->about, pz_fields_text_or(f, "about", ""));
  pz_fields_allow(f, words, 1);
  s->least_part = pz_fields_real_or(f, "least_part", 0, 1, 0);
  s->budget_um2 = pz_fields_real_or(f, "budget_um2", 1, 1e15, 0);
  (void)pz_fields_value(f, "base"); /* read when all else is known to be good */
  read_axes(f, s);
  if (pz_fields_finish(f) != PZ_OK) return;
  pz_chip_read_base(f, "tpuv4", &s->base);
  if (f->status == PZ_OK) check_glb(f, s);
  if (f->status == PZ_OK && s->budget_um2 == 0) s->budget_um2 = chip_um2(&s->base);
}

enum pz_status pz_space_parse(const char *name, const char *text, size_t bytes,
                              struct pz_space *out, struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_need(name, "name", err);
  if (status == PZ_OK) status = pz_need(text, "text", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields f = {.name = name, .root = root, .err = err};
  struct pz_space s = {0};
  read_space(&f, &s);
  json_decref(root);
  if (f.status == PZ_OK) *out = s;
  return f.status;
}

enum pz_status pz_space_load(const char *space, struct pz_space *out, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  if (!space || !out) return pz_need(NULL, space ? "out" : "space", err);
  enum pz_status status = pz_embedded_load(
      pz_embedded_spaces, "space", "a name listed by 'phaze spaces'", space, &text, &bytes, err);
  if (status == PZ_OK) status = pz_space_parse(space, text, bytes, out, err);
  pz_free(text);
  return status;
}

enum pz_status pz_space_set_budget(struct pz_space *s, const char *budget, struct pz_error *err) {
  char *end;
  if (!s || !budget) return pz_need(NULL, s ? "budget" : "space", err);
  double mm2 = strtod(budget, &end);
  if (end != budget && !*end) {
    if (!(mm2 > 0 && mm2 < 1e9))
      return pz_fail(err, PZ_BAD_USE, "--budget %s; accepted: a chip, or an area above 0 mm2",
                     budget);
    s->budget_um2 = mm2 * 1e6;
    return PZ_OK;
  }
  struct pz_chip c;
  enum pz_status status = pz_chip_load(budget, &c, err);
  if (status != PZ_OK) return status;
  if (c.tech != s->base.tech)
    return pz_fail(
        err, PZ_BAD_USE,
        "--budget %s: a chip of %s, and the space %s has chips of %s; accepted: a chip of "
        "%s, mm2, or --space modern --node %s --budget %s, where chips of one node have "
        "one bill",
        budget, pz_tech_at(c.tech)->name, s->name, pz_tech_at(s->base.tech)->name,
        pz_tech_at(s->base.tech)->name, pz_tech_at(c.tech)->name, budget);
  s->budget_um2 = chip_um2(&c);
  return PZ_OK;
}

/* ---- points --------------------------------------------------------------------------------- */

uint32_t pz_space_grid(const struct pz_space *s) {
  uint32_t n = 1;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) n *= (uint32_t)s->n[a];
  return n;
}

struct pz_point pz_space_point(const struct pz_space *s, uint32_t id) {
  struct pz_point p = {.id = id};
  for (enum pz_axis a = PZ_AXES; a-- > 0;) {
    p.at[a] = (uint8_t)(id % (uint32_t)s->n[a]);
    id /= (uint32_t)s->n[a];
  }
  return p;
}

uint32_t pz_space_id(const struct pz_space *s, const uint8_t at[PZ_AXES]) {
  uint32_t id = 0;
  for (enum pz_axis a = 0; a < PZ_AXES; a++) id = id * (uint32_t)s->n[a] + at[a];
  return id;
}

int64_t pz_space_value(const struct pz_space *s, const struct pz_point *p, enum pz_axis axis) {
  int64_t v = s->value[axis][p->at[axis]];
  return axis == PZ_AXIS_LANES && v == 0 ? s->value[PZ_AXIS_COLS][p->at[PZ_AXIS_COLS]] : v;
}

void pz_space_chip(const struct pz_space *s, const struct pz_point *p, struct pz_chip *out) {
  struct pz_chip_size z = {.tensor_cores = pz_space_value(s, p, PZ_AXIS_TENSOR_CORES),
                           .rows = pz_space_value(s, p, PZ_AXIS_ROWS),
                           .cols = pz_space_value(s, p, PZ_AXIS_COLS),
                           .vector_cores = pz_space_value(s, p, PZ_AXIS_VECTOR_CORES),
                           .lanes = pz_space_value(s, p, PZ_AXIS_LANES),
                           .glb_bytes = pz_space_value(s, p, PZ_AXIS_GLB)};
  pz_chip_resize(&s->base, &z, out);
  snprintf(out->name, sizeof out->name, "%lldx%lldx%lld-%lldx%lld-%lldM", (long long)z.tensor_cores,
           (long long)z.rows, (long long)z.cols, (long long)z.vector_cores, (long long)z.lanes,
           (long long)(z.glb_bytes >> 20));
  snprintf(out->about, sizeof out->about, "a point of the space %s", s->name);
}

/* Chips with one core of a kind may be as small as they like. */
static double least_um2(const struct pz_space *s, const struct pz_chip *c) {
  return c->tensor.cores == 1 || c->vector.cores == 1 ? 0 : s->least_part * s->budget_um2;
}

bool pz_space_has(const struct pz_space *s, const struct pz_point *p) {
  struct pz_chip c;
  pz_space_chip(s, p, &c);
  double um2 = chip_um2(&c);
  return um2 <= s->budget_um2 && um2 >= least_um2(s, &c);
}

static enum pz_status nothing_fits(const struct pz_space *s, struct pz_error *err) {
  struct pz_chip c;
  double least = HUGE_VAL, most = 0;
  for (uint32_t id = 0; id < pz_space_grid(s); id++) {
    struct pz_point p = pz_space_point(s, id);
    pz_space_chip(s, &p, &c);
    least = fmin(least, chip_um2(&c));
    most = fmax(most, chip_um2(&c));
  }
  return pz_fail(err, PZ_NO_ANSWER,
                 "no chip of the space %s is within %.6g to %.6g mm2; their areas are %.6g to %.6g",
                 s->name, s->least_part * s->budget_um2 / 1e6, s->budget_um2 / 1e6, least / 1e6,
                 most / 1e6);
}

enum pz_status pz_space_points(const struct pz_space *s, struct pz_arena *arena,
                               struct pz_point **out, uint32_t *n, struct pz_error *err) {
  uint32_t grid = pz_space_grid(s), count = 0;
  struct pz_point *list = pz_arena_alloc(arena, grid, sizeof *list);
  if (!list) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the space");
  for (uint32_t id = 0; id < grid; id++) {
    struct pz_point p = pz_space_point(s, id);
    if (pz_space_has(s, &p)) list[count++] = p;
  }
  if (count == 0) return nothing_fits(s, err);
  *out = list;
  *n = count;
  return PZ_OK;
}

enum pz_status pz_space_count(const struct pz_space *s, uint32_t *n, struct pz_error *err) {
  struct pz_arena arena;
  struct pz_point *points;
  enum pz_status status = pz_need(s, "space", err);
  if (status == PZ_OK) status = pz_need(n, "n", err);
  for (enum pz_axis a = 0; a < PZ_AXES && status == PZ_OK; a++)
    status = pz_need_range(axis_names[a], s->n[a], 1, PZ_SPACE_MOST_VALUES, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&arena, NULL);
  status = pz_space_points(s, &arena, &points, n, err);
  pz_arena_release(&arena);
  return status;
}
