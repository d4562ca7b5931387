#include "box/range_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box/embedded.h"
#include "chip/calibration.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/num.h"
#include "core/text.h"

/* JEDEC rates of a stack of 1,024 data lines at 3.6 Gb/s (JESD235D), 6.4 (JESD238) and, HBM3E as B200 runs it, 7.8; and
 * bytes as products have them: A100 80 GB, H100, B200. */
const struct pz_hbm_generation pz_hbm_generations[PZ_HBM_GENERATIONS] = {
    {"hbm2e", 460e9, INT64_C(16) << 30},
    {"hbm3", 819e9, INT64_C(16) << 30},
    {"hbm3e", 1000e9, INT64_C(24) << 30},
};

static const struct axis {
  const char *name;
  int32_t most;
} axes[PZ_RANGE_AXES] = {
    {"tensor_cores", 1 << 20}, {"local_kib", 1 << 20}, {"vector_cores", 1 << 20},
    {"lanes", 1 << 20},        {"glb_mib", 1 << 20},   {"glb_bytes_per_cycle", 1 << 24},
    {"clock_mhz", 100000},     {"hbm_stacks", 1024},   {"link_gb_per_s", 1 << 20}};

const char *pz_range_axis_name(enum pz_range_axis a) {
  return (size_t)a < PZ_RANGE_AXES ? axes[a].name : NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void refuse_axis(struct pz_fields *f, enum pz_range_axis a) {
  char accepted[160];
  snprintf(accepted, sizeof accepted,
           "1 to %d increasing integers from 1 to %d, or {\"from\", \"to\", \"step\"}",
           PZ_RANGE_MOST_VALUES, axes[a].most);
  pz_fields_refuse(f, axes[a].name, accepted);
}

static bool add_value(struct pz_range_space *s, enum pz_range_axis a, int64_t v) {
  int n = s->n[a];
  if (n == PZ_RANGE_MOST_VALUES || v < (n ? s->value[a][n - 1] + 1 : 1) || v > axes[a].most)
    return false;
  s->value[a][s->n[a]++] = (int32_t)v;
  return true;
}

/* {"from", "to", "step"} */
static bool read_range(const json_t *range, enum pz_range_axis a, struct pz_range_space *s) {
  const json_t *from = json_object_get(range, "from"), *to = json_object_get(range, "to"),
               *step = json_object_get(range, "step");
  if (json_object_size(range) != 3 || !json_is_integer(from) || !json_is_integer(to) ||
      !json_is_integer(step))
    return false;
  int64_t first = json_integer_value(from), last = json_integer_value(to),
          by = json_integer_value(step);
  if (first < 1 || last < first || last > axes[a].most || by < 1 || by > axes[a].most) return false;
  for (int64_t v = first; v <= last; v += by)
    if (!add_value(s, a, v)) return false;
  return true;
}

static bool read_list(const json_t *list, enum pz_range_axis a, struct pz_range_space *s) {
  const json_t *item;
  size_t i;
  if (!json_is_array(list) || !json_array_size(list)) return false;
  json_array_foreach((json_t *)(uintptr_t)list, i,
                     item) if (!json_is_integer(item) ||
                               !add_value(s, a, json_integer_value(item))) return false;
  return true;
}

static void read_axes(struct pz_fields *f, struct pz_range_space *s) {
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
    const json_t *v = pz_fields_value(f, axes[a].name);
    if (!(json_is_object(v) ? read_range(v, a, s) : read_list(v, a, s))) refuse_axis(f, a);
  }
}

/* A text of a list; NULL where it is none. */
static const char *text_at(const json_t *list, size_t i) {
  return json_string_value(json_array_get(list, i));
}

static bool add_node(struct pz_range_space *s, const char *name) {
  for (enum pz_tech t = 0; name && t < PZ_TECHS; t++) {
    if (strcmp(pz_tech_at(t)->name, name) != 0) continue;
    for (int i = 0; i < s->n_nodes; i++)
      if (s->node[i] == t) return false;
    s->node[s->n_nodes++] = t;
    return true;
  }
  return false;
}

static bool add_array(struct pz_range_space *s, const char *text) {
  char *end;
  if (!text || *text < '1' || *text > '9' || s->n_arrays == PZ_RANGE_MOST_ARRAYS) return false;
  int64_t rows = strtol(text, &end, 10);
  if (*end != 'x' || end[1] < '1' || end[1] > '9') return false;
  int64_t cols = strtol(end + 1, &end, 10);
  if (*end || rows > 1 << 14 || cols > 1 << 14) return false;
  for (int i = 0; i < s->n_arrays; i++)
    if (s->array[i].rows == rows && s->array[i].cols == cols) return false;
  s->array[s->n_arrays++] = (struct pz_array_shape){rows, cols};
  return true;
}

static bool add_hbm(struct pz_range_space *s, const char *name) {
  for (int g = 0; name && g < PZ_HBM_GENERATIONS; g++) {
    if (strcmp(pz_hbm_generations[g].name, name) != 0) continue;
    for (int i = 0; i < s->n_hbm; i++)
      if (s->hbm[i] == g) return false;
    s->hbm[s->n_hbm++] = g;
    return true;
  }
  return false;
}

static void read_texts(struct pz_fields *f, const char *key, const char *accepted,
                       struct pz_range_space *s,
                       bool (*add)(struct pz_range_space *, const char *)) {
  const json_t *list = pz_fields_value(f, key);
  size_t n = json_array_size(list);
  bool good = n > 0 && n <= PZ_RANGE_MOST_ARRAYS;
  for (size_t i = 0; i < n && good; i++) good = add(s, text_at(list, i));
  if (!good) pz_fields_refuse(f, key, accepted);
}

static void read_space(struct pz_fields *f, struct pz_range_space *s) {
  static const char *const words[] = {"sources", "axes"};
  char names[80], accepted[160];
  pz_text_plain(pz_text_copy(s->name, sizeof s->name, pz_fields_text_or(f, "name", f->name)));
  pz_text_copy(s->about, sizeof s->about, pz_fields_text_or(f, "about", ""));
  snprintf(accepted, sizeof accepted, "a list of different ones of %s",
           pz_text_join(names, sizeof names, pz_tech_name_at, NULL));
  read_texts(f, "nodes", accepted, s, add_node);
  read_texts(f, "arrays", "a list of up to 64 different shapes like \"64x128\", rows x columns", s,
             add_array);
  read_texts(f, "hbm", "a list of different ones of hbm2e, hbm3, hbm3e", s, add_hbm);
  pz_fields_allow(f, words, sizeof words / sizeof *words);
}

static enum pz_status check_size(const char *name, const struct pz_range_space *s,
                                 struct pz_error *err) {
  double n = pz_range_kinds(s);
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) n *= s->n[a];
  if (n <= 0x1p62) return PZ_OK;
  return pz_fail(err, PZ_LIMIT, "%s: %.3g chips; accepted: at most 2^62", name, n);
}

/* Has every array a buffer that holds a tile of it? */
static enum pz_status check_buffers(const char *name, const struct pz_range_space *s,
                                    struct pz_error *err) {
  struct pz_range_point p = {0};
  struct pz_chip c;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) p.at[a] = (uint8_t)(s->n[a] - 1);
  for (uint32_t k = 0; k < pz_range_kinds(s); k++) {
    p.kind = k;
    pz_range_chip(s, &p, &c);
    int64_t local = pz_chip_least_local_bytes(&c), glb = pz_chip_least_glb_bytes(&c);
    if (c.tensor.local_bytes < local || c.glb_bytes < glb)
      return pz_fail(
          err, PZ_BAD_INPUT,
          "%s: no buffer of the space holds a tile of an array of %lld x %lld; accepted: "
          "local_kib of %lld and glb_mib of %lld or more",
          name, (long long)c.tensor.rows, (long long)c.tensor.cols,
          (long long)pz_ceil_div(local, 1 << 10), (long long)pz_ceil_div(glb, 1 << 20));
  }
  return PZ_OK;
}

static enum pz_status read_root(const char *name, const json_t *root, struct pz_range_space *s,
                                struct pz_error *err) {
  char where[300];
  struct pz_fields f = {.name = name, .root = root, .err = err};
  read_space(&f, s);
  enum pz_status status = pz_fields_finish(&f);
  if (status != PZ_OK) return status;
  snprintf(where, sizeof where, "%.200s: axes", name);
  f = (struct pz_fields){.name = where, .root = json_object_get(root, "axes"), .err = err};
  read_axes(&f, s);
  status = pz_fields_finish(&f);
  if (status == PZ_OK) status = check_size(name, s, err);
  return status == PZ_OK ? check_buffers(name, s, err) : status;
}

enum pz_status pz_range_parse(const char *name, const char *text, size_t bytes,
                              struct pz_range_space *out, struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct pz_range_space *s = pz_calloc(1, sizeof *s);
  status = s ? read_root(name, root, s, err)
             : pz_fail(err, PZ_NO_MEMORY, "%s: out of memory for the space", name);
  if (status == PZ_OK) *out = *s;
  pz_free(s);
  json_decref(root);
  return status;
}

bool pz_range_is(const char *text, size_t bytes) {
  json_t *root = NULL;
  if (pz_json_parse("", text, bytes, &root, NULL) != PZ_OK) return false;
  bool is = json_object_get(root, "axes") != NULL;
  json_decref(root);
  return is;
}

const char *pz_range_preset_name(size_t i) { return pz_embedded_name(pz_embedded_range_spaces, i); }

enum pz_status pz_range_load(const char *space, struct pz_range_space *out, bool *is,
                             struct pz_error *err) {
  *is = false;
  for (const struct pz_embedded *e = pz_embedded_range_spaces; e->name; e++)
    if (strcmp(e->name, space) == 0) {
      *is = true;
      return pz_range_parse(space, e->text, strlen(e->text), out, err);
    }
  if (!pz_file_named(space)) return PZ_OK;
  size_t bytes = 0;
  char *text = NULL;
  enum pz_status status = pz_file_read(space, PZ_RANGE_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK && pz_range_is(text, bytes)) {
    *is = true;
    status = pz_range_parse(space, text, bytes, out, err);
  }
  pz_free(text);
  return status;
}

enum pz_status pz_range_set_node(struct pz_range_space *s, const char *node, struct pz_error *err) {
  char names[120] = "";
  for (int i = 0; i < s->n_nodes; i++) {
    const char *name = pz_tech_at(s->node[i])->name;
    if (strcmp(name, node) == 0) {
      s->node[0] = s->node[i];
      s->n_nodes = 1;
      return PZ_OK;
    }
    size_t n = strlen(names);
    snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", name);
  }
  return pz_fail(err, PZ_BAD_USE, "--node %.40s; the space %s has %s", node, s->name, names);
}

/* ---- chips ---------------------------------------------------------------------------------- */

uint32_t pz_range_kinds(const struct pz_range_space *s) {
  return (uint32_t)(s->n_nodes * s->n_arrays * s->n_hbm);
}

int64_t pz_range_kind_chips(const struct pz_range_space *s) {
  int64_t n = 1;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) n *= s->n[a];
  return n;
}

int64_t pz_range_chips(const struct pz_range_space *s) {
  return pz_range_kind_chips(s) * pz_range_kinds(s);
}

static void name_chip(struct pz_chip *c, const char *hbm, int64_t link) {
  const struct pz_tensor_cores *t = &c->tensor;
  snprintf(c->name, sizeof c->name, "%lldx%lldx%lld-%lldx%lld-%lldM-%lldx%s-%lld",
           (long long)t->cores, (long long)t->rows, (long long)t->cols, (long long)c->vector.cores,
           (long long)c->vector.lanes, (long long)(c->glb_bytes >> 20), (long long)c->hbm.stacks,
           hbm, (long long)link);
}

void pz_range_chip(const struct pz_range_space *s, const struct pz_range_point *p,
                   struct pz_chip *out) {
  enum { WORDS_PER_LANE = 16, LEAST_LOCAL = 1024, REGISTER_BYTES = 32 };
  int64_t v[PZ_RANGE_AXES];
  uint32_t hbm = p->kind % (uint32_t)s->n_hbm, rest = p->kind / (uint32_t)s->n_hbm;
  const struct pz_array_shape *array = &s->array[rest % (uint32_t)s->n_arrays];
  const struct pz_hbm_generation *g = &pz_hbm_generations[s->hbm[hbm]];
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) v[a] = s->value[a][p->at[a]];
  struct pz_chip c = {.tech = s->node[rest / (uint32_t)s->n_arrays],
                      .execution = PZ_CHIP_SCHEDULED,
                      .link_latency_s = 1e-6};
  c.clock_hz = (double)v[PZ_RANGE_CLOCK_MHZ] * 1e6;
  c.tensor = (struct pz_tensor_cores){.cores = v[PZ_RANGE_TENSOR_CORES],
                                      .rows = array->rows,
                                      .cols = array->cols,
                                      .local_bytes = v[PZ_RANGE_LOCAL_KIB] << 10,
                                      .register_bytes = REGISTER_BYTES};
  c.vector = (struct pz_vector_cores){.cores = v[PZ_RANGE_VECTOR_CORES],
                                      .lanes = v[PZ_RANGE_LANES],
                                      .local_bytes =
                                          pz_max(WORDS_PER_LANE * v[PZ_RANGE_LANES], LEAST_LOCAL)};
  c.glb_bytes = v[PZ_RANGE_GLB_MIB] << 20;
  c.glb_bytes_per_s = (double)v[PZ_RANGE_GLB_BYTES_PER_CYCLE] * c.clock_hz;
  c.hbm = (struct pz_hbm){.stacks = v[PZ_RANGE_HBM_STACKS],
                          .bytes_per_stack = g->bytes,
                          .bytes_per_s_per_stack = g->bytes_per_s};
  c.link_bytes_per_s = (double)v[PZ_RANGE_LINK_GB_PER_S] * 1e9;
  c.rules = (struct pz_rules){.fill = true,
                              .double_buffer = true,
                              .nested_mapping = true,
                              .rate_levels = true,
                              .vector_memory = true,
                              .operand_bytes = 2,
                              .sum_bytes = 4};
  pz_calibration_none(c.glb_bytes, &c.calibration);
  name_chip(&c, g->name, v[PZ_RANGE_LINK_GB_PER_S]);
  snprintf(c.about, sizeof c.about, "a chip of the space %s", s->name);
  *out = c;
}
