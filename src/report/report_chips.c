/* Section of a report: the chips of the design space.  Chips that were evaluated are listed one by one with their plans and
 * with what limits them; chips that bounds exclude are counted in cells of area and bound, because there are thousands. */
#include <math.h>
#include <string.h>

#include "report/report_data.h"

enum { CELLS = 56 }; /* in each dimension */

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

static enum limit largest_share(const double share[LIMITS]) {
  enum limit most = 0;
  for (enum limit i = 1; i < LIMITS; i++)
    if (share[i] > share[most]) most = i;
  return most;
}

/* Divides the step time of a plan among the limits; the shares sum to 1.  Compute time counts for the resource that is
 * busiest during it. */
static void divide_step_time(const struct pz_chip_plan *p, double share[LIMITS]) {
  static const enum pz_resource resource_of[] = {PZ_TENSOR_CORES, PZ_VECTOR_CORES, PZ_HBM_RATE,
                                                 PZ_GLB_RATE};
  double total = p->parts.compute_s + p->parts.collectives_s + p->parts.transfers_s +
                 p->parts.bubble_s + p->parts.exchange_s;
  enum limit busiest = LIMIT_TENSOR;
  for (enum limit i = LIMIT_TENSOR; i <= LIMIT_GLB; i++)
    if (p->use[resource_of[i]] > p->use[resource_of[busiest]]) busiest = i;
  memset(share, 0, LIMITS * sizeof *share);
  share[busiest] = p->parts.compute_s / total;
  share[LIMIT_BUBBLE] = p->parts.bubble_s / total;
  share[LIMIT_TRANSFERS] = (p->parts.collectives_s + p->parts.transfers_s) / total;
  share[LIMIT_EXCHANGE] = p->parts.exchange_s / total;
}

/* ---- evaluated chips ------------------------------------------------------------------------ */

/* Returns the plan of a model on a chip, or NULL.  Plans are sorted by chip and model. */
static const struct pz_chip_plan *find_chip_plan(const struct pz_result_detail *d, uint64_t chip_id,
                                                 uint32_t model) {
  uint32_t low = 0, high = d->n_plans;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const struct pz_chip_plan *p = &d->plans[middle];
    if (p->chip_id < chip_id || (p->chip_id == chip_id && p->model < model))
      low = middle + 1;
    else
      high = middle;
  }
  if (low == d->n_plans) return NULL;
  const struct pz_chip_plan *p = &d->plans[low];
  return p->chip_id == chip_id && p->model == model ? p : NULL;
}

/* Returns the limit with the largest share over the models of the answer that the chip belongs to.  The last answer is the
 * chip common to all models; answer i before it is the best chip for model i alone. */
static const char *chip_limit(const struct pz_result *r, const struct pz_shown_chip *c) {
  double sum[LIMITS] = {0}, share[LIMITS];
  bool common = c->answer + 1 == r->n_answers;
  uint32_t first = common ? 0 : c->answer;
  uint32_t end = first + (common ? r->inputs.options.n_models : 1);
  for (uint32_t m = first; m < end; m++) {
    const struct pz_chip_plan *plan = find_chip_plan(r->detail, c->chip_id, m);
    if (!plan) continue;
    divide_step_time(plan, share);
    for (enum limit i = 0; i < LIMITS; i++) sum[i] += share[i];
  }
  return limit_names[largest_share(sum)];
}

/* Returns whether no other chip of the answer has at least its value on at most its area.  Of equal chips, the one with the
 * lowest number is on the front. */
static bool is_on_front(const struct pz_result *r, const struct pz_shown_chip *chip) {
  double area = pz_result_chip(r, chip->chip_id)->area_mm2;
  for (uint32_t i = 0; i < r->detail->n_shown; i++) {
    const struct pz_shown_chip *other = &r->detail->shown[i];
    if (other->answer != chip->answer || other->chip_id == chip->chip_id) continue;
    double other_area = pz_result_chip(r, other->chip_id)->area_mm2;
    bool as_good = other->value >= chip->value && other_area <= area;
    bool preferred =
        other->value > chip->value || other_area < area || other->chip_id < chip->chip_id;
    if (as_good && preferred) return false;
  }
  return true;
}

/* Returns whether the chip is the knee of the Pareto front, if the search computed one. */
static bool is_front_knee(const struct pz_result *r, const struct pz_shown_chip *c,
                          const char *name) {
  const struct pz_result_front *f = r->front;
  bool common = c->answer + 1 == r->n_answers;
  if (!f || !common || r->inputs.options.objective != PZ_OBJECTIVE_GEOMEAN) return false;
  for (uint32_t i = 0; i < f->n_points; i++)
    if (f->points[i].knee && strcmp(f->points[i].chip, name) == 0) return true;
  return false;
}

static void check_chips(struct pz_call *call, const struct pz_result *r) {
  for (uint32_t i = 0; i < r->detail->n_shown; i++) {
    uint64_t id = r->detail->shown[i].chip_id;
    if (!pz_result_chip(r, id))
      pz_raise(call, PZ_BAD_INPUT,
               "the report's data have chip %llu, which is not of the space; see phaze verify",
               (unsigned long long)id);
  }
}

static void append_chips(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *r = report->result;
  json_t *rows =
      pz_dataset_new(call, report->datasets, "chips",
                     "objective_run,chip_id,chip,area_mm2,watts,objective,bound,limit,front,"
                     "knee,best,in_objective_run,tensor_cores,rows,cols,vector_cores,lanes,"
                     "glb_mib");
  for (uint32_t i = 0; i < r->detail->n_shown; i++) {
    const struct pz_shown_chip *c = &r->detail->shown[i];
    const struct pz_answer *a = &r->answers[c->answer];
    const struct pz_result_chip *chip = pz_result_chip(r, c->chip_id);
    pz_dataset_append(
        call, rows,
        json_pack("[s,I,s,f,f,f,f,s,b,b,b,b,I,I,I,I,I,f]", a->name, (json_int_t)c->chip_id,
                  chip->name, chip->area_mm2, chip->watts, c->value, c->bound, chip_limit(r, c),
                  is_on_front(r, c), is_front_knee(r, c, chip->name), c->chip_id == a->chip_id,
                  c->evaluated, (json_int_t)chip->tensor_cores, (json_int_t)chip->rows,
                  (json_int_t)chip->cols, (json_int_t)chip->vector_cores, (json_int_t)chip->lanes,
                  (double)chip->glb_bytes / 0x1p20));
  }
}

static void append_plans(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *r = report->result;
  json_t *rows =
      pz_dataset_new(call, report->datasets, "plans",
                     "chip_id,model,samples_per_s,ratio,stages,replicas,tensor_parallel,microbatch,"
                     "recompute,compute_part,network_part,bubble_part,tensor_use,vector_use,"
                     "hbm_use,limit");
  for (uint32_t i = 0; i < r->detail->n_plans; i++) {
    const struct pz_chip_plan *p = &r->detail->plans[i];
    double reference = r->references[p->model].samples_per_s, share[LIMITS];
    double ratio = reference > 0 ? p->samples_per_s / reference : (double)NAN;
    divide_step_time(p, share);
    double network = share[LIMIT_TRANSFERS] + share[LIMIT_EXCHANGE];
    double compute = 1 - network - share[LIMIT_BUBBLE];
    pz_dataset_append(
        call, rows,
        json_pack("[I,s,f,o,I,I,I,I,b,f,f,f,f,f,f,s]", (json_int_t)p->chip_id,
                  r->inputs.models[p->model].name, p->samples_per_s, pz_report_ratio(ratio),
                  (json_int_t)p->pp, (json_int_t)p->dp, (json_int_t)p->tp, (json_int_t)p->mbs,
                  p->recompute, compute, network, share[LIMIT_BUBBLE], p->use[PZ_TENSOR_CORES],
                  p->use[PZ_VECTOR_CORES], p->use[PZ_HBM_RATE], limit_names[largest_share(share)]));
  }
}

/* ---- chips that bounds exclude -------------------------------------------------------------- */

static int cell_index(double v, double most) {
  if (!(v < most)) return CELLS - 1;
  return v > 0 ? (int)(v / most * CELLS) : 0;
}

/* Returns the lower edge of cell i, rounded to six digits: a chart shows no more, and shorter numbers keep the page small. */
static double cell_edge(double most, int i) {
  double edge = most * i / CELLS;
  if (!(edge > 0)) return 0;
  double unit = pow(10, floor(log10(edge)) - 5);
  return round(edge / unit) * unit;
}

static bool is_shown(const struct pz_result *r, uint32_t answer, uint64_t chip_id) {
  const struct pz_result_detail *d = r->detail;
  for (uint32_t i = 0; i < d->n_shown; i++)
    if (d->shown[i].answer == answer && d->shown[i].chip_id == chip_id) return true;
  return false;
}

static void append_excluded(struct pz_call *call, const struct pz_result *r, uint32_t answer,
                            json_t *rows) {
  const struct pz_answer *a = &r->answers[answer];
  uint32_t chips_in[CELLS][CELLS] = {{0}};
  double most_area = 0;
  for (uint32_t i = 0; i < r->n_chips; i++) most_area = fmax(most_area, r->chips[i].area_mm2);
  for (uint32_t i = 0; i < r->n_chips; i++) {
    bool evaluated = a->status[i].kind == PZ_CHIP_EVALUATED;
    if (evaluated && is_shown(r, answer, r->chips[i].id)) continue;
    int x = cell_index(r->chips[i].area_mm2, most_area);
    int y = cell_index(a->status[i].value, a->objective);
    chips_in[x][y]++;
  }
  for (int x = 0; x < CELLS; x++)
    for (int y = 0; y < CELLS; y++)
      if (chips_in[x][y])
        pz_dataset_append(call, rows,
                          json_pack("[s,f,f,f,f,I]", a->name, cell_edge(most_area, x),
                                    cell_edge(most_area, x + 1), cell_edge(a->objective, y),
                                    cell_edge(a->objective, y + 1), (json_int_t)chips_in[x][y]));
}

void pz_report_chips(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *r = report->result;
  check_chips(call, r);
  append_chips(call, report);
  append_plans(call, report);
  json_t *rows =
      pz_dataset_new(call, report->datasets, "excluded",
                     "objective_run,area_from_mm2,area_to_mm2,bound_from,bound_to,chips");
  for (uint32_t i = 0; i < r->n_answers; i++) append_excluded(call, r, i, rows);
}
