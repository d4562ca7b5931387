/* The result of a search on the terminal: objective, chip, models with their plans, the best chip
 * of each model alone, sensitivity, Pareto front, reference, robustness and proof.  The evaluators
 * original and training have different tables of plans. */
#include "report/result_table.h"

#include <inttypes.h>
#include <math.h>

#include "chip/chip.h"
#include "core/text.h"
#include "report/ratios.h"
#include "study/result_json.h"

/* ---- the objective -------------------------------------------------------------------------- */

/* Prints the objective, with its range if the chips are known by their data sheets only, and the
 * ratios of the models, because a mean can depend on a single one. */
static void print_objective(const struct pz_result *result, FILE *out) {
  const struct pz_answer *best = pz_result_best(result);
  const struct pz_uncertainty *uncertainty = &best->uncertainty;
  enum pz_objective_kind kind = result->inputs.options.objective;
  bool geomean = kind == PZ_OBJECTIVE_GEOMEAN, cold = uncertainty->spread > 0;
  bool several_ratios = best->ratios.n_models > 1;
  bool is_mean_of_ratios = geomean && several_ratios && best->ratios.n_models == best->n_models;
  bool is_ratio_of_one_model = (geomean || kind == PZ_OBJECTIVE_REGRET) && best->n_models < 2;
  if (is_mean_of_ratios || is_ratio_of_one_model) {
    if (cold)
      fprintf(out, "%.4g times the cold %s (%.3g to %.3g", best->objective,
              result->reference_chip.name, uncertainty->low, uncertainty->high);
    else
      fprintf(out, "%.4g times the reference", best->objective);
    if (is_mean_of_ratios) {
      fputs(cold ? "; " : " (", out);
      pz_ratios_print(&best->ratios, out);
    }
    fputs(cold || is_mean_of_ratios ? ")\n" : "\n", out);
  } else {
    fprintf(out, "%.4g %s\n", best->objective, pz_objective_unit(kind));
  }
  if (several_ratios && !is_mean_of_ratios) {
    fprintf(out, "Throughput: %.4g times the reference (", best->ratios.geometric_mean);
    pz_ratios_print(&best->ratios, out);
    fprintf(out, ")\n");
  }
  fputc('\n', out);
}

/* ---- the chip ------------------------------------------------------------------------------- */

/* Prints the units, memory, area, power and cost of the best chip. */
static void print_chip(const struct pz_result *result, const struct pz_answer *best, FILE *out) {
  const struct pz_chip *chip = best->chip;
  char flop[32];
  fprintf(out,
          "  tensor cores   %" PRId64 " of %" PRId64 "x%" PRId64 " with %" PRId64
          " KiB, %s at %.4g GHz\n",
          chip->tensor.cores, chip->tensor.rows, chip->tensor.cols, chip->tensor.local_bytes >> 10,
          pz_text_si(flop, sizeof flop, pz_chip_tensor_flop_per_s(chip), "FLOP/s"),
          chip->clock_hz / 1e9);
  fprintf(out, "  vector cores   %" PRId64 " of %" PRId64 " lane%s\n", chip->vector.cores,
          chip->vector.lanes, pz_text_s((double)chip->vector.lanes));
  if (result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING) {
    fprintf(out, "  global buffer  %.0f MiB, %.4g TB/s\n", (double)chip->glb_bytes / 0x1p20,
            chip->glb_bytes_per_s / 1e12);
    fprintf(out, "  HBM            %" PRId64 " stack%s, %.4g GiB, %.4g TB/s\n", chip->hbm.stacks,
            pz_text_s((double)chip->hbm.stacks), best->hbm_gib,
            pz_chip_hbm_bytes_per_s(chip) / 1e12);
    fprintf(out, "  link           %.4g GB/s\n", chip->link_bytes_per_s / 1e9);
  } else {
    fprintf(out, "  global buffer  %.0f MiB\n", (double)chip->glb_bytes / 0x1p20);
    fprintf(out, "  HBM            %.0f GiB\n", best->hbm_gib);
  }
  fprintf(out, "  area           %.1f mm2", best->area_mm2);
  if (best->area_part > 0) fprintf(out, ", %.1f%% of the limit", 100 * best->area_part);
  fprintf(out, "\n  peak           %.0f W", best->peak_watts);
  double gemm_ghz = pz_chip_gemm_hz(chip) / 1e9;
  if (gemm_ghz < 0.99 * chip->clock_hz / 1e9) /* a smaller difference is not stated */
    fprintf(out, ", at which GEMMs run at %.2g GHz, %.0f%% of its clock", gemm_ghz,
            100e9 * gemm_ghz / chip->clock_hz);
  if (best->dollars > 0) fprintf(out, "\n  dollars        %.0f", best->dollars);
  if (best->owner_dollars > best->dollars) fprintf(out, "; %.0f of ownership", best->owner_dollars);
  fputs("\n\n", out);
}

/* ---- models and plans ----------------------------------------------------------------------- */

/* Prints the plans of the evaluator original, and the parts of their step times: compute is
 * limited by the chip, the others by the network and the pipeline. */
static void print_partitions(struct pz_call *call, const struct pz_answer *best, FILE *out) {
  struct pz_table *plans =
      pz_table_new(call, "model|>samples/s|>reference|>stages|>replicas|>tensor "
                         "parallel|>microbatch|activations|>of peak");
  struct pz_table *step_parts =
      pz_table_new(call, "step time|>seconds|>compute|>collectives|>transfers|>bubble|>gradients");
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_answer_model *model = &best->models[i];
    const struct pz_partition *plan = model->plan;
    const struct pz_step_parts *parts = &plan->parts;
    char rate[32];
    pz_table_cells(plans, "%s|%s", model->model,
                   pz_text_number(rate, sizeof rate, model->samples_per_s));
    pz_ratio_cell(plans, model->samples_per_s, model->ratio);
    pz_table_cells(plans, "%u|%" PRId64 "|%" PRId64 "|%" PRId64 "|%s|%.0f%%", plan->pp, plan->dp,
                   plan->tp, plan->mbs, plan->recompute ? "recomputed" : "kept",
                   100 * plan->flop_utilisation);
    pz_table_cells(step_parts, "%s|%.4g|%.0f%%|%.0f%%|%.0f%%|%.0f%%|%.0f%%", model->model,
                   plan->step_s, 100 * parts->compute_s / plan->step_s,
                   100 * parts->collectives_s / plan->step_s,
                   100 * parts->transfers_s / plan->step_s, 100 * parts->bubble_s / plan->step_s,
                   100 * parts->exchange_s / plan->step_s);
  }
  pz_table_print(plans, 0, out);
  fputc('\n', out);
  pz_table_print(step_parts, 0, out);
}

/* Prints the best chip of each model alone, if there are several models.  The last answer of a
 * result is common to all models; each answer before it is for one model. */
static void print_chips_of_one_model(struct pz_call *call, const struct pz_result *result,
                                     FILE *out) {
  const struct pz_answer *common = pz_result_best(result);
  char rate[32];
  if (result->n_answers < 2) return;
  struct pz_table *table =
      pz_table_new(call, "model|chip|>hbm GiB|>mm2|>samples/s|>reference|>common");
  for (uint32_t i = 0; i + 1 < result->n_answers; i++) {
    const struct pz_answer *answer = &result->answers[i];
    double samples_per_s = answer->models[0].samples_per_s;
    pz_table_cells(table, "%s|%s|%.0f|%.1f|%s", answer->name, answer->chip->name, answer->hbm_gib,
                   answer->area_mm2, pz_text_number(rate, sizeof rate, samples_per_s));
    pz_ratio_cell(table, samples_per_s, answer->models[0].ratio);
    pz_table_cell(table, "%.1f%%", 100 * common->models[i].samples_per_s / samples_per_s);
  }
  fprintf(out, "\nThe best chip for each model alone; common: the part of that throughput on the "
               "common chip:\n");
  pz_table_print(table, 0, out);
}

/* ---- sensitivity and front ------------------------------------------------------------------ */

/* Prints the change of the objective if the best chip is changed by one step on an axis. */
static void print_sensitivity(struct pz_call *call, const struct pz_result *result, FILE *out) {
  bool has_where = result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  if (!result->n_sensitivity) return;
  struct pz_table *table =
      pz_table_new(call, has_where ? "parameter|>from|>to|>objective|>at most|where|>mm2|breaks"
                                   : "parameter|>from|>to|>objective|>at most|>mm2|breaks");
  for (uint32_t i = 0; i < result->n_sensitivity; i++) {
    const struct pz_result_step *step = &result->sensitivity[i];
    pz_table_cells(table, "%s|%s|%s|%+.2f%%|%+.2f%%", step->parameter, step->from, step->to,
                   100 * step->change, 100 * step->change_at_most);
    if (has_where && step->where)
      pz_table_cell(table, "%s %+.1f%%", step->where, 100 * step->where_change);
    else if (has_where)
      pz_table_cell(table, "out of memory"); /* a model has no plan that fits on the chip */
    pz_table_cells(table, "%.1f|%s", step->area_mm2, step->breaks ? step->breaks : "");
  }
  fprintf(out, "\nSensitivity: change of the objective one step away on each axis%s:\n",
          has_where ? ", and the term of the step that changes most" : "");
  pz_table_print(table, 0, out);
}

/* Prints the chips of the Pareto front, if the search computed it. */
static void print_front(struct pz_call *call, const struct pz_result *result, FILE *out) {
  const struct pz_result_front *front = result->front;
  if (!front || !front->n_points) return;
  struct pz_table *table = pz_table_new(call, "chip|>reference|>mm2|>peak W|");
  for (uint32_t i = 0; i < front->n_points; i++) {
    const struct pz_result_front_chip *chip = &front->points[i];
    pz_table_cells(table, "%s|%.4fx|%.2f|%.1f|%s", chip->chip, chip->objective, chip->area_mm2,
                   chip->peak_watts, chip->knee ? "knee" : "");
  }
  fprintf(out, "\nThe Pareto front of throughput against area and peak watts");
  if (front->n_points < front->n_front_chips)
    fprintf(out, ", %u of %u chips (each other one is within %.4g%% of one shown):\n",
            front->n_points, front->n_front_chips, 100 * front->tolerance);
  else
    fprintf(out, ", %u chip%s:\n", front->n_points, pz_text_s(front->n_points));
  pz_table_print(table, 0, out);
}

/* ---- the reference of the evaluator original ------------------------------------------------ */

/* Where the plan of a model on the reference chip comes from. */
enum reference_plan { EXPERT_PLAN, BEST_PLAN, NO_PLAN, REFERENCE_PLANS };

/* Returns which plan a model has on the reference chip: that of an expert, the best one, or none
 * because no plan fits. */
static enum reference_plan reference_plan(const struct pz_result_reference *reference) {
  if (!(reference->samples_per_s > 0)) return NO_PLAN;
  return reference->expert ? EXPERT_PLAN : BEST_PLAN;
}

/* The models of a result with one kind of plan on the reference chip, for pz_text_join(). */
struct models_with_plan {
  const struct pz_result *result;
  enum reference_plan plan;
};

/* Returns the name of the i-th model that has the list's kind of plan on the reference chip, or
 * NULL. */
static const char *model_with_plan(const void *ctx, size_t i) {
  const struct models_with_plan *list = ctx;
  size_t n = 0;
  for (uint32_t k = 0; k < list->result->n_references; k++) {
    const struct pz_result_reference *reference = &list->result->references[k];
    if (reference_plan(reference) != list->plan) continue;
    if (n == i) return reference->model;
    n++;
  }
  return NULL;
}

/* Prints the text `before`, the names of the models that have this kind of plan on the reference
 * chip (the chip with which the best one is compared), and the text `after`. */
static void print_models_with_plan(const struct pz_result *result, const char *before,
                                   enum reference_plan plan, const char *after, FILE *out) {
  struct models_with_plan list = {result, plan};
  char names[1024];
  fprintf(out, "%s%s%s", before, pz_text_join(names, sizeof names, model_with_plan, &list), after);
}

/* Prints which plan and HBM capacity the reference chip has for the models. */
static void print_references(const struct pz_result *result, FILE *out) {
  uint32_t n[REFERENCE_PLANS] = {0};
  double least_gib = HUGE_VAL;
  for (uint32_t i = 0; i < result->n_references; i++) {
    enum reference_plan plan = reference_plan(&result->references[i]);
    n[plan]++;
    if (plan != NO_PLAN) least_gib = fmin(least_gib, result->references[i].hbm_gib);
  }
  bool both_plans = n[EXPERT_PLAN] && n[BEST_PLAN];
  fprintf(out, "\nThe reference is %s", result->reference_chip.name);
  if (both_plans) {
    print_models_with_plan(result, " with the expert plan (", EXPERT_PLAN, ")", out);
    print_models_with_plan(result, " or, where none is known or feasible, the best plan (",
                           BEST_PLAN, ")", out);
  } else if (n[EXPERT_PLAN] || n[BEST_PLAN]) {
    fprintf(out, " with the %s plan", n[EXPERT_PLAN] ? "expert" : "best");
  }
  /* Prints the smallest HBM capacity, and the models whose reference needs more. */
  if (least_gib < HUGE_VAL) fprintf(out, "%s %.0f GiB", both_plans ? ", with" : " and", least_gib);
  for (uint32_t i = 0; i < result->n_references; i++) {
    const struct pz_result_reference *reference = &result->references[i];
    if (reference_plan(reference) != NO_PLAN && reference->hbm_gib > least_gib)
      fprintf(out, ", for %s %.0f GiB", reference->model, reference->hbm_gib);
  }
  if (n[BEST_PLAN] && !both_plans)
    print_models_with_plan(result, " (no expert plan is known or feasible for ", BEST_PLAN, ")",
                           out);
  if (n[NO_PLAN]) print_models_with_plan(result, "; no plan is feasible for ", NO_PLAN, "", out);
  fprintf(out, ".\n");
}

/* ---- the reference of the evaluator training ------------------------------------------------ */

/* Prints the cost of the reference chip, why the best chip is worse if it is, and power and MFU. */
static void print_reference_chip(const struct pz_result *result, FILE *out) {
  const struct pz_result_chip_summary *chip = &result->reference_chip;
  const struct pz_answer *best = pz_result_best(result);
  const struct pz_certificate *proof = &best->certificate;
  fprintf(out,
          "\nThe reference is the description of an %s at %.4g GHz: %.1f mm2, %.0f W, %.0f dollars",
          chip->name, chip->clock_hz / 1e9, chip->area_mm2, chip->peak_watts, chip->dollars);
  if (chip->tdp_watts > 0) fprintf(out, " (its data sheet: %.0f W)", chip->tdp_watts);
  if (chip->breaks) fprintf(out, "; it breaks the limit of %s", chip->breaks);
  fprintf(out, ".\n");
  const char *reason = "the search ended before it was found";
  if (chip->breaks)
    reason = "the reference takes more than the limits allow";
  else if (proof->finished || (proof->gap + 1) * best->objective < 1)
    reason = "the space has no chip that does";
  if (result->inputs.options.objective == PZ_OBJECTIVE_GEOMEAN && best->objective < 1)
    fprintf(out, "The best chip does not reach it: %s.\n", reason);
  /* The highest power and the lowest MFU over the steps of all models, if they are known. */
  double watts = 0, reference_watts = 0, mfu = 1, reference_mfu = 1;
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_training_answer *training = best->models[i].training;
    const struct pz_training_answer *reference = result->references[i].training;
    if (!(training->full_watts > 0 && reference->full_watts > 0)) return;
    watts = fmax(watts, training->full_watts);
    reference_watts = fmax(reference_watts, reference->full_watts);
    mfu = fmin(mfu, training->mfu);
    reference_mfu = fmin(reference_mfu, reference->mfu);
  }
  fprintf(out,
          "Its steps take up to %.0f W at an MFU of %.0f%% and more, those of the reference "
          "%.0f W at %.0f%%.\n",
          watts, 100 * mfu, reference_watts, 100 * reference_mfu);
}

/* ---- robustness and proof ------------------------------------------------------------------- */

/* Prints whether another chip wins when a constant of unmeasured chips moves over its range. */
static void print_robustness(const struct pz_result *result, FILE *out) {
  const struct pz_answer *best = pz_result_best(result);
  const struct pz_robustness *robustness = result->robustness;
  const struct pz_moved_constant *worst = NULL;
  double low = best->objective, high = low;
  uint32_t n_other_winners = 0;
  for (uint32_t i = 0; i < robustness->n_moves; i++) {
    const struct pz_moved_constant *move = &robustness->moves[i];
    low = fmin(low, move->objective);
    high = fmax(high, move->objective);
    if (!move->better) continue;
    n_other_winners++;
    if (!worst || move->better_by > worst->better_by) worst = move;
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
            robustness->n_candidates, 100 * robustness->tolerance, low, high);
  else
    fprintf(out,
            "Not robust: with %s at %.4g another chip wins, %s, %.2g%% better (of %u candidates; "
            "%u of %u ends of constants' ranges have another winner).\n",
            worst->constant, worst->value, worst->better, 100 * worst->better_by,
            robustness->n_candidates, n_other_winners, robustness->n_moves);
}

/* Prints how many chips were evaluated or excluded, and the proven gap. */
static void print_proof(const struct pz_certificate *proof, FILE *out) {
  static const double ROUNDING = 1e-8; /* gaps below it are rounding errors */
  char chips[32], boxes[32], evaluated[32], beyond[32];
  int64_t one_by_one = proof->n_evaluated + proof->n_excluded_by_schedules;
  fprintf(out, "%s chip%s in %s box%s: %s beyond the limits, ",
          pz_text_count(chips, sizeof chips, proof->n_chips), pz_text_s((double)proof->n_chips),
          pz_text_count(boxes, sizeof boxes, proof->n_boxes), proof->n_boxes > 1 ? "es" : "",
          pz_text_count(beyond, sizeof beyond, proof->n_infeasible));
  if (one_by_one > 0)
    fprintf(out, "%s decided one by one, ", pz_text_count(evaluated, sizeof evaluated, one_by_one));
  fprintf(out, "the others excluded by bounds.");
  if (proof->n_open > 0)
    fprintf(out, "  %" PRId64 " %s not proven optimal.", proof->n_open,
            proof->n_open > 1 ? "schedules are" : "schedule is");
  if (proof->gap > ROUNDING)
    fprintf(out, "  No chip is more than %.2g%% better.\n", 100 * proof->gap);
  else
    fprintf(out, "  No chip is better.\n");
  if (!proof->finished) fprintf(out, "The search ended at its limit before the gap was proved.\n");
}

/* ---- the result ----------------------------------------------------------------------------- */

/* Prints the parts of the result that its evaluator has. */
void pz_result_table(struct pz_call *call, const struct pz_result *result, FILE *out) {
  const struct pz_answer *best = pz_result_best(result);
  const struct pz_executions *executions = result->executions;
  bool several_models = best->n_models > 1;
  bool training = result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  fprintf(out, "The best chip of the space %s for %s%s, by the evaluator %s: %s\n",
          result->inputs.space_name, several_models ? "all " : "",
          several_models ? "models" : best->models[0].model,
          pz_evaluator_names[result->inputs.options.evaluator], best->chip->name);
  print_objective(result, out);
  print_chip(result, best, out);
  if (training) {
    struct pz_table *table = pz_table_new(call, "model|>samples/s|>reference|>MFU|plan");
    char plan[PZ_PLAN_TEXT_MOST], rate[32];
    for (uint32_t i = 0; i < best->n_models; i++) {
      const struct pz_answer_model *model = &best->models[i];
      pz_table_cells(table, "%s|%s", model->model,
                     pz_text_number(rate, sizeof rate, model->samples_per_s));
      pz_ratio_cell(table, model->samples_per_s, model->ratio);
      pz_table_cells(table, "%.0f%%|%s", 100 * model->training->mfu,
                     pz_plan_text(&model->training->plan, plan, sizeof plan));
    }
    pz_table_print(table, 0, out);
  } else {
    print_partitions(call, best, out);
  }
  print_chips_of_one_model(call, result, out);
  print_sensitivity(call, result, out);
  print_front(call, result, out);
  if (training) {
    print_reference_chip(result, out);
    if (executions && executions->serial > 0 && executions->whole > 0)
      fprintf(
          out,
          "Its operators are scheduled beside each other: one after another it would reach %.4g "
          "(schedules bring %.1f%%), without halves of microbatches %.4g.\n",
          executions->serial, 100 * (best->objective / executions->serial - 1), executions->whole);
    if (result->robustness) print_robustness(result, out);
  } else {
    print_references(result, out);
  }
  print_proof(&best->certificate, out);
}

/* Returns the result as JSON together with `timing`, whose reference the caller keeps. */
json_t *pz_result_document(struct pz_call *call, const struct pz_result *result, json_t *timing) {
  json_t *root = pz_json_built(call, pz_result_display_json(result));
  if (json_object_set(root, "timing", timing) != 0) pz_raise_memory(call, "JSON");
  return root;
}
