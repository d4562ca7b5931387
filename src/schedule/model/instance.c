/* Reads scheduling problems in the original system's JSON format (instance.h).
 *
 * pz_instance_read() reads capacities, operators (read_op) and edges (read_edge), and makes the problem from them. */
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

struct instance_reader {
  const char *name;
  enum pz_exclusive exclusive;
  int32_t capacity[PZ_RESOURCES];
  struct pz_map ids; /* from an operator's id to its index */
};

static const struct pz_range CORES = {1, 1 << 30}, ID = {INT64_MIN / 2, INT64_MAX / 2};

/* Fields that describe an instance or an operator, or what is known about the optimum.  They are accepted and not read. */
static const char *const notes[] = {"name",      "about",       "comment",         "sources",
                                    "incumbent", "lower_bound", "optimal_makespan"};
static const char *const op_notes[] = {"name", "desc", "comment"};

static enum pz_op_class read_class(struct pz_fields *f) {
  static const char *const names[] = {[PZ_CLASS_TENSOR] = "TC",
                                      [PZ_CLASS_VECTOR] = "VC",
                                      [PZ_CLASS_FUSED] = "TCandVC",
                                      [PZ_CLASS_NONE] = "Nop"};
  const char *type = pz_fields_text_or(f, "type", "");
  for (int i = 0; i < 4; i++)
    if (strcmp(type, names[i]) == 0) return (enum pz_op_class)i;
  pz_fields_refuse(f, "type", "TC, VC, TCandVC or Nop");
  return PZ_CLASS_NONE;
}

static struct pz_task read_op(struct pz_call *call, struct instance_reader *r, const json_t *item,
                              uint32_t index) {
  char where[300];
  snprintf(where, sizeof where, "%.200s: ops[%u]", r->name, index);
  struct pz_fields f = pz_fields_of(call, where, item);
  struct pz_mode *modes = pz_alloc(call, 2, sizeof *modes);
  struct pz_task t = {.modes = modes};
  t.id = pz_fields_int(&f, "id", ID);
  t.name = pz_format(call, "%lld", (long long)t.id);
  t.op_class = read_class(&f);
  double single = pz_fields_real(&f, "latency", 0, 1e300);
  double intra = pz_fields_real_or(&f, "intra_op_latency", 0, 1e300, single);
  pz_fields_allow(&f, op_notes, sizeof op_notes / sizeof *op_notes);
  pz_fields_end(call, &f);
  t.n_modes = pz_two_modes(t.op_class, r->capacity, single, intra, r->exclusive, modes);
  if (t.op_class == PZ_CLASS_NONE) modes[0].s = 0;
  if (pz_map_get(&r->ids, &t.id, sizeof t.id) != PZ_NONE)
    pz_raise(call, PZ_BAD_INPUT, "%s: id %lld occurs twice", where, (long long)t.id);
  pz_map_set(call, &r->ids, &t.id, sizeof t.id, index);
  return t;
}

static struct pz_edge read_edge(struct pz_call *call, const struct instance_reader *r,
                                const json_t *item, size_t index) {
  uint32_t end[2] = {PZ_NONE, PZ_NONE};
  for (size_t k = 0; k < 2 && json_array_size(item) == 2; k++) {
    const json_t *value = json_array_get(item, k);
    int64_t id = json_integer_value(value);
    if (json_is_integer(value)) end[k] = pz_map_get(&r->ids, &id, sizeof id);
  }
  if (end[0] == PZ_NONE || end[1] == PZ_NONE) {
    char found[60];
    pz_raise(call, PZ_BAD_INPUT, "%s: edges[%zu] is %s; accepted: [before, after], two ids of ops",
             r->name, index, pz_json_brief(item, found, sizeof found));
  }
  return (struct pz_edge){end[0], end[1]};
}

/* An array of the instance, or NULL if it is not required and absent. */
static const json_t *read_array(struct pz_fields *f, const char *key, bool required,
                                size_t most_entries) {
  const json_t *list = pz_fields_value(f, key);
  char accepted[60];
  snprintf(accepted, sizeof accepted, "an array of at most %zu entries", most_entries);
  if (!list && !required) return NULL;
  if (!json_is_array(list) || json_array_size(list) > most_entries)
    pz_fields_refuse(f, key, accepted);
  return json_is_array(list) ? list : NULL;
}

struct pz_problem pz_instance_read(struct pz_call *call, const char *name, const char *text,
                                   size_t bytes, enum pz_exclusive exclusive) {
  const json_t *root = pz_json_read(call, name, text, bytes);
  struct instance_reader r = {.name = name, .exclusive = exclusive};
  struct pz_fields f = pz_fields_of(call, name, root);
  pz_map_init(&r.ids, call->arena);
  r.capacity[PZ_TENSOR_CORES] = (int32_t)pz_fields_int(&f, "num_tc", CORES);
  r.capacity[PZ_VECTOR_CORES] = (int32_t)pz_fields_int(&f, "num_vc", CORES);
  r.capacity[PZ_LINK] = r.capacity[PZ_HBM_RATE] = r.capacity[PZ_GLB_RATE] = 1;
  const json_t *ops = read_array(&f, "ops", true, PZ_INSTANCE_MOST_OPS);
  const json_t *edges = read_array(&f, "edges", false, 8 * (size_t)PZ_INSTANCE_MOST_OPS);
  pz_fields_allow(&f, notes, sizeof notes / sizeof *notes);
  pz_fields_end(call, &f);
  size_t n = json_array_size(ops), n_edges = json_array_size(edges);
  struct pz_task *tasks = pz_alloc(call, n, sizeof *tasks);
  struct pz_edge *list = pz_alloc(call, n_edges, sizeof *list);
  struct pz_problem problem;
  struct pz_error wrong = {0};
  for (size_t i = 0; i < n; i++) tasks[i] = read_op(call, &r, json_array_get(ops, i), (uint32_t)i);
  for (size_t i = 0; i < n_edges; i++) list[i] = read_edge(call, &r, json_array_get(edges, i), i);
  /* the border is needed to put the file's name before the message */
  enum pz_status status = pz_problem_make(call->arena, r.capacity, tasks, (uint32_t)n, list,
                                          (uint32_t)n_edges, &problem, &wrong);
  if (status != PZ_OK) pz_raise(call, status, "%.200s: %.800s", name, wrong.message);
  return problem;
}
