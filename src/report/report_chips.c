/* Chips: those that were evaluated, one by one with their plans and what limits them; those that
 * bounds excluded as counts in cells of area and bound. */
#include <math.h>
#include <string.h>

#include "report/report_data.h"

enum { CELLS = 56 }; /* each way */

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

static enum limit largest(const double share[LIMITS]) {
  enum limit most = 0;
  for (enum limit i = 1; i < LIMITS; i++)
    if (share[i] > share[most]) most = i;
  return most;
}

/* Parts of the step, which sum up to 1.  Time of compute counts for the resource that is busiest
 * meanwhile. */
static void share_out(const struct pz_chip_plan *p, double share[LIMITS]) {
  static const enum pz_resource of[] = {PZ_TENSOR_CORES, PZ_VECTOR_CORES, PZ_HBM_RATE, PZ_GLB_RATE};
  double total = p->parts.compute_s + p->parts.collectives_s + p->parts.transfers_s +
                 p->parts.bubble_s + p->parts.exchange_s;
  enum limit busy = LIMIT_TENSOR;
  for (enum limit i = LIMIT_TENSOR; i <= LIMIT_GLB; i++)
    if (p->use[of[i]] > p->use[of[busy]]) busy = i;
  memset(share, 0, LIMITS * sizeof *share);
  share[busy] = p->parts.compute_s / total;
  share[LIMIT_BUBBLE] = p->parts.bubble_s / total;
  share[LIMIT_TRANSFERS] = (p->parts.collectives_s + p->parts.transfers_s) / total;
  share[LIMIT_EXCHANGE] = p->parts.exchange_s / total;
}

/* ---- chips that are shown ------------------------------------------------------------------- */

/* The plan of a chip and a model, or NULL; they stand by chip and model. */
static const struct pz_chip_plan *plan_at(const struct pz_result_detail *d, uint64_t chip_id,
                                          uint32_t model) {
  uint32_t lo = 0, hi = d->n_plans;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    const struct pz_chip_plan *p = &d->plans[mid];
    if (p->chip_id < chip_id || (p->chip_id == chip_id && p->model < model))
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo == d->n_plans) return NULL;
  const struct pz_chip_plan *p = &d->plans[lo];
  return p->chip_id == chip_id && p->model == model ? p : NULL;
}

/* Over the models of the answer. */
static const char *limit_of(const struct pz_result *r, const struct pz_shown_chip *c) {
  double sum[LIMITS] = {0}, share[LIMITS];
  bool common = c->answer + 1 == r->n_answers;
  uint32_t n = common ? r->inputs.options.n_models : 1, first = common ? 0 : c->answer;
  for (uint32_t m = first; m < first + n; m++) {
    const struct pz_chip_plan *plan = plan_at(r->detail, c->chip_id, m);
    if (!plan) continue;
    share_out(plan, share);
    for (enum limit i = 0; i < LIMITS; i++) sum[i] += share[i];
  }
  return limit_names[largest(sum)];
}

/* Does no chip of the answer have more value on as little area? */
static bool on_front(const struct pz_result *r, const struct pz_shown_chip *p) {
  double area = pz_result_chip(r, p->chip_id)->area_mm2;
  for (uint32_t i = 0; i < r->detail->n_shown; i++) {
    const struct pz_shown_chip *q = &r->detail->shown[i];
    if (q->answer != p->answer || q->chip_id == p->chip_id) continue;
    double other = pz_result_chip(r, q->chip_id)->area_mm2;
    bool as_good = q->value >= p->value && other <= area;
    if (as_good && (q->value > p->value || other < area || q->chip_id < p->chip_id)) return false;
  }
  return true;
}

/* Is it the knee of the front that was asked for? */
static bool is_knee(const struct pz_result *r, const struct pz_shown_chip *c, const char *name) {
  const struct pz_result_front *f = r->front;
  if (!f || c->answer + 1 != r->n_answers) return false;
  if (r->inputs.options.objective != PZ_OBJECTIVE_GEOMEAN) return false;
  for (uint32_t i = 0; i < f->n_points; i++)
    if (f->points[i].knee && strcmp(f->points[i].chip, name) == 0) return true;
  return false;
}

static bool tell_chip(const struct pz_result *r, const struct pz_shown_chip *c, json_t *rows) {
  const struct pz_answer *a = &r->answers[c->answer];
  const struct pz_result_chip *chip = pz_result_chip(r, c->chip_id);
  return pz_dataset_row(
      rows, json_pack("[s,I,s,f,f,f,f,s,b,b,b,b,I,I,I,I,I,f]", a->name, (json_int_t)c->chip_id,
                      chip->name, chip->area_mm2, chip->watts, c->value, c->bound, limit_of(r, c),
                      on_front(r, c), is_knee(r, c, chip->name), c->chip_id == a->chip_id,
                      c->evaluated, (json_int_t)chip->tensor_cores, (json_int_t)chip->rows,
                      (json_int_t)chip->cols, (json_int_t)chip->vector_cores,
                      (json_int_t)chip->lanes, (double)chip->glb_bytes / 0x1p20));
}

static enum pz_status tell_chips(const struct pz_report *t) {
  json_t *rows =
      pz_dataset_add(t->datasets, "chips",
                     "objective_run,chip_id,chip,area_mm2,watts,objective,bound,limit,front,"
                     "knee,best,in_objective_run,tensor_cores,rows,cols,vector_cores,lanes,"
                     "glb_mib");
  const struct pz_result_detail *d = t->result->detail;
  bool good = rows;
  for (uint32_t i = 0; i < d->n_shown && good; i++) good = tell_chip(t->result, &d->shown[i], rows);
  return pz_report_check(t, good);
}

static bool tell_plan(const struct pz_result *r, const struct pz_chip_plan *p, json_t *rows) {
  double ref = r->references[p->model].samples_per_s, share[LIMITS];
  share_out(p, share);
  double network = share[LIMIT_TRANSFERS] + share[LIMIT_EXCHANGE];
  return pz_dataset_row(
      rows, json_pack("[I,s,f,o,I,I,I,I,b,f,f,f,f,f,f,s]", (json_int_t)p->chip_id,
                      r->inputs.models[p->model].name, p->samples_per_s,
                      pz_report_ratio(ref > 0 ? p->samples_per_s / ref : (double)NAN),
                      (json_int_t)p->pp, (json_int_t)p->dp, (json_int_t)p->tp, (json_int_t)p->mbs,
                      p->recompute, 1 - network - share[LIMIT_BUBBLE], network, share[LIMIT_BUBBLE],
                      p->use[PZ_TENSOR_CORES], p->use[PZ_VECTOR_CORES], p->use[PZ_HBM_RATE],
                      limit_names[largest(share)]));
}

static enum pz_status tell_plans(const struct pz_report *t) {
  json_t *rows =
      pz_dataset_add(t->datasets, "plans",
                     "chip_id,model,samples_per_s,ratio,stages,replicas,tensor_parallel,microbatch,"
                     "recompute,compute_part,network_part,bubble_part,tensor_use,vector_use,"
                     "hbm_use,limit");
  const struct pz_result_detail *d = t->result->detail;
  bool good = rows;
  for (uint32_t i = 0; i < d->n_plans && good; i++) good = tell_plan(t->result, &d->plans[i], rows);
  return pz_report_check(t, good);
}

/* ---- what bounds excluded ------------------------------------------------------------------- */

static int cell_of(double v, double most) {
  if (!(v < most)) return CELLS - 1;
  return v > 0 ? (int)(v / most * CELLS) : 0;
}

/* Six digits are more than a chart shows; there are thousands of cells. */
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

static bool tell_cells(const struct pz_result *r, uint32_t answer, json_t *rows) {
  const struct pz_answer *a = &r->answers[answer];
  uint32_t n[CELLS][CELLS] = {{0}};
  double area = 0;
  for (uint32_t i = 0; i < r->n_chips; i++) area = fmax(area, r->chips[i].area_mm2);
  for (uint32_t i = 0; i < r->n_chips; i++)
    if (a->status[i].kind != PZ_CHIP_EVALUATED || !is_shown(r, answer, r->chips[i].id))
      n[cell_of(r->chips[i].area_mm2, area)][cell_of(a->status[i].value, a->objective)]++;
  for (int x = 0; x < CELLS; x++)
    for (int y = 0; y < CELLS; y++)
      if (n[x][y] &&
          !pz_dataset_row(rows, json_pack("[s,f,f,f,f,I]", a->name, cell_edge(area, x),
                                          cell_edge(area, x + 1), cell_edge(a->objective, y),
                                          cell_edge(a->objective, y + 1), (json_int_t)n[x][y])))
        return false;
  return true;
}

static enum pz_status tell_excluded(const struct pz_report *t) {
  json_t *rows = pz_dataset_add(
      t->datasets, "excluded", "objective_run,area_from_mm2,area_to_mm2,bound_from,bound_to,chips");
  bool good = rows;
  for (uint32_t i = 0; i < t->result->n_answers && good; i++) good = tell_cells(t->result, i, rows);
  return pz_report_check(t, good);
}

/* Every chip that is shown is one of the space. */
static enum pz_status check_chips(const struct pz_report *t) {
  const struct pz_result *r = t->result;
  for (uint32_t i = 0; i < r->detail->n_shown; i++)
    if (!pz_result_chip(r, r->detail->shown[i].chip_id))
      return pz_fail(
          t->err, PZ_BAD_INPUT,
          "the report's data have chip %llu, which is not of the space; see phaze verify",
          (unsigned long long)r->detail->shown[i].chip_id);
  return PZ_OK;
}

enum pz_status pz_report_chips(struct pz_report *t) {
  enum pz_status status = check_chips(t);
  if (status == PZ_OK) status = tell_chips(t);
  if (status == PZ_OK) status = tell_plans(t);
  return status == PZ_OK ? tell_excluded(t) : status;
}
