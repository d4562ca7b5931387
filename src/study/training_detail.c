/* Makes the report data of a search with the evaluator training.  pz_training_detail() appends,
 * in this order, one row for each model on the best chip and on existing chips (append_chip);
 * the best chips under tighter limits (append_front); the operators of each model's plan
 * (append_operator); the layer schedules (schedules_json); and the cost breakdown of the best and
 * the reference chip (append_bill). */
#include "study/detail.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "core/vec.h"
#include "step/step_energy.h"
#include "study/result_json.h"
#include "study/tasks.h"

struct training_details {
  struct pz_study *study;
  const struct pz_objective_run *run; /* objective run of all models */
  struct pz_chip best;
  struct pz_watch watch;
};

/* The best plan of a model on a chip, and the question that it answers, which points to `net`. */
struct chip_plan {
  struct pz_cluster net;
  struct pz_plan_question question;
  struct pz_found_plan found;
  double dynamic_j;
  bool fits;
};

/* Appends a row, whose reference it takes over, and raises an error if the row is NULL. */
static void append_row(struct pz_call *call, json_t *rows, json_t *row) {
  if (json_array_append_new(rows, row) != 0) pz_raise_memory(call, "the report");
}

/* Finds the best plan of a model on a chip in the network of the search. */
static void find_chip_plan(struct pz_call *call, const struct training_details *details,
                           const struct pz_chip *chip, uint32_t model, struct chip_plan *out) {
  out->net = pz_training_cluster(&details->study->training, chip);
  out->question = pz_training_ask(call, &details->study->training, model, chip, &out->net);
  out->fits = pz_training_find_plan(call, details->study->evaluator, 0, chip, model, &out->found,
                                    &out->dynamic_j);
}

/* ---- existing chips ------------------------------------------------------------------------- */

static const char *const existing_chips[] = {"h100",   "h200",   "b200",     "tpuv5p",
                                             "tpuv6e", "mi300x", "trainium2"};
enum { N_EXISTING_CHIPS = sizeof existing_chips / sizeof *existing_chips };

/* Appends a row for each model on a chip, or none if a model does not fit.  The power and energy of
 * steps stay 0 on chips whose technology is the original system's library of blocks, which states
 * no static power. */
static void append_chip(struct pz_call *call, struct training_details *details,
                        const struct pz_chip *chip, const char *role, json_t *rows) {
  struct pz_taken chip_costs = pz_chip_taken(chip); /* area, peak power, production cost */
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  json_t *chip_rows = pz_json_built(call, json_array());
  bool fits = true;
  for (uint32_t i = 0; i < details->study->options.n_models && fits; i++) {
    struct chip_plan plan_on_chip;
    struct pz_step_energy energy = {0};
    char plan[PZ_PLAN_TEXT_MOST];
    find_chip_plan(call, details, chip, i, &plan_on_chip);
    fits = plan_on_chip.fits;
    if (!fits) break;
    const struct pz_prediction *prediction = &plan_on_chip.found.p;
    steps[i] = (struct pz_step_cost){prediction->step_s, plan_on_chip.dynamic_j};
    bool has_static_power = !pz_tech_is_library(pz_tech_at(chip->tech));
    if (has_static_power)
      energy =
          pz_step_energy(call, &plan_on_chip.question.job, &plan_on_chip.found.plan, prediction);
    append_row(call, chip_rows,
               json_pack("{s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:s}", "chip",
                         chip->name, "role", role, "model", details->study->options.models[i],
                         "step_s", prediction->step_s, "samples_per_s", prediction->samples_per_s,
                         "mfu", prediction->mfu, "mfu_conventional", prediction->mfu_conventional,
                         "watts", energy.watts, "joules_per_sample", energy.joules_per_sample,
                         "value", 0.0, "area_mm2", chip_costs.mm2, "peak_watts", chip_costs.watts,
                         "gemm_hz", pz_chip_gemm_hz(chip), "dollars", chip_costs.dollars, "plan",
                         pz_plan_text(&plan_on_chip.found.plan, plan, sizeof plan)));
  }
  /* The objective is known only after all models. */
  double value = fits ? pz_objective_value(&details->run->objective, steps, &chip_costs) : 0;
  for (size_t i = 0; i < json_array_size(chip_rows) && value > 0; i++) {
    json_t *row = json_array_get(chip_rows, i);
    json_object_set_new(row, "value", json_real(value));
    append_row(call, rows, json_incref(row));
  }
  pz_progress_add(details->watch.progress, 1);
}

/* ---- under tighter limits ------------------------------------------------------------------- */

/* Limits of the short search for each point of the front. */
enum { FRONT_ROUNDS = 4 };
static const double FRONT_GAP = 0.1;
static const double limit_fractions[] = {0.5, 0.75};
enum { N_FRACTIONS = sizeof limit_fractions / sizeof *limit_fractions, N_FRONT = 2 * N_FRACTIONS };

struct front_search {
  struct training_details *details;
  const struct pz_space *space;
  struct pz_limits limits;
  json_t *rows;
};

/* Searches for the best chip under tighter limits and appends it. */
static void append_front_chip(struct pz_call *call, void *ctx) {
  struct front_search *request = ctx;
  struct pz_search_question question = *pz_search_asked(request->details->study->search);
  struct pz_objective_run run = {.objective = request->details->run->objective,
                                 .most_rounds = FRONT_ROUNDS};
  struct pz_chip chip;
  question.space = request->space;
  question.limits = request->limits;
  question.gap = pz_fmax(question.gap, FRONT_GAP);
  question.seconds = 0;
  question.store = NULL;
  question.progress = NULL;
  run.objective.kind = PZ_OBJECTIVE_GEOMEAN;
  struct pz_search *search = pz_search_create(call, &question, request->details->study->pool);
  pz_defer(call, pz_search_free, search);
  pz_search_optimize(call, search, 0, &run);
  pz_space_chip(request->space, &run.best, &chip);
  struct pz_taken chip_costs = pz_chip_taken(&chip);
  double gap = run.bound / run.value - 1;
  append_row(call, request->rows,
             json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "chip", chip.name, "throughput",
                       run.value, "area_mm2", chip_costs.mm2, "watts", chip_costs.watts, "dollars",
                       chip_costs.dollars, "limit_watts", request->limits.watts, "limit_dollars",
                       request->limits.dollars, "gap",
                       isfinite(gap) ? json_real(gap) : json_null()));
}

/* Appends the best chips at fractions of the best chip's power, and of its price. */
static void append_front(struct pz_call *call, struct training_details *details, json_t *rows) {
  struct pz_call work = pz_scratch(call);
  struct pz_taken best_costs = pz_chip_taken(&details->best);
  struct pz_space *space = pz_copy(&work, &details->study->space, 1, sizeof details->study->space);
  struct pz_kind kind = pz_space_kind(space, details->run->best.kind);
  space->hbm[0] = details->study->space.hbm[kind.hbm];
  space->array[0] = details->study->space.array[kind.array];
  space->node[0] = details->study->space.node[kind.node];
  space->n_hbm = space->n_arrays = space->n_nodes = 1;
  for (int i = 0; i < N_FRONT; i++) {
    double fraction = limit_fractions[i % N_FRACTIONS];
    bool less_power = i < N_FRACTIONS;
    struct front_search search = {details, space, {.mm2 = details->study->limits.mm2}, rows};
    search.limits.watts = (less_power ? fraction : 1) * best_costs.watts;
    search.limits.dollars = (less_power ? 1 : fraction) * best_costs.dollars;
    space->watts = search.limits.watts; /* clocks are lowered to this power */
    struct pz_error error = {0};
    enum pz_status status = pz_border(append_front_chip, &search, &error);
    pz_progress_add(details->watch.progress, 1);
    bool none_fits = status == PZ_NO_ANSWER;
    if (status != PZ_OK && !none_fits) pz_raise_again(call, &error);
  }
  pz_scratch_end(&work);
}

/* ---- roofline ------------------------------------------------------------------------------- */

struct operator_rows {
  json_t *rows;
  const char *model;
};

/* Appends an operator of a step; pz_step_operators() calls it with struct operator_rows. */
static void append_operator(struct pz_call *call, void *ctx,
                            const struct pz_step_operator *step_operator) {
  struct operator_rows *rows = ctx;
  append_row(call, rows->rows,
             json_pack("{s:s,s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:s,s:f}", "model", rows->model, "layer",
                       step_operator->layer->name, "operator", step_operator->op->name, "direction",
                       step_operator->op->direction == PZ_BACKWARD ? "backward" : "forward",
                       "cores", step_operator->op->matmul_flop ? "tensor" : "vector", "operations",
                       step_operator->operations, "hbm_bytes", step_operator->hbm_bytes, "seconds",
                       step_operator->seconds, "bound", step_operator->bound, "times",
                       step_operator->times));
}

/* ---- schedules ------------------------------------------------------------------------------ */

static void free_deferred_schedules(void *schedules) { pz_plan_schedules_free(schedules); }

/* Returns a new reference to the layer schedules of the models whose operators overlap. */
static json_t *schedules_json(struct pz_call *call, struct training_details *details) {
  struct pz_vec list;
  pz_vec_init(&list, call->arena, sizeof(struct pz_layer_schedule));
  for (uint32_t i = 0; i < details->study->options.n_models; i++) {
    struct chip_plan plan;
    struct pz_plan_schedules *schedules = NULL;
    find_chip_plan(call, details, &details->best, i, &plan);
    if (!plan.fits || !pz_step_is_scheduled(&details->best, &plan.found.plan)) continue;
    pz_must(call,
            pz_training_schedule(details->study->training.models[i], &details->best, &plan.net,
                                 &plan.found.plan, NULL, &schedules, pz_call_error(call)));
    pz_defer(call, free_deferred_schedules, schedules);
    for (uint32_t k = 0; k < schedules->n; k++) {
      schedules->list[k].model = details->study->options.models[i];
      pz_append(call, &list, &schedules->list[k]);
    }
  }
  struct pz_result_detail detail = {.schedules = list.items, .n_schedules = list.n};
  struct pz_result result = {.detail = &detail};
  return pz_detail_json(&result);
}

/* ---- cost breakdown ------------------------------------------------------------------------- */

/* Appends the parts of the area, the power and the price of a chip. */
static void append_bill(struct pz_call *call, const struct pz_chip *chip, const char *role,
                        json_t *rows) {
  json_t *bill = pz_json_built(call, pz_bill_json(chip)), *value;
  const char *key;
  json_object_foreach(bill, key, value) {
    const char *sum = NULL, *unit = strrchr(key, '_');
    if (!unit) continue;
    if (strcmp(unit, "_mm2") == 0 && strcmp(key, "area_mm2") != 0) sum = "area"; /* not the total */
    if (strcmp(unit, "_watts") == 0) sum = "watts";
    if (strcmp(unit, "_dollars") == 0) sum = "dollars";
    double amount = json_number_value(value);
    if (!sum || !(amount > 0)) continue;
    append_row(call, rows,
               json_pack("{s:s,s:s,s:s,s:s,s:f}", "role", role, "chip", chip->name, "sum", sum,
                         "part", key, "amount", amount));
  }
}

/* Appends the lists in the order of the report: chips, front, roofline, schedules, bills. */
json_t *pz_training_detail(struct pz_call *call, struct pz_study *study, struct pz_watch watch) {
  struct training_details details = {
      .study = study, .run = &study->objective_run[study->n_runs - 1], .watch = watch};
  json_t *detail = pz_json_built(
      call, json_pack("{s:[],s:[],s:[],s:[]}", "chips", "front", "roofline", "bills"));
  json_t *chips = json_object_get(detail, "chips"), *bills = json_object_get(detail, "bills");
  pz_space_chip(&study->space, &details.run->best, &details.best);
  pz_study_phase_begin(call, watch.progress, "details", "chips", N_EXISTING_CHIPS + 1 + N_FRONT);
  append_chip(call, &details, &details.best, "best", chips);
  for (size_t i = 0; i < N_EXISTING_CHIPS; i++) {
    struct pz_chip chip;
    pz_chip_read(call, existing_chips[i], &chip);
    pz_chip_make_cold(call, &chip, study->space.constants);
    append_chip(call, &details, &chip, "built", chips);
  }
  append_front(call, &details, json_object_get(detail, "front"));
  for (uint32_t i = 0; i < study->options.n_models; i++) { /* operators of each model's plan */
    struct operator_rows rows = {json_object_get(detail, "roofline"), study->options.models[i]};
    struct chip_plan plan;
    find_chip_plan(call, &details, &details.best, i, &plan);
    if (plan.fits)
      pz_step_operators(call, &plan.question.job, &plan.found.plan, append_operator, &rows);
  }
  json_t *layers = schedules_json(call, &details);
  append_bill(call, &details.best, "best", bills);
  append_bill(call, &study->reference_chip, "reference", bills);
  pz_study_phase_end(call, watch.progress);
  if (json_object_set_new(detail, "layers", layers) != 0) pz_raise_memory(call, "the report");
  return detail;
}
