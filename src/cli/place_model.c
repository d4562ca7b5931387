#include "cli/place_model.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/progress.h"
#include "core/text.h"
#include "core/vec.h"
#include "place/checker.h"
#include "place/fit.h"
#include "place/solve.h"
#include "report/table.h"
#include "workload/workload.h"

enum { MOST_LIST = 32, MOST_WIDTH = 64, MOST_SHOWN = 5, SCHEDULE_STEPS = 20000 };

/* One combination of microbatch size, width and recomputation. */
struct option {
  int64_t mbs;
  bool recompute;
  struct pz_place_model model; /* of one width */
  struct pz_plan plan;
  bool fits;
};

struct job {
  const struct pz_place_settings *s;
  const char *model;
  struct pz_cost cost;
  struct pz_arena arena;
  struct pz_vec options; /* struct option, the best first */
  enum pz_semantics semantics;
  double seconds;
  struct pz_error *err;
};

/* ---- what was asked for --------------------------------------------------------------------- */

/* "1,2,4" into list; NULL or auto: powers of two up to `most`. */
static enum pz_status read_list(const char *text, const char *name, int64_t most, int64_t *list,
                                int *n, struct pz_error *err) {
  *n = 0;
  if (!text || strcmp(text, "auto") == 0) {
    for (int64_t v = 1; v <= most && *n < MOST_LIST; v *= 2) list[(*n)++] = v;
    return PZ_OK;
  }
  for (const char *at = text; *n < MOST_LIST;) {
    char *end;
    long long v = strtoll(at, &end, 10);
    if (end == at || v < 1 || v > 1 << 20 || (*end && *end != ','))
      return pz_fail(err, PZ_BAD_USE, "--%s '%s'; accepted: auto, or up to %d numbers with commas",
                     name, text, MOST_LIST);
    bool twice = false;
    for (int i = 0; i < *n; i++) twice = twice || list[i] == v;
    if (!twice) list[(*n)++] = v;
    if (!*end) return PZ_OK;
    at = end + 1;
  }
  return pz_fail(err, PZ_BAD_USE, "--%s has more than %d numbers", name, MOST_LIST);
}

static double hbm_bytes(const struct job *j) {
  return j->s->hbm_gb > 0 ? j->s->hbm_gb * 0x1p30 : (double)pz_chip_hbm_bytes(&j->cost.chip);
}

/* ---- solving -------------------------------------------------------------------------------- */

static enum pz_status add_option(struct job *j, struct option *o, enum pz_semantics semantics,
                                 bool check) {
  struct pz_error none = {0};
  enum pz_status status = pz_place_solve(&o->model.p, semantics, &j->arena, &o->plan, &none);
  o->fits = status == PZ_OK;
  bool same = o->fits && o->recompute && o->plan.n_stages == 1 && j->s->recompute == PZ_CHOOSE_AUTO;
  if (same) return PZ_OK; /* one stage makes nothing again */
  if (status == PZ_OK && check) status = pz_plan_check(&o->model.p, semantics, &o->plan, j->err);
  if (status != PZ_OK && status != PZ_NO_ANSWER) return pz_fail(j->err, status, "%s", none.message);
  return pz_vec_push(&j->options, o) ? PZ_OK : PZ_NO_MEMORY;
}

/* A microbatch size at a width: with and without recomputation, as asked. */
static enum pz_status solve_one(struct job *j, int64_t mbs, int64_t t, bool check) {
  struct pz_workload_options w = pz_workload_options_default();
  struct pz_place_options o = {.devices = j->s->devices,
                               .batch = j->s->batch,
                               .hbm_bytes = hbm_bytes(j),
                               .state = j->s->optimizer ? 2 : 3,
                               .width = t,
                               .steps = SCHEDULE_STEPS};
  struct option one = {.mbs = mbs};
  w.mbs = mbs;
  w.seq = j->s->seq;
  enum pz_status status =
      pz_place_model(&j->cost, j->model, &w, &o, false, &j->arena, &one.model, j->err);
  for (int r = 0; r < 2 && status == PZ_OK; r++) {
    if (j->s->recompute == (r ? PZ_CHOOSE_OFF : PZ_CHOOSE_ON)) continue;
    one.recompute = one.model.p.recompute = r;
    status = add_option(j, &one, j->semantics, check);
  }
  return status;
}

static bool has_width(const char *model, int64_t t) {
  struct pz_workload_options w = pz_workload_options_default();
  struct pz_workload *made = NULL;
  w.tp = t;
  bool has = pz_workload_load(model, &w, &made, NULL) == PZ_OK;
  pz_workload_free(made);
  return has;
}

static int by_time(const void *a, const void *b) {
  const struct option *x = a, *y = b;
  double s = x->fits ? x->plan.time_s : DBL_MAX, t = y->fits ? y->plan.time_s : DBL_MAX;
  return s < t ? -1 : s > t;
}

static enum pz_status solve_all(struct job *j, bool check) {
  int64_t mbs[MOST_LIST], tp[MOST_LIST];
  int n_mbs = 0, n_tp = 0;
  int64_t most = j->s->devices < MOST_WIDTH ? j->s->devices : MOST_WIDTH;
  enum pz_status status =
      read_list(j->s->mbs, "mbs", j->s->batch < 8 ? j->s->batch : 8, mbs, &n_mbs, j->err);
  if (status == PZ_OK) status = read_list(j->s->tp, "tp", most, tp, &n_tp, j->err);
  bool automatic = !j->s->tp || strcmp(j->s->tp, "auto") == 0;
  for (int t = 0; t < n_tp && status == PZ_OK; t++)
    for (int m = 0; m < n_mbs && status == PZ_OK; m++)
      if (!automatic || tp[t] == 1 || has_width(j->model, tp[t]))
        status = solve_one(j, mbs[m], tp[t], check);
  if (status == PZ_OK) qsort(j->options.items, j->options.n, sizeof(struct option), by_time);
  return status;
}

/* ---- nothing fits --------------------------------------------------------------------------- */

static enum pz_status say_what_is_missing(struct job *j) {
  const struct option *best = NULL;
  struct pz_fit least = {.hbm_bytes = DBL_MAX};
  char has[32], wants[32], params[32];
  for (uint32_t i = 0; i < j->options.n; i++) {
    const struct option *o = pz_vec_at(&j->options, struct option, i);
    struct pz_fit fit = pz_fit_least(&o->model.p, j->semantics);
    if (fit.hbm_bytes < least.hbm_bytes) least = fit, best = o;
  }
  if (!best)
    return pz_fail(j->err, PZ_NO_ANSWER, "no plan fits on %" PRId64 " devices; more are needed",
                   j->s->devices);
  return pz_fail(j->err, PZ_NO_ANSWER,
                 "no plan fits in %s of HBM; the least that would do is %s, with tensor parallel "
                 "%" PRId64 ", microbatch %" PRId64 ", %s activations, where stage %u of %u has "
                 "%u layers with %s of parameters",
                 pz_text_si(has, sizeof has, hbm_bytes(j), "B"),
                 pz_text_si(wants, sizeof wants, least.hbm_bytes, "B"), best->model.p.widths[0].t,
                 best->mbs, best->recompute ? "recomputing" : "keeping", least.stage + 1,
                 least.n_stages, least.n_layers,
                 pz_text_si(params, sizeof params, least.param_bytes, "B"));
}

/* ---- telling -------------------------------------------------------------------------------- */

/* The parts of a step: they sum up to its time. */
struct parts {
  double compute_s, collectives_s, transfers_s, bubble_s, exchange_s;
};

static struct parts parts_of(const struct option *o) {
  const struct pz_plan *plan = &o->plan;
  const struct pz_place_width *w = &o->model.p.widths[plan->width];
  const struct pz_stage *busy = &plan->stages[0];
  double own = 0, link = 0;
  int64_t m = o->model.p.microbatches, n_rounds = (m + plan->d - 1) / plan->d;
  double rounds = (double)n_rounds;
  for (uint32_t k = 1; k < plan->n_stages; k++)
    if (plan->stages[k].load_s > busy->load_s) busy = &plan->stages[k];
  bool again = o->recompute && busy != &plan->stages[plan->n_stages - 1];
  for (uint32_t i = 0; i < busy->n; i++) {
    const struct pz_place_layer *l = &w->layers[busy->layers[i]];
    own += l->fwd_s * (again ? 2 : 1) + l->bwd_s;
    const double *by = o->model.parts[busy->layers[i]].link_s;
    link += by[PZ_FORWARD] * (again ? 2 : 1) + by[PZ_BACKWARD];
  }
  return (struct parts){.compute_s = rounds * (own - link),
                        .collectives_s = rounds * link,
                        .transfers_s = rounds * fmax(0, busy->load_s - own),
                        .bubble_s = plan->maxload_s * (plan->n_stages - 1),
                        .exchange_s = plan->resync_s};
}

/* "embedding, block x 11" */
static const char *stage_text(const struct option *o, const struct pz_stage *s, char *buf,
                              size_t size) {
  size_t at = 0;
  const struct pz_place_part *parts = o->model.parts;
  for (uint32_t i = 0, n; i < s->n && at + 1 < size; i += n) {
    for (n = 1; i + n < s->n; n++)
      if (strcmp(parts[s->layers[i + n]].name, parts[s->layers[i]].name) != 0) break;
    int wrote = snprintf(buf + at, size - at, n > 1 ? "%s%s x %u" : "%s%s", at ? ", " : "",
                         parts[s->layers[i]].name, n);
    at += wrote > 0 ? (size_t)wrote : 0;
  }
  return buf;
}

static int64_t devices_used(const struct option *o) {
  int64_t n = 0;
  for (uint32_t k = 0; k < o->plan.n_stages; k++) n += o->plan.stages[k].devices;
  return n * o->plan.d;
}

/* Of the peak of the devices in use. */
static double flop_part(const struct job *j, const struct option *o) {
  double peak = (double)devices_used(o) * pz_chip_tensor_flop_per_s(&j->cost.chip);
  return o->model.sample_flop * (double)j->s->batch / (o->plan.time_s * peak);
}

static json_t *option_json(const struct job *j, const struct option *o, bool whole) {
  const struct pz_plan *plan = &o->plan;
  struct parts p = parts_of(o);
  char text[256];
  json_t *v = json_pack(
      "{s:f,s:I,s:I,s:I,s:b,s:f,s:f,s:f,s:{s:f,s:f,s:f,s:f,s:f}}", "step_s", plan->time_s,
      "tensor_parallel", (json_int_t)o->model.p.widths[plan->width].t, "data_parallel",
      (json_int_t)plan->d, "microbatch", (json_int_t)o->mbs, "recompute", o->recompute,
      "samples_per_s", (double)j->s->batch / plan->time_s, "tokens_per_s",
      (double)(j->s->batch * o->model.seq) / plan->time_s, "flop_utilisation", flop_part(j, o),
      "parts", "compute_s", p.compute_s, "collectives_s", p.collectives_s, "transfers_s",
      p.transfers_s, "bubble_s", p.bubble_s, "exchange_s", p.exchange_s);
  json_t *stages = json_array();
  for (uint32_t k = 0; k < plan->n_stages && whole; k++) {
    const struct pz_stage *s = &plan->stages[k];
    json_array_append_new(stages, json_pack("{s:s,s:I,s:I,s:f,s:f}", "layers",
                                            stage_text(o, s, text, sizeof text), "count",
                                            (json_int_t)s->n, "devices", (json_int_t)s->devices,
                                            "load_s", s->load_s, "memory_bytes", s->memory_bytes));
  }
  json_object_set_new(v, "worst_schedule_gap", json_real(o->model.worst_gap));
  json_object_set_new(v, "devices_used", json_integer(devices_used(o)));
  json_object_set_new(v, "n_stages", json_integer(plan->n_stages));
  if (whole)
    json_object_set_new(v, "stages", stages);
  else
    json_decref(stages);
  return v;
}

static json_t *job_json(const struct job *j) {
  json_t *others = json_array();
  const struct option *list = j->options.items;
  for (uint32_t i = 1; i < j->options.n && i <= MOST_SHOWN && list[i].fits; i++)
    json_array_append_new(others, option_json(j, &list[i], false));
  return json_pack("{s:s,s:s,s:I,s:I,s:f,s:o,s:o,s:f}", "model", j->model, "chip",
                   j->cost.chip.name, "devices", (json_int_t)j->s->devices, "batch",
                   (json_int_t)j->s->batch, "hbm_bytes", hbm_bytes(j), "plan",
                   option_json(j, &list[0], true), "others", others, "seconds", j->seconds);
}

static enum pz_status print_stages(struct job *j, const struct option *o) {
  static const char *const heads[] = {">stages", "layers", ">devices", ">load ms",
                                      ">memory", ">of it", NULL};
  struct pz_table t;
  pz_table_init(&t, &j->arena, heads);
  for (uint32_t k = 0, n; k < o->plan.n_stages; k += n) {
    const struct pz_stage *s = &o->plan.stages[k];
    char text[256], other[256], bytes[32];
    stage_text(o, s, text, sizeof text);
    for (n = 1; k + n < o->plan.n_stages; n++) /* equal ones in one row */
      if (strcmp(stage_text(o, &s[n], other, sizeof other), text) != 0 ||
          fabs(s[n].load_s - s->load_s) > 1e-9 * s->load_s)
        break;
    pz_table_cell(&t, n > 1 ? "%u-%u" : "%u", k + 1, k + n);
    pz_table_cell(&t, "%s", text);
    pz_table_cell(&t, "%" PRId64, s->devices);
    pz_table_cell(&t, "%.4g", 1e3 * s->load_s);
    pz_table_cell(&t, "%s", pz_text_si(bytes, sizeof bytes, s->memory_bytes, "B"));
    pz_table_cell(&t, "%.0f%%", 100 * s->memory_bytes / o->model.p.hbm_bytes);
  }
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status print_others(struct job *j) {
  static const char *const heads[] = {">slower",     ">stages",     ">replicas", ">tensor",
                                      ">microbatch", "activations", NULL};
  const struct option *list = j->options.items;
  struct pz_table t;
  if (j->options.n < 2 || !list[1].fits) return PZ_OK;
  pz_table_init(&t, &j->arena, heads);
  for (uint32_t i = 1; i < j->options.n && i <= MOST_SHOWN && list[i].fits; i++) {
    pz_table_cell(&t, "%.2f%%", 100 * (list[i].plan.time_s / list[0].plan.time_s - 1));
    pz_table_cell(&t, "%u", list[i].plan.n_stages);
    pz_table_cell(&t, "%" PRId64, list[i].plan.d);
    pz_table_cell(&t, "%" PRId64, list[i].model.p.widths[0].t);
    pz_table_cell(&t, "%" PRId64, list[i].mbs);
    pz_table_cell(&t, "%s", list[i].recompute ? "recomputed" : "kept");
  }
  printf("\nNext best:\n");
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status print_job(struct job *j) {
  const struct option *o = j->options.items;
  struct parts p = parts_of(o);
  double t = o->plan.time_s;
  char tokens[32];
  printf("%s on %" PRId64 " x %s: %.4g s for a batch of %" PRId64 "\n", j->model, j->s->devices,
         j->cost.chip.name, t, j->s->batch);
  printf("%u stages, %" PRId64 " replicas, tensor parallel %" PRId64 ", microbatch %" PRId64
         ", activations %s\n",
         o->plan.n_stages, o->plan.d, o->model.p.widths[0].t, o->mbs,
         o->recompute ? "recomputed" : "kept");
  printf("%.4g samples/s, %s, %.1f%% of the peak FLOP/s of the %" PRId64 " devices in use\n",
         (double)j->s->batch / t,
         pz_text_si(tokens, sizeof tokens, (double)(j->s->batch * o->model.seq) / t, "token/s"),
         100 * flop_part(j, o), devices_used(o));
  printf("compute %.1f%%, tensor collectives %.1f%%, transfers %.1f%%, bubble %.1f%%, gradients "
         "%.1f%%\n\n",
         100 * p.compute_s / t, 100 * p.collectives_s / t, 100 * p.transfers_s / t,
         100 * p.bubble_s / t, 100 * p.exchange_s / t);
  enum pz_status status = print_stages(j, o);
  if (status == PZ_OK && o->model.n_open)
    printf("\nSchedules of layers not proven the best: %u, at most %.2g%% from it\n",
           o->model.n_open, 100 * o->model.worst_gap);
  return status == PZ_OK ? print_others(j) : status;
}

enum pz_status pz_place_a_model(const struct pz_place_settings *s, const char *model,
                                enum pz_semantics semantics, bool check, bool json,
                                struct pz_error *err) {
  struct job j = {.s = s, .model = model, .semantics = semantics, .err = err};
  double start = pz_clock_s();
  enum pz_status status = pz_machine_cost(&s->machine, &j.cost, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&j.arena, NULL);
  pz_vec_init(&j.options, &j.arena, sizeof(struct option));
  if (!(j.cost.chip.link_bytes_per_s > 0))
    status =
        pz_fail(err, PZ_BAD_INPUT, "chip %s has no link between devices; give link.bytes_per_s",
                j.cost.chip.name);
  if (status == PZ_OK) status = solve_all(&j, check);
  const struct option *best = j.options.items;
  if (status == PZ_OK && (!j.options.n || !best->fits)) status = say_what_is_missing(&j);
  j.seconds = pz_clock_s() - start;
  if (status == PZ_OK) status = json ? pz_command_json(job_json(&j), err) : print_job(&j);
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the placement");
  pz_arena_release(&j.arena);
  pz_cost_release(&j.cost);
  return status;
}
