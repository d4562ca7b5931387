/* Reads scheduling problems in the original system's JSON format (instance.h).
 *
 * pz_instance_read() reads the capacities, the operators (read_op) and the edges, and builds the problem from
 * them.  Every message begins with the name of the file and names the field. */
#include "schedule/model/instance.h"

#include <stdio.h>
#include <string.h>

#include "core/fields.h"
#include "core/map.h"

const char *const pz_exclusive_names[] = {"all", "class", NULL};

/* Sets the modes of an operator: one core of each class that it uses, and the whole chip.  Returns
 * their number, which is 1 for operators that do nothing. */
uint32_t pz_two_modes(enum pz_op_class op_class, const int32_t capacity[PZ_RESOURCES],
                      double single_s, double intra_s, enum pz_exclusive exclusive,
                      struct pz_mode modes[2]) {
  bool tensor = op_class == PZ_CLASS_TENSOR || op_class == PZ_CLASS_FUSED;
  bool vector = op_class != PZ_CLASS_TENSOR;
  modes[0] = (struct pz_mode){.label = PZ_MODE_SINGLE, .duration = single_s};
  modes[1] = (struct pz_mode){.label = PZ_MODE_INTRA, .duration = intra_s};
  if (op_class == PZ_CLASS_NONE) return 1;
  modes[0].use[PZ_TENSOR_CORES] = tensor;
  modes[0].use[PZ_VECTOR_CORES] = vector;
  if (exclusive == PZ_EXCLUSIVE_ALL)
    for (int r = 0; r < PZ_RESOURCES; r++) modes[1].use[r] = capacity[r];
  if (tensor) modes[1].use[PZ_TENSOR_CORES] = capacity[PZ_TENSOR_CORES];
  if (vector) modes[1].use[PZ_VECTOR_CORES] = capacity[PZ_VECTOR_CORES];
  return 2;
}

/* What is read, and the problem that is built from it. */
struct instance_reader {
  struct pz_arena *arena;
  const char *name; /* name of the file in messages */
  enum pz_exclusive exclusive;
  int32_t capacity[PZ_RESOURCES];
  struct pz_map ids; /* from an operator's id to its index */
  struct pz_task *tasks;
  struct pz_edge *edges;
  uint32_t n_tasks, n_edges;
  struct pz_problem problem;
};

static const struct pz_range CORES = {1, 1 << 30}, ID = {INT64_MIN / 2, INT64_MAX / 2};

/* Fields that only describe an instance or an operator, or record what is known about the
 * optimum.  They are accepted and not read. */
static const char *const notes[] = {"name",      "about",       "comment",         "sources",
                                    "incumbent", "lower_bound", "optimal_makespan"};
static const char *const op_notes[] = {"name", "desc", "comment"};

/* Reads an entry of the list `ops`, and maps its id to its index in the list. */
static struct pz_task read_op(struct pz_call *call, struct instance_reader *reader,
                              const json_t *item, uint32_t index) {
  static const char *const classes[] = {[PZ_CLASS_TENSOR] = "TC",
                                        [PZ_CLASS_VECTOR] = "VC",
                                        [PZ_CLASS_FUSED] = "TCandVC",
                                        [PZ_CLASS_NONE] = "Nop"};
  char where[300];
  snprintf(where, sizeof where, "%.200s: ops[%u]", reader->name, index);
  struct pz_fields fields = pz_fields_of(call, where, item);
  struct pz_mode *modes = pz_alloc(call, 2, sizeof *modes);
  struct pz_task task = {.modes = modes};
  task.id = pz_fields_int(&fields, "id", ID);
  task.name = pz_format(call, "%lld", (long long)task.id);
  const char *type = pz_fields_text_or(&fields, "type", "");
  int k = 0;
  while (k < 4 && strcmp(type, classes[k]) != 0) k++;
  if (k == 4) pz_fields_refuse(&fields, "type", "TC, VC, TCandVC or Nop");
  task.op_class = k < 4 ? (enum pz_op_class)k : PZ_CLASS_NONE;
  double single = pz_fields_real(&fields, "latency", 0, 1e300);
  double intra = pz_fields_real_or(&fields, "intra_op_latency", 0, 1e300, single);
  pz_fields_allow(&fields, op_notes, sizeof op_notes / sizeof *op_notes);
  pz_fields_end(call, &fields);
  task.n_modes =
      pz_two_modes(task.op_class, reader->capacity, single, intra, reader->exclusive, modes);
  if (task.op_class == PZ_CLASS_NONE) modes[0].duration = 0;
  if (pz_map_get(&reader->ids, &task.id, sizeof task.id) != PZ_NONE)
    pz_raise(call, PZ_BAD_INPUT, "%s: id %lld occurs twice", where, (long long)task.id);
  pz_map_set(call, &reader->ids, &task.id, sizeof task.id, index);
  return task;
}

/* Returns an array of the instance, or NULL if it is not required and absent. */
static const json_t *read_array(struct pz_fields *fields, const char *key, bool required,
                                size_t most_entries) {
  const json_t *list = pz_fields_value(fields, key);
  char accepted[60];
  snprintf(accepted, sizeof accepted, "an array of at most %zu entries", most_entries);
  if (!list && !required) return NULL;
  if (!json_is_array(list) || json_array_size(list) > most_entries)
    pz_fields_refuse(fields, key, accepted);
  return json_is_array(list) ? list : NULL;
}

/* Builds the problem in a call of its own, so that errors can name the file. */
static void build_problem(struct pz_call *call, void *instance_reader) {
  struct instance_reader *reader = instance_reader;
  struct pz_call own = pz_call_in(call, reader->arena);
  reader->problem = pz_problem_build(&own, reader->capacity, reader->tasks, reader->n_tasks,
                                     reader->edges, reader->n_edges);
}

/* Reads an instance.  `name` stands for the file in messages. */
struct pz_problem pz_instance_read(struct pz_call *call, const char *name, const char *text,
                                   size_t bytes, enum pz_exclusive exclusive) {
  const json_t *root = pz_json_read(call, name, text, bytes);
  struct instance_reader reader = {.arena = call->arena, .name = name, .exclusive = exclusive};
  struct pz_fields fields = pz_fields_of(call, name, root);
  pz_map_init(&reader.ids, call->arena);
  reader.capacity[PZ_TENSOR_CORES] = (int32_t)pz_fields_int(&fields, "num_tc", CORES);
  reader.capacity[PZ_VECTOR_CORES] = (int32_t)pz_fields_int(&fields, "num_vc", CORES);
  reader.capacity[PZ_LINK] = reader.capacity[PZ_HBM_RATE] = reader.capacity[PZ_GLB_RATE] = 1;
  const json_t *ops = read_array(&fields, "ops", true, PZ_INSTANCE_MOST_OPS);
  const json_t *arcs = read_array(&fields, "edges", false, 8 * (size_t)PZ_INSTANCE_MOST_OPS);
  pz_fields_allow(&fields, notes, sizeof notes / sizeof *notes);
  pz_fields_end(call, &fields);
  reader.n_tasks = (uint32_t)json_array_size(ops);
  reader.n_edges = (uint32_t)json_array_size(arcs);
  reader.tasks = pz_alloc(call, reader.n_tasks, sizeof *reader.tasks);
  reader.edges = pz_alloc(call, reader.n_edges, sizeof *reader.edges);
  for (uint32_t i = 0; i < reader.n_tasks; i++)
    reader.tasks[i] = read_op(call, &reader, json_array_get(ops, i), i);
  for (uint32_t i = 0; i < reader.n_edges; i++) {
    /* an edge [before, after] names two operators by their ids */
    const json_t *item = json_array_get(arcs, i);
    uint32_t ends[2] = {PZ_NONE, PZ_NONE};
    for (size_t k = 0; k < 2 && json_array_size(item) == 2; k++) {
      const json_t *value = json_array_get(item, k);
      int64_t id = json_integer_value(value);
      if (json_is_integer(value)) ends[k] = pz_map_get(&reader.ids, &id, sizeof id);
    }
    char found[60];
    if (ends[0] == PZ_NONE || ends[1] == PZ_NONE)
      pz_raise(call, PZ_BAD_INPUT, "%s: edges[%u] is %s; accepted: [before, after], two ids of ops",
               name, i, pz_json_brief(item, found, sizeof found));
    reader.edges[i] = (struct pz_edge){ends[0], ends[1]};
  }
  struct pz_error error = {0};
  enum pz_status status = pz_border(build_problem, &reader, &error);
  if (status != PZ_OK) pz_raise(call, status, "%.200s: %.800s", name, error.message);
  return reader.problem;
}
