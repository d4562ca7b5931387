#include "schedule/model/instance.h"

#include <stdio.h>
#include <string.h>

#include "core/fields.h"
#include "core/map.h"

const char *const pz_exclusive_names[] = {"all", "class", NULL};

uint32_t pz_two_modes(enum pz_op_class c, const int32_t capacity[PZ_RESOURCES], double single_s,
                      double intra_s, enum pz_exclusive exclusive, struct pz_mode out[2]) {
  bool tensor = c == PZ_CLASS_TENSOR || c == PZ_CLASS_FUSED, vector = c != PZ_CLASS_TENSOR;
  bool all = exclusive == PZ_EXCLUSIVE_ALL;
  out[0] = (struct pz_mode){.label = PZ_MODE_SINGLE, .s = single_s};
  out[1] = (struct pz_mode){.label = PZ_MODE_INTRA, .s = intra_s};
  if (c == PZ_CLASS_NONE) return 1;
  out[0].use[PZ_TENSOR_CORES] = tensor;
  out[0].use[PZ_VECTOR_CORES] = vector;
  for (int r = 0; all && r < PZ_RESOURCES; r++) out[1].use[r] = capacity[r];
  if (tensor) out[1].use[PZ_TENSOR_CORES] = capacity[PZ_TENSOR_CORES];
  if (vector) out[1].use[PZ_VECTOR_CORES] = capacity[PZ_VECTOR_CORES];
  return 2;
}

struct reader {
  struct pz_fields f;
  struct pz_arena *arena;
  enum pz_exclusive exclusive;
  int32_t capacity[PZ_RESOURCES];
  struct pz_map ids;
};

static const struct pz_range CORES = {1, 1 << 30}, ID = {INT64_MIN / 2, INT64_MAX / 2};

/* What instances say of themselves and their operators, not read here: what it is, and what is
 * known of its optimum. */
static const char *const words[] = {"name",      "about",       "comment",         "sources",
                                    "incumbent", "lower_bound", "optimal_makespan"},
                         *const op_words[] = {"name", "desc", "comment"};

static enum pz_op_class read_class(struct pz_fields *g) {
  static const char *const names[] = {[PZ_CLASS_TENSOR] = "TC",
                                      [PZ_CLASS_VECTOR] = "VC",
                                      [PZ_CLASS_FUSED] = "TCandVC",
                                      [PZ_CLASS_NONE] = "Nop"};
  const char *type = pz_fields_text_or(g, "type", "");
  for (int i = 0; i < 4; i++)
    if (strcmp(type, names[i]) == 0) return (enum pz_op_class)i;
  pz_fields_refuse(g, "type", "TC, VC, TCandVC or Nop");
  return PZ_CLASS_NONE;
}

static void read_op(struct reader *r, const json_t *item, struct pz_task *t, uint32_t index) {
  char where[300];
  snprintf(where, sizeof where, "%.200s: ops[%u]", r->f.name, index);
  struct pz_fields g = {.name = where, .root = item, .err = r->f.err, .status = r->f.status};
  struct pz_mode *modes = pz_arena_alloc(r->arena, 2, sizeof *modes);
  t->id = pz_fields_int(&g, "id", ID);
  t->name = pz_arena_printf(r->arena, "%lld", (long long)t->id);
  t->op_class = read_class(&g);
  double single = pz_fields_real(&g, "latency", 0, 1e300);
  double intra = pz_fields_real_or(&g, "intra_op_latency", 0, 1e300, single);
  pz_fields_allow(&g, op_words, sizeof op_words / sizeof *op_words);
  r->f.status = pz_fields_finish(&g);
  if (!modes || !t->name) {
    r->f.status = pz_fail(r->f.err, PZ_NO_MEMORY, "%s: out of memory", r->f.name);
    return;
  }
  if (r->f.status != PZ_OK) return;
  t->modes = modes;
  t->n_modes = pz_two_modes(t->op_class, r->capacity, single, intra, r->exclusive, modes);
  if (t->op_class == PZ_CLASS_NONE) modes[0].s = 0;
  if (pz_map_get(&r->ids, &t->id, sizeof t->id) != PZ_NONE)
    r->f.status =
        pz_fail(r->f.err, PZ_BAD_INPUT, "%s: id %lld occurs twice", where, (long long)t->id);
  else if (pz_map_put(&r->ids, &t->id, sizeof t->id, index) != PZ_OK)
    r->f.status = pz_fail(r->f.err, PZ_NO_MEMORY, "%s: out of memory", r->f.name);
}

static void read_edge(struct reader *r, const json_t *item, struct pz_edge *e, size_t index) {
  uint32_t *end[] = {&e->before, &e->after};
  for (size_t k = 0; k < 2; k++) {
    const json_t *v = json_array_get(item, k);
    int64_t id = json_integer_value(v);
    *end[k] = json_is_integer(v) && json_array_size(item) == 2 ? pz_map_get(&r->ids, &id, sizeof id)
                                                               : PZ_NONE;
    if (*end[k] != PZ_NONE || r->f.status != PZ_OK) continue;
    char found[60];
    r->f.status = pz_fail(r->f.err, PZ_BAD_INPUT,
                          "%s: edges[%zu] is %s; accepted: [before, after], two ids of ops",
                          r->f.name, index, pz_json_brief(item, found, sizeof found));
  }
}

static const json_t *list_of(struct reader *r, const char *key, bool must, size_t most) {
  const json_t *list = pz_fields_value(&r->f, key);
  char accepted[60];
  snprintf(accepted, sizeof accepted, "an array of at most %zu entries", most);
  if (!list && !must) return NULL;
  if (!json_is_array(list) || json_array_size(list) > most) pz_fields_refuse(&r->f, key, accepted);
  return json_is_array(list) ? list : NULL;
}

static enum pz_status read_instance(struct reader *r, struct pz_problem *out) {
  r->capacity[PZ_TENSOR_CORES] = (int32_t)pz_fields_int(&r->f, "num_tc", CORES);
  r->capacity[PZ_VECTOR_CORES] = (int32_t)pz_fields_int(&r->f, "num_vc", CORES);
  r->capacity[PZ_LINK] = r->capacity[PZ_HBM_RATE] = r->capacity[PZ_GLB_RATE] = 1;
  const json_t *ops = list_of(r, "ops", true, PZ_INSTANCE_MOST_OPS),
               *edges = list_of(r, "edges", false, 8 * (size_t)PZ_INSTANCE_MOST_OPS);
  pz_fields_allow(&r->f, words, sizeof words / sizeof *words);
  if (pz_fields_finish(&r->f) != PZ_OK) return r->f.status;
  size_t n = json_array_size(ops), n_edges = json_array_size(edges);
  struct pz_task *tasks = pz_arena_alloc(r->arena, n, sizeof *tasks);
  struct pz_edge *list = pz_arena_alloc(r->arena, n_edges, sizeof *list);
  if (!tasks || !list) return pz_fail(r->f.err, PZ_NO_MEMORY, "%s: out of memory", r->f.name);
  for (size_t i = 0; i < n && r->f.status == PZ_OK; i++)
    read_op(r, json_array_get(ops, i), &tasks[i], (uint32_t)i);
  for (size_t i = 0; i < n_edges && r->f.status == PZ_OK; i++)
    read_edge(r, json_array_get(edges, i), &list[i], i);
  if (r->f.status != PZ_OK) return r->f.status;
  struct pz_error wrong = {0};
  enum pz_status status = pz_problem_make(r->arena, r->capacity, tasks, (uint32_t)n, list,
                                          (uint32_t)n_edges, out, &wrong);
  return status == PZ_OK ? status
                         : pz_fail(r->f.err, status, "%.200s: %.800s", r->f.name, wrong.message);
}

enum pz_status pz_instance_parse(const char *name, const char *text, size_t bytes,
                                 enum pz_exclusive exclusive, struct pz_arena *arena,
                                 struct pz_problem *out, struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct reader r = {
      .f = {.name = name, .root = root, .err = err}, .arena = arena, .exclusive = exclusive};
  pz_map_init(&r.ids, arena);
  status = read_instance(&r, out);
  json_decref(root);
  return status;
}
