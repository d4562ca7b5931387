#include "partition/instance.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fields.h"
#include "core/held.h"
#include "core/map.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/text.h"

/* ---- reading -------------------------------------------------------------------------------- */

static const struct pz_range COUNT = {1, INT64_C(1) << 40}, ID = {INT64_MIN / 2, INT64_MAX / 2},
                             FIXED = {0, INT64_C(1) << 40};
static const double MOST = 1e100, MOST_BYTES = 1e30, LEAST_RATE = 1e-30;

/* What instances and their layers say of themselves, not read here. */
static const char *const words[] = {"name", "about", "comment", "sources"};
static const char *const node_words[] = {"name", "desc", "comment", "energy"};

struct reader {
  struct pz_fields f;
  struct pz_arena *arena;
  struct pz_map ids; /* of the width at hand */
};

static void refuse_memory(struct reader *r) {
  r->f.status = pz_fail(r->f.err, PZ_NO_MEMORY, "%s: out of memory", r->f.name);
}

/* Zeroed; on NULL the status is set. */
static void *take(struct reader *r, size_t n, size_t size) {
  void *block = pz_arena_alloc(r->arena, n, size);
  if (!block) refuse_memory(r);
  return block;
}

/* The index-th entry of a list; `where` is how it is called in messages. */
static struct pz_fields entry(const struct reader *r, const char *group, const char *width,
                              const json_t *list, uint32_t index, char where[300]) {
  snprintf(where, 300, "%.200s: %s.%.20s[%u]", r->f.name, group, width, index);
  return (struct pz_fields){
      .name = where, .root = json_array_get(list, index), .err = r->f.err, .status = r->f.status};
}

static void read_layer(struct reader *r, const char *width, const json_t *list, uint32_t index,
                       struct pz_place_layer *l) {
  char where[300];
  struct pz_fields g = entry(r, "nodes", width, list, index, where);
  l->id = pz_fields_int(&g, "id", ID);
  l->fwd_s = pz_fields_real(&g, "optimalLatencyFw", 0, MOST);
  l->bwd_s = pz_fields_real(&g, "optimalLatencyBw", 0, MOST);
  l->param_bytes = pz_fields_real(&g, "parameterSize", 0, MOST_BYTES);
  l->act_bytes = pz_fields_real(&g, "activationSize", 0, MOST_BYTES);
  l->tensor_parallel = pz_fields_bool_or(&g, "isTensorParallelized", false);
  pz_fields_allow(&g, node_words, sizeof node_words / sizeof *node_words);
  r->f.status = pz_fields_finish(&g);
  if (g.status != PZ_OK) return;
  if (pz_map_get(&r->ids, &l->id, sizeof l->id) != PZ_NONE)
    r->f.status = pz_fail(r->f.err, PZ_BAD_INPUT, "%s: id %" PRId64 " occurs twice", where, l->id);
  else if (pz_map_put(&r->ids, &l->id, sizeof l->id, index) != PZ_OK)
    refuse_memory(r);
}

static void read_edge(struct reader *r, const char *width, const json_t *list, uint32_t index,
                      struct pz_place_edge *e) {
  static const char *const keys[] = {"sourceId", "destId"};
  char where[300];
  struct pz_fields g = entry(r, "edges", width, list, index, where);
  for (int i = 0; i < 2; i++) {
    int64_t id = pz_fields_int(&g, keys[i], ID);
    uint32_t at = pz_map_get(&r->ids, &id, sizeof id);
    if (g.status == PZ_OK && at == PZ_NONE)
      pz_fields_refuse(&g, keys[i], "the id of a node of this tensor-parallel degree");
    *(i ? &e->to : &e->from) = at;
  }
  e->bytes = pz_fields_real(&g, "communicationCost", 0, MOST_BYTES);
  r->f.status = pz_fields_finish(&g);
}

static const json_t *list_of(struct reader *r, const char *group, const char *width, size_t most) {
  const json_t *lists = pz_fields_value(&r->f, group), *list = json_object_get(lists, width);
  size_t n = json_array_size(list);
  if (json_is_array(list) && n <= most) return list;
  if (lists && !json_is_object(lists))
    pz_fields_refuse(&r->f, group, "an object with an array for every tensor-parallel degree");
  if (r->f.status != PZ_OK) return NULL;
  if (json_is_array(list))
    r->f.status =
        pz_fail(r->f.err, PZ_BAD_INPUT, "%s: %s.%.20s has %zu entries; accepted: at most %zu",
                r->f.name, group, width, n, most);
  else
    r->f.status = pz_fail(r->f.err, PZ_BAD_INPUT, "%s: %s.%.20s is %s; accepted: an array",
                          r->f.name, group, width, list ? "no array" : "missing");
  return NULL;
}

/* Topological order: among ready layers the one listed first. */
static void order(struct reader *r, struct pz_place_width *w) {
  uint32_t waits[PZ_PLACE_MOST_LAYERS] = {0}, place[PZ_PLACE_MOST_LAYERS];
  struct pz_place_layer *layers = take(r, w->n, sizeof *layers);
  struct pz_place_edge *edges = take(r, w->n_edges, sizeof *edges);
  if (!layers || !edges) return;
  for (uint32_t e = 0; e < w->n_edges; e++) waits[w->edges[e].to]++;
  for (uint32_t at = 0; at < w->n; at++) {
    uint32_t i = 0;
    while (i < w->n && waits[i]) i++;
    if (i == w->n) {
      r->f.status = pz_fail(r->f.err, PZ_BAD_INPUT,
                            "%s: the layers of tensor-parallel degree %" PRId64 " form a cycle",
                            r->f.name, w->t);
      return;
    }
    layers[at] = w->layers[i];
    place[i] = at;
    waits[i] = PZ_NONE;
    for (uint32_t e = 0; e < w->n_edges; e++)
      if (w->edges[e].from == i) waits[w->edges[e].to]--;
  }
  for (uint32_t e = 0; e < w->n_edges; e++)
    edges[e] =
        (struct pz_place_edge){place[w->edges[e].from], place[w->edges[e].to], w->edges[e].bytes};
  w->layers = layers;
  w->edges = edges;
}

static void read_width(struct reader *r, const char *key, struct pz_place_width *w) {
  char *end;
  const json_t *nodes = list_of(r, "nodes", key, PZ_PLACE_MOST_LAYERS);
  const json_t *edges = list_of(r, "edges", key, 16 * (size_t)PZ_PLACE_MOST_LAYERS);
  if (r->f.status != PZ_OK) return;
  *w = (struct pz_place_width){.t = strtoll(key, &end, 10),
                               .n = (uint32_t)json_array_size(nodes),
                               .n_edges = (uint32_t)json_array_size(edges)};
  if (*end || key[0] < '1' || key[0] > '9' || w->t > 1 << 20 || w->n == 0) {
    r->f.status = pz_fail(
        r->f.err, PZ_BAD_INPUT,
        "%s: nodes.%.20s; accepted: a tensor-parallel degree from 1 to 2^20 with at least one node",
        r->f.name, key);
    return;
  }
  struct pz_place_layer *layers = take(r, w->n, sizeof *layers);
  struct pz_place_edge *list = take(r, w->n_edges, sizeof *list);
  if (!layers || !list) return;
  pz_map_init(&r->ids, r->arena);
  for (uint32_t i = 0; i < w->n && r->f.status == PZ_OK; i++)
    read_layer(r, key, nodes, i, &layers[i]);
  for (uint32_t i = 0; i < w->n_edges && r->f.status == PZ_OK; i++)
    read_edge(r, key, edges, i, &list[i]);
  w->layers = layers;
  w->edges = list;
  if (r->f.status == PZ_OK) order(r, w);
}

static void read_widths(struct reader *r, struct pz_place_problem *p) {
  const json_t *nodes = pz_fields_value(&r->f, "nodes");
  size_t n = json_object_size(nodes);
  if (n < 1 || n > PZ_PLACE_MOST_WIDTHS) {
    pz_fields_refuse(&r->f, "nodes", "an object with 1 to 64 tensor-parallel degrees");
    return;
  }
  struct pz_place_width *list = take(r, n, sizeof *list);
  if (!list) return;
  const char *key;
  const json_t *value;
  json_object_foreach((json_t *)(uintptr_t)nodes, key, value) {
    if (r->f.status != PZ_OK) return;
    read_width(r, key, &list[p->n_widths++]);
  }
  p->widths = list;
}

static void read_numbers(struct pz_fields *f, struct pz_place_problem *p) {
  p->hbm_bytes = pz_fields_real(f, "maxMemoryPerDevice", 0, MOST_BYTES);
  p->devices = pz_fields_int(f, "maxDevices", COUNT);
  p->bytes_per_s = pz_fields_real(f, "bandwidth", LEAST_RATE, MOST_BYTES);
  p->microbatches = (int64_t)pz_fields_real(f, "mbsInBatch", 1, 1e12); /* may be a real */
  p->recompute = pz_fields_bool_or(f, "activationRecomputation", false);
  const char *optimizer = pz_fields_text_or(f, "optimizerAlgorithm", "SGD");
  bool adam = strcmp(optimizer, "Adam") == 0;
  if (!adam && strcmp(optimizer, "SGD") != 0)
    pz_fields_refuse(f, "optimizerAlgorithm", "SGD or Adam");
  p->state = adam ? 3 : 2;
}

/* Edges between layers of a width that has none are a mistake of the one or the other. */
static void check_edge_widths(struct pz_fields *f) {
  const json_t *nodes = pz_fields_value(f, "nodes"), *edges = pz_fields_value(f, "edges"), *value;
  const char *key;
  json_object_foreach((json_t *)(uintptr_t)edges, key, value) {
    if (f->status != PZ_OK || json_object_get(nodes, key)) continue;
    f->status =
        pz_fail(f->err, PZ_BAD_INPUT,
                "%s: field 'edges.%.20s'; accepted: a tensor-parallel degree that nodes has too",
                f->name, key);
  }
}

/* An expert plan takes all of these; 0 is as good as absent. */
static void read_fixed(struct pz_fields *f, struct pz_fixed *fixed) {
  const struct {
    const char *key;
    int64_t *value;
  } part[] = {{"fixedPP", &fixed->stages},
              {"fixedTMPC", &fixed->t},
              {"fixedDP", &fixed->d},
              {"numTransformerLayers", &fixed->layers}};
  const size_t n = sizeof part / sizeof *part;
  const char *given = NULL, *lacking = NULL;
  for (size_t i = 0; i < n; i++) *part[i].value = pz_fields_int_or(f, part[i].key, FIXED, 0);
  for (size_t i = n; i-- > 0;) *(*part[i].value ? &given : &lacking) = part[i].key;
  if (f->status != PZ_OK || !given || !lacking) return;
  f->status =
      pz_fail(f->err, PZ_BAD_INPUT,
              "%s: %s is given and %s is not; accepted for an expert plan: fixedPP, fixedTMPC, "
              "fixedDP and numTransformerLayers, each at least 1, or none of them",
              f->name, given, lacking);
  pz_error_at(f->err, f->name, 0, 0);
}

enum pz_status pz_place_parse(const char *name, const char *text, size_t bytes,
                              struct pz_arena *arena, struct pz_instance *out,
                              struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct reader r = {.f = {.name = name, .root = root, .err = err}, .arena = arena};
  *out = (struct pz_instance){.name = name};
  read_numbers(&r.f, &out->p);
  read_fixed(&r.f, &out->fixed);
  pz_fields_allow(&r.f, words, sizeof words / sizeof *words);
  check_edge_widths(&r.f);
  if (pz_fields_finish(&r.f) == PZ_OK) read_widths(&r, &out->p);
  json_decref(root);
  return r.f.status;
}

/* ---- solving -------------------------------------------------------------------------------- */

/* What the solver refuses is said of the file. */
enum pz_status pz_place_instance(struct pz_instance *x, bool check, struct pz_arena *arena,
                                 struct pz_error *err) {
  struct pz_error why = {0};
  struct pz_place_solution expert;
  double start = pz_clock_s();
  enum pz_status status = pz_place_solve(&x->p, DBL_MAX, arena, &x->plan, &why);
  x->solve_s = pz_clock_s() - start;
  if (status == PZ_NO_ANSWER) {
    struct pz_fit fit = pz_fit_least(&x->p);
    if (fit.hbm_bytes == DBL_MAX)
      return pz_fail(err, status, "no feasible plan on %" PRId64 " device%s, whatever the memory",
                     x->p.devices, pz_text_s((double)x->p.devices));
    return pz_fail(
        err, status,
        "no feasible plan with %.6g bytes per device; the minimum is %.6g bytes, with which stage "
        "%u of %u (layers %" PRId64 " .. %" PRId64 ") takes %.6g",
        x->p.hbm_bytes, fit.hbm_bytes, fit.stage + 1, fit.n_stages, fit.first, fit.last,
        fit.memory_bytes);
  }
  if (status != PZ_OK) return pz_fail(err, status, "%s: %s", x->name, why.message);
  if (check) status = pz_partition_check(&x->p, &x->plan, err);
  if (status != PZ_OK) return status;
  if (pz_fixed_plan(&x->p, &x->fixed, arena, &expert, &x->fixed_err) == PZ_NO_MEMORY)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the expert plan");
  if (x->fixed_err.status == PZ_OK) x->fixed_s = expert.time_s;
  return PZ_OK;
}

/* ---- for programs --------------------------------------------------------------------------- */

struct pz_instance_options pz_instance_options_default(void) {
  return (struct pz_instance_options){.size = sizeof(struct pz_instance_options)};
}

/* The plan that was found, in memory of its own. */
static bool tell_instance(const struct pz_instance *x, struct pz_arena *arena,
                          struct pz_instance_plan *out) {
  const struct pz_place_width *w = &x->p.widths[x->plan.width];
  *out = (struct pz_instance_plan){.tp = w->t,
                                   .dp = x->plan.d,
                                   .n_stages = x->plan.n_stages,
                                   .step_s = x->plan.time_s,
                                   .slowest_stage_s = x->plan.maxload_s,
                                   .exchange_s = x->plan.allreduce_s,
                                   .hbm_bytes = x->p.hbm_bytes,
                                   .expert_s = x->fixed_s,
                                   .solve_s = x->solve_s};
  bool expert = x->fixed_err.status == PZ_OK;
  if (!expert && !(out->expert = pz_arena_strdup(arena, x->fixed_err.message))) return false;
  out->stages = pz_arena_alloc(arena, out->n_stages, sizeof *out->stages);
  for (uint32_t k = 0; out->stages && k < out->n_stages; k++) {
    const struct pz_stage *s = &x->plan.stages[k];
    int64_t *nodes = pz_arena_alloc(arena, s->n, sizeof *nodes);
    if (!nodes) return false;
    for (uint32_t i = 0; i < s->n; i++) nodes[i] = w->layers[s->layers[i]].id;
    out->stages[k] =
        (struct pz_instance_stage){nodes, s->n, s->devices, s->load_s, s->memory_bytes};
  }
  return out->stages != NULL;
}

enum pz_status pz_partition_instance(const char *name, const char *text, size_t bytes,
                                     const struct pz_instance_options *options,
                                     struct pz_instance_plan **out, struct pz_error *err) {
  struct pz_instance_options o = pz_instance_options_default();
  struct pz_instance x;
  struct pz_arena work, *arena;
  void *made = NULL;
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_instance_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the plan", &made, &arena, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&work, NULL);
  status = pz_place_parse(name, text, bytes, &work, &x, err);
  if (status == PZ_OK) {
    x.p.semantics = o.corrected ? PZ_SEMANTICS_CORRECTED : PZ_SEMANTICS_ORIGINAL;
    x.fixed.split = o.compat ? PZ_SPLIT_COMPAT : PZ_SPLIT_EVEN;
    status = pz_place_instance(&x, o.check, &work, err);
  }
  if (status == PZ_OK && !tell_instance(&x, arena, made))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan");
  pz_arena_release(&work);
  return pz_held_give(status, made, out);
}

void pz_instance_plan_free(struct pz_instance_plan *p) { pz_held_free(p); }
