/* Section of a report: the chips of the design space.  Evaluated chips are listed one by one with
 * their plans and limits; the thousands that bounds exclude are counted by area and bound. */
#include <math.h>
#include <string.h>

#include "report/report_data.h"

enum { CELLS = 56 }; /* number of cells of area, and of cells of bound */

/* ---- what limits a model on a chip ---------------------------------------------------------- */

enum limit {
  LIMIT_TENSOR,
  LIMIT_VECTOR,
  LIMIT_HBM,
  LIMIT_GLB,
  LIMIT_TRANSFERS,
  LIMIT_EXCHANGE,
  LIMIT_BUBBLE,
  LIMITS
};

static const char *const limit_names[LIMITS] = {"tensor cores",
                                                "vector cores",
                                                "HBM bandwidth",
                                                "global-buffer bandwidth",
                                                "transfers and collectives",
                                                "gradient all-reduce",
                                                "pipeline bubble"};

/* Returns the limit with the largest share, the first one of equal shares. */
static enum limit largest_share(const double share[LIMITS]) {
  enum limit most = 0;
  for (enum limit i = 1; i < LIMITS; i++)
    if (share[i] > share[most]) most = i;
  return most;
}

/* Divides the step time of a plan among the limits; the shares sum to 1.  Compute time counts
 * for the resource that is busiest during it. */
static void divide_step_time(const struct pz_chip_plan *plan, double share[LIMITS]) {
  static const enum pz_resource resource_of[] = {PZ_TENSOR_CORES, PZ_VECTOR_CORES, PZ_HBM_RATE,
                                                 PZ_GLB_RATE};
  const struct pz_step_parts *parts = &plan->parts;
  double total = parts->compute_s + parts->collectives_s + parts->transfers_s + parts->bubble_s +
                 parts->exchange_s;
  enum limit busiest = LIMIT_TENSOR;
  for (enum limit i = LIMIT_TENSOR; i <= LIMIT_GLB; i++)
    if (plan->use[resource_of[i]] > plan->use[resource_of[busiest]]) busiest = i;
  memset(share, 0, LIMITS * sizeof *share);
  share[busiest] = parts->compute_s / total;
  share[LIMIT_BUBBLE] = parts->bubble_s / total;
  share[LIMIT_TRANSFERS] = (parts->collectives_s + parts->transfers_s) / total;
  share[LIMIT_EXCHANGE] = parts->exchange_s / total;
}

/* ---- evaluated chips ------------------------------------------------------------------------ */

/* Returns the plan of a model on a chip, or NULL.  Plans are sorted by chip and model. */
static const struct pz_chip_plan *find_chip_plan(const struct pz_result_detail *detail,
                                                 uint64_t chip_id, uint32_t model) {
  uint32_t low = 0, high = detail->n_plans;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const struct pz_chip_plan *plan = &detail->plans[middle];
    if (plan->chip_id < chip_id || (plan->chip_id == chip_id && plan->model < model))
      low = middle + 1;
    else
      high = middle;
  }
  if (low == detail->n_plans) return NULL;
  const struct pz_chip_plan *plan = &detail->plans[low];
  return plan->chip_id == chip_id && plan->model == model ? plan : NULL;
}

/* Returns the limit with the largest share of step time, summed over the models of the chip's
 * answer: all models for the last answer, and model i for answer i before it. */
static const char *chip_limit(const struct pz_result *result, const struct pz_shown_chip *shown) {
  double sum[LIMITS] = {0}, share[LIMITS];
  bool common = shown->answer + 1 == result->n_answers;
  uint32_t first = common ? 0 : shown->answer;
  uint32_t end = first + (common ? result->inputs.options.n_models : 1);
  for (uint32_t model = first; model < end; model++) {
    const struct pz_chip_plan *plan = find_chip_plan(result->detail, shown->chip_id, model);
    if (!plan) continue;
    divide_step_time(plan, share);
    for (enum limit i = 0; i < LIMITS; i++) sum[i] += share[i];
  }
  return limit_names[largest_share(sum)];
}

/* Appends the chips that are listed one by one: evaluated chips and those of the Pareto front. */
static void append_chips(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *result = report->result;
  const struct pz_result_detail *detail = result->detail;
  json_t *rows =
      pz_dataset_new(call, report->datasets, "chips",
                     "objective_run,chip_id,chip,area_mm2,watts,objective,bound,limit,front,"
                     "knee,best,in_objective_run,tensor_cores,rows,cols,vector_cores,lanes,"
                     "glb_mib");
  for (uint32_t i = 0; i < detail->n_shown; i++)
    if (!pz_result_chip(result, detail->shown[i].chip_id))
      pz_raise(call, PZ_BAD_INPUT,
               "the report's data have chip %llu, which is not of the space; see phaze verify",
               (unsigned long long)detail->shown[i].chip_id);
  for (uint32_t i = 0; i < detail->n_shown; i++) {
    const struct pz_shown_chip *shown = &detail->shown[i];
    const struct pz_answer *answer = &result->answers[shown->answer];
    const struct pz_result_chip *chip = pz_result_chip(result, shown->chip_id);
    /* The chip is on the front of its answer unless another chip has at least its value on at most
     * its area.  Of equal chips, only the one with the lowest id is on the front. */
    bool on_front = true;
    for (uint32_t k = 0; k < detail->n_shown && on_front; k++) {
      const struct pz_shown_chip *other = &detail->shown[k];
      if (other->answer != shown->answer || other->chip_id == shown->chip_id) continue;
      double area = pz_result_chip(result, other->chip_id)->area_mm2;
      bool as_good = other->value >= shown->value && area <= chip->area_mm2;
      bool preferred =
          other->value > shown->value || area < chip->area_mm2 || other->chip_id < shown->chip_id;
      if (as_good && preferred) on_front = false;
    }
    /* The knee of the Pareto front is marked among the chips for all models. */
    bool knee = false, common = shown->answer + 1 == result->n_answers &&
                                result->inputs.options.objective == PZ_OBJECTIVE_GEOMEAN;
    for (uint32_t k = 0; result->front && common && k < result->front->n_points; k++) {
      const struct pz_result_front_chip *point = &result->front->points[k];
      if (point->knee && strcmp(point->chip, chip->name) == 0) knee = true;
    }
    pz_dataset_add(call, rows, "[s,I,s,f,f,f,f,s,b,b,b,b,I,I,I,I,I,f]", answer->name,
                   (json_int_t)shown->chip_id, chip->name, chip->area_mm2, chip->watts,
                   shown->value, shown->bound, chip_limit(result, shown), on_front, knee,
                   shown->chip_id == answer->chip_id, shown->evaluated,
                   (json_int_t)chip->tensor_cores, (json_int_t)chip->rows, (json_int_t)chip->cols,
                   (json_int_t)chip->vector_cores, (json_int_t)chip->lanes,
                   (double)chip->glb_bytes / 0x1p20);
  }
}

/* Appends the plan of every model on every evaluated chip, with the shares of its step time. */
static void append_plans(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *result = report->result;
  json_t *rows =
      pz_dataset_new(call, report->datasets, "plans",
                     "chip_id,model,samples_per_s,ratio,stages,replicas,tensor_parallel,microbatch,"
                     "recompute,compute_part,network_part,bubble_part,tensor_use,vector_use,"
                     "hbm_use,limit");
  for (uint32_t i = 0; i < result->detail->n_plans; i++) {
    const struct pz_chip_plan *plan = &result->detail->plans[i];
    double reference = result->references[plan->model].samples_per_s, share[LIMITS];
    double ratio = reference > 0 ? plan->samples_per_s / reference : (double)NAN;
    divide_step_time(plan, share);
    double network = share[LIMIT_TRANSFERS] + share[LIMIT_EXCHANGE];
    double compute = 1 - network - share[LIMIT_BUBBLE];
    pz_dataset_add(call, rows, "[I,s,f,o,I,I,I,I,b,f,f,f,f,f,f,s]", (json_int_t)plan->chip_id,
                   result->inputs.models[plan->model].name, plan->samples_per_s,
                   pz_dataset_real(ratio), (json_int_t)plan->pp, (json_int_t)plan->dp,
                   (json_int_t)plan->tp, (json_int_t)plan->mbs, plan->recompute, compute, network,
                   share[LIMIT_BUBBLE], plan->use[PZ_TENSOR_CORES], plan->use[PZ_VECTOR_CORES],
                   plan->use[PZ_HBM_RATE], limit_names[largest_share(share)]);
  }
}

/* ---- chips that bounds exclude -------------------------------------------------------------- */

/* Returns the index of the cell that contains a value.  CELLS cells divide the range from 0 to
 * `most`; the last one also contains all larger values. */
static int cell_index(double value, double most) {
  if (!(value < most)) return CELLS - 1;
  return value > 0 ? (int)(value / most * CELLS) : 0;
}

/* Returns the lower edge of cell i, rounded to six digits, which keeps the page small. */
static double cell_edge(double most, int i) {
  double edge = most * i / CELLS;
  if (!(edge > 0)) return 0;
  double unit = pow(10, floor(log10(edge)) - 5);
  return round(edge / unit) * unit;
}

/* Counts the chips that are not shown one by one, by area and by the upper bound of their value,
 * and appends a row for each cell that contains any. */
static void append_excluded(struct pz_call *call, const struct pz_result *result,
                            uint32_t answer_index, json_t *rows) {
  const struct pz_answer *answer = &result->answers[answer_index];
  uint32_t chips_in[CELLS][CELLS] = {{0}};
  double most_area = 0;
  for (uint32_t i = 0; i < result->n_chips; i++)
    most_area = fmax(most_area, result->chips[i].area_mm2);
  for (uint32_t i = 0; i < result->n_chips; i++) {
    const struct pz_result_chip *chip = &result->chips[i];
    bool shown = false, evaluated = answer->status[i].kind == PZ_CHIP_EVALUATED;
    for (uint32_t k = 0; evaluated && k < result->detail->n_shown && !shown; k++) {
      const struct pz_shown_chip *other = &result->detail->shown[k];
      shown = other->answer == answer_index && other->chip_id == chip->id;
    }
    if (shown) continue;
    int area_cell = cell_index(chip->area_mm2, most_area);
    int bound_cell = cell_index(answer->status[i].value, answer->objective);
    chips_in[area_cell][bound_cell]++;
  }
  for (int area_cell = 0; area_cell < CELLS; area_cell++)
    for (int bound_cell = 0; bound_cell < CELLS; bound_cell++)
      if (chips_in[area_cell][bound_cell])
        pz_dataset_add(call, rows, "[s,f,f,f,f,I]", answer->name, cell_edge(most_area, area_cell),
                       cell_edge(most_area, area_cell + 1),
                       cell_edge(answer->objective, bound_cell),
                       cell_edge(answer->objective, bound_cell + 1),
                       (json_int_t)chips_in[area_cell][bound_cell]);
}

/* Adds the datasets of the listed chips, their plans, and the counts of the chips not listed. */
void pz_report_chips(struct pz_call *call, struct pz_report *report) {
  append_chips(call, report);
  append_plans(call, report);
  json_t *rows =
      pz_dataset_new(call, report->datasets, "excluded",
                     "objective_run,area_from_mm2,area_to_mm2,bound_from,bound_to,chips");
  for (uint32_t i = 0; i < report->result->n_answers; i++)
    append_excluded(call, report->result, i, rows);
}
