#include "report/result_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "report/ratios.h"
#include "study/result_json.h"

/* ---- text ----------------------------------------------------------------------------------- */

static bool is_training(const struct pz_result *r) {
  return r->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
}

static void print_memory(const struct pz_result *r, const struct pz_answer *best, FILE *out) {
  const struct pz_chip *c = best->chip;
  if (!is_training(r)) {
    fprintf(out, "  global buffer  %.0f MiB\n", (double)c->glb_bytes / 0x1p20);
    fprintf(out, "  HBM            %.0f GiB\n", best->hbm_gib);
    return;
  }
  fprintf(out, "  global buffer  %.0f MiB, %.4g TB/s\n", (double)c->glb_bytes / 0x1p20,
          c->glb_bytes_per_s / 1e12);
  fprintf(out, "  HBM            %" PRId64 " stack%s, %.4g GiB, %.4g TB/s\n", c->hbm.stacks,
          pz_text_s((double)c->hbm.stacks), best->hbm_gib, pz_chip_hbm_bytes_per_s(c) / 1e12);
  fprintf(out, "  link           %.4g GB/s\n", c->link_bytes_per_s / 1e9);
}

static void print_chip(const struct pz_result *r, const struct pz_answer *best, FILE *out) {
  const struct pz_chip *c = best->chip;
  char flop[32];
  fprintf(out,
          "  tensor cores   %" PRId64 " of %" PRId64 "x%" PRId64 " with %" PRId64
          " KiB, %s at %.4g GHz\n",
          c->tensor.cores, c->tensor.rows, c->tensor.cols, c->tensor.local_bytes >> 10,
          pz_text_si(flop, sizeof flop, pz_chip_tensor_flop_per_s(c), "FLOP/s"), c->clock_hz / 1e9);
  fprintf(out, "  vector cores   %" PRId64 " of %" PRId64 " lane%s\n", c->vector.cores,
          c->vector.lanes, pz_text_s((double)c->vector.lanes));
  print_memory(r, best, out);
  fprintf(out, "  area           %.1f mm2", best->area_mm2);
  if (best->area_part > 0) fprintf(out, ", %.1f%% of the limit", 100 * best->area_part);
  fprintf(out, "\n  peak           %.0f W", best->peak_watts);
  double ghz = pz_chip_gemm_hz(c) / 1e9;
  if (ghz < 0.99 * c->clock_hz / 1e9)
    fprintf(out, ", at which GEMMs run at %.2g GHz, %.0f%% of its clock", ghz,
            100e9 * ghz / c->clock_hz);
  if (best->dollars > 0) fprintf(out, "\n  dollars        %.0f", best->dollars);
  if (best->owner_dollars > best->dollars) fprintf(out, "; %.0f of ownership", best->owner_dollars);
  fputs("\n\n", out);
}

static void plan_cells(struct pz_table *t, const struct pz_partition *plan) {
  pz_table_cell(t, "%u", plan->pp);
  pz_table_cell(t, "%" PRId64, plan->dp);
  pz_table_cell(t, "%" PRId64, plan->tp);
  pz_table_cell(t, "%" PRId64, plan->mbs);
  pz_table_cell(t, "%s", plan->recompute ? "recomputed" : "kept");
}

static enum pz_status print_trained(const struct pz_answer *best, struct pz_arena *arena,
                                    FILE *out) {
  static const char *const heads[] = {"model", ">samples/s", ">reference", ">MFU", "plan", NULL};
  struct pz_table t;
  char buf[32], plan[PZ_PLAN_TEXT_MOST];
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_answer_model *m = &best->models[i];
    pz_table_cell(&t, "%s", m->model);
    pz_table_cell(&t, "%s", pz_text_number(buf, sizeof buf, m->samples_per_s));
    pz_ratio_cell(&t, m->samples_per_s, m->ratio);
    pz_table_cell(&t, "%.0f%%", 100 * m->training->mfu);
    pz_table_cell(&t, "%s", pz_plan_text(&m->training->plan, plan, sizeof plan));
  }
  return pz_table_print(&t, 0, out);
}

static enum pz_status print_models(const struct pz_answer *best, struct pz_arena *arena,
                                   FILE *out) {
  static const char *const heads[] = {
      "model",       ">samples/s",  ">reference", ">stages", ">replicas", ">tensor parallel",
      ">microbatch", "activations", ">of peak",   NULL};
  struct pz_table t;
  char buf[32];
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_answer_model *m = &best->models[i];
    pz_table_cell(&t, "%s", m->model);
    pz_table_cell(&t, "%s", pz_text_number(buf, sizeof buf, m->samples_per_s));
    pz_ratio_cell(&t, m->samples_per_s, m->ratio);
    plan_cells(&t, m->plan);
    pz_table_cell(&t, "%.0f%%", 100 * m->plan->flop_utilisation);
  }
  return pz_table_print(&t, 0, out);
}

/* What limits a plan: compute is the chip's, the rest the network's and the pipeline's. */
static enum pz_status print_parts(const struct pz_answer *best, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"step time",  ">seconds", ">compute",   ">collectives",
                                      ">transfers", ">bubble",  ">gradients", NULL};
  struct pz_table t;
  fputc('\n', out);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_partition *plan = best->models[i].plan;
    const struct pz_step_parts *p = &plan->parts;
    const double list[] = {p->compute_s, p->collectives_s, p->transfers_s, p->bubble_s,
                           p->exchange_s};
    pz_table_cell(&t, "%s", best->models[i].model);
    pz_table_cell(&t, "%.4g", plan->step_s);
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
      pz_table_cell(&t, "%.0f%%", 100 * list[k] / plan->step_s);
  }
  return pz_table_print(&t, 0, out);
}

static enum pz_status print_alone(const struct pz_result *r, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"model",      "chip",       ">hbm GiB", ">mm2",
                                      ">samples/s", ">reference", ">common",  NULL};
  const struct pz_answer *common = pz_result_best(r);
  struct pz_table t;
  char buf[32];
  if (r->n_answers < 2) return PZ_OK;
  fprintf(out, "\nThe best chip for each model alone; common: the part of that throughput on the "
               "common chip:\n");
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i + 1 < r->n_answers; i++) {
    const struct pz_answer *a = &r->answers[i];
    double rate = a->models[0].samples_per_s;
    pz_table_cell(&t, "%s", a->name);
    pz_table_cell(&t, "%s", a->chip->name);
    pz_table_cell(&t, "%.0f", a->hbm_gib);
    pz_table_cell(&t, "%.1f", a->area_mm2);
    pz_table_cell(&t, "%s", pz_text_number(buf, sizeof buf, rate));
    pz_ratio_cell(&t, rate, a->models[0].ratio);
    pz_table_cell(&t, "%.1f%%", 100 * common->models[i].samples_per_s / rate);
  }
  return pz_table_print(&t, 0, out);
}

static enum pz_status print_steps(const struct pz_result *r, struct pz_arena *arena, FILE *out) {
  static const char *const original[] = {"parameter", ">from", ">to",    ">objective",
                                         ">at most",  ">mm2",  "breaks", NULL};
  static const char *const training[] = {"parameter", ">from", ">to",    ">objective", ">at most",
                                         "where",     ">mm2",  "breaks", NULL};
  bool trained = r->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  struct pz_table t;
  if (!r->n_sensitivity) return PZ_OK;
  fprintf(out, "\nSensitivity: change of the objective one step away on each axis%s:\n",
          trained ? ", and the term of the step that changes most" : "");
  pz_table_init(&t, arena, trained ? training : original);
  for (uint32_t i = 0; i < r->n_sensitivity; i++) {
    const struct pz_result_step *s = &r->sensitivity[i];
    pz_table_cell(&t, "%s", s->parameter);
    pz_table_cell(&t, "%s", s->from);
    pz_table_cell(&t, "%s", s->to);
    pz_table_cell(&t, "%+.2f%%", 100 * s->change);
    pz_table_cell(&t, "%+.2f%%", 100 * s->change_at_most);
    if (trained && s->where)
      pz_table_cell(&t, "%s %+.1f%%", s->where, 100 * s->where_change);
    else if (trained)
      pz_table_cell(&t, "out of memory");
    pz_table_cell(&t, "%.1f", s->area_mm2);
    pz_table_cell(&t, "%s", s->breaks ? s->breaks : "");
  }
  return pz_table_print(&t, 0, out);
}

static void print_front_size(const struct pz_result_front *f, FILE *out) {
  fprintf(out, "\nThe Pareto front of throughput against area and peak watts");
  if (f->n_points < f->n_front_chips)
    fprintf(out, ", %u of %u chips (each other one is within %.4g%% of one shown):\n", f->n_points,
            f->n_front_chips, 100 * f->tolerance);
  else
    fprintf(out, ", %u chip%s:\n", f->n_points, pz_text_s(f->n_points));
}

static enum pz_status print_front(const struct pz_result *r, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"chip", ">reference", ">mm2", ">peak W", "", NULL};
  const struct pz_result_front *f = r->front;
  struct pz_table t;
  if (!f || !f->n_points) return PZ_OK;
  print_front_size(f, out);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < f->n_points; i++) {
    const struct pz_result_front_chip *c = &f->points[i];
    pz_table_cell(&t, "%s", c->chip);
    pz_table_cell(&t, "%.4fx", c->objective);
    pz_table_cell(&t, "%.2f", c->area_mm2);
    pz_table_cell(&t, "%.1f", c->peak_watts);
    pz_table_cell(&t, "%s", c->knee ? "knee" : "");
  }
  return pz_table_print(&t, 0, out);
}

/* ---- what the reference is ------------------------------------------------------------------ */

enum referred { EXPERT_PLAN, BEST_PLAN, NO_PLAN, REFERRED };

struct references {
  const struct pz_result *r;
  enum referred which;
  size_t n[REFERRED];
  double least_gib; /* of those with a plan */
};

static enum referred referred_of(const struct pz_result_reference *o) {
  if (!(o->samples_per_s > 0)) return NO_PLAN;
  return o->expert ? EXPERT_PLAN : BEST_PLAN;
}

/* The models of one kind. */
static const char *referred_name(const void *ctx, size_t i) {
  const struct references *x = ctx;
  for (uint32_t k = 0; k < x->r->n_references; k++)
    if (referred_of(&x->r->references[k]) == x->which && i-- == 0) return x->r->references[k].model;
  return NULL;
}

static void print_referred(struct references *r, const char *before, enum referred which,
                           const char *after, FILE *out) {
  char names[1024];
  r->which = which;
  fprintf(out, "%s%s%s", before, pz_text_join(names, sizeof names, referred_name, r), after);
}

static struct references count_references(const struct pz_result *r) {
  struct references x = {.r = r, .least_gib = HUGE_VAL};
  for (uint32_t i = 0; i < r->n_references; i++) {
    enum referred which = referred_of(&r->references[i]);
    x.n[which]++;
    if (which != NO_PLAN) x.least_gib = fmin(x.least_gib, r->references[i].hbm_gib);
  }
  return x;
}

static void print_reference_memory(const struct references *x, FILE *out) {
  bool both = x->n[EXPERT_PLAN] && x->n[BEST_PLAN];
  if (x->least_gib < HUGE_VAL) fprintf(out, "%s %.0f GiB", both ? ", with" : " and", x->least_gib);
  for (uint32_t i = 0; i < x->r->n_references; i++) {
    const struct pz_result_reference *o = &x->r->references[i];
    if (referred_of(o) != NO_PLAN && o->hbm_gib > x->least_gib)
      fprintf(out, ", for %s %.0f GiB", o->model, o->hbm_gib);
  }
}

static void print_references(const struct pz_result *result, FILE *out) {
  struct references r = count_references(result);
  bool both = r.n[EXPERT_PLAN] && r.n[BEST_PLAN];
  fprintf(out, "\nThe reference is %s", result->reference_chip.name);
  if (both) {
    print_referred(&r, " with the expert plan (", EXPERT_PLAN, ")", out);
    print_referred(&r, " or, where none is known or feasible, the best plan (", BEST_PLAN, ")",
                   out);
  } else if (r.n[EXPERT_PLAN] || r.n[BEST_PLAN]) {
    fprintf(out, " with the %s plan", r.n[EXPERT_PLAN] ? "expert" : "best");
  }
  print_reference_memory(&r, out);
  if (r.n[BEST_PLAN] && !both)
    print_referred(&r, " (no expert plan is known or feasible for ", BEST_PLAN, ")", out);
  if (r.n[NO_PLAN]) print_referred(&r, "; no plan is feasible for ", NO_PLAN, "", out);
  fprintf(out, ".\n");
}

/* The winner beside the H100 under the same model and bill. */
static void print_built(const struct pz_result *r, FILE *out) {
  const struct pz_result_chip_summary *c = &r->reference_chip;
  const struct pz_answer *best = pz_result_best(r);
  fprintf(out,
          "\nThe reference is the description of an %s at %.4g GHz: %.1f mm2, %.0f W, %.0f dollars",
          c->name, c->clock_hz / 1e9, c->area_mm2, c->peak_watts, c->dollars);
  if (c->tdp_watts > 0) fprintf(out, " (its data sheet: %.0f W)", c->tdp_watts);
  if (c->breaks) fprintf(out, "; it breaks the limit of %s", c->breaks);
  fprintf(out, ".\n");
  if (r->inputs.options.objective != PZ_OBJECTIVE_GEOMEAN || best->objective >= 1) return;
  fprintf(out, "The best chip does not reach it: %s.\n",
          c->breaks ? "the reference takes more than the limits allow"
          : best->certificate.finished || (best->certificate.gap + 1) * best->objective < 1
              ? "the space has no chip that does"
              : "the search ended before it was found");
}

/* Of the steps told: the most of any model. */
static void print_power(const struct pz_result *r, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  double watts = 0, own_watts = 0, mfu = 1, own_mfu = 1;
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_training_answer *x = best->models[i].training, *y = r->references[i].training;
    if (!(x->full_watts > 0 && y->full_watts > 0)) return;
    watts = fmax(watts, x->full_watts);
    own_watts = fmax(own_watts, y->full_watts);
    mfu = fmin(mfu, x->mfu);
    own_mfu = fmin(own_mfu, y->mfu);
  }
  fprintf(out,
          "Its steps take up to %.0f W at an MFU of %.0f%% and more, those of the reference "
          "%.0f W at %.0f%%.\n",
          watts, 100 * mfu, own_watts, 100 * own_mfu);
}

/* What schedules bring. */
static void print_executions(const struct pz_result *r, FILE *out) {
  const struct pz_executions *x = r->executions;
  double value = pz_result_best(r)->objective;
  if (!(x->serial > 0 && x->whole > 0)) return;
  fprintf(out,
          "Its operators are scheduled beside each other: one after another it would reach %.4g "
          "(schedules bring %.1f%%), without halves of microbatches %.4g.\n",
          x->serial, 100 * (value / x->serial - 1), x->whole);
}

/* How well the value is known, and whether the chip is. */
static void print_robustness(const struct pz_result *r, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  const struct pz_robustness *x = r->robustness;
  const struct pz_moved_constant *worst = NULL;
  double low = best->objective, high = low;
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->n_moves; i++) {
    const struct pz_moved_constant *m = &x->moves[i];
    low = fmin(low, m->objective);
    high = fmax(high, m->objective);
    n += m->better != NULL;
    if (m->better && (!worst || m->better_by > worst->better_by)) worst = m;
  }
  if (best->uncertainty.spread > 0)
    fprintf(out,
            "Unmeasured chips differ from their predictions by %.1f%% from chip to chip: the range "
            "beside the value.\n",
            100 * best->uncertainty.spread);
  if (!worst)
    fprintf(out,
            "Robust: no candidate of %u is more than %.2g%% better when a constant of unmeasured "
            "chips moves over its range; the value then is %.4g to %.4g.\n",
            x->n_candidates, 100 * x->tolerance, low, high);
  else
    fprintf(out,
            "Not robust: with %s at %.4g another chip wins, %s, %.2g%% better (of %u candidates; "
            "%u of %u ends of constants' ranges have another winner).\n",
            worst->constant, worst->value, worst->better, 100 * worst->better_by, x->n_candidates,
            n, x->n_moves);
}

static void print_proof(const struct pz_certificate *c, FILE *out) {
  static const double ROUNDING = 1e-8;
  char chips[32], boxes[32], evaluated[32], beyond[32];
  int64_t one_by_one = c->n_evaluated + c->n_excluded_by_schedules;
  fprintf(out, "%s chip%s in %s box%s: %s beyond the limits, ",
          pz_text_count(chips, sizeof chips, c->n_chips), pz_text_s((double)c->n_chips),
          pz_text_count(boxes, sizeof boxes, c->n_boxes), c->n_boxes > 1 ? "es" : "",
          pz_text_count(beyond, sizeof beyond, c->n_infeasible));
  if (one_by_one > 0)
    fprintf(out, "%s decided one by one, ", pz_text_count(evaluated, sizeof evaluated, one_by_one));
  fprintf(out, "the others excluded by bounds.");
  if (c->n_open > 0)
    fprintf(out, "  %" PRId64 " %s not proven optimal.", c->n_open,
            c->n_open > 1 ? "schedules are" : "schedule is");
  if (c->gap > ROUNDING)
    fprintf(out, "  No chip is more than %.2g%% better.\n", 100 * c->gap);
  else
    fprintf(out, "  No chip is better.\n");
  if (!c->finished) fprintf(out, "The search ended at its limit before the gap was proved.\n");
}

/* The objective in times of the reference, with its range where neither chip was measured, and the ratios of models. */
static void print_times(const struct pz_result *r, const struct pz_ratios *ratios, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  const struct pz_uncertainty *u = &best->uncertainty;
  bool cold = u->spread > 0;
  fprintf(out, "%.4g times the %s%s", best->objective, cold ? "cold " : "",
          cold ? r->reference_chip.name : "reference");
  if (cold) fprintf(out, " (%.3g to %.3g", u->low, u->high);
  if (ratios) {
    fputs(cold ? "; " : " (", out);
    pz_ratios_print(ratios, out);
  }
  fputs(cold || ratios ? ")\n" : "\n", out);
}

/* The objective, and what it hides: a mean may rest on one model. */
static void print_value(const struct pz_result *r, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  enum pz_objective_kind kind = r->inputs.options.objective;
  bool plain = kind == PZ_OBJECTIVE_GEOMEAN, any = best->ratios.n_models > 1;
  bool ratio = plain || kind == PZ_OBJECTIVE_REGRET; /* of one model */
  if (plain && any && best->ratios.n_models == best->n_models) {
    print_times(r, &best->ratios, out);
    fputc('\n', out);
    return;
  }
  if (ratio && best->n_models < 2)
    print_times(r, NULL, out);
  else
    fprintf(out, "%.4g %s\n", best->objective, pz_objective_unit(kind));
  if (any) {
    fprintf(out, "Throughput: %.4g times the reference (", best->ratios.geometric_mean);
    pz_ratios_print(&best->ratios, out);
    fprintf(out, ")\n");
  }
  fputc('\n', out);
}

static enum pz_status print_best(const struct pz_result *r, struct pz_arena *arena, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  if (is_training(r)) return print_trained(best, arena, out);
  enum pz_status status = print_models(best, arena, out);
  return status == PZ_OK ? print_parts(best, arena, out) : status;
}

enum pz_status pz_result_print(const struct pz_result *r, struct pz_arena *arena, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  bool many = best->n_models > 1;
  fprintf(out, "The best chip of the space %s for %s%s, by the evaluator %s: %s\n",
          r->inputs.space_name, many ? "all " : "", many ? "models" : best->models[0].model,
          pz_evaluator_names[r->inputs.options.evaluator], best->chip->name);
  print_value(r, out);
  print_chip(r, best, out);
  enum pz_status status = print_best(r, arena, out);
  if (status == PZ_OK) status = print_alone(r, arena, out);
  if (status == PZ_OK) status = print_steps(r, arena, out);
  if (status == PZ_OK) status = print_front(r, arena, out);
  if (status != PZ_OK) return status;
  if (is_training(r)) {
    print_built(r, out);
    print_power(r, out);
    if (r->executions) print_executions(r, out);
    if (r->robustness) print_robustness(r, out);
  } else {
    print_references(r, out);
  }
  print_proof(&best->certificate, out);
  return PZ_OK;
}

json_t *pz_result_report_json(const struct pz_result *r, json_t *timing) {
  json_t *o = pz_result_told_json(r);
  if (o && json_object_set(o, "timing", timing) != 0) {
    json_decref(o);
    o = NULL;
  }
  json_decref(timing);
  return o;
}
