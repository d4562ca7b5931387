/* The search (search.h has the idea).  pz_search_optimize() is an objective run:
 *
 *     try_greedy_chips     a greedy chip of each kind, so that a good value is known early
 *     climb                local search from the best chip
 *     branch               rounds of open boxes: process_box() closes, splits or evaluates each
 *     conclude             the certificate and the bound
 *
 * run_round() is the only place where boxes are processed in parallel.  It reads the outcomes of a
 * round from the store, or shares its boxes among the threads of all ranks and stores them; then it
 * merges the outcomes in the order of the boxes, so that the state does not depend on who computed
 * what. */
#include "search/search.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "search/state.h"

/* Choices: boxes of the first rounds, and boxes of a round in which a greedy chip is evaluated. */
enum { SMALLEST_ROUND = 8, GREEDY_BOXES_OF_ROUND = 4 };

/* The key of a known evaluation. */
struct step_key {
  uint64_t chip_id;
  uint32_t entry, effort;
};

/* Copies the known evaluation of a key to *out.  Returns false if there is none. */
static bool look_up_step(struct pz_search *search, const struct step_key *key,
                         struct pz_evaluation *out) {
  pthread_mutex_lock(&search->lock);
  uint32_t i = pz_map_get(&search->known_index, key, sizeof *key);
  if (i != PZ_NONE) *out = pz_vec_at(&search->known, struct pz_found_step, i)->evaluation;
  pthread_mutex_unlock(&search->lock);
  return i != PZ_NONE;
}

/* The arguments of insert_step(), which runs within a border. */
struct step_insertion {
  struct pz_search *search;
  const struct pz_found_step *step;
};

/* Inserts an evaluation, with a copy of its plan, unless it is known already. */
static void insert_step(struct pz_call *call, void *ctx) {
  const struct step_insertion *insertion = ctx;
  struct pz_search *search = insertion->search;
  struct pz_call in_search = pz_call_in(call, search->arena);
  struct pz_found_step step = *insertion->step;
  struct pz_plan_record *plan = &step.evaluation.plan;
  struct step_key key = {step.chip_id, step.entry, (uint32_t)step.evaluation.effort};
  if (pz_map_get(&search->known_index, &key, sizeof key) != PZ_NONE) return;
  plan->layers = plan->n_stages
                     ? pz_copy(&in_search, plan->layers, plan->n_stages, sizeof *plan->layers)
                     : NULL;
  pz_append(&in_search, &search->known, &step);
  pz_map_set(&in_search, &search->known_index, &key, sizeof key, search->known.n - 1);
}

/* Remembers an evaluation.  The border keeps an error from leaving the lock held. */
static void remember_step(struct pz_call *call, struct pz_search *search,
                          const struct pz_found_step *step) {
  struct step_insertion insertion = {search, step};
  struct pz_error error = {0};
  pthread_mutex_lock(&search->lock);
  enum pz_status status = pz_border(insert_step, &insertion, &error);
  pthread_mutex_unlock(&search->lock);
  if (status != PZ_OK) pz_raise_again(call, &error);
}

/* Copies the known evaluation with full effort, or else that with little effort, to *out. */
bool pz_search_known(struct pz_search *search, const struct pz_point *chip, uint32_t entry,
                     struct pz_evaluation *out) {
  uint64_t id = pz_space_id(search->question.space, chip);
  return look_up_step(search, &(struct step_key){id, entry, PZ_EFFORT_FULL}, out) ||
         look_up_step(search, &(struct step_key){id, entry, PZ_EFFORT_QUICK}, out);
}

/* Returns the evaluation of an entry on a chip, computed unless it is known. */
struct pz_evaluation pz_search_evaluate_chip(struct pz_call *call, struct pz_search *search,
                                             unsigned worker, const struct pz_point *chip,
                                             uint32_t entry_index, enum pz_effort effort) {
  const struct pz_space *space = search->question.space;
  const struct pz_search_entry *entry = &search->question.entries[entry_index];
  struct step_key key = {pz_space_id(space, chip), entry_index, (uint32_t)effort};
  struct pz_box box = pz_box_of(chip);
  struct pz_boxed boxed;
  struct pz_evaluation evaluation;
  if (look_up_step(search, &key, &evaluation)) return evaluation;
  pz_boxed_set(space, &box, &boxed);
  evaluation = entry->evaluator->ops->evaluate(call, entry->evaluator, worker, &boxed, entry->model,
                                               effort, HUGE_VAL);
  remember_step(call, search, &(struct pz_found_step){key.chip_id, entry_index, evaluation});
  return evaluation;
}

/* Compares two evaluations for qsort(): by chip, entry and effort. */
static int compare_steps(const void *a, const void *b) {
  const struct pz_found_step *first = a, *second = b;
  if (first->chip_id != second->chip_id) return first->chip_id < second->chip_id ? -1 : 1;
  if (first->entry != second->entry) return first->entry < second->entry ? -1 : 1;
  enum pz_effort effort = first->evaluation.effort, other = second->evaluation.effort;
  return (effort > other) - (effort < other);
}

/* Returns a sorted copy of the known evaluations, and sets *n to their number. */
struct pz_found_step *pz_search_list_known(struct pz_call *call, struct pz_search *search,
                                           uint32_t *n) {
  *n = search->known.n;
  struct pz_found_step *list = pz_copy(call, search->known.items, *n, sizeof *list);
  if (*n) qsort(list, *n, sizeof *list, compare_steps);
  return list;
}

struct pz_search *pz_search_create(struct pz_call *call, const struct pz_search_question *question,
                                   struct pz_pool *pool) {
  struct pz_call in_search;
  struct pz_search *search = pz_object_new(call, sizeof *search, &in_search);
  search->question = *question;
  search->pool = pool;
  search->arena = in_search.arena;
  pz_map_init(&search->known_index, search->arena);
  pz_vec_init(&search->known, search->arena, sizeof(struct pz_found_step));
  pthread_mutex_init(&search->lock, NULL);
  return pz_object_keep(call, search);
}

void pz_search_free(void *search) {
  if (search) pthread_mutex_destroy(&((struct pz_search *)search)->lock);
  pz_object_free(search);
}

const struct pz_search_question *pz_search_asked(const struct pz_search *search) {
  return &search->question;
}

/* Returns an upper bound on the value of every chip of a box, from the cheapest bounds. */
double pz_search_upper_bound(struct pz_call *call, struct pz_search *search, unsigned worker,
                             const struct pz_objective *objective, const struct pz_boxed *box,
                             struct pz_step_cost *steps) {
  struct pz_box_task task = {
      .question = &search->question, .objective = objective, .worker = worker};
  return pz_box_bound(call, &task, box, PZ_QUICK_BOUND, steps);
}

/* ---- state of an objective run -------------------------------------------------------------- */

/* Returns whether an open box is to be processed before another one: the one with the higher bound,
 * or of equal bounds the older one.  Chips that wait for full effort come last. */
static bool comes_first(const void *a, const void *b) {
  const struct pz_open_box *first = a, *second = b;
  if (first->effort != second->effort) return first->effort < second->effort;
  return first->bound != second->bound ? first->bound > second->bound
                                       : first->serial < second->serial;
}

/* Adds a box to the open boxes. */
static void push_open(struct pz_call *call, struct pz_driver *driver,
                      const struct pz_open_box *open) {
  struct pz_open_box box = *open;
  box.serial = driver->next_serial;
  driver->next_serial++;
  pz_heap_add(call, &driver->heap, comes_first, &box);
}

/* Returns whether a chip with this area and value would replace the best chip so far.  A tie goes
 * to the smaller chip if smaller_wins_ties is set, otherwise to the chip that was found first. */
static bool may_win(const struct pz_driver *driver, const struct pz_point *point, double mm2,
                    double value) {
  const struct pz_objective_run *run = driver->run;
  if (!run->found) return value > 0;
  if (value != run->value || !driver->smaller_wins_ties) return value > run->value;
  if (mm2 != driver->best_mm2) return mm2 < driver->best_mm2;
  return pz_point_order(driver->search->question.space, point, &run->best) < 0;
}

/* Adds a closed box to the certificate and to the counts of the run. */
static void add_closed(struct pz_call *call, struct pz_driver *driver,
                       const struct pz_closed_box *closed) {
  struct pz_objective_run *run = driver->run;
  int64_t n = pz_box_chips(&closed->box);
  if (closed->end != PZ_BOX_OPEN) run->closed += n;
  if (closed->end == PZ_BOX_INFEASIBLE) run->infeasible += n;
  if (closed->end == PZ_BOX_BOUND) run->by_bound += n;
  if (closed->end == PZ_BOX_EVALUATED) run->n_evaluated++;
  if (closed->end == PZ_BOX_PARTLY) run->n_partly++;
  if (closed->end != PZ_BOX_INFEASIBLE)
    driver->closed_bound = pz_fmax(driver->closed_bound, closed->bound);
  pz_append(call, &driver->closed, closed);
}

/* Reports the best chip, and the gap between its value and the highest bound of a box. */
static void show_progress(const struct pz_driver *driver) {
  const struct pz_search_question *question = &driver->search->question;
  const struct pz_objective_run *run = driver->run;
  char note[160] = "";
  double gap = HUGE_VAL;
  if (!question->progress) return;
  if (run->found) {
    struct pz_chip chip;
    pz_space_chip(question->space, &run->best, &chip);
    snprintf(note, sizeof note, "%u boxes open, best %.4g with %s", driver->heap.n, run->value,
             chip.name);
    double highest = run->value; /* the first open box has the highest bound */
    if (driver->heap.n) highest = pz_vec_at(&driver->heap, struct pz_open_box, 0)->bound;
    if (driver->heap.n || run->closed == run->chips)
      gap = pz_fmax(0, pz_fmax(highest, driver->closed_bound) / run->value - 1);
  }
  const double gap_and_target[] = {gap, driver->smaller_wins_ties ? 0 : question->gap};
  pz_progress_gap(question->progress, (uint64_t)run->closed, (uint64_t)run->chips, gap_and_target,
                  note);
}

/* ---- one chip ------------------------------------------------------------------------------- */

/* Steps of a chip, indexed by entry. */
struct chip_steps {
  struct pz_step_cost found[PZ_SEARCH_MOST_MODELS]; /* the evaluated steps */
  struct pz_step_cost least[PZ_SEARCH_MOST_MODELS]; /* lower bounds on the steps */
};

/* Evaluates one entry on a chip, and stores its step and lower bound in *steps.  Returns false if
 * the evaluation ended early because the chip cannot win. */
static bool evaluate_entry(struct pz_call *call, struct pz_driver *driver, unsigned worker,
                           const struct pz_boxed *chip, uint32_t entry_index, enum pz_effort effort,
                           struct chip_steps *steps, struct pz_outcome *outcome) {
  struct pz_search *search = driver->search;
  const struct pz_search_question *question = &search->question;
  const struct pz_objective_run *run = driver->run;
  const struct pz_search_entry *entry = &question->entries[entry_index];
  struct pz_point point = pz_box_point(&chip->box);
  struct step_key key = {pz_space_id(question->space, &point), entry_index, (uint32_t)effort};
  struct pz_evaluation found;
  if (!look_up_step(search, &key, &found)) {
    /* with a step above limit_s, the chip cannot reach the best value */
    bool is_limited = run->found && !question->exhaustive && effort == PZ_EFFORT_QUICK;
    double limit_s = HUGE_VAL;
    if (is_limited)
      limit_s = pz_objective_limit_s(&run->objective, steps->least, &chip->least, entry_index,
                                     run->value);
    found = entry->evaluator->ops->evaluate(call, entry->evaluator, worker, chip, entry->model,
                                            effort, limit_s);
    if (found.effort == PZ_EFFORT_NONE) { /* every plan is above the limit */
      steps->least[entry_index].step_s = pz_fmax(steps->least[entry_index].step_s, limit_s);
      return false;
    }
    struct pz_found_step step = {key.chip_id, entry_index, found};
    pz_append(call, &outcome->known, &step);
  }
  steps->found[entry_index] = (struct pz_step_cost){found.step_s, found.dynamic_j};
  steps->least[entry_index] = (struct pz_step_cost){found.least_s, found.dynamic_j};
  return true;
}

/* Evaluates the entries of the objective on a chip until it is clear that it cannot win, and
 * returns whether all were evaluated.  With full effort, entries with a gap are evaluated again. */
static bool evaluate_chip(struct pz_call *call, struct pz_driver *driver, unsigned worker,
                          const struct pz_boxed *chip, enum pz_effort effort,
                          struct chip_steps *steps, struct pz_outcome *outcome) {
  const struct pz_objective *objective = &driver->run->objective;
  struct pz_point point = pz_box_point(&chip->box);
  for (uint32_t i = 0; i < objective->n; i++) {
    uint32_t entry = objective->models[i];
    if (!evaluate_entry(call, driver, worker, chip, entry, PZ_EFFORT_QUICK, steps, outcome))
      return false;
    bool has_gap = steps->least[entry].step_s < steps->found[entry].step_s;
    if (effort == PZ_EFFORT_FULL && has_gap &&
        !evaluate_entry(call, driver, worker, chip, entry, PZ_EFFORT_FULL, steps, outcome))
      return false;
    bool is_last = i + 1 == objective->n;
    if (is_last || driver->search->question.exhaustive) continue;
    double bound = pz_objective_value(objective, steps->least, &chip->least);
    if (!may_win(driver, &point, chip->least.mm2, bound)) return false;
  }
  return objective->n > 0;
}

/* Evaluates a chip that may become the best.  It stays in its box, and no proof depends on this. */
static void try_chip(struct pz_call *call, struct pz_driver *driver, const struct pz_box_task *task,
                     const struct pz_point *point, struct pz_outcome *outcome) {
  struct pz_box box = pz_box_of(point);
  struct pz_boxed chip;
  struct chip_steps steps;
  pz_boxed_set(driver->search->question.space, &box, &chip);
  /* The smallest chip of a feasible box may still violate the limit of its die edge. */
  if (pz_boxed_breaks(&chip, &task->question->limits)) return;
  double bound = pz_box_bound(call, task, &chip, PZ_QUICK_BOUND, steps.least);
  if (!may_win(driver, point, chip.least.mm2, bound)) return;
  if (!evaluate_chip(call, driver, task->worker, &chip, PZ_EFFORT_QUICK, &steps, outcome)) return;
  outcome->candidate = box;
  outcome->value = pz_objective_value(&driver->run->objective, steps.found, &chip.least);
}

/* Evaluates a box of one chip, whose lower bounds on steps are in steps->least, and closes it.  If
 * its bound is still above its value, it is opened again, to be evaluated with full effort. */
static void decide_chip(struct pz_call *call, struct pz_driver *driver,
                        const struct pz_box_task *task, const struct pz_open_box *open,
                        const struct pz_boxed *chip, struct chip_steps *steps,
                        struct pz_outcome *outcome) {
  const struct pz_objective *objective = &driver->run->objective;
  bool is_complete = evaluate_chip(call, driver, task->worker, chip, open->effort, steps, outcome);
  double bound = pz_fmin(pz_objective_value(objective, steps->least, &chip->least), open->bound);
  if (!is_complete) {
    pz_append(call, task->closed, &(struct pz_closed_box){open->box, PZ_BOX_PARTLY, bound, 0});
    return;
  }
  double value = pz_objective_value(objective, steps->found, &chip->least);
  outcome->value = value;
  outcome->candidate = open->box;
  if (bound <= value || open->effort == PZ_EFFORT_FULL) {
    pz_append(call, task->closed,
              &(struct pz_closed_box){open->box, PZ_BOX_EVALUATED, bound, value});
  } else {
    struct pz_open_box reopened = {
        .box = open->box, .bound = bound, .value = value, .effort = PZ_EFFORT_FULL};
    pz_append(call, &outcome->children, &reopened);
  }
}

/* ---- one box -------------------------------------------------------------------------------- */

/* Processes an open box: closes it, evaluates it if it is a single chip, or splits it in two.  A
 * box that waits for full effort is a chip that was evaluated with little effort before. */
static void process_box(struct pz_call *call, struct pz_driver *driver,
                        const struct pz_box_task *task, size_t i, struct pz_outcome *outcome) {
  struct pz_open_box open = driver->round[i];
  bool was_evaluated = open.effort == PZ_EFFORT_FULL;
  struct pz_boxed boxed;
  struct chip_steps steps;
  if (open.bound <= task->cutoff) {
    enum pz_box_end end = was_evaluated ? PZ_BOX_EVALUATED : PZ_BOX_BOUND;
    pz_append(call, task->closed, &(struct pz_closed_box){open.box, end, open.bound, open.value});
    return;
  }
  if (!was_evaluated && !pz_box_tighten(call, task, &open.box)) return; /* nothing remains */
  pz_boxed_set(driver->search->question.space, &open.box, &boxed);
  double bound = pz_box_bound(call, task, &boxed, PZ_TIGHT_BOUND, steps.least);
  outcome->priced = true;
  open.bound = pz_fmin(bound, open.bound);
  if (open.bound <= task->cutoff && !was_evaluated) {
    pz_append(call, task->closed, &(struct pz_closed_box){open.box, PZ_BOX_BOUND, open.bound, 0});
    return;
  }
  if (pz_box_is_chip(&open.box)) {
    decide_chip(call, driver, task, &open, &boxed, &steps, outcome);
    return;
  }
  struct pz_open_box low = {.box = open.box, .bound = open.bound, .effort = PZ_EFFORT_QUICK};
  struct pz_open_box high = low;
  struct pz_box_split split = pz_box_choose_split(call, task, &open.box);
  low.box.hi[split.axis] = split.index;
  high.box.lo[split.axis] = (uint8_t)(split.index + 1);
  pz_append(call, &outcome->children, &low);
  pz_append(call, &outcome->children, &high);
  if (open.tries_greedy_chip) {
    struct pz_point greedy = pz_box_greedy(call, task, &open.box);
    try_chip(call, driver, task, &greedy, outcome);
  }
}

/* Evaluates a promising chip of a box, unless its smallest chip violates a limit: its only chip, or
 * if it contains all chips of a kind, the one that pz_box_greedy() finds. */
static void try_good_chip(struct pz_call *call, struct pz_driver *driver,
                          const struct pz_box_task *task, size_t i, struct pz_outcome *outcome) {
  const struct pz_box *box = &driver->round[i].box;
  struct pz_point point = pz_box_point(box);
  struct pz_box smallest = pz_box_of(&point);
  struct pz_boxed chip;
  pz_boxed_set(driver->search->question.space, &smallest, &chip);
  if (pz_boxed_breaks(&chip, &task->question->limits)) return;
  if (!pz_box_is_chip(box)) point = pz_box_greedy(call, task, box);
  try_chip(call, driver, task, &point, outcome);
}

/* Returns the task of processing a box, for the functions of search/tighten.h.  Its cutoff is the
 * value that a chip must exceed to be of interest: the best value raised by the gap.  If a smaller
 * chip of equal value wins, the cutoff is just below the best value instead. */
static struct pz_box_task box_task_of(struct pz_driver *driver, unsigned worker,
                                      struct pz_vec *closed) {
  const struct pz_search_question *question = &driver->search->question;
  double cutoff = driver->run->value * (1 + question->gap);
  if (driver->smaller_wins_ties) cutoff = nextafter(driver->run->value, 0);
  if (!driver->run->found) cutoff = DBL_MIN;
  if (question->exhaustive) cutoff = 0;
  return (struct pz_box_task){.question = question,
                              .objective = &driver->run->objective,
                              .worker = worker,
                              .has_cheap_bounds = driver->has_cheap_bounds,
                              .cutoff = cutoff,
                              .closed = closed};
}

/* Processes box i of the round in a thread of the pool. */
static void run_round_task(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct pz_driver *driver = ctx;
  struct pz_outcome *outcome = &driver->outcomes[i];
  struct pz_box_task task = box_task_of(driver, worker, &outcome->boxes);
  driver->round_fn(call, driver, &task, i, outcome);
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* A box of a round with its index there, for sorting. */
struct ordered_box {
  const struct pz_box *box;
  uint32_t index;
};

/* Compares two boxes for qsort(): by kind, then by lowest indices, then by index in the round. */
static int compare_boxes(const void *a, const void *b) {
  const struct ordered_box *first = a, *second = b;
  if (first->box->kind != second->box->kind) return first->box->kind < second->box->kind ? -1 : 1;
  int by_lo = memcmp(first->box->lo, second->box->lo, sizeof first->box->lo);
  if (by_lo) return by_lo;
  return first->index < second->index ? -1 : 1;
}

/* Reads the bytes of a round from the store, if this rank has one. */
static void read_stored_round(struct pz_call *call, void *ctx) {
  struct pz_driver *driver = ctx;
  const struct pz_round_store *store = driver->search->question.store;
  if (store) store->read(call, store->ctx, driver->number, driver->at_round, driver->stored_round);
}

/* Reads the outcomes of a round.  Raises PZ_BAD_INPUT if they cannot be those of its boxes. */
static void unpack_stored_round(struct pz_call *call, void *ctx) {
  struct pz_driver *driver = ctx;
  struct pz_bytes input = {driver->stored_round->text, driver->stored_round->bytes};
  bool covers_box = driver->round_fn == process_box; /* try_good_chip() closes and splits nothing */
  for (uint32_t i = 0; i < driver->n_round; i++) {
    pz_outcome_unpack(call, driver, i, &input);
    if (!pz_outcome_is_of(&driver->outcomes[i], &driver->round[i].box, covers_box))
      pz_raise(call, PZ_BAD_INPUT, "an outcome of another box");
  }
  if (input.left) pz_raise(call, PZ_BAD_INPUT, "bytes behind the last outcome");
}

/* Reads the outcomes of the round from the store, or returns false if it does not have them.  Only
 * rank 0 has a store: it sends its bytes or its error to the others, so that all do the same. */
static bool replay_round(struct pz_call *call, struct pz_driver *driver) {
  struct pz_error error = {0};
  driver->stored_round = pz_buffer_new(call);
  pz_ranks_run_first(call, read_stored_round, driver, driver->stored_round);
  bool is_stored = driver->stored_round->text != NULL;
  if (is_stored) {
    for (uint32_t i = 0; i < driver->n_round; i++) pz_outcome_init(&driver->outcomes[i]);
    enum pz_status status = pz_border(unpack_stored_round, driver, &error);
    if (status == PZ_BAD_INPUT)
      pz_raise(call, PZ_BAD_INPUT, "round %u of objective run %u is not of this search",
               driver->at_round, driver->number);
    if (status != PZ_OK) pz_raise_again(call, &error);
  }
  pz_close(call, driver->stored_round);
  return is_stored;
}

/* Processes the boxes of a round on the threads of all ranks, and stores their outcomes.  Similar
 * boxes are given to the same rank, which maps the GEMMs that they have in common only once.
 * Returns false if the time of the run ended during the round, which then counts as not begun.  (A
 * search that is cancelled ends in pz_round_run() instead.) */
static bool compute_round(struct pz_call *call, struct pz_driver *driver) {
  const struct pz_round_store *store = driver->search->question.store;
  struct ordered_box list[PZ_MOST_ROUND];
  uint32_t order[PZ_MOST_ROUND];
  for (uint32_t i = 0; i < driver->n_round; i++)
    list[i] = (struct ordered_box){&driver->round[i].box, i};
  qsort(list, driver->n_round, sizeof *list, compare_boxes);
  for (uint32_t i = 0; i < driver->n_round; i++) {
    order[i] = list[i].index;
    pz_outcome_init(&driver->outcomes[i]);
    driver->errors[i].status = PZ_OK;
  }
  struct pz_round round = {.ctx = driver,
                           .n = driver->n_round,
                           .work = run_round_task,
                           .pack = pz_outcome_pack,
                           .unpack = pz_outcome_unpack,
                           .stop = driver->search->question.stop,
                           .order = order};
  pz_round_run(call, driver->search->pool, &round, driver->errors);
  for (uint32_t i = 0; i < driver->n_round; i++) {
    const struct pz_error *error = &driver->errors[i];
    if (error->status == PZ_OK) continue;
    if (error->status != PZ_STOPPED) pz_raise_again(call, error);
    driver->out_of_time = true;
    return false;
  }
  if (store) { /* only rank 0 has a store */
    struct pz_buffer *bytes = pz_buffer_new(call);
    for (uint32_t i = 0; i < driver->n_round; i++) pz_outcome_pack(call, driver, i, bytes);
    store->write(call, store->ctx, driver->number, driver->at_round, bytes);
    pz_close(call, bytes);
  }
  return true;
}

/* Adds an outcome to the state of the run. */
static void merge_outcome(struct pz_call *call, struct pz_driver *driver,
                          const struct pz_outcome *outcome) {
  for (uint32_t k = 0; k < outcome->known.n; k++)
    remember_step(call, driver->search, pz_vec_at(&outcome->known, struct pz_found_step, k));
  for (uint32_t k = 0; k < outcome->boxes.n; k++)
    add_closed(call, driver, pz_vec_at(&outcome->boxes, struct pz_closed_box, k));
  for (uint32_t k = 0; k < outcome->children.n; k++)
    push_open(call, driver, pz_vec_at(&outcome->children, struct pz_open_box, k));
  driver->run->priced += outcome->priced;
  if (!(outcome->value > 0)) return;
  struct pz_point point = pz_box_point(&outcome->candidate);
  struct pz_chip chip;
  pz_space_chip(driver->search->question.space, &point, &chip);
  double mm2 = pz_chip_taken(&chip).mm2;
  if (!may_win(driver, &point, mm2, outcome->value)) return;
  driver->run->found = true;
  driver->run->best = point;
  driver->run->value = outcome->value;
  driver->best_mm2 = mm2;
}

/* Runs one round: fn processes every box of driver->round in some thread, with the best chip of the
 * rounds before.  If the time is over first, the boxes become open again. */
static void run_round(struct pz_call *call, struct pz_driver *driver, pz_round_fn *fn) {
  driver->round_fn = fn;
  driver->replays = driver->replays && replay_round(call, driver);
  bool is_done = driver->replays || compute_round(call, driver);
  for (uint32_t i = 0; i < driver->n_round; i++) {
    if (is_done)
      merge_outcome(call, driver, &driver->outcomes[i]);
    else if (fn == process_box) /* only its boxes were taken from the open ones */
      push_open(call, driver, &driver->round[i]);
    pz_arena_release(&driver->outcomes[i].arena);
  }
  if (is_done) driver->at_round++;
}

/* ---- good chips early ----------------------------------------------------------------------- */

/* Evaluates a chip of each kind (technology, array and HBM) that pz_box_greedy() finds.  The first
 * rounds are small, so that a good value is known early. */
static void try_greedy_chips(struct pz_call *call, struct pz_driver *driver) {
  const struct pz_space *space = driver->search->question.space;
  uint32_t kinds = pz_space_kinds(space), size = SMALLEST_ROUND;
  for (uint32_t k = 0; k < kinds && !driver->out_of_time; k += driver->n_round) {
    driver->n_round = (uint32_t)pz_min(size, kinds - k);
    for (uint32_t i = 0; i < driver->n_round; i++) driver->round[i].box = pz_box_all(space, k + i);
    run_round(call, driver, try_good_chip);
    size = (uint32_t)pz_min(2 * size, PZ_MOST_ROUND);
  }
}

/* Sets *box to a neighbour of the best chip: one step higher on the axis `up` and one step lower on
 * the axis `down`, either of which may be none (PZ_AXES).  Returns false if that is not a chip of
 * the space within the limits. */
static bool make_neighbour(const struct pz_driver *driver, int up, int down, struct pz_box *box) {
  const struct pz_search_question *question = &driver->search->question;
  struct pz_boxed boxed;
  *box = pz_box_of(&driver->run->best);
  if (up == down) return false;
  if (up < PZ_AXES) {
    if (box->lo[up] + 1 >= question->space->n[up]) return false;
    box->lo[up]++;
  }
  if (down < PZ_AXES) {
    if (box->lo[down] == 0) return false;
    box->lo[down]--;
  }
  memcpy(box->hi, box->lo, sizeof box->hi);
  pz_boxed_set(question->space, box, &boxed);
  return !pz_boxed_breaks(&boxed, &question->limits);
}

/* Improves the best chip by local search over its neighbours, one step higher on an axis, one step
 * lower on another, or both, while the value rises by a tenth of the gap or 0.5%, whichever is
 * less. */
static void climb(struct pz_call *call, struct pz_driver *driver) {
  static const double PART_OF_GAP = 0.1, MOST_RISE = 0.005;
  const struct pz_objective_run *run = driver->run;
  struct pz_box list[(PZ_AXES + 1) * (PZ_AXES + 1)];
  double value_before = -1;
  double least_rise = 1 + pz_fmin(PART_OF_GAP * driver->search->question.gap, MOST_RISE);
  while (!driver->out_of_time && run->found && run->value > value_before * least_rise) {
    uint32_t n = 0;
    value_before = run->value;
    for (int up = 0; up <= PZ_AXES; up++)
      for (int down = 0; down <= PZ_AXES; down++)
        if (make_neighbour(driver, up, down, &list[n])) n++;
    for (uint32_t i = 0; i < n && !driver->out_of_time; i += driver->n_round) {
      driver->n_round = (uint32_t)pz_min(PZ_MOST_ROUND, n - i);
      for (uint32_t k = 0; k < driver->n_round; k++) driver->round[k].box = list[i + k];
      run_round(call, driver, try_good_chip);
    }
    show_progress(driver);
  }
}

/* ---- branch and bound ------------------------------------------------------------------------ */

/* Sets the deadline of the evaluators to the end of the run, or clears it.  While it is set, they
 * stop in the middle of a round when the time is over. */
static void set_deadline(struct pz_driver *driver, bool is_set) {
  const struct pz_search_question *question = &driver->search->question;
  if (question->ending && question->seconds > 0)
    question->ending->end_s = is_set ? driver->start_s + question->seconds : 0;
}

/* Processes open boxes in rounds, highest bounds first, until none is left or a limit of rounds or
 * seconds is reached.  Rounds are small until a chip is known. */
static void branch(struct pz_call *call, struct pz_driver *driver) {
  uint32_t size = driver->has_cheap_bounds ? PZ_MOST_ROUND : SMALLEST_ROUND;
  double most_s = driver->search->question.seconds;
  uint64_t most_rounds =
      driver->run->most_rounds > 0 ? (uint64_t)driver->run->most_rounds : UINT64_MAX;
  while (driver->heap.n && !driver->out_of_time && driver->run->rounds < most_rounds) {
    /* the clock of rank 0 decides for all ranks */
    bool has_time = pz_clock_s() - driver->start_s <= most_s;
    if (most_s > 0 && !pz_ranks_flag_of_first(call, has_time)) break;
    double value_before = driver->run->value;
    for (driver->n_round = 0; driver->heap.n && driver->n_round < size; driver->n_round++) {
      struct pz_open_box *open = &driver->round[driver->n_round];
      pz_heap_pop(&driver->heap, comes_first, open);
      open->tries_greedy_chip = driver->has_cheap_bounds && driver->n_round < GREEDY_BOXES_OF_ROUND;
    }
    run_round(call, driver, process_box);
    if (driver->out_of_time) break;
    driver->run->rounds++;
    if (driver->run->found) size = (uint32_t)pz_min(2 * size, PZ_MOST_ROUND);
    if (driver->has_cheap_bounds && driver->run->value > value_before) climb(call, driver);
    show_progress(driver);
  }
}

/* Raises the error of a run that has found no chip: because it ended early, because every chip
 * violates a limit, or because no chip runs the models. */
static _Noreturn void raise_no_chip(struct pz_call *call, const struct pz_driver *driver) {
  const struct pz_search_question *question = &driver->search->question;
  const struct pz_objective_run *run = driver->run;
  const struct pz_objective *objective = &run->objective;
  const char *name =
      objective->n == 1 ? question->entries[objective->models[0]].name : "every model";
  if (!run->finished)
    pz_raise(call, PZ_NO_ANSWER,
             "no chip that runs %s was found in %" PRIu64
             " round%s; accepted: more --rounds or --seconds",
             name, run->rounds, pz_text_s((double)run->rounds));
  struct pz_excess excess = {{0}, {0}};
  int64_t n_within = run->chips;
  for (uint32_t i = 0; i < driver->closed.n; i++) {
    const struct pz_box *box = &pz_vec_at(&driver->closed, struct pz_closed_box, i)->box;
    struct pz_boxed boxed;
    pz_boxed_set(question->space, box, &boxed);
    if (!pz_boxed_breaks(&boxed, &question->limits)) continue;
    pz_excess_add(&excess, &question->limits, &boxed.least, &boxed.most);
    n_within -= pz_box_chips(box);
  }
  if (n_within == 0) pz_search_raise_nothing_fits(call, question->space, &excess);
  pz_raise(call, PZ_NO_ANSWER,
           "no chip of the space %s within its limits runs %s; 'phaze place MODEL --chip CHIP' "
           "says what a chip lacks",
           question->space->name, name);
}

/* Adds the boxes that are still open to the certificate, and computes the bound of the run, which
 * no chip exceeds, and the number of schedules without proof on chips that may exceed the best
 * value. */
static void conclude(struct pz_call *call, struct pz_driver *driver) {
  struct pz_objective_run *run = driver->run;
  const struct pz_objective *objective = &run->objective;
  run->finished = driver->heap.n == 0 && !driver->out_of_time;
  while (driver->heap.n) {
    struct pz_open_box open;
    pz_heap_pop(&driver->heap, comes_first, &open);
    enum pz_box_end end = open.effort == PZ_EFFORT_FULL ? PZ_BOX_EVALUATED : PZ_BOX_OPEN;
    add_closed(call, driver, &(struct pz_closed_box){open.box, end, open.bound, open.value});
  }
  if (!run->found) raise_no_chip(call, driver);
  run->boxes = driver->closed.items;
  run->n_boxes = driver->closed.n;
  run->bound = run->value;
  for (uint32_t i = 0; i < run->n_boxes; i++) {
    const struct pz_closed_box *closed = &run->boxes[i];
    if (closed->end == PZ_BOX_INFEASIBLE || !(closed->bound > run->value)) continue;
    run->bound = pz_fmax(run->bound, closed->bound);
    if (closed->end != PZ_BOX_EVALUATED) continue;
    struct pz_point point = pz_box_point(&closed->box);
    struct pz_evaluation evaluation;
    for (uint32_t k = 0; k < objective->n; k++)
      if (pz_search_known(driver->search, &point, objective->models[k], &evaluation))
        run->n_open += evaluation.n_open;
  }
}

/* ---- an objective run ----------------------------------------------------------------------- */

/* Raises PZ_BAD_USE if a technology of the space lacks prices that objective or limits need. */
static void check_objective(struct pz_call *call, const struct pz_driver *driver) {
  const struct pz_space *space = driver->search->question.space;
  enum pz_objective_kind kind = driver->run->objective.kind;
  bool needs_bill = pz_objective_needs_bill(kind);
  bool limits_dollars = driver->search->question.limits.dollars > 0;
  for (int i = 0; i < space->n_nodes; i++) {
    const struct pz_tech_info *tech = pz_tech_at(space->node[i]);
    if ((needs_bill || limits_dollars) && pz_tech_is_library(tech))
      pz_raise(call, PZ_BAD_USE,
               "--%s%s: the space %s has chips of %s, whose library has no %s; accepted: chips "
               "of 16 nm or below",
               needs_bill ? "objective " : "limit-dollars",
               needs_bill ? pz_objective_names[kind] : "", space->name, tech->name,
               needs_bill ? "bill of HBM, links and static power" : "prices");
  }
}

/* Clears the deadline, ends the progress bar and frees the outcomes of a run; a pz_close_fn. */
static void end_objective_run(void *ctx) {
  struct pz_driver *driver = ctx;
  set_deadline(driver, false);
  pz_progress_finish(driver->search->question.progress, NULL);
  for (uint32_t i = 0; i < PZ_MOST_ROUND; i++) pz_arena_release(&driver->outcomes[i].arena);
}

/* Runs the search for the best chip by one objective; the head of this file lists its steps. */
void pz_search_optimize(struct pz_call *call, struct pz_search *search, uint32_t number,
                        struct pz_objective_run *run) {
  const struct pz_search_question *question = &search->question;
  const struct pz_objective *objective = &run->objective;
  struct pz_call work = pz_scratch(call);
  struct pz_driver *driver = pz_alloc(&work, 1, sizeof *driver);
  bool has_cheap_bounds = true;
  for (uint32_t i = 0; i < objective->n; i++)
    if (!question->entries[objective->models[i]].evaluator->ops->has_cheap_bounds)
      has_cheap_bounds = false;
  *run = (struct pz_objective_run){.objective = run->objective,
                                   .most_rounds = run->most_rounds,
                                   .chips = pz_space_chips(question->space)};
  driver->search = search;
  driver->run = run;
  driver->number = number;
  driver->replays = true;
  driver->has_cheap_bounds = !question->exhaustive && has_cheap_bounds;
  driver->smaller_wins_ties = !has_cheap_bounds;
  driver->start_s = pz_clock_s();
  pz_vec_init(&driver->heap, work.arena, sizeof(struct pz_open_box));
  pz_vec_init(&driver->closed, search->arena, sizeof(struct pz_closed_box));
  pz_progress_next(question->progress,
                   objective->n == 1 ? question->entries[objective->models[0]].name : "all models",
                   "chips", (uint64_t)run->chips);
  pz_defer(call, end_objective_run, driver);
  show_progress(driver);
  set_deadline(driver, true);
  check_objective(call, driver);
  if (driver->has_cheap_bounds) {
    try_greedy_chips(call, driver);
    climb(call, driver);
  }
  /* Add an open box for each kind of chips, with all chips of the kind.  The evaluators have no
   * deadline here, because the bounds of these boxes give the gap of the best chip. */
  set_deadline(driver, false);
  struct pz_box_task task = box_task_of(driver, 0, NULL);
  for (uint32_t k = 0; k < pz_space_kinds(question->space); k++) {
    struct pz_open_box root = {.box = pz_box_all(question->space, k), .effort = PZ_EFFORT_QUICK};
    if (driver->out_of_time && !run->found) break; /* without a best chip there is no gap */
    root.bound = pz_box_quick_bound(call, &task, &root.box);
    push_open(call, driver, &root);
  }
  set_deadline(driver, !driver->out_of_time);
  branch(call, driver);
  set_deadline(driver, false);
  show_progress(driver);
  pz_close(call, driver);
  conclude(call, driver);
  pz_scratch_end(&work);
}

/* The arguments of run_unless_stopped(). */
struct stoppable_tasks {
  const struct pz_search *search;
  const struct pz_search_tasks *tasks;
};

/* Runs a task, unless the search is stopped. */
static void run_unless_stopped(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  const struct stoppable_tasks *stoppable = ctx;
  const atomic_bool *stop = stoppable->search->question.stop;
  if (stop && atomic_load(stop)) pz_raise(call, PZ_STOPPED, "stopped");
  stoppable->tasks->fn(call, stoppable->tasks->ctx, i, worker);
}

/* Runs tasks on the threads of this rank, or with tasks->pack on those of all ranks. */
void pz_search_run_tasks(struct pz_call *call, struct pz_search *search, size_t n,
                         const struct pz_search_tasks *tasks) {
  if (!tasks->pack) {
    struct stoppable_tasks stoppable = {search, tasks};
    pz_pool_run(call, search->pool, n, run_unless_stopped, &stoppable);
    return;
  }
  struct pz_call work = pz_scratch(call);
  struct pz_error *errors = pz_alloc(&work, n, sizeof *errors);
  struct pz_round round = {.ctx = tasks->ctx,
                           .n = n,
                           .work = tasks->fn,
                           .pack = tasks->pack,
                           .unpack = tasks->unpack,
                           .stop = search->question.stop};
  pz_round_run(call, tasks->wide ? NULL : search->pool, &round, errors);
  for (size_t i = 0; i < n; i++)
    if (errors[i].status != PZ_OK) pz_raise_again(call, &errors[i]);
  pz_scratch_end(&work);
}
