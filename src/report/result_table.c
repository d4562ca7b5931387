/* The result of a search on the terminal.  pz_result_table() prints from top to bottom: the objective, the chip, a table of the
 * models with their plans, the best chip of each model alone, the sensitivity, the Pareto front, what the reference is, how
 * robust the answer is, and the proof.  The evaluators original and training have different tables of plans. */
#include "report/result_table.h"

#include <inttypes.h>
#include <math.h>

#include "chip/chip.h"
#include "core/text.h"
#include "report/ratios.h"
#include "study/result_json.h"

static bool is_training(const struct pz_result *r) {
  return r->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
}

/* ---- the objective -------------------------------------------------------------------------- */

/* Prints the objective as a multiple of the reference, with its range if the chips are known by their data sheets only, and
 * the ratios of the models unless `ratios` is NULL. */
static void print_times_reference(const struct pz_result *r, const struct pz_ratios *ratios,
                                  FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  const struct pz_uncertainty *u = &best->uncertainty;
  bool cold = u->spread > 0;
  if (cold)
    fprintf(out, "%.4g times the cold %s (%.3g to %.3g", best->objective, r->reference_chip.name,
            u->low, u->high);
  else
    fprintf(out, "%.4g times the reference", best->objective);
  if (ratios) {
    fputs(cold ? "; " : " (", out);
    pz_ratios_print(ratios, out);
  }
  fputs(cold || ratios ? ")\n" : "\n", out);
}

/* Prints the objective, and the ratios of the models, because a mean can depend on a single model. */
static void print_objective(const struct pz_result *r, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  enum pz_objective_kind kind = r->inputs.options.objective;
  bool geomean = kind == PZ_OBJECTIVE_GEOMEAN;
  bool several_ratios = best->ratios.n_models > 1;
  bool all_ratios = several_ratios && best->ratios.n_models == best->n_models;
  bool is_ratio_of_one_model = (geomean || kind == PZ_OBJECTIVE_REGRET) && best->n_models < 2;
  if (geomean && all_ratios) {
    print_times_reference(r, &best->ratios, out);
  } else {
    if (is_ratio_of_one_model)
      print_times_reference(r, NULL, out);
    else
      fprintf(out, "%.4g %s\n", best->objective, pz_objective_unit(kind));
    if (several_ratios) {
      fprintf(out, "Throughput: %.4g times the reference (", best->ratios.geometric_mean);
      pz_ratios_print(&best->ratios, out);
      fprintf(out, ")\n");
    }
  }
  fputc('\n', out);
}

/* ---- the chip ------------------------------------------------------------------------------- */

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
  if (is_training(r)) {
    fprintf(out, "  global buffer  %.0f MiB, %.4g TB/s\n", (double)c->glb_bytes / 0x1p20,
            c->glb_bytes_per_s / 1e12);
    fprintf(out, "  HBM            %" PRId64 " stack%s, %.4g GiB, %.4g TB/s\n", c->hbm.stacks,
            pz_text_s((double)c->hbm.stacks), best->hbm_gib, pz_chip_hbm_bytes_per_s(c) / 1e12);
    fprintf(out, "  link           %.4g GB/s\n", c->link_bytes_per_s / 1e9);
  } else {
    fprintf(out, "  global buffer  %.0f MiB\n", (double)c->glb_bytes / 0x1p20);
    fprintf(out, "  HBM            %.0f GiB\n", best->hbm_gib);
  }
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

/* ---- models and plans ----------------------------------------------------------------------- */

static void throughput_cells(struct pz_table *t, const struct pz_answer_model *m) {
  char buf[32];
  pz_table_cell(t, "%s", m->model);
  pz_table_cell(t, "%s", pz_text_number(buf, sizeof buf, m->samples_per_s));
  pz_ratio_cell(t, m->samples_per_s, m->ratio);
}

static void print_training_plans(struct pz_call *call, const struct pz_answer *best, FILE *out) {
  static const char *const heads[] = {"model", ">samples/s", ">reference", ">MFU", "plan", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  char plan[PZ_PLAN_TEXT_MOST];
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_answer_model *m = &best->models[i];
    throughput_cells(t, m);
    pz_table_cell(t, "%.0f%%", 100 * m->training->mfu);
    pz_table_cell(t, "%s", pz_plan_text(&m->training->plan, plan, sizeof plan));
  }
  pz_table_print(t, 0, out);
}

static void print_partitions(struct pz_call *call, const struct pz_answer *best, FILE *out) {
  static const char *const heads[] = {
      "model",       ">samples/s",  ">reference", ">stages", ">replicas", ">tensor parallel",
      ">microbatch", "activations", ">of peak",   NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_answer_model *m = &best->models[i];
    const struct pz_partition *plan = m->plan;
    throughput_cells(t, m);
    pz_table_cell(t, "%u", plan->pp);
    pz_table_cell(t, "%" PRId64, plan->dp);
    pz_table_cell(t, "%" PRId64, plan->tp);
    pz_table_cell(t, "%" PRId64, plan->mbs);
    pz_table_cell(t, "%s", plan->recompute ? "recomputed" : "kept");
    pz_table_cell(t, "%.0f%%", 100 * plan->flop_utilisation);
  }
  pz_table_print(t, 0, out);
}

/* Prints the parts of the step times: compute is limited by the chip, the others by the network and the pipeline. */
static void print_step_parts(struct pz_call *call, const struct pz_answer *best, FILE *out) {
  static const char *const heads[] = {"step time",  ">seconds", ">compute",   ">collectives",
                                      ">transfers", ">bubble",  ">gradients", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_partition *plan = best->models[i].plan;
    const struct pz_step_parts *p = &plan->parts;
    const double seconds[] = {p->compute_s, p->collectives_s, p->transfers_s, p->bubble_s,
                              p->exchange_s};
    pz_table_cell(t, "%s", best->models[i].model);
    pz_table_cell(t, "%.4g", plan->step_s);
    for (size_t k = 0; k < sizeof seconds / sizeof *seconds; k++)
      pz_table_cell(t, "%.0f%%", 100 * seconds[k] / plan->step_s);
  }
  fputc('\n', out);
  pz_table_print(t, 0, out);
}

/* All answers but the last one are the best chips for one model alone; the last one is common to all models. */
static void print_chips_of_one_model(struct pz_call *call, const struct pz_result *r, FILE *out) {
  static const char *const heads[] = {"model",      "chip",       ">hbm GiB", ">mm2",
                                      ">samples/s", ">reference", ">common",  NULL};
  const struct pz_answer *common = pz_result_best(r);
  char buf[32];
  if (r->n_answers < 2) return;
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i + 1 < r->n_answers; i++) {
    const struct pz_answer *a = &r->answers[i];
    double rate = a->models[0].samples_per_s;
    pz_table_cell(t, "%s", a->name);
    pz_table_cell(t, "%s", a->chip->name);
    pz_table_cell(t, "%.0f", a->hbm_gib);
    pz_table_cell(t, "%.1f", a->area_mm2);
    pz_table_cell(t, "%s", pz_text_number(buf, sizeof buf, rate));
    pz_ratio_cell(t, rate, a->models[0].ratio);
    pz_table_cell(t, "%.1f%%", 100 * common->models[i].samples_per_s / rate);
  }
  fprintf(out, "\nThe best chip for each model alone; common: the part of that throughput on the "
               "common chip:\n");
  pz_table_print(t, 0, out);
}

/* ---- sensitivity and front ------------------------------------------------------------------ */

static void print_sensitivity(struct pz_call *call, const struct pz_result *r, FILE *out) {
  static const char *const original[] = {"parameter", ">from", ">to",    ">objective",
                                         ">at most",  ">mm2",  "breaks", NULL};
  static const char *const training[] = {"parameter", ">from", ">to",    ">objective", ">at most",
                                         "where",     ">mm2",  "breaks", NULL};
  bool has_where = is_training(r);
  if (!r->n_sensitivity) return;
  struct pz_table *t = pz_table_new(call, has_where ? training : original);
  for (uint32_t i = 0; i < r->n_sensitivity; i++) {
    const struct pz_result_step *s = &r->sensitivity[i];
    pz_table_cell(t, "%s", s->parameter);
    pz_table_cell(t, "%s", s->from);
    pz_table_cell(t, "%s", s->to);
    pz_table_cell(t, "%+.2f%%", 100 * s->change);
    pz_table_cell(t, "%+.2f%%", 100 * s->change_at_most);
    if (has_where && s->where)
      pz_table_cell(t, "%s %+.1f%%", s->where, 100 * s->where_change);
    else if (has_where)
      pz_table_cell(t, "out of memory"); /* no plan of a model fits into the memory of the chip */
    pz_table_cell(t, "%.1f", s->area_mm2);
    pz_table_cell(t, "%s", s->breaks ? s->breaks : "");
  }
  fprintf(out, "\nSensitivity: change of the objective one step away on each axis%s:\n",
          has_where ? ", and the term of the step that changes most" : "");
  pz_table_print(t, 0, out);
}

static void print_front(struct pz_call *call, const struct pz_result *r, FILE *out) {
  static const char *const heads[] = {"chip", ">reference", ">mm2", ">peak W", "", NULL};
  const struct pz_result_front *f = r->front;
  if (!f || !f->n_points) return;
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < f->n_points; i++) {
    const struct pz_result_front_chip *c = &f->points[i];
    pz_table_cell(t, "%s", c->chip);
    pz_table_cell(t, "%.4fx", c->objective);
    pz_table_cell(t, "%.2f", c->area_mm2);
    pz_table_cell(t, "%.1f", c->peak_watts);
    pz_table_cell(t, "%s", c->knee ? "knee" : "");
  }
  fprintf(out, "\nThe Pareto front of throughput against area and peak watts");
  if (f->n_points < f->n_front_chips)
    fprintf(out, ", %u of %u chips (each other one is within %.4g%% of one shown):\n", f->n_points,
            f->n_front_chips, 100 * f->tolerance);
  else
    fprintf(out, ", %u chip%s:\n", f->n_points, pz_text_s(f->n_points));
  pz_table_print(t, 0, out);
}

/* ---- the reference of the evaluator original ------------------------------------------------ */

/* The plan of a model on the reference chip. */
enum reference_plan { EXPERT_PLAN, BEST_PLAN, NO_PLAN, REFERENCE_PLANS };

static enum reference_plan reference_plan(const struct pz_result_reference *o) {
  if (!(o->samples_per_s > 0)) return NO_PLAN;
  return o->expert ? EXPERT_PLAN : BEST_PLAN;
}

struct models_with_plan {
  const struct pz_result *result;
  enum reference_plan plan;
};

/* A pz_name_at: the names of the models whose reference has that plan. */
static const char *model_with_plan(const void *ctx, size_t i) {
  const struct models_with_plan *x = ctx;
  size_t n = 0;
  for (uint32_t k = 0; k < x->result->n_references; k++) {
    if (reference_plan(&x->result->references[k]) != x->plan) continue;
    if (n == i) return x->result->references[k].model;
    n++;
  }
  return NULL;
}

static void print_models_with_plan(const struct pz_result *r, const char *before,
                                   enum reference_plan plan, const char *after, FILE *out) {
  struct models_with_plan x = {r, plan};
  char names[1024];
  fprintf(out, "%s%s%s", before, pz_text_join(names, sizeof names, model_with_plan, &x), after);
}

/* Prints the smallest HBM capacity of the references, and the models whose reference has more. */
static void print_reference_memory(const struct pz_result *r, bool both_plans, FILE *out) {
  double least_gib = HUGE_VAL;
  for (uint32_t i = 0; i < r->n_references; i++)
    if (reference_plan(&r->references[i]) != NO_PLAN)
      least_gib = fmin(least_gib, r->references[i].hbm_gib);
  if (least_gib < HUGE_VAL) fprintf(out, "%s %.0f GiB", both_plans ? ", with" : " and", least_gib);
  for (uint32_t i = 0; i < r->n_references; i++) {
    const struct pz_result_reference *o = &r->references[i];
    if (reference_plan(o) != NO_PLAN && o->hbm_gib > least_gib)
      fprintf(out, ", for %s %.0f GiB", o->model, o->hbm_gib);
  }
}

static void print_references(const struct pz_result *r, FILE *out) {
  uint32_t n[REFERENCE_PLANS] = {0};
  for (uint32_t i = 0; i < r->n_references; i++) n[reference_plan(&r->references[i])]++;
  bool both_plans = n[EXPERT_PLAN] && n[BEST_PLAN];
  fprintf(out, "\nThe reference is %s", r->reference_chip.name);
  if (both_plans) {
    print_models_with_plan(r, " with the expert plan (", EXPERT_PLAN, ")", out);
    print_models_with_plan(r, " or, where none is known or feasible, the best plan (", BEST_PLAN,
                           ")", out);
  } else if (n[EXPERT_PLAN] || n[BEST_PLAN]) {
    fprintf(out, " with the %s plan", n[EXPERT_PLAN] ? "expert" : "best");
  }
  print_reference_memory(r, both_plans, out);
  if (n[BEST_PLAN] && !both_plans)
    print_models_with_plan(r, " (no expert plan is known or feasible for ", BEST_PLAN, ")", out);
  if (n[NO_PLAN]) print_models_with_plan(r, "; no plan is feasible for ", NO_PLAN, "", out);
  fprintf(out, ".\n");
}

/* ---- the reference of the evaluator training ------------------------------------------------ */

/* Prints the reference chip with its cost under the same model, and why the best chip does not reach it if it does not. */
static void print_reference_chip(const struct pz_result *r, FILE *out) {
  const struct pz_result_chip_summary *c = &r->reference_chip;
  const struct pz_answer *best = pz_result_best(r);
  const struct pz_certificate *proof = &best->certificate;
  fprintf(out,
          "\nThe reference is the description of an %s at %.4g GHz: %.1f mm2, %.0f W, %.0f dollars",
          c->name, c->clock_hz / 1e9, c->area_mm2, c->peak_watts, c->dollars);
  if (c->tdp_watts > 0) fprintf(out, " (its data sheet: %.0f W)", c->tdp_watts);
  if (c->breaks) fprintf(out, "; it breaks the limit of %s", c->breaks);
  fprintf(out, ".\n");
  if (r->inputs.options.objective != PZ_OBJECTIVE_GEOMEAN || best->objective >= 1) return;
  const char *reason = "the search ended before it was found";
  if (c->breaks)
    reason = "the reference takes more than the limits allow";
  else if (proof->finished || (proof->gap + 1) * best->objective < 1)
    reason = "the space has no chip that does";
  fprintf(out, "The best chip does not reach it: %s.\n", reason);
}

/* Prints the highest power and the lowest MFU over the steps of all models, unless the power of a step is unknown. */
static void print_power(const struct pz_result *r, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  double watts = 0, reference_watts = 0, mfu = 1, reference_mfu = 1;
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_training_answer *x = best->models[i].training;
    const struct pz_training_answer *reference = r->references[i].training;
    if (!(x->full_watts > 0 && reference->full_watts > 0)) return;
    watts = fmax(watts, x->full_watts);
    reference_watts = fmax(reference_watts, reference->full_watts);
    mfu = fmin(mfu, x->mfu);
    reference_mfu = fmin(reference_mfu, reference->mfu);
  }
  fprintf(out,
          "Its steps take up to %.0f W at an MFU of %.0f%% and more, those of the reference "
          "%.0f W at %.0f%%.\n",
          watts, 100 * mfu, reference_watts, 100 * reference_mfu);
}

/* Prints how much the schedules of operators gain over serial execution. */
static void print_executions(const struct pz_result *r, FILE *out) {
  const struct pz_executions *x = r->executions;
  double value = pz_result_best(r)->objective;
  if (!(x->serial > 0 && x->whole > 0)) return;
  fprintf(out,
          "Its operators are scheduled beside each other: one after another it would reach %.4g "
          "(schedules bring %.1f%%), without halves of microbatches %.4g.\n",
          x->serial, 100 * (value / x->serial - 1), x->whole);
}

/* ---- robustness and proof ------------------------------------------------------------------- */

/* Prints whether another chip wins when a constant of unmeasured chips moves over its range. */
static void print_robustness(const struct pz_result *r, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  const struct pz_robustness *x = r->robustness;
  const struct pz_moved_constant *worst = NULL;
  double low = best->objective, high = low;
  uint32_t n_other_winners = 0;
  for (uint32_t i = 0; i < x->n_moves; i++) {
    const struct pz_moved_constant *m = &x->moves[i];
    low = fmin(low, m->objective);
    high = fmax(high, m->objective);
    if (!m->better) continue;
    n_other_winners++;
    if (!worst || m->better_by > worst->better_by) worst = m;
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
            n_other_winners, x->n_moves);
}

static void print_proof(const struct pz_certificate *c, FILE *out) {
  static const double ROUNDING = 1e-8; /* gaps below it are rounding errors */
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

/* ---- the result ----------------------------------------------------------------------------- */

void pz_result_table(struct pz_call *call, const struct pz_result *r, FILE *out) {
  const struct pz_answer *best = pz_result_best(r);
  bool many = best->n_models > 1;
  fprintf(out, "The best chip of the space %s for %s%s, by the evaluator %s: %s\n",
          r->inputs.space_name, many ? "all " : "", many ? "models" : best->models[0].model,
          pz_evaluator_names[r->inputs.options.evaluator], best->chip->name);
  print_objective(r, out);
  print_chip(r, best, out);
  if (is_training(r)) {
    print_training_plans(call, best, out);
  } else {
    print_partitions(call, best, out);
    print_step_parts(call, best, out);
  }
  print_chips_of_one_model(call, r, out);
  print_sensitivity(call, r, out);
  print_front(call, r, out);
  if (is_training(r)) {
    print_reference_chip(r, out);
    print_power(r, out);
    if (r->executions) print_executions(r, out);
    if (r->robustness) print_robustness(r, out);
  } else {
    print_references(r, out);
  }
  print_proof(&best->certificate, out);
}

json_t *pz_result_document(struct pz_call *call, const struct pz_result *r, json_t *timing) {
  json_t *root = pz_json_built(call, pz_result_told_json(r));
  if (json_object_set(root, "timing", timing) != 0)
    pz_raise(call, PZ_NO_MEMORY, "out of memory while building JSON");
  return root;
}
