/* Builds and solves the integer program (ilp.h).
 *
 * build_model() adds columns and rows to an empty model.  pz_ilp_search() lets CBC solve it, makes an exact schedule of the
 * solution (adopt_solution), and adds handovers for the resources that this schedule overfills, until the schedule is as
 * short as the solution.  Names of columns and rows appear in the files that pz_ilp_write() writes. */
#include "schedule/ilp/ilp.h"

#include <float.h>
#include <math.h>

#include "core/progress.h"
#include "lp/lp.h"
#include "schedule/bound/root_bound.h"
#include "schedule/heuristic/local_search.h"
#include "schedule/model/bits.h"
#include "schedule/model/context.h"
#include "schedule/model/schedule.h"

/* Number of rows above which rows of transitivity are left out.  They are implied by the times, and
 * in large models cost more than they help. */
enum { MAX_ROWS_WITH_TRANSITIVE = 20000 };
static const double DEFAULT_SECONDS = 60;

struct ilp_model {
  struct pz_context *context;
  const struct pz_problem *problem;
  struct pz_call *call; /* owns the tables, the linear program and its solutions */
  struct pz_lp lp;
  double unit;                  /* unit of time in the model */
  struct pz_bits *predecessors; /* by task: direct and indirect predecessors */
  uint32_t *order_column;       /* at i * n + j: column of y_ij, or PZ_NONE */
  uint32_t *mode_column;        /* by mode: column of x */
  uint32_t start_column;        /* column of s_0; those of the other tasks follow */
  uint32_t end_column;          /* column of C */
  bool handovers[PZ_RESOURCES]; /* resources whose handovers are modelled */
};

/* Returns y_ij, the column of "task i ends before task j starts", or PZ_NONE if precedence decides it. */
static uint32_t order_column(const struct ilp_model *model, uint32_t i, uint32_t j) {
  return model->order_column[(size_t)i * model->problem->n + j];
}

/* Returns whether i and j are two tasks that precedence does not order. */
static bool is_unordered(const struct ilp_model *model, uint32_t i, uint32_t j) {
  bool ordered = pz_bits_has(&model->predecessors[j], i) || pz_bits_has(&model->predecessors[i], j);
  return i != j && !ordered;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Subtracts the duration of task i from a row. */
static void subtract_duration(struct ilp_model *model, uint32_t row, uint32_t i) {
  const struct pz_task *task = &model->problem->tasks[i];
  const uint32_t *mode_column = &model->mode_column[model->context->first_mode[i]];
  for (uint32_t m = 0; m < task->n_modes; m++)
    pz_lp_set_entry(&model->lp, row, mode_column[m], -task->modes[m].duration / model->unit);
}

/* Adds a row that lets each task choose one mode, and a row for each of its successors, which start
 * no earlier than the task ends.  A task without successors ends before the end of the schedule. */
static void add_mode_and_end_rows(struct ilp_model *model) {
  struct pz_lp *lp = &model->lp;
  for (uint32_t i = 0; i < model->problem->n; i++) {
    const struct pz_task *task = &model->problem->tasks[i];
    uint32_t mode_row = pz_lp_add_row(lp, PZ_LP_EQUAL, 1, "mode_%u", i);
    for (uint32_t m = 0; m < task->n_modes; m++)
      pz_lp_set_entry(lp, mode_row, model->mode_column[model->context->first_mode[i] + m], 1);
    uint32_t n_rows = task->n_succ ? task->n_succ : 1;
    for (uint32_t k = 0; k < n_rows; k++) {
      uint32_t row, later_column = model->end_column;
      if (task->n_succ) {
        row = pz_lp_add_row(lp, PZ_LP_AT_LEAST, 0, "before_%u_%u", i, task->succ[k]);
        later_column = model->start_column + task->succ[k];
      } else {
        row = pz_lp_add_row(lp, PZ_LP_AT_LEAST, 0, "end_%u", i);
      }
      pz_lp_set_entry(lp, row, later_column, 1);
      pz_lp_set_entry(lp, row, model->start_column + i, -1);
      subtract_duration(model, row, i);
    }
  }
}

/* Adds s_i + d_i <= s_j + M_ij (1 - y_ij).  M_ij is the least constant with which the row holds
 * for y_ij = 0. */
static void add_order_row(struct ilp_model *model, uint32_t i, uint32_t j) {
  const struct pz_context *context = model->context;
  struct pz_lp *lp = &model->lp;
  double big = (context->incumbent_s - context->tail_s[i] - context->head_s[j]) / model->unit;
  uint32_t row = pz_lp_add_row(lp, PZ_LP_AT_LEAST, -big, "order_%u_%u", i, j);
  pz_lp_set_entry(lp, row, model->start_column + j, 1);
  pz_lp_set_entry(lp, row, model->start_column + i, -1);
  subtract_duration(model, row, i);
  pz_lp_set_entry(lp, row, order_column(model, i, j), -big);
}

/* Returns whether two tasks in these modes fit the capacities at the same time. */
static bool fit_together(const struct ilp_model *model, const struct pz_mode *a,
                         const struct pz_mode *b) {
  int32_t residual[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) residual[r] = model->problem->capacity[r] - b->use[r];
  return pz_mode_fits(residual, a);
}

/* Adds a row by which task i in mode m and task j in the modes m' that do not fit beside it run one
 * after the other: y_ij + y_ji >= x_im + sum x_jm' - 1.  The sum is 1 if no mode of j fits. */
static void add_conflict_row(struct ilp_model *model, uint32_t i, uint32_t j, uint32_t m) {
  const struct pz_mode *mode = &model->problem->tasks[i].modes[m];
  const struct pz_task *other = &model->problem->tasks[j];
  const uint32_t *first_mode = model->context->first_mode;
  struct pz_lp *lp = &model->lp;
  uint32_t n_conflicts = 0;
  for (uint32_t k = 0; k < other->n_modes; k++)
    n_conflicts += !fit_together(model, mode, &other->modes[k]);
  if (!n_conflicts) return;
  bool never_together = n_conflicts == other->n_modes;
  uint32_t row =
      pz_lp_add_row(lp, PZ_LP_AT_LEAST, never_together ? 0 : -1, "apart_%u_%u_%u", i, m, j);
  pz_lp_set_entry(lp, row, order_column(model, i, j), 1);
  pz_lp_set_entry(lp, row, order_column(model, j, i), 1);
  pz_lp_set_entry(lp, row, model->mode_column[first_mode[i] + m], -1);
  for (uint32_t k = 0; k < other->n_modes && !never_together; k++)
    if (!fit_together(model, mode, &other->modes[k]))
      pz_lp_set_entry(lp, row, model->mode_column[first_mode[j] + k], -1);
}

/* Adds the rows of every pair of tasks that precedence does not order. */
static void add_pair_rows(struct ilp_model *model) {
  const struct pz_task *tasks = model->problem->tasks;
  struct pz_lp *lp = &model->lp;
  for (uint32_t i = 0; i < model->problem->n; i++)
    for (uint32_t j = i + 1; j < model->problem->n; j++) {
      if (!is_unordered(model, i, j)) continue;
      uint32_t row = pz_lp_add_row(lp, PZ_LP_AT_MOST, 1, "once_%u_%u", i, j);
      pz_lp_set_entry(lp, row, order_column(model, i, j), 1);
      pz_lp_set_entry(lp, row, order_column(model, j, i), 1);
      add_order_row(model, i, j);
      add_order_row(model, j, i);
      for (uint32_t m = 0; m < tasks[i].n_modes; m++) add_conflict_row(model, i, j, m);
      for (uint32_t m = 0; m < tasks[j].n_modes; m++) add_conflict_row(model, j, i, m);
    }
}

/* Adds y_ij + y_jk - y_ik <= 1.  Where precedence decides an order, its variable is a constant, which is
 * moved to the right side.  The row is left out if it always holds. */
static void add_transitive_row(struct ilp_model *model, uint32_t i, uint32_t j, uint32_t k) {
  const uint32_t from[] = {i, j, i}, to[] = {j, k, k};
  static const double sign[] = {1, 1, -1};
  double right = 1;
  for (int term = 0; term < 3; term++) {
    if (order_column(model, from[term], to[term]) != PZ_NONE) continue;
    bool is_one = pz_bits_has(&model->predecessors[to[term]], from[term]);
    if (term < 2 && !is_one) return; /* y_ij or y_jk is 0 */
    right -= sign[term] * is_one;
  }
  bool always_holds = right > 1.5; /* the right side is 2, because y_ik is 1 */
  if (always_holds || model->lp.rows.n > MAX_ROWS_WITH_TRANSITIVE) return;
  uint32_t row = pz_lp_add_row(&model->lp, PZ_LP_AT_MOST, right, "chain_%u_%u_%u", i, j, k);
  for (int term = 0; term < 3; term++) {
    uint32_t column = order_column(model, from[term], to[term]);
    if (column != PZ_NONE) pz_lp_set_entry(&model->lp, row, column, sign[term]);
  }
}

/* Returns the largest amount of a resource that a mode of task i uses. */
static int32_t largest_use(const struct ilp_model *model, uint32_t i, int resource) {
  const struct pz_task *task = &model->problem->tasks[i];
  int32_t largest = 0;
  for (uint32_t m = 0; m < task->n_modes; m++)
    if (task->modes[m].use[resource] > largest) largest = task->modes[m].use[resource];
  return largest;
}

/* What subtract_use_terms() subtracts: the fraction of the resource that the task uses, or the product
 * of that fraction and the task's duration. */
enum use_term { USE, USE_TIMES_DURATION };

/* Subtracts a term for the use of a resource by task i from a row. */
static void subtract_use_terms(struct ilp_model *model, uint32_t row, uint32_t i, int resource,
                               enum use_term term) {
  const struct pz_task *task = &model->problem->tasks[i];
  for (uint32_t m = 0; m < task->n_modes; m++) {
    const struct pz_mode *mode = &task->modes[m];
    double part = (double)mode->use[resource] / fmax(1, model->problem->capacity[resource]);
    double factor = term == USE_TIMES_DURATION ? mode->duration / model->unit : 1;
    pz_lp_set_entry(&model->lp, row, model->mode_column[model->context->first_mode[i] + m],
                    -part * factor);
  }
}

/* Adds a column for the amount of a resource that task j takes over from task i.  The column is in
 * the row of all that task i hands on, and in the row of all that task j receives. */
static void add_handover(struct ilp_model *model, int resource, uint32_t i, uint32_t j,
                         uint32_t out_row, uint32_t in_row) {
  struct pz_lp *lp = &model->lp;
  uint32_t order = order_column(model, i, j);
  int32_t use_i = largest_use(model, i, resource), use_j = largest_use(model, j, resource);
  bool may_precede = order != PZ_NONE || pz_bits_has(&model->predecessors[j], i);
  if (!may_precede || !use_i || !use_j) return;
  double most = (double)(use_i < use_j ? use_i : use_j) / model->problem->capacity[resource];
  uint32_t column =
      pz_lp_add_column(lp, (struct pz_lp_col){.upper = most}, "f%d_%u_%u", resource, i, j);
  pz_lp_set_entry(lp, out_row, column, 1);
  pz_lp_set_entry(lp, in_row, column, 1);
  if (order == PZ_NONE) return;
  uint32_t row = pz_lp_add_row(lp, PZ_LP_AT_MOST, 0, "hand_%d_%u_%u", resource, i, j);
  pz_lp_set_entry(lp, row, column, 1);
  pz_lp_set_entry(lp, row, order, -most);
}

/* Adds the rows by which a resource is handed from task to task: each task receives what it uses (row
 * "in") from earlier tasks and from the beginning, and hands on no more than that (row "out").  The
 * beginning hands on at most the capacity. */
static void add_handover_rows(struct ilp_model *model, int resource) {
  struct pz_lp *lp = &model->lp;
  uint32_t n = model->problem->n;
  uint32_t first = lp->rows.n; /* row "in" of task i is first + 2 * i, and row "out" comes next */
  for (uint32_t i = 0; i < n; i++) {
    uint32_t in_row = pz_lp_add_row(lp, PZ_LP_EQUAL, 0, "in_%d_%u", resource, i);
    subtract_use_terms(model, in_row, i, resource, USE);
    uint32_t out_row = pz_lp_add_row(lp, PZ_LP_AT_MOST, 0, "out_%d_%u", resource, i);
    subtract_use_terms(model, out_row, i, resource, USE);
  }
  uint32_t capacity_row = pz_lp_add_row(lp, PZ_LP_AT_MOST, 1, "capacity_%d", resource);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t from_beginning =
        pz_lp_add_column(lp, (struct pz_lp_col){.upper = 1}, "f%d_%u", resource, i);
    pz_lp_set_entry(lp, capacity_row, from_beginning, 1);
    pz_lp_set_entry(lp, first + 2 * i, from_beginning, 1);
    for (uint32_t j = 0; j < n; j++)
      if (i != j) add_handover(model, resource, i, j, first + 2 * i + 1, first + 2 * j);
  }
}

/* Builds the whole model, with handovers of the resources in model->handovers. */
static void build_model(struct ilp_model *model) {
  static const struct pz_lp_col choice = {.upper = 1, .integer = true};
  const uint32_t *first_mode = model->context->first_mode;
  struct pz_lp *lp = &model->lp;
  uint32_t n = model->problem->n;
  pz_lp_init(lp, model->call);
  model->end_column = pz_lp_add_column(lp, (struct pz_lp_col){.upper = DBL_MAX, .cost = 1}, "C");
  model->start_column = lp->cols.n;
  for (uint32_t i = 0; i < n; i++) {
    double head = model->context->head_s[i] / model->unit;
    pz_lp_add_column(lp, (struct pz_lp_col){.lower = head, .upper = DBL_MAX}, "s%u", i);
  }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t m = 0; m < model->problem->tasks[i].n_modes; m++)
      model->mode_column[first_mode[i] + m] = pz_lp_add_column(lp, choice, "x%u_%u", i, m);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++)
      model->order_column[(size_t)i * n + j] =
          is_unordered(model, i, j) ? pz_lp_add_column(lp, choice, "y%u_%u", i, j) : PZ_NONE;
  add_mode_and_end_rows(model);
  add_pair_rows(model);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < n; j++)
      for (uint32_t k = 0; k < n; k++) {
        bool different = i != j && j != k && i != k;
        if (different && (is_unordered(model, i, j) || is_unordered(model, j, k)))
          add_transitive_row(model, i, j, k);
      }
  for (int r = 0; r < PZ_RESOURCES; r++) { /* the use of each resource over time */
    uint32_t row = pz_lp_add_row(lp, PZ_LP_AT_LEAST, 0, "work_%d", r);
    pz_lp_set_entry(lp, row, model->end_column, 1);
    for (uint32_t i = 0; i < n; i++) subtract_use_terms(model, row, i, r, USE_TIMES_DURATION);
  }
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (model->handovers[r]) add_handover_rows(model, r);
}

/* Returns whether three tasks can overfill the resource, although any two of them fit. */
static bool can_overfill_by_three(const struct ilp_model *model, int resource) {
  int32_t capacity = model->problem->capacity[resource];
  int64_t sum = 0;
  bool two_fit = false;
  for (uint32_t i = 0; i < model->problem->n; i++) {
    sum += largest_use(model, i, resource);
    for (uint32_t m = 0; m < model->problem->tasks[i].n_modes; m++) {
      int64_t use = model->problem->tasks[i].modes[m].use[resource];
      two_fit = two_fit || (use > 0 && 2 * use <= capacity);
    }
  }
  return two_fit && sum > capacity;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Returns an empty model.  Finds a first schedule, and heads and tails, which bound the starts and
 * ends of tasks. */
static struct ilp_model ilp_model_new(struct pz_context *context) {
  struct pz_call *call = context->call;
  uint32_t n = context->problem->n;
  struct ilp_model model = {.context = context,
                            .problem = context->problem,
                            .call = call,
                            .unit = context->scale > 0 ? context->scale / (n + 1) : 1};
  if (n > PZ_ILP_MOST_TASKS)
    pz_raise(call, PZ_BAD_INPUT, "%u operators; accepted by the ILP: at most %d", n,
             PZ_ILP_MOST_TASKS);
  pz_bound_tighten(context);   /* without an incumbent no mode is eliminated */
  pz_local_search(context, 0); /* 0 steps: little more than a first incumbent */
  struct pz_bits *successors = pz_alloc(call, n, sizeof *successors);
  model.predecessors = pz_alloc(call, n, sizeof *model.predecessors);
  model.order_column = pz_alloc(call, (size_t)n * n, sizeof *model.order_column);
  model.mode_column = pz_alloc(call, context->n_modes, sizeof *model.mode_column);
  pz_bits_order(context->problem, model.predecessors, successors);
  return model;
}

/* Returns the value of each column in the incumbent: modes, order and times. */
static const double *starting_point(struct ilp_model *model) {
  const struct pz_slot *slots = model->context->incumbent;
  uint32_t n = model->problem->n;
  double *value = pz_alloc(model->call, model->lp.cols.n, sizeof *value);
  for (uint32_t i = 0; i < n; i++) {
    value[model->mode_column[model->context->first_mode[i] + slots[i].mode]] = 1;
    value[model->start_column + i] = slots[i].start / model->unit;
    for (uint32_t j = 0; j < n; j++) {
      uint32_t order = order_column(model, i, j);
      if (order == PZ_NONE || slots[i].end > slots[j].start) continue;
      bool both_ways = slots[j].end <= slots[i].start; /* two milestones at one instant */
      value[order] = !(both_ways && j < i);
    }
  }
  value[model->end_column] = model->context->incumbent_s / model->unit;
  return value;
}

/* Starts every task when the last one that comes before it in the solution ends.  Returns false
 * if the order has a cycle. */
static bool set_start_times(const struct ilp_model *model, const double *value,
                            struct pz_slot *slots) {
  uint32_t n = model->problem->n;
  bool changed = true;
  for (uint32_t pass = 0; changed && pass <= n; pass++) {
    changed = false;
    for (uint32_t j = 0; j < n; j++) {
      double start = 0;
      for (uint32_t i = 0; i < n; i++) {
        uint32_t order = order_column(model, i, j);
        bool ordered_by_solution = order != PZ_NONE && value[order] > 0.5;
        bool ordered = ordered_by_solution || pz_bits_has(&model->predecessors[j], i);
        if (i != j && ordered) start = fmax(start, slots[i].end);
      }
      if (start <= slots[j].start) continue;
      slots[j].start = start;
      slots[j].end = start + model->problem->tasks[j].modes[slots[j].mode].duration;
      changed = true;
    }
  }
  return !changed;
}

struct check_args {
  const struct pz_problem *problem;
  const struct pz_slot *slots;
  double makespan;
};

/* Checks a schedule in a call of its own, whose error means that the schedule is not valid. */
static void check_schedule(struct pz_call *call, void *ctx) {
  const struct check_args *args = ctx;
  pz_schedule_check(call, args->problem, args->slots, args->makespan);
}

/* Derives a schedule with exact times from the modes and the order of a solution.  A better schedule
 * becomes the incumbent.  Returns its makespan, or DBL_MAX if a resource is overfilled. */
static double adopt_solution(struct ilp_model *model, const double *value) {
  const struct pz_task *tasks = model->problem->tasks;
  uint32_t n = model->problem->n;
  struct pz_slot *slots = pz_alloc(model->call, n, sizeof *slots);
  double makespan = 0;
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t m = 0; m < tasks[i].n_modes; m++)
      if (value[model->mode_column[model->context->first_mode[i] + m]] > 0.5) slots[i].mode = m;
    slots[i].end = tasks[i].modes[slots[i].mode].duration;
  }
  if (!set_start_times(model, value, slots)) return DBL_MAX;
  for (uint32_t i = 0; i < n; i++) makespan = fmax(makespan, slots[i].end);
  struct check_args args = {model->problem, slots, makespan};
  if (pz_border(check_schedule, &args, NULL) != PZ_OK) return DBL_MAX;
  pz_update_incumbent(model->context, slots, makespan, PZ_T_NONE);
  return makespan;
}

/* Returns the use of a resource just after the start of task i in a solution. */
static double use_at_start(const struct ilp_model *model, const double *value, uint32_t i,
                           int resource) {
  double instant = value[model->start_column + i] + 1e-6, sum = 0;
  for (uint32_t j = 0; j < model->problem->n; j++) {
    const struct pz_task *task = &model->problem->tasks[j];
    double start = value[model->start_column + j], duration = 0, use = 0;
    for (uint32_t m = 0; m < task->n_modes; m++) {
      double chosen = value[model->mode_column[model->context->first_mode[j] + m]];
      duration += chosen * task->modes[m].duration / model->unit;
      use += chosen * task->modes[m].use[resource];
    }
    if (start <= instant && start + duration > instant) sum += use;
  }
  return sum;
}

/* Solves the model, with handovers of more resources in each round, until the schedule is as short as
 * the solution.  Returns why the search ended. */
enum pz_stop pz_ilp_search(struct pz_call *call, struct pz_context *context,
                           const struct pz_solve_options *options) {
  double until_s = pz_clock_s() + (options->seconds > 0 ? options->seconds : DEFAULT_SECONDS);
  struct ilp_model model = ilp_model_new(context);
  context->lower_bound_s = 0; /* the model has to find the bound by itself */
  for (;;) {
    double left_s = until_s - pz_clock_s();
    if (left_s <= 0) return PZ_STOP_TIME;
    build_model(&model);
    struct pz_lp_result result = pz_lp_solve(call, &model.lp, left_s, starting_point(&model));
    context->steps++;
    double bound_s = (result.bound * (1 - 1e-6) - 1e-4) * model.unit; /* minus CBC's tolerances */
    if (!isfinite(bound_s)) bound_s = 0;
    pz_update_bound(context, fmin(bound_s, context->incumbent_s), PZ_T_NONE);
    if (!result.found) return PZ_STOP_TIME;
    double makespan = adopt_solution(&model, result.solution),
           claimed = result.objective * model.unit;
    if (!result.optimal) return PZ_STOP_TIME;
    if (makespan <= claimed + 1e-4 * model.unit) { /* no schedule is better than the incumbent */
      pz_update_bound(context, context->incumbent_s, PZ_T_NONE);
      return PZ_STOP_PROVED;
    }
    /* model the handovers of the resources that the solution overfills, or if there are none, of one
     * more resource that three tasks can overfill */
    bool any = false;
    for (int r = 0; r < PZ_RESOURCES; r++)
      for (uint32_t i = 0; i < context->problem->n && !model.handovers[r]; i++)
        if (use_at_start(&model, result.solution, i, r) > context->problem->capacity[r] + 0.5)
          any = model.handovers[r] = true;
    for (int r = 0; r < PZ_RESOURCES && !any; r++)
      if (can_overfill_by_three(&model, r) && !model.handovers[r]) any = model.handovers[r] = true;
    if (!any) return PZ_STOP_TIME;
  }
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Writes the model to a file, which begins with notes that explain the numbers in the names. */
void pz_ilp_write(struct pz_call *call, const struct pz_problem *problem, const char *path) {
  struct pz_call scratch = pz_scratch(call);
  struct pz_context *context = pz_context_new(&scratch, problem);
  struct ilp_model model = ilp_model_new(context);
  model.unit = context->time_unit > 0 ? 1 : 1e-6;
  for (int r = 0; r < PZ_RESOURCES; r++) model.handovers[r] = can_overfill_by_three(&model, r);
  build_model(&model);
  pz_lp_add_note(&model.lp, model.unit < 1 ? "times in microseconds" : "times as given");
  for (uint32_t i = 0; i < problem->n; i++) {
    const struct pz_task *task = &problem->tasks[i];
    for (uint32_t m = 0; m < task->n_modes; m++) {
      char mode_name[16];
      pz_lp_add_note(&model.lp, pz_format(&scratch, "x%u_%u: %.200s, mode %s", i, m, task->name,
                                          pz_mode_name(&task->modes[m], mode_name)));
    }
  }
  pz_lp_save(call, &model.lp, path);
  pz_scratch_end(&scratch);
}
