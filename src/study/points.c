#include "study/points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/json.h"
#include "core/pool.h"
#include "core/text.h"
#include "cost/beside_table.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/expected_error.h"
#include "step/prediction.h"
#include "workload/workload.h"

static enum pz_status no_memory(const struct pz_point_reader *r, const char *name) {
  return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", name);
}

/* A column by name; PZ_BAD_INPUT if there is none. */
static enum pz_status find_column(const struct pz_point_reader *r, const char *name,
                                  const struct pz_csv *csv, const char *head, uint32_t *at) {
  *at = pz_csv_column(csv, head);
  if (*at != PZ_NONE) return PZ_OK;
  return pz_fail(r->err, PZ_BAD_INPUT, "%s:1: no column '%s'", name, head);
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* The cell of a column that a table need not have. */
static const char *cell_of(const struct pz_csv *csv, uint32_t row, const char *head) {
  uint32_t at = pz_csv_column(csv, head);
  return at == PZ_NONE ? "" : pz_csv_cell(csv, row, at);
}

static bool cell_is(const struct pz_csv *csv, uint32_t row, const char *head, const char *word) {
  return strcmp(cell_of(csv, row, head), word) == 0;
}

/* A count that the table of runs has checked. */
static int64_t count_of(const struct pz_csv *csv, uint32_t row, const char *head) {
  return (int64_t)strtod(cell_of(csv, row, head), NULL);
}

/* What plans of one model, machine and batch have in common. */
static char *job_of(const struct pz_csv *csv, uint32_t row, struct pz_arena *arena) {
  static const char *const heads[] = {"group",    "layers", "hidden",     "heads",    "kv_heads",
                                      "head_dim", "ffn",    "mlp",        "vocab",    "seq",
                                      "experts",  "topk",   "expert_ffn", "chip",     "cluster",
                                      "n_dev",    "gbs",    "precision",  "framework"};
  char *job = pz_arena_strdup(arena, "");
  for (size_t i = 0; i < sizeof heads / sizeof *heads && job; i++)
    job = pz_arena_printf(arena, "%s%s|", job, cell_of(csv, row, heads[i]));
  return job;
}

static char *plan_of(const struct pz_csv *csv, uint32_t row, struct pz_arena *arena) {
  static const char *const degrees[] = {"tp", "cp", "pp", "vpp", "dp", "ep"};
  char *plan = pz_arena_printf(arena, "mbs %s", cell_of(csv, row, "mbs"));
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees && plan; i++) {
    const char *n = cell_of(csv, row, degrees[i]);
    if (*n && strcmp(n, "1") != 0) plan = pz_arena_printf(arena, "%s, %s %s", plan, degrees[i], n);
  }
  const char *again = cell_of(csv, row, "recompute");
  if (plan && *again && strcmp(again, "none") != 0)
    plan = pz_arena_printf(arena, "%s, recompute %s", plan, again);
  return plan;
}

/* Every field of the plan as the table has it, and what else tables say of plans. */
static char *choices_of(const struct pz_csv *csv, uint32_t row, struct pz_arena *arena) {
  static const char *const more[] = {"cuda_graphs", "dispatcher"};
  char *text = pz_arena_strdup(arena, "");
  for (int f = 0; f < PZ_PLAN_FIELDS && text; f++) {
    const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)f);
    text =
        pz_arena_printf(arena, "%s%s|", text, cell_of(csv, row, x->column ? x->column : x->name));
  }
  for (size_t i = 0; i < sizeof more / sizeof *more && text; i++)
    text = pz_arena_printf(arena, "%s%s|", text, cell_of(csv, row, more[i]));
  return text;
}

/* Devices of the innermost level; 8 where the network is not known, 0 when out of memory. */
static int64_t node_devices(const char *cluster) {
  struct pz_cluster net;
  struct pz_error why = {0};
  if (pz_cluster_load(cluster, &net, &why) != PZ_OK) return why.status == PZ_NO_MEMORY ? 0 : 8;
  return net.n_levels > 0 ? net.level[0].devices : 8;
}

/* Also the sequence. */
static void set_features(const struct pz_run_row *run, int64_t layers, int64_t node,
                         struct pz_validation_point *p) {
  if (!run->predicted) return;
  struct pz_feature_context c = {
      .experts = run->p.active_params<run->p.params, .scans = run->p.scan_layers> 0,
      .sparse = run->p.sparse_layers > 0,
      .layers = layers,
      .node = node};
  p->features = pz_plan_features(run->plan, &c);
  p->seq = (int64_t)(run->p.tokens / (double)run->plan->batch + 0.5);
}

static bool is_lora(const struct pz_csv *csv, uint32_t row) {
  return !cell_is(csv, row, "peft", "") && !cell_is(csv, row, "peft", "none");
}

/* What a run is made of, for totals. */
static const char *work_of(const struct pz_csv *csv, uint32_t row) {
  if (is_lora(csv, row)) return "LoRA";
  if (!cell_is(csv, row, "ssm", "")) return "state-space layers";
  if (!cell_is(csv, row, "experts", "")) return "experts";
  if (cell_is(csv, row, "precision", "nvfp4")) return "nvfp4";
  return cell_is(csv, row, "precision", "fp8") ? "fp8" : "16-bit";
}

bool pz_points_dense(const struct pz_csv *csv, uint32_t row) {
  bool pipeline =
      cell_is(csv, row, "pipeline", "1f1b") || cell_is(csv, row, "pipeline", "interleaved");
  bool cp = !cell_is(csv, row, "cp", "") && !cell_is(csv, row, "cp", "1");
  return strcmp(work_of(csv, row), "16-bit") == 0 && cell_is(csv, row, "precision", "bf16") &&
         !cp && pipeline;
}

static enum pz_status add_run(const struct pz_point_reader *r, const struct pz_run_table *t,
                              uint32_t row) {
  const struct pz_csv *csv = &t->csv;
  const struct pz_run_row *run = &t->rows[row];
  struct pz_arena *arena = r->points->arena;
  struct pz_validation_point p = {.kind = PZ_POINT_RUN,
                                  .id = run->id,
                                  .group = run->group,
                                  .quality = run->quality,
                                  .chip = cell_of(csv, row, "chip"),
                                  .cluster = cell_of(csv, row, "cluster"),
                                  .framework = cell_of(csv, row, "framework"),
                                  .model = cell_of(csv, row, "model"),
                                  .shape = pz_arena_printf(arena, "%s layers of %s",
                                                           cell_of(csv, row, "layers"),
                                                           cell_of(csv, row, "hidden")),
                                  .plan = plan_of(csv, row, arena),
                                  .job = job_of(csv, row, arena),
                                  .choices = choices_of(csv, row, arena),
                                  .devices = count_of(csv, row, "n_dev"),
                                  .batch = count_of(csv, row, "gbs"),
                                  .dense = pz_points_dense(csv, row),
                                  .work = work_of(csv, row),
                                  .measured_s = run->measured_s,
                                  .measured_bytes = run->measured_bytes,
                                  .predicted_s = run->predicted ? run->p.step_s : 0,
                                  .predicted_bytes = run->predicted ? run->p.peak_bytes : 0,
                                  .reason = run->reason};
  p.tpu = strncmp(p.chip, "tpu", 3) == 0;
  p.context = count_of(csv, row, "cp") > 1;
  p.zero_bubble = strncmp(cell_of(csv, row, "pipeline"), "zb", 2) == 0;
  int64_t node = node_devices(cell_of(csv, row, "cluster"));
  p.one_node = p.devices <= node;
  set_features(run, count_of(csv, row, "layers"), node, &p);
  bool good = node > 0 && p.shape && p.plan && p.job && p.choices;
  return good && pz_vec_push(r->points, &p) ? PZ_OK : PZ_NO_MEMORY;
}

enum pz_status pz_points_runs(const struct pz_point_reader *r, const char *name, const char *text,
                              size_t bytes) {
  struct pz_run_table *t = pz_arena_alloc(r->points->arena, 1, sizeof *t);
  if (!t) return no_memory(r, name);
  struct pz_run_terms terms = {.cold = r->cold, .threads = r->threads, .progress = r->progress};
  enum pz_status status = pz_run_table_with(&terms, name, text, bytes, r->points->arena, t, r->err);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < t->n_rows; i++)
    if (add_run(r, t, i) != PZ_OK) return no_memory(r, name);
  return !r->tables || pz_vec_push(r->tables, t) ? PZ_OK : no_memory(r, name);
}

/* ---- operators ------------------------------------------------------------------------------ */

/* Rows, the chips they are of, and for each thread what it knows of each chip. */
struct operators {
  const struct pz_measured *m;
  const char *given; /* a preset or a path: the first chip, that of rows which name none */
  bool has_given;    /* there are rows of it */
  struct pz_chip chips[32];
  uint32_t n_chips;
  uint32_t *at;        /* of a row: index of its chip */
  const char **reason; /* of a row that is not predicted */
  struct pz_cost *costs;
  double *us;
  enum pz_status *status;
  struct pz_progress *progress;
};

/* The chip of a row, a preset, loaded when it is met first.  The given one is also that of rows which name it. */
static enum pz_status find_chip(const struct pz_point_reader *r, struct operators *o,
                                const struct pz_ops_row *row, uint32_t *at) {
  *at = 0;
  while (*at < o->n_chips && row->chip && strcmp(o->chips[*at].name, row->chip) != 0) ++*at;
  o->has_given |= *at == 0;
  if (*at < o->n_chips) return PZ_OK;
  if (o->n_chips == sizeof o->chips / sizeof *o->chips)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: more than %u chips", row->table, row->line,
                   o->n_chips);
  return pz_chip_read(row->chip, &o->chips[o->n_chips++], r->err);
}

static enum pz_status find_chips(const struct pz_point_reader *r, struct operators *o) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < o->m->n && status == PZ_OK; i++) {
    const struct pz_ops_row *row = &o->m->rows[i];
    o->reason[i] = row->reason;
    if (!row->reason) status = find_chip(r, o, row, &o->at[i]);
    if (status == PZ_OK && !row->reason) o->reason[i] = pz_ops_not_on(&o->chips[o->at[i]], row);
  }
  return status;
}

static void predict_operator(void *ctx, size_t i, unsigned worker) {
  struct operators *o = ctx;
  struct pz_cost *cost = &o->costs[worker * o->n_chips + o->at[i]];
  struct pz_error err;
  pz_progress_add(o->progress, 1);
  if (!o->reason[i] && !pz_progress_stopped(o->progress))
    o->status[i] = pz_ops_us(cost, &o->m->rows[i], &o->us[i], &err);
}

static enum pz_status predict_operators(const struct pz_point_reader *r, struct operators *o) {
  struct pz_arena *arena = r->points->arena;
  struct pz_pool *pool = NULL;
  enum pz_status status = pz_pool_new(r->threads, &pool, r->err);
  if (status != PZ_OK) return status;
  size_t n = (size_t)pz_pool_threads(pool) * o->n_chips;
  o->costs = pz_arena_alloc(arena, n, sizeof *o->costs);
  o->us = pz_arena_alloc(arena, o->m->n, sizeof *o->us);
  o->status = pz_arena_alloc(arena, o->m->n, sizeof *o->status);
  if (!o->costs || !o->us || !o->status) {
    pz_pool_free(pool);
    return no_memory(r, o->m->name);
  }
  for (size_t i = 0; i < n; i++) pz_cost_init(&o->costs[i], &o->chips[i % o->n_chips], NULL);
  pz_progress_next(o->progress, o->m->name, "operators", o->m->n);
  pz_pool_for(pool, o->m->n, predict_operator, o);
  pz_progress_finish(o->progress, NULL);
  if (pz_progress_stopped(o->progress)) status = pz_fail(r->err, PZ_STOPPED, "stopped");
  for (uint32_t i = 0; i < o->m->n && status == PZ_OK; i++)
    if (o->status[i] != PZ_OK) /* for its message */
      status = pz_ops_us(&o->costs[o->at[i]], &o->m->rows[i], &o->us[i], r->err);
  for (size_t i = 0; i < n; i++) pz_cost_release(&o->costs[i]);
  pz_pool_free(pool);
  return status;
}

static bool make_operator(const struct operators *o, uint32_t i, struct pz_arena *arena,
                          struct pz_validation_point *p) {
  const struct pz_ops_row *row = &o->m->rows[i];
  const char *chip = row->chip ? row->chip : o->given;
  const char *group = row->group ? row->group : pz_ops_name(row->op), *reason = o->reason[i];
  *p = (struct pz_validation_point){
      .kind = PZ_POINT_OPERATOR,
      .group = row->reason ? group : pz_arena_printf(arena, "%s %s", chip, group),
      .id = row->reason ? pz_arena_printf(arena, "%s:%u", row->table, row->line)
                        : pz_ops_text(row, arena),
      .work = row->chip && !reason ? pz_arena_printf(arena, PZ_ALL_CHIPS "%s", group) : NULL,
      .quality = row->slow ? "slow: the table marks it" : "ok",
      .chip = chip,
      .framework = "",
      .model = "",
      .shape = "",
      .plan = "",
      .devices = 1,
      .one_node = true,
      .measured_s = row->us * 1e-6,
      .predicted_s = reason ? 0 : o->us[i] * 1e-6,
      .reason = reason ? reason : ""};
  return p->group && p->id && (p->work || !row->chip || reason);
}

/* By group, then in the order of the tables. */
static int by_group(const void *a, const void *b) {
  const struct pz_validation_point *const *x = a, *const *y = b;
  int order = strcmp((*x)->group, (*y)->group);
  return order ? order : *x < *y ? -1 : *x > *y;
}

enum pz_status pz_points_operators(const struct pz_point_reader *r, const struct pz_measured *m,
                                   const char *chip, bool *given) {
  struct pz_arena *arena = r->points->arena;
  struct operators *o = pz_arena_alloc(arena, 1, sizeof *o);
  struct pz_validation_point *points = pz_arena_alloc(arena, m->n, sizeof *points);
  const struct pz_validation_point **order = pz_arena_alloc(arena, m->n, sizeof *order);
  bool chips = false;
  if (o)
    *o = (struct operators){.m = m,
                            .given = chip,
                            .n_chips = 1,
                            .progress = r->progress,
                            .at = pz_arena_alloc(arena, m->n, sizeof *o->at),
                            .reason = pz_arena_alloc(arena, m->n, sizeof *o->reason)};
  if (!o || !o->at || !o->reason || !points || !order) return no_memory(r, m->name);
  enum pz_status status = pz_chip_read(chip, &o->chips[0], r->err);
  if (status == PZ_OK) status = find_chips(r, o);
  if (status == PZ_OK) status = predict_operators(r, o);
  if (status != PZ_OK) return status;
  *given = o->has_given;
  for (uint32_t i = 0; i < m->n; i++) {
    chips |= m->rows[i].chip != NULL;
    if (!make_operator(o, i, arena, &points[i])) return no_memory(r, m->name);
    order[i] = &points[i];
  }
  if (chips) qsort(order, m->n, sizeof *order, by_group);
  for (uint32_t i = 0; i < m->n; i++)
    if (!pz_vec_push(r->points, order[i])) return no_memory(r, m->name);
  return PZ_OK;
}

/* ---- kernels beside communication ----------------------------------------------------------- */

static const char *beside_group(const struct pz_beside_row *row, struct pz_arena *arena) {
  switch (row->beside) {
  case PZ_BESIDE_RESIDENT:
    return pz_arena_printf(arena, "beside: %lld core%s", (long long)row->sms,
                           pz_text_s((double)row->sms));
  case PZ_BESIDE_ENGINE: return "beside: copy engine";
  default: return "beside: host";
  }
}

/* Kernel, sizes, and what ran beside it. */
static char *beside_id(const struct pz_beside_row *row, struct pz_arena *arena) {
  char k[40] = "";
  if (row->k) snprintf(k, sizeof k, " x %lld", (long long)row->k);
  return pz_arena_printf(arena, "%s %lld x %lld%s, %s", row->compute, (long long)row->m,
                         (long long)row->n, k, pz_beside_names[row->beside]);
}

static char *beside_plan(const struct pz_beside_row *row, struct pz_arena *arena) {
  char us[32];
  if (!(row->slowdown > 0)) return pz_arena_strdup(arena, "");
  if (!(row->own_alone_s > 0)) return pz_arena_printf(arena, "%.2f times as long", row->slowdown);
  return pz_arena_printf(arena, "%.2f times as long; %s ms with the predicted time alone",
                         row->slowdown,
                         pz_text_number(us, sizeof us, 1e3 * row->own_alone_s * row->slowdown));
}

static enum pz_status add_beside(const struct pz_point_reader *r, const char *name,
                                 const char *chip, const struct pz_beside_row *row) {
  struct pz_arena *arena = r->points->arena;
  struct pz_validation_point p = {.kind = PZ_POINT_OPERATOR,
                                  .group = beside_group(row, arena),
                                  .id = beside_id(row, arena),
                                  .quality = "ok",
                                  .chip = chip,
                                  .framework = "",
                                  .model = "",
                                  .shape = "",
                                  .plan = beside_plan(row, arena),
                                  .devices = 1,
                                  .one_node = true,
                                  .measured_s = row->together_s,
                                  .predicted_s = row->alone_s * row->slowdown,
                                  .reason = row->reason};
  return p.group && p.id && p.plan && pz_vec_push(r->points, &p) ? PZ_OK : no_memory(r, name);
}

enum pz_status pz_points_beside(const struct pz_point_reader *r, const char *name, const char *text,
                                size_t bytes, const char *chip_name) {
  const struct pz_beside_row *rows = NULL;
  struct pz_csv csv;
  struct pz_chip chip;
  struct pz_cost cost;
  enum pz_status status = pz_chip_read(chip_name, &chip, r->err);
  if (status == PZ_OK) status = pz_csv_parse(name, text, bytes, r->points->arena, &csv, r->err);
  if (status != PZ_OK) return status;
  pz_cost_init(&cost, &chip, NULL);
  status = pz_beside_predict(&cost, name, &csv, r->points->arena, &rows, r->err);
  for (uint32_t i = 0; i < csv.rows && status == PZ_OK; i++)
    status = add_beside(r, name, chip_name, &rows[i]);
  pz_cost_release(&cost);
  return status;
}

/* ---- steps of preset models ----------------------------------------------------------------- */

struct step {
  const char *name; /* of the table */
  const struct pz_csv *csv;
  uint32_t row;
  const struct pz_chip *chip;
  double layers, seq, mbs;
  bool flash, again;
};

/* The preset's configuration with so many layers; 0: all of them.  The caller's to pz_free. */
static enum pz_status cut_config(const struct pz_preset *preset, int64_t layers, char **out,
                                 struct pz_error *err) {
  static const char *const keys[] = {"n_layer", "num_hidden_layers"};
  json_t *config = NULL;
  enum pz_status status =
      pz_json_parse(preset->name, preset->config, strlen(preset->config), &config, err);
  if (status != PZ_OK) return status;
  for (size_t i = 0; i < sizeof keys / sizeof *keys && layers > 0; i++)
    if (json_object_get(config, keys[i]))
      json_object_set_new(config, keys[i], json_integer(layers));
  *out = pz_json_dump(config, JSON_COMPACT);
  json_decref(config);
  return *out ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", preset->name);
}

/* Seconds of forward and backward, and whether the host's launches take longer than the kernels:
 * such steps differ by up to 1.9 times between runs of the same code. */
static enum pz_status predict_passes(const struct step *s, const char *config, double *seconds,
                                     bool *launch_bound, struct pz_error *err) {
  struct pz_job job = {
      .model = cell_of(s->csv, s->row, "model"), .config = config, .chip = s->chip};
  struct pz_plan plan = pz_plan_default();
  plan.framework = pz_framework_find("transformers");
  plan.seq = (int64_t)s->seq;
  plan.mbs = plan.batch = (int64_t)s->mbs;
  plan.attention = s->flash ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
  plan.recompute = s->again ? PZ_RECOMPUTATION_FULL : PZ_RECOMPUTATION_NONE;
  plan.execution = PZ_EXECUTION_EAGER;
  plan.overlap = 0;
  plan.grad_bytes = 2;
  struct pz_prediction p;
  enum pz_status status = pz_plan_fill(&plan, s->chip, err);
  if (status == PZ_OK) status = pz_predict(&job, &plan, &p, NULL, err);
  if (status != PZ_OK) return status;
  *seconds = p.step_s - p.parts.optimizer_s;
  *launch_bound = pz_launch_bound(&p.parts);
  return PZ_OK;
}

/* Peak of weights and gradients in 16 bit, activations and loss, as eager kernels keep them. */
static enum pz_status predict_peak(const struct step *s, double *bytes, struct pz_error *err) {
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  o.kernels = PZ_KERNELS_EAGER;
  o.seq = (int64_t)s->seq;
  o.mbs = (int64_t)s->mbs;
  o.num_layers = (int64_t)s->layers;
  o.attention = s->flash ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
  o.recompute = s->again ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
  enum pz_status status = pz_workload_load(cell_of(s->csv, s->row, "model"), &o, &w, err);
  if (status == PZ_OK) *bytes = (double)w->totals.peak_bytes;
  pz_workload_free(w);
  return status;
}

static enum pz_status read_step(const struct pz_point_reader *r, struct step *s,
                                struct pz_validation_point *p) {
  const struct {
    const char *head;
    double *to;
  } list[] = {{"layers", &s->layers},
              {"seq", &s->seq},
              {"mbs", &s->mbs},
              {"fwd_bwd_s", &p->measured_s},
              {"peak_bytes", &p->measured_bytes}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    uint32_t at = 0;
    enum pz_status status = find_column(r, s->name, s->csv, list[i].head, &at);
    if (status == PZ_OK)
      status = pz_csv_number(s->name, s->csv, s->row, at, 1e15, list[i].to, r->err);
    if (status != PZ_OK) return status;
  }
  s->flash = cell_is(s->csv, s->row, "attn", "sdpa");
  s->again = cell_is(s->csv, s->row, "recompute", "True");
  return PZ_OK;
}

static enum pz_status add_step(const struct pz_point_reader *r, struct step *s) {
  struct pz_arena *arena = r->points->arena;
  const char *model = cell_of(s->csv, s->row, "model");
  const struct pz_preset *preset = pz_preset_find(model);
  struct pz_validation_point p = {.kind = PZ_POINT_PASSES,
                                  .group = "h200_steps",
                                  .quality = "ok",
                                  .chip = s->chip->name,
                                  .framework = "transformers",
                                  .model = model,
                                  .devices = 1,
                                  .one_node = true,
                                  .reason = ""};
  char *config = NULL;
  bool launch_bound = false;
  if (!preset) return pz_fail(r->err, PZ_BAD_INPUT, "%s: unknown model '%s'", s->name, model);
  enum pz_status status = read_step(r, s, &p);
  if (status == PZ_OK) status = cut_config(preset, (int64_t)s->layers, &config, r->err);
  if (status == PZ_OK) status = predict_passes(s, config, &p.predicted_s, &launch_bound, r->err);
  if (status == PZ_OK) status = predict_peak(s, &p.predicted_bytes, r->err);
  pz_free(config);
  if (status != PZ_OK) return status;
  if (launch_bound) p.quality = "launch-bound: differs between runs";
  p.batch = (int64_t)s->mbs;
  p.plan = pz_arena_printf(arena, "mbs %.0f, %s%s", s->mbs, s->flash ? "flash" : "standard",
                           s->again ? ", recompute full" : "");
  p.shape = s->layers > 0 ? pz_arena_printf(arena, "%.0f layer%s", s->layers, pz_text_s(s->layers))
                          : "all layers";
  p.id = pz_arena_printf(arena, "%s, %s, %.0f x %.0f tokens", model, p.shape ? p.shape : "", s->mbs,
                         s->seq);
  return p.shape && p.plan && p.id && pz_vec_push(r->points, &p) ? PZ_OK : no_memory(r, s->name);
}

enum pz_status pz_points_steps(const struct pz_point_reader *r, const char *name, const char *text,
                               size_t bytes, const char *chip_name) {
  struct pz_csv csv;
  struct pz_chip *chip = pz_arena_alloc(r->points->arena, 1, sizeof *chip);
  if (!chip) return no_memory(r, name);
  enum pz_status status = pz_chip_read(chip_name, chip, r->err);
  if (status == PZ_OK) status = pz_csv_parse(name, text, bytes, r->points->arena, &csv, r->err);
  for (uint32_t i = 0; status == PZ_OK && i < csv.rows; i++) {
    struct step s = {.name = name, .csv = &csv, .row = i, .chip = chip};
    if (cell_is(&csv, i, "status", "ok")) status = add_step(r, &s);
  }
  return status;
}
