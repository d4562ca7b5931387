#include "problems.h"
#include "unit/core_borders.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/csv.h"
#include "core/file.h"
#include "core/num.h"
#include "unit/chip_borders.h"
#include "workload/workload.h"

void give_up(const struct pz_error *err) {
  fprintf(stderr, "%s\n", err->message);
  exit(1);
}

double gap_percent(const struct pz_schedule *s) {
  return s->makespan > 0 ? 100 * (s->makespan - s->lower_bound) / s->makespan : 0;
}

const char *outcome_name(const struct pz_schedule *s) {
  return s->outcome == PZ_OUTCOME_OPTIMAL ? "optimal" : "feasible";
}

/* ---- layers --------------------------------------------------------------------------------- */

const char *const layer_kinds[] = {"two-all", "two-class", "cores", "all"};
const char *const layer_chips[] = {"tpuv4", "h200"};
static const struct pz_layer_options layer_options[] = {{PZ_MODES_TWO, PZ_EXCLUSIVE_ALL},
                                                        {PZ_MODES_TWO, PZ_EXCLUSIVE_CLASS},
                                                        {PZ_MODES_CORES, PZ_EXCLUSIVE_ALL},
                                                        {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL}};

struct layer_walk {
  layer_visitor *visit;
  void *ctx;
  struct layer_problem at;
};

static void visit_kinds(struct layer_walk *x, struct pz_cost *cost, const struct pz_ops *ops) {
  for (x->at.kind = 0; x->at.kind < LAYER_KINDS; x->at.kind++, x->at.index++) {
    struct pz_arena arena;
    struct pz_problem p;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    if (pz_layer_problem(cost, ops, &layer_options[x->at.kind], &arena, &p, &err) != PZ_OK)
      give_up(&err);
    x->visit(x->ctx, &x->at, &p);
    pz_arena_release(&arena);
  }
}

static void visit_workload(struct layer_walk *x, const struct pz_chip *chip,
                           const struct pz_workload *w) {
  static const char *const directions[] = {"forward", "backward"};
  struct pz_cost cost;
  pz_cost_init(&cost, chip, NULL);
  x->at.model = w->model;
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++) {
      x->at.layer = w->layers[i].name;
      x->at.direction = directions[d];
      visit_kinds(x, &cost, &w->layers[i].ops[d]);
    }
  pz_cost_release(&cost);
}

void each_layer(layer_visitor *visit, void *ctx) {
  struct layer_walk x = {.visit = visit, .ctx = ctx};
  for (x.at.chip = 0; x.at.chip < LAYER_CHIPS; x.at.chip++) {
    struct pz_chip chip;
    struct pz_error err = {0};
    if (pz_test_chip_read(layer_chips[x.at.chip], &chip, &err) != PZ_OK) give_up(&err);
    for (size_t m = 0; pz_preset_name(m); m++)
      for (x.at.tp = 1; x.at.tp <= 128; x.at.tp++) {
        struct pz_workload_options o = pz_workload_options_default();
        struct pz_workload *w = NULL;
        o.tp = x.at.tp;
        if (pz_workload_load(pz_preset_name(m), &o, &w, NULL) == PZ_OK)
          visit_workload(&x, &chip, w);
        pz_workload_free(w);
      }
  }
}

/* ---- random graphs -------------------------------------------------------------------------- */

const int32_t random_cores[RANDOM_CORES][2] = {{1, 1}, {2, 2}, {3, 5}, {4, 4}};

static uint32_t draw(uint64_t *seed, uint32_t n) { return pz_random_lcg(seed) % n; }

struct graph {
  uint32_t n, n_edges;
  enum pz_op_class type[RANDOM_MOST_OPS];
  /* speedup: 0: none, 1: as many times as there are cores */
  double single[RANDOM_MOST_OPS], speedup[RANDOM_MOST_OPS];
  struct pz_edge edges[4 * RANDOM_MOST_OPS];
};

/* Layers of 1 to `width` operators; each has one to three of the layer before it, now and then of
 * an earlier one. */
static void draw_graph(uint64_t *seed, uint32_t n, uint32_t width, struct graph *g) {
  uint32_t first = 0, before = 0, end = 0; /* of the layer, of the one before */
  g->n = n;
  g->n_edges = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i == end) {
      before = first;
      first = i;
      end = i + 1 + draw(seed, width);
    }
    uint32_t kind = draw(seed, 20);
    g->type[i] = kind < 9 ? PZ_CLASS_TENSOR : kind < 17 ? PZ_CLASS_VECTOR : PZ_CLASS_FUSED;
    g->single[i] = 10 + draw(seed, 490);
    g->speedup[i] = draw(seed, 5) ? (50 + draw(seed, 51)) / 100.0 : 0;
    for (uint32_t k = first ? 1 + draw(seed, 2) : 0; k > 0; k--) {
      uint32_t from = draw(seed, 8) ? before + draw(seed, first - before) : draw(seed, first);
      g->edges[g->n_edges++] = (struct pz_edge){from, i};
    }
  }
}

static void make_problem(const struct graph *g, const int32_t cores[2], struct pz_arena *arena,
                         struct pz_problem *p) {
  struct pz_task tasks[RANDOM_MOST_OPS] = {{0}};
  struct pz_mode modes[RANDOM_MOST_OPS][2];
  int32_t capacity[PZ_RESOURCES] = {cores[0], cores[1], 1, 1, 1};
  struct pz_error err = {0};
  for (uint32_t i = 0; i < g->n; i++) {
    int32_t n = cores[g->type[i] == PZ_CLASS_VECTOR];
    double all = g->single[i] / (1 + (n - 1) * g->speedup[i]);
    tasks[i] = (struct pz_task){.name = "op", .id = i, .modes = modes[i]};
    tasks[i].n_modes =
        pz_two_modes(g->type[i], capacity, g->single[i], ceil(all), PZ_EXCLUSIVE_ALL, modes[i]);
  }
  if (pz_problem_make(arena, capacity, tasks, g->n, g->edges, g->n_edges, p, &err) != PZ_OK)
    give_up(&err);
}

void each_random(const struct random_options *o, problem_visitor *visit, void *ctx) {
  uint64_t seed = o->seed;
  for (int i = 0; i < RANDOM_GRAPHS; i++) {
    struct graph g;
    struct pz_arena arena;
    struct pz_problem p;
    pz_arena_init(&arena);
    draw_graph(&seed, o->ops, o->width, &g);
    make_problem(&g, random_cores[o->cores], &arena, &p);
    visit(ctx, &p);
    pz_arena_release(&arena);
  }
}

/* ---- reference instances -------------------------------------------------------------------- */

static const char *cell(const struct pz_csv *index, uint32_t row, const char *column) {
  return pz_csv_cell(index, row, pz_csv_column(index, column));
}

static void visit_reference(const char *folder, const struct reference *r, reference_visitor *visit,
                            void *ctx) {
  char path[1024], *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_error err = {0};
  snprintf(path, sizeof path, "%s/%s.json", folder, r->name);
  pz_arena_init(&arena);
  if (pz_file_read(path, PZ_INSTANCE_MOST_BYTES, &text, &bytes, &err) != PZ_OK ||
      pz_instance_parse(r->name, text, bytes, PZ_EXCLUSIVE_ALL, &arena, &p, &err) != PZ_OK)
    give_up(&err);
  visit(ctx, r, &p);
  free(text);
  pz_arena_release(&arena);
}

void each_reference(const char *folder, reference_visitor *visit, void *ctx) {
  char path[1024], *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_csv index;
  struct pz_error err = {0};
  snprintf(path, sizeof path, "%s/index.csv", folder);
  pz_arena_init(&arena);
  if (pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, &err) != PZ_OK ||
      pz_csv_parse(path, text, bytes, &arena, &index, &err) != PZ_OK)
    give_up(&err);
  for (uint32_t r = 0; r < index.rows; r++)
    visit_reference(folder,
                    &(struct reference){cell(&index, r, "name"), cell(&index, r, "incumbent"),
                                        cell(&index, r, "lower_bound"),
                                        cell(&index, r, "ilp_seconds")},
                    visit, ctx);
  free(text);
  pz_arena_release(&arena);
}
