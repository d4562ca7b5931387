#include "cli/place_model.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/choices.h"
#include "core/file.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/vec.h"
#include "place/checker.h"
#include "place/fit.h"
#include "place/solve.h"
#include "report/emit.h"
#include "report/pipeline_trace.h"
#include "report/plan_table.h"
#include "report/table.h"
#include "workload/variants.h"
#include "workload/workload.h"

enum { MOST_WIDTH = 64, MOST_SHOWN = 5 };

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

static bool given(const char *list) { return list && strcmp(list, "auto") != 0; }

/* What the user wrote, or powers of two up to `most`. */
static enum pz_status read_list(const char *text, const char *name, int64_t most,
                                struct pz_choices *out, struct pz_error *err) {
  if (given(text)) return pz_choices_parse(text, name, 1 << 20, out, err);
  *out = pz_choices_powers(most);
  return PZ_OK;
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
  struct option kept = *o;
  if (o->fits) kept.model.p.bytes_per_s = pz_place_within(&o->model.p, o->plan.domain).bytes_per_s;
  return pz_vec_push(&j->options, &kept) ? PZ_OK : PZ_NO_MEMORY;
}

/* How the model is to be built, whatever the microbatch size and width. */
static struct pz_workload_options wanted(const struct job *j) {
  struct pz_workload_options w = pz_workload_import(&j->s->import);
  w.seq = j->s->seq;
  return w;
}

/* The undivided model: is it known, what must be said of it? */
static enum pz_status look_at(const struct job *j) {
  struct pz_workload_options w = wanted(j);
  struct pz_workload *made = NULL;
  enum pz_status status = pz_workload_load(j->model, &w, &made, j->err);
  if (status == PZ_OK) pz_command_warn(j->s->quiet, made->warning);
  pz_workload_free(made);
  return status;
}

/* A microbatch size at a width: its model, or why it cannot be. */
static enum pz_status build_one(struct job *j, int64_t mbs, int64_t t, struct pz_place_model *out,
                                struct pz_error *why) {
  struct pz_workload_options w = wanted(j);
  struct pz_place_options o = {.devices = j->s->devices,
                               .batch = j->s->batch,
                               .hbm_bytes = hbm_bytes(j),
                               .state = j->s->optimizer ? 2 : 3,
                               .width = t,
                               .steps = PZ_LAYER_STEPS};
  int64_t most = j->cost.net.devices < o.devices ? j->cost.net.devices : o.devices;
  enum pz_status status = pz_width_check(t, most, why);
  if (status == PZ_OK) status = pz_microbatch_check(mbs, j->s->batch, why);
  w.mbs = mbs;
  return status == PZ_OK ? pz_place_model(&j->cost, j->model, &w, &o, false, &j->arena, out, why)
                         : status;
}

/* It with and without recomputation, as asked. */
static enum pz_status solve_one(struct job *j, struct pz_variants *v, int t, int m, bool check) {
  struct option one = {.mbs = v->mbs->v[m]};
  struct pz_error why = {0};
  enum pz_status status = build_one(j, one.mbs, v->tp->v[t], &one.model, &why);
  if (status != PZ_OK) return pz_variants_refuse(v, t, m, &why, j->err);
  for (int r = 0; r < 2 && status == PZ_OK; r++) {
    if (j->s->recompute == (r ? PZ_CHOOSE_OFF : PZ_CHOOSE_ON)) continue;
    one.recompute = one.model.p.recompute = r;
    status = add_option(j, &one, j->semantics, check);
  }
  return status;
}

static int by_time(const void *a, const void *b) {
  const struct option *x = a, *y = b;
  double s = x->fits ? x->plan.time_s : DBL_MAX, t = y->fits ? y->plan.time_s : DBL_MAX;
  return s < t ? -1 : s > t;
}

/* What cannot be is left out, and told where the user wrote it. */
static enum pz_status solve_lists(struct job *j, const struct pz_choices *tp,
                                  const struct pz_choices *mbs, bool check) {
  unsigned lists = (given(j->s->tp) ? PZ_LIST_TP : 0u) | (given(j->s->mbs) ? PZ_LIST_MBS : 0u);
  struct pz_variants v = {0};
  struct pz_vec notes;
  pz_vec_init(&notes, &j->arena, sizeof(struct pz_note));
  enum pz_status status = pz_variants_init(&v, tp, mbs, &j->arena, j->err);
  for (int t = 0; t < tp->n; t++)
    for (int m = 0; m < mbs->n && status == PZ_OK; m++) status = solve_one(j, &v, t, m, check);
  if (status == PZ_OK) status = pz_variants_conclude(&v, &notes, j->err);
  if (status == PZ_OK) pz_command_notes(j->s->quiet, &notes, lists);
  return status;
}

static enum pz_status solve_all(struct job *j, bool check) {
  struct pz_choices mbs, tp;
  int64_t most = j->s->devices < MOST_WIDTH ? j->s->devices : MOST_WIDTH;
  enum pz_status status =
      read_list(j->s->mbs, "mbs", j->s->batch < 8 ? j->s->batch : 8, &mbs, j->err);
  if (status == PZ_OK) status = read_list(j->s->tp, "tp", most, &tp, j->err);
  if (status == PZ_OK) status = look_at(j);
  if (status == PZ_OK) status = solve_lists(j, &tp, &mbs, check);
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
    return pz_fail(j->err, PZ_NO_ANSWER,
                   "no feasible plan on %" PRId64 " device%s; more are needed", j->s->devices,
                   pz_text_s((double)j->s->devices));
  return pz_fail(
      j->err, PZ_NO_ANSWER,
      "no feasible plan with %s of HBM per device; the minimum is %s, with tensor parallel "
      "%" PRId64 ", microbatch %" PRId64 ", activations %s, where stage %u of %u has "
      "%u layer%s with %s of parameters",
      pz_text_si(has, sizeof has, hbm_bytes(j), "B"),
      pz_text_si(wants, sizeof wants, least.hbm_bytes, "B"), best->model.p.widths[0].t, best->mbs,
      best->recompute ? "recomputed" : "kept", least.stage + 1, least.n_stages, least.n_layers,
      pz_text_s(least.n_layers), pz_text_si(params, sizeof params, least.param_bytes, "B"));
}

/* ---- telling -------------------------------------------------------------------------------- */

static struct pz_planned planned(const struct job *j, const struct option *o) {
  return (struct pz_planned){&o->model, &o->plan, o->recompute, j->s->batch,
                             pz_chip_tensor_flop_per_s(&j->cost.chip)};
}

static json_t *option_json(const struct job *j, const struct option *o, bool whole) {
  struct pz_planned p = planned(j, o);
  return pz_planned_json(&p, whole);
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

static enum pz_status print_others(struct job *j) {
  static const char *const heads[] = {">slower",     ">stages",     ">replicas", ">tensor parallel",
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
  struct pz_planned plan = planned(j, o);
  struct pz_step_parts p = pz_planned_parts(&plan);
  double t = o->plan.time_s;
  char tokens[32], rate[32], text[128], name[1024];
  printf("%s on %" PRId64 " x %s: %.4g s per step, global batch %" PRId64 "\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->model)), j->s->devices, j->cost.chip.name,
         t, j->s->batch);
  printf("%s\n", pz_planned_text(&plan, text, sizeof text));
  printf("%s samples/s, %s, %.1f%% of the peak FLOP/s of the %" PRId64 " device%s used\n",
         pz_text_number(rate, sizeof rate, (double)j->s->batch / t),
         pz_text_si(tokens, sizeof tokens, (double)(j->s->batch * o->model.seq) / t, "token/s"),
         100 * pz_planned_flop_part(&plan), pz_planned_devices(&plan),
         pz_text_s((double)pz_planned_devices(&plan)));
  printf("compute %.1f%%, tensor-parallel collectives %.1f%%, stage transfers %.1f%%, pipeline "
         "bubble %.1f%%, gradient all-reduce %.1f%%\n\n",
         100 * p.compute_s / t, 100 * p.collectives_s / t, 100 * p.transfers_s / t,
         100 * p.bubble_s / t, 100 * p.exchange_s / t);
  enum pz_status status = pz_planned_table(&plan, &j->arena, stdout);
  if (status == PZ_OK && o->model.n_open)
    printf("\nLayer schedules not proven optimal: %u, gap at most %.2g%%\n", o->model.n_open,
           100 * o->model.worst_gap);
  return status == PZ_OK ? print_others(j) : status;
}

/* For a framework to stdout; what it must be told besides to stderr. */
static enum pz_status emit(const struct job *j) {
  struct pz_planned plan = planned(j, j->options.items);
  struct pz_launch l = pz_launch_of(&plan);
  const char *stranger = pz_launch_stranger(&l);
  char note[400];
  if (stranger)
    return pz_fail(
        j->err, PZ_BAD_INPUT,
        "%s has a layer '%s' that cannot be expressed for %s; accepted with --emit: models of "
        "an embedding, equal blocks and a head (built-in models, config.json)",
        j->model, stranger, pz_emit_names[j->s->emit]);
  pz_emit(j->s->emit, &l, stdout);
  if (j->s->quiet || fflush(stdout) != 0) return PZ_OK;
  fprintf(stderr,
          "phaze: %" PRId64 " device%s: pipeline %" PRId64 " x tensor %" PRId64
          " x data parallel %" PRId64 "\n",
          l.stages * l.tensor * l.replicas, pz_text_s((double)(l.stages * l.tensor * l.replicas)),
          l.stages, l.tensor, l.replicas);
  if (l.batch != j->s->batch)
    fprintf(stderr,
            "phaze: global batch size %" PRId64 " instead of %" PRId64
            ", so that every replica has the same number of microbatches; same step time\n",
            l.batch, j->s->batch);
  if (pz_emit_note(j->s->emit, &l, note, sizeof note)) fprintf(stderr, "phaze: %s\n", note);
  return PZ_OK;
}

static enum pz_status write_trace(const struct job *j) {
  struct pz_planned plan = planned(j, j->options.items);
  char *text = NULL;
  if (!j->s->trace) return PZ_OK;
  enum pz_status status = pz_pipeline_trace(&plan, j->model, &text, j->err);
  if (status == PZ_OK) status = pz_file_write(j->s->trace, text, strlen(text), j->err);
  pz_free(text);
  return status;
}

static enum pz_status tell(struct job *j, bool json) {
  enum pz_status status = write_trace(j);
  if (status != PZ_OK) return status;
  if (j->s->emit) return emit(j);
  return json ? pz_command_json(job_json(j), j->err) : print_job(j);
}

enum pz_status pz_place_a_model(const struct pz_place_settings *s, const char *model,
                                enum pz_semantics semantics, bool check, bool json,
                                struct pz_error *err) {
  struct job j = {.s = s, .model = model, .semantics = semantics, .err = err};
  double start = pz_clock_s();
  struct pz_machine_use use = {"devices", s->devices, s->quiet};
  enum pz_status status = pz_machine_cost(&s->machine, use, &j.cost, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&j.arena, NULL);
  pz_vec_init(&j.options, &j.arena, sizeof(struct option));
  if (!j.cost.net.n_levels)
    status = pz_fail(err, PZ_BAD_INPUT, "chip %s has no link between devices; set link.bytes_per_s",
                     j.cost.chip.name);
  if (status == PZ_OK && s->trace) status = pz_file_writable(s->trace, err);
  if (status == PZ_OK) status = solve_all(&j, check);
  const struct option *best = j.options.items;
  if (status == PZ_OK && (!j.options.n || !best->fits)) status = say_what_is_missing(&j);
  j.seconds = pz_clock_s() - start;
  if (status == PZ_OK) status = tell(&j, json);
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the placement");
  pz_arena_release(&j.arena);
  pz_cost_release(&j.cost);
  return status;
}
