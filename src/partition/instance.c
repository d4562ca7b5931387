/* Reads placement problems in the original program's format, and solves them: pz_partition_instance().
 *
 * pz_place_read_instance() reads the numbers, the expert's plan, and for every tensor-parallel degree the layers
 * ("nodes") and edges, which order_layers() sorts topologically.  Unknown keys are refused, except those that
 * instances use to describe themselves. */
#include "partition/instance.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/fields.h"
#include "core/map.h"
#include "core/progress.h"
#include "core/text.h"

/* ---- reading -------------------------------------------------------------------------------- */

static const struct pz_range COUNT = {1, INT64_C(1) << 40}, ID = {INT64_MIN / 2, INT64_MAX / 2},
                             FIXED = {0, INT64_C(1) << 40};
static const double MOST = 1e100, MOST_BYTES = 1e30, LEAST_RATE = 1e-30;

/* Fields that only describe an instance or a node. */
static const char *const described_by[] = {"name", "about", "comment", "sources"};
static const char *const node_described_by[] = {"name", "desc", "comment", "energy"};

/* Returns the fields of object i of a list: the nodes or edges (`group`) of a tensor-parallel degree
 * (`width`).  `where` becomes the name of the object in messages. */
static struct pz_fields entry_fields(struct pz_call *call, const struct pz_fields *file,
                                     const char *group, const char *width, const json_t *list,
                                     uint32_t i, char where[300]) {
  snprintf(where, 300, "%.200s: %s.%.20s[%u]", file->name, group, width, i);
  return pz_fields_of(call, where, json_array_get(list, i));
}

/* Reads layer i of the list of a tensor-parallel degree (`width`), and maps its id to i in `ids`. */
static void read_layer(struct pz_call *call, const struct pz_fields *file, const char *width,
                       const json_t *list, uint32_t i, struct pz_map *ids,
                       struct pz_place_layer *layer) {
  char where[300];
  struct pz_fields fields = entry_fields(call, file, "nodes", width, list, i, where);
  layer->id = pz_fields_int(&fields, "id", ID);
  layer->fwd_s = pz_fields_real(&fields, "optimalLatencyFw", 0, MOST);
  layer->bwd_s = pz_fields_real(&fields, "optimalLatencyBw", 0, MOST);
  layer->param_bytes = pz_fields_real(&fields, "parameterSize", 0, MOST_BYTES);
  layer->act_bytes = pz_fields_real(&fields, "activationSize", 0, MOST_BYTES);
  layer->tensor_parallel = pz_fields_bool_or(&fields, "isTensorParallelized", false);
  pz_fields_allow(&fields, node_described_by, sizeof node_described_by / sizeof *node_described_by);
  pz_fields_end(call, &fields);
  if (pz_map_get(ids, &layer->id, sizeof layer->id) != PZ_NONE)
    pz_raise(call, PZ_BAD_INPUT, "%s: id %" PRId64 " occurs twice", where, layer->id);
  pz_map_set(call, ids, &layer->id, sizeof layer->id, i);
}

/* Returns the list of a tensor-parallel degree ("width") in a group, nodes or edges, which has at
 * most `most` entries. */
static const json_t *list_of_width(struct pz_call *call, struct pz_fields *fields,
                                   const char *group, const char *width, size_t most) {
  const json_t *lists = pz_fields_value(fields, group), *list = json_object_get(lists, width);
  size_t n = json_array_size(list);
  if (json_is_array(list) && n <= most) return list;
  if (lists && !json_is_object(lists))
    pz_fields_refuse(fields, group, "an object with an array for every tensor-parallel degree");
  pz_must(call, fields->status);
  if (json_is_array(list))
    pz_raise(call, PZ_BAD_INPUT, "%s: %s.%.20s has %zu entries; accepted: at most %zu",
             fields->name, group, width, n, most);
  pz_raise(call, PZ_BAD_INPUT, "%s: %s.%.20s is %s; accepted: an array", fields->name, group, width,
           list ? "no array" : "missing");
}

/* Sorts the layers topologically.  Of several ready layers, the one listed first comes first. */
static void order_layers(struct pz_call *call, const char *name, struct pz_place_width *width) {
  uint32_t n_waiting[PZ_PLACE_MOST_LAYERS] = {0}; /* by layer: predecessors without a position */
  uint32_t position[PZ_PLACE_MOST_LAYERS];
  struct pz_place_layer *layers = pz_alloc(call, width->n, sizeof *layers);
  struct pz_place_edge *edges = pz_alloc(call, width->n_edges, sizeof *edges);
  for (uint32_t e = 0; e < width->n_edges; e++) n_waiting[width->edges[e].to]++;
  for (uint32_t at = 0; at < width->n; at++) {
    uint32_t i = 0;
    while (i < width->n && n_waiting[i]) i++;
    if (i == width->n)
      pz_raise(call, PZ_BAD_INPUT,
               "%s: the layers of tensor-parallel degree %" PRId64 " form a cycle", name,
               width->tp);
    layers[at] = width->layers[i];
    position[i] = at;
    n_waiting[i] = PZ_NONE; /* the layer has a position */
    for (uint32_t e = 0; e < width->n_edges; e++)
      if (width->edges[e].from == i) n_waiting[width->edges[e].to]--;
  }
  for (uint32_t e = 0; e < width->n_edges; e++) {
    const struct pz_place_edge *edge = &width->edges[e];
    edges[e] = (struct pz_place_edge){position[edge->from], position[edge->to], edge->bytes};
  }
  width->layers = layers;
  width->edges = edges;
}

/* Reads the layers and edges of one tensor-parallel degree. */
static struct pz_place_width read_width(struct pz_call *call, struct pz_fields *fields,
                                        const char *key) {
  const json_t *nodes = list_of_width(call, fields, "nodes", key, PZ_PLACE_MOST_LAYERS);
  const json_t *arcs = list_of_width(call, fields, "edges", key, 16 * (size_t)PZ_PLACE_MOST_LAYERS);
  char *end;
  struct pz_place_width width = {.tp = strtoll(key, &end, 10),
                                 .n = (uint32_t)json_array_size(nodes),
                                 .n_edges = (uint32_t)json_array_size(arcs)};
  bool is_number = !*end && key[0] >= '1' && key[0] <= '9';
  if (!is_number || width.tp > 1 << 20 || width.n == 0)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: nodes.%.20s; accepted: a tensor-parallel degree from 1 to 2^20 with at least one "
             "node",
             fields->name, key);
  struct pz_place_layer *layers = pz_alloc(call, width.n, sizeof *layers);
  struct pz_place_edge *edges = pz_alloc(call, width.n_edges, sizeof *edges);
  struct pz_map ids;
  pz_map_init(&ids, call->arena);
  for (uint32_t i = 0; i < width.n; i++) read_layer(call, fields, key, nodes, i, &ids, &layers[i]);
  for (uint32_t i = 0; i < width.n_edges; i++) { /* an edge names its layers by their ids */
    static const char *const ends[] = {"sourceId", "destId"};
    uint32_t layer[2];
    char where[300];
    struct pz_fields edge = entry_fields(call, fields, "edges", key, arcs, i, where);
    for (int end_of_edge = 0; end_of_edge < 2; end_of_edge++) {
      int64_t id = pz_fields_int(&edge, ends[end_of_edge], ID);
      layer[end_of_edge] = pz_map_get(&ids, &id, sizeof id);
      if (edge.status == PZ_OK && layer[end_of_edge] == PZ_NONE)
        pz_fields_refuse(&edge, ends[end_of_edge],
                         "the id of a node of this tensor-parallel degree");
    }
    double bytes_moved = pz_fields_real(&edge, "communicationCost", 0, MOST_BYTES);
    edges[i] = (struct pz_place_edge){layer[0], layer[1], bytes_moved};
    pz_fields_end(call, &edge);
  }
  width.layers = layers;
  width.edges = edges;
  order_layers(call, fields->name, &width);
  return width;
}

/* Reads the expert's plan, of which all fields or none must be given; 0 counts as not given. */
static void read_fixed(struct pz_call *call, struct pz_fields *file, struct pz_fixed *fixed) {
  const struct {
    const char *key;
    int64_t *value;
  } fields[] = {{"fixedPP", &fixed->stages},
                {"fixedTMPC", &fixed->tp},
                {"fixedDP", &fixed->replicas},
                {"numTransformerLayers", &fixed->layers}};
  const char *given = NULL, *missing = NULL; /* the first field that is given, or not given */
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    *fields[i].value = pz_fields_int_or(file, fields[i].key, FIXED, 0);
    const char **first = *fields[i].value ? &given : &missing;
    if (!*first) *first = fields[i].key;
  }
  if (file->status == PZ_OK && given && missing)
    pz_raise_at(call, PZ_BAD_INPUT, file->name, 0, 0,
                "%s: %s is given and %s is not; accepted for an expert plan: fixedPP, fixedTMPC, "
                "fixedDP and numTransformerLayers, each at least 1, or none of them",
                file->name, given, missing);
}

/* Reads an instance and its expert's plan.  `name` stands for the file in messages. */
void pz_place_read_instance(struct pz_call *call, const char *name, const char *text, size_t bytes,
                            struct pz_instance *out) {
  json_t *root = pz_json_read(call, name, text, bytes);
  struct pz_fields fields = pz_fields_of(call, name, root);
  *out = (struct pz_instance){.name = name};
  struct pz_place_problem *problem = &out->problem;
  problem->hbm_bytes = pz_fields_real(&fields, "maxMemoryPerDevice", 0, MOST_BYTES);
  problem->devices = pz_fields_int(&fields, "maxDevices", COUNT);
  problem->bytes_per_s = pz_fields_real(&fields, "bandwidth", LEAST_RATE, MOST_BYTES);
  problem->microbatches =
      (int64_t)pz_fields_real(&fields, "mbsInBatch", 1, 1e12); /* may be a real */
  problem->recompute = pz_fields_bool_or(&fields, "activationRecomputation", false);
  const char *optimizer = pz_fields_text_or(&fields, "optimizerAlgorithm", "SGD");
  bool adam = strcmp(optimizer, "Adam") == 0;
  if (!adam && strcmp(optimizer, "SGD") != 0)
    pz_fields_refuse(&fields, "optimizerAlgorithm", "SGD or Adam");
  static const double ADAM_STATE = 3, SGD_STATE = 2; /* over the bytes of the weights */
  problem->state = adam ? ADAM_STATE : SGD_STATE;
  read_fixed(call, &fields, &out->fixed);
  pz_fields_allow(&fields, described_by, sizeof described_by / sizeof *described_by);
  /* edges at a tensor-parallel degree without nodes are a mistake in the file */
  const json_t *nodes = pz_fields_value(&fields, "nodes"),
               *edges = pz_fields_value(&fields, "edges"), *value;
  const char *key;
  json_object_foreach((json_t *)(uintptr_t)edges, key, value) {
    if (fields.status != PZ_OK || json_object_get(nodes, key)) continue;
    pz_raise(call, PZ_BAD_INPUT,
             "%s: field 'edges.%.20s'; accepted: a tensor-parallel degree that nodes has too",
             fields.name, key);
  }
  pz_fields_end(call, &fields);
  size_t n_widths = json_object_size(nodes);
  if (n_widths < 1 || n_widths > PZ_PLACE_MOST_WIDTHS) {
    pz_fields_refuse(&fields, "nodes", "an object with 1 to 64 tensor-parallel degrees");
    pz_must(call, fields.status);
  }
  struct pz_place_width *widths = pz_alloc(call, n_widths, sizeof *widths);
  json_object_foreach((json_t *)(uintptr_t)nodes, key, value) {
    widths[problem->n_widths] = read_width(call, &fields, key);
    problem->n_widths++;
  }
  problem->widths = widths;
  pz_close(call, root);
}

/* ---- solving -------------------------------------------------------------------------------- */

/* Raises an error that names the least memory with which a plan would fit. */
_Noreturn static void raise_infeasible(struct pz_call *call,
                                       const struct pz_place_problem *problem) {
  struct pz_fit fit = pz_place_least_memory(call, problem);
  if (fit.hbm_bytes == DBL_MAX)
    pz_raise(call, PZ_NO_ANSWER, "no feasible plan on %" PRId64 " device%s, whatever the memory",
             problem->devices, pz_text_s((double)problem->devices));
  pz_raise(call, PZ_NO_ANSWER,
           "no feasible plan with %.6g bytes per device; the minimum is %.6g bytes, with which "
           "stage %u of %u (layers %" PRId64 " .. %" PRId64 ") takes %.6g",
           problem->hbm_bytes, fit.hbm_bytes, fit.stage + 1, fit.n_stages, fit.first, fit.last,
           fit.memory_bytes);
}

struct find_args {
  struct pz_instance *instance;
  struct pz_arena *arena;
  bool found;
};

/* Finds the best plan of an instance in a call of its own, so that errors can name the file. */
static void find_instance_plan(struct pz_call *call, void *ctx) {
  struct find_args *args = ctx;
  struct pz_call own = pz_call_in(call, args->arena);
  args->found =
      pz_place_find_fastest(&own, &args->instance->problem, DBL_MAX, &args->instance->plan);
}

/* ---- for programs --------------------------------------------------------------------------- */

struct pz_instance_options pz_instance_options_default(void) {
  return (struct pz_instance_options){.size = sizeof(struct pz_instance_options)};
}

/* Copies the plan that was found, with the ids of its nodes, for the caller. */
static void describe_instance_plan(struct pz_call *call, const struct pz_instance *instance,
                                   struct pz_instance_plan *out) {
  const struct pz_place_width *width = &instance->problem.widths[instance->plan.width];
  *out = (struct pz_instance_plan){.tp = width->tp,
                                   .dp = instance->plan.replicas,
                                   .n_stages = instance->plan.n_stages,
                                   .step_s = instance->plan.time_s,
                                   .slowest_stage_s = instance->plan.maxload_s,
                                   .exchange_s = instance->plan.allreduce_s,
                                   .hbm_bytes = instance->problem.hbm_bytes,
                                   .expert_s = instance->fixed_s,
                                   .solve_s = instance->solve_s};
  if (instance->fixed_reason) out->expert = pz_copy_text(call, instance->fixed_reason);
  out->stages = pz_alloc(call, out->n_stages, sizeof *out->stages);
  for (uint32_t k = 0; k < out->n_stages; k++) {
    const struct pz_stage *stage = &instance->plan.stages[k];
    int64_t *nodes = pz_alloc(call, stage->n, sizeof *nodes);
    for (uint32_t i = 0; i < stage->n; i++) nodes[i] = width->layers[stage->layers[i]].id;
    out->stages[k] = (struct pz_instance_stage){nodes, stage->n, stage->devices, stage->load_s,
                                                stage->memory_bytes};
  }
}

struct instance_args {
  const char *name, *text;
  size_t bytes;
  const struct pz_instance_options *options;
  struct pz_instance_plan **out;
};

/* Checks the arguments of pz_partition_instance(), solves the instance and describes its plan. */
static void partition_instance(struct pz_call *call, void *ctx) {
  const struct instance_args *args = ctx;
  struct pz_instance_options options = pz_instance_options_default();
  struct pz_instance instance;
  pz_require_options(call, &options, sizeof options, args->options, "pz_instance_options_default");
  pz_require(call, args->name, "name");
  pz_require(call, args->text, "text");
  pz_require(call, args->out, "out");
  pz_place_read_instance(call, args->name, args->text, args->bytes, &instance);
  instance.problem.semantics = options.corrected ? PZ_SEMANTICS_CORRECTED : PZ_SEMANTICS_ORIGINAL;
  instance.fixed.split = options.compat ? PZ_SPLIT_COMPAT : PZ_SPLIT_EVEN;
  struct find_args find = {&instance, call->arena, false};
  struct pz_error error = {0};
  double start_s = pz_clock_s();
  enum pz_status status = pz_border(find_instance_plan, &find, &error);
  instance.solve_s = pz_clock_s() - start_s;
  if (status != PZ_OK) pz_raise(call, status, "%s: %s", instance.name, error.message);
  if (!find.found) raise_infeasible(call, &instance.problem);
  if (options.check) pz_place_check(call, &instance.problem, &instance.plan);
  struct pz_place_solution expert;
  instance.fixed_reason = pz_fixed_plan_evaluate(call, &instance.problem, &instance.fixed, &expert);
  if (!instance.fixed_reason) instance.fixed_s = expert.time_s;
  struct pz_call own;
  struct pz_instance_plan *plan = pz_object_new(call, sizeof *plan, &own);
  describe_instance_plan(&own, &instance, plan);
  *args->out = pz_object_keep(call, plan);
}

enum pz_status pz_partition_instance(const char *name, const char *text, size_t bytes,
                                     const struct pz_instance_options *options,
                                     struct pz_instance_plan **out, struct pz_error *err) {
  struct instance_args args = {name, text, bytes, options, out};
  return pz_border(partition_instance, &args, err);
}

void pz_instance_plan_free(struct pz_instance_plan *plan) { pz_object_free(plan); }
