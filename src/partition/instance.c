#include "partition/instance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fields.h"
#include "core/map.h"

static const struct pz_range COUNT = {1, INT64_C(1) << 40}, ID = {INT64_MIN / 2, INT64_MAX / 2},
                             FIXED = {0, INT64_C(1) << 40};
static const double MOST = 1e100, MOST_BYTES = 1e30, LEAST_RATE = 1e-30;

/* What instances say of themselves and their layers, not read here. */
static const char *const words[] = {"name", "about", "comment", "sources"}, *const node_words[] = {
                                                                                "name", "desc",
                                                                                "comment",
                                                                                "energy"};

struct reader {
  struct pz_fields f;
  struct pz_arena *arena;
  struct pz_map ids; /* of the width at hand */
};

static void no_memory(struct reader *r) {
  r->f.status = pz_fail(r->f.err, PZ_NO_MEMORY, "%s: out of memory", r->f.name);
}

static void read_layer(struct reader *r, const char *width, const json_t *item, uint32_t index,
                       struct pz_place_layer *l) {
  char where[300];
  snprintf(where, sizeof where, "%.200s: nodes.%.20s[%u]", r->f.name, width, index);
  struct pz_fields g = {.name = where, .root = item, .err = r->f.err, .status = r->f.status};
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
    r->f.status =
        pz_fail(r->f.err, PZ_BAD_INPUT, "%s: id %lld occurs twice", where, (long long)l->id);
  else if (pz_map_put(&r->ids, &l->id, sizeof l->id, index) != PZ_OK)
    no_memory(r);
}

static uint32_t read_end(struct reader *r, struct pz_fields *g, const char *key) {
  int64_t id = pz_fields_int(g, key, ID);
  uint32_t at = pz_map_get(&r->ids, &id, sizeof id);
  if (g->status == PZ_OK && at == PZ_NONE)
    pz_fields_refuse(g, key, "the id of a node of this tensor-parallel degree");
  return at;
}

static void read_edge(struct reader *r, const char *width, const json_t *item, uint32_t index,
                      struct pz_place_edge *e) {
  char where[300];
  snprintf(where, sizeof where, "%.200s: edges.%.20s[%u]", r->f.name, width, index);
  struct pz_fields g = {.name = where, .root = item, .err = r->f.err, .status = r->f.status};
  e->from = read_end(r, &g, "sourceId");
  e->to = read_end(r, &g, "destId");
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
  struct pz_place_layer *layers = pz_arena_alloc(r->arena, w->n, sizeof *layers);
  struct pz_place_edge *list = pz_arena_alloc(r->arena, w->n_edges, sizeof *list);
  if (!layers || !list) {
    no_memory(r);
    return;
  }
  pz_map_init(&r->ids, r->arena);
  for (uint32_t i = 0; i < w->n && r->f.status == PZ_OK; i++)
    read_layer(r, key, json_array_get(nodes, i), i, &layers[i]);
  for (uint32_t i = 0; i < w->n_edges && r->f.status == PZ_OK; i++)
    read_edge(r, key, json_array_get(edges, i), i, &list[i]);
  w->layers = layers;
  w->edges = list;
  if (r->f.status == PZ_OK) r->f.status = pz_place_order(r->arena, w, r->f.name, r->f.err);
}

static void read_widths(struct reader *r, struct pz_place_problem *p) {
  const json_t *nodes = pz_fields_value(&r->f, "nodes");
  size_t n = json_object_size(nodes);
  if (n < 1 || n > PZ_PLACE_MOST_WIDTHS) {
    pz_fields_refuse(&r->f, "nodes", "an object with 1 to 64 tensor-parallel degrees");
    return;
  }
  struct pz_place_width *list = pz_arena_alloc(r->arena, n, sizeof *list);
  if (!list) {
    no_memory(r);
    return;
  }
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
  const json_t *nodes = pz_fields_value(f, "nodes"), *edges = pz_fields_value(f, "edges");
  void *it = json_object_iter((json_t *)(uintptr_t)edges);
  for (; it && f->status == PZ_OK; it = json_object_iter_next((json_t *)(uintptr_t)edges, it))
    if (!json_object_get(nodes, json_object_iter_key(it)))
      f->status = pz_fail(f->err, PZ_BAD_INPUT,
                          "%s: edges.%.20s; accepted: a tensor-parallel degree that nodes has too",
                          f->name, json_object_iter_key(it));
}

/* An expert plan takes all of these; 0 is as good as absent. */
static void check_fixed(struct pz_fields *f, const struct pz_fixed *fixed) {
  const struct {
    const char *key;
    int64_t value;
  } part[] = {{"fixedPP", fixed->stages},
              {"fixedTMPC", fixed->t},
              {"fixedDP", fixed->d},
              {"numTransformerLayers", fixed->layers}};
  const char *given = NULL, *lacking = NULL;
  for (size_t i = sizeof part / sizeof *part; i-- > 0;)
    *(part[i].value ? &given : &lacking) = part[i].key;
  if (f->status != PZ_OK || !given || !lacking) return;
  f->status =
      pz_fail(f->err, PZ_BAD_INPUT,
              "%s: %s is given and %s is not; accepted for an expert plan: fixedPP, fixedTMPC, "
              "fixedDP and numTransformerLayers, each at least 1, or none of them",
              f->name, given, lacking);
  pz_error_at(f->err, f->name, 0, 0);
}

static void read_fixed(struct pz_fields *f, struct pz_fixed *fixed) {
  *fixed = (struct pz_fixed){.stages = pz_fields_int_or(f, "fixedPP", FIXED, 0),
                             .t = pz_fields_int_or(f, "fixedTMPC", FIXED, 0),
                             .d = pz_fields_int_or(f, "fixedDP", FIXED, 0),
                             .layers = pz_fields_int_or(f, "numTransformerLayers", FIXED, 0)};
  fixed->given = fixed->stages && fixed->t && fixed->d && fixed->layers;
  check_fixed(f, fixed);
}

enum pz_status pz_place_parse(const char *name, const char *text, size_t bytes,
                              struct pz_arena *arena, struct pz_place_problem *out,
                              struct pz_fixed *fixed, struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct reader r = {.f = {.name = name, .root = root, .err = err}, .arena = arena};
  *out = (struct pz_place_problem){0};
  read_numbers(&r.f, out);
  read_fixed(&r.f, fixed);
  pz_fields_allow(&r.f, words, sizeof words / sizeof *words);
  check_edge_widths(&r.f);
  if (pz_fields_finish(&r.f) == PZ_OK) read_widths(&r, out);
  json_decref(root);
  return r.f.status;
}
