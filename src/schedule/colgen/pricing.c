/* Finds feasible subsets of largest value (the pricing problem, pricing.h) by branch and bound.  A choice is a task in a
 * mode; its rate is the mode's dual value per time; the value of a subset is the sum of the rates of its choices.
 *
 * pz_pricing_init() finds what does not depend on rates: which tasks are incompatible, and a cover of the tasks by chains
 * of the precedence relation, of which a subset has at most one task each.  pz_pricing_begin() sorts the choices by their
 * rates and computes Lagrangian multipliers.  pz_pricing_solve() extends subsets by choices in this order (extend_subset),
 * bounds the value that can be added (bound_extensions), and skips dominated choices (is_replaceable). */
#include "schedule/colgen/pricing.h"

#include <stdlib.h>
#include <string.h>

/* Tuned: multipliers change by steps of 1/FIRST_STEP, which are halved down to 1/LAST_STEP. */
enum { FIRST_STEP = 4, LAST_STEP = 32 };
/* Tuned: part p > 0 begins at the first choice of at most this rate / 2^p.  Modes that use most of a
 * resource have rates near 1, and are therefore before part 1. */
static const double WIDE_RATE = 1.4;

/* ---- data that do not depend on rates -------------------------------------------------------- */

/* Finds incompatible tasks, and covers all tasks by chains: repeatedly the longest path through tasks
 * that are in no chain yet, and finally each task that is left by itself. */
static void find_chains(struct pz_call *call, struct pz_pricing *pricing) {
  uint32_t n = pricing->problem->n, *chain = pricing->chain;
  struct pz_bits *incompatible = pricing->incompatible; /* at first only the predecessors */
  struct pz_bits *successors = pz_alloc(call, n, sizeof *successors);
  uint32_t *length = pz_alloc(call, n, sizeof *length);     /* of the longest path to the task */
  uint32_t *previous = pz_alloc(call, n, sizeof *previous); /* the task before it on that path */
  pz_bits_order(pricing->problem, incompatible, successors);
  for (uint32_t i = 0; i < n; i++) chain[i] = PZ_NONE;
  /* find the longest path through tasks without a chain, until it has a single task */
  for (bool again = n > 0; again;) {
    uint32_t last = PZ_NONE; /* last task of the longest path */
    for (uint32_t i = 0; i < n; i++) {
      if (chain[i] != PZ_NONE) continue;
      length[i] = 1;
      previous[i] = PZ_NONE;
      for (uint32_t k = 0; k < i; k++) {
        bool may_precede = chain[k] == PZ_NONE && pz_bits_has(&incompatible[i], k);
        if (!may_precede || length[k] < length[i]) continue;
        length[i] = length[k] + 1;
        previous[i] = k;
      }
      if (last == PZ_NONE || length[i] > length[last]) last = i;
    }
    again = last != PZ_NONE && length[last] > 1;
    for (uint32_t i = last; i != PZ_NONE; i = previous[i]) chain[i] = pricing->n_chains;
    pricing->n_chains += last != PZ_NONE;
  }
  for (uint32_t i = 0; i < n; i++) {
    if (chain[i] == PZ_NONE) chain[i] = pricing->n_chains++;
    pz_bits_merge(&incompatible[i], &successors[i]);
    pz_bits_set(&incompatible[i], i);
  }
}

/* Allocates the pricing problem and sets everything that does not depend on rates. */
void pz_pricing_init(struct pz_call *call, struct pz_pricing *pricing,
                     const struct pz_context *context) {
  const struct pz_problem *problem = context->problem;
  uint32_t n = problem->n, n_modes = context->n_modes;
  *pricing = (struct pz_pricing){
      .problem = problem, .techniques = context->techniques, .first_mode = context->first_mode};
  pricing->rate = pz_alloc(call, n_modes, sizeof *pricing->rate);
  pricing->incompatible = pz_alloc(call, n, sizeof *pricing->incompatible);
  pricing->interchangeable = pz_alloc(call, n, sizeof *pricing->interchangeable);
  pricing->preferred = pz_alloc(call, n, sizeof *pricing->preferred);
  pricing->chain = pz_alloc(call, n, sizeof *pricing->chain);
  pricing->best_value = pz_alloc(call, n, sizeof *pricing->best_value);
  pricing->choices = pz_alloc(call, n_modes, sizeof *pricing->choices);
  pricing->most_rate = pz_alloc(call, n, sizeof *pricing->most_rate);
  pricing->most_reduced = pz_alloc(call, n, sizeof *pricing->most_reduced);
  find_chains(call, pricing);
  size_t n_extensions = (size_t)(pricing->n_chains + 1) * n_modes;
  pricing->extensions = pz_alloc(call, n_extensions, sizeof *pricing->extensions);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++)
      if (i != k && pz_same_modes(&problem->tasks[i], &problem->tasks[k]))
        pz_bits_set(&pricing->interchangeable[i], k);
  for (int r = 0; r < PZ_RESOURCES; r++) {
    pricing->unit[r] = problem->capacity[r] ? 1.0 / problem->capacity[r] : 0;
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t m = 0; m < problem->tasks[i].n_modes; m++)
        pricing->used[r] = pricing->used[r] || problem->tasks[i].modes[m].use[r] > 0;
  }
}

/* ---- resource multipliers -------------------------------------------------------------------- */

/* Returns the rate of a choice minus the multipliers times the fractions of resources it uses. */
static double reduced_rate(const struct pz_pricing *pricing, const struct pz_choice *choice,
                           const double multiplier[PZ_RESOURCES]) {
  double reduced = choice->rate;
  for (int r = 0; r < PZ_RESOURCES; r++)
    reduced -= multiplier[r] * pricing->unit[r] * choice->chosen_mode.use[r];
  return reduced;
}

/* Returns the Lagrangian bound on the value of a subset of the choices from `first` on: the sum of
 * the multipliers, plus the largest reduced rate of each chain. */
static double lagrangian_bound(struct pz_pricing *pricing, uint32_t first,
                               const double multiplier[PZ_RESOURCES]) {
  double sum = 0;
  memset(pricing->most_rate, 0, pricing->n_chains * sizeof *pricing->most_rate);
  for (uint32_t k = first; k < pricing->n_choices; k++) {
    double reduced = reduced_rate(pricing, &pricing->choices[k], multiplier);
    double *most = &pricing->most_rate[pricing->choices[k].chain];
    if (reduced <= *most) continue;
    sum += reduced - *most;
    *most = reduced;
  }
  for (int r = 0; r < PZ_RESOURCES; r++) sum += multiplier[r];
  return sum;
}

/* Chooses multipliers with a low Lagrangian bound for the choices from the beginning of a part on.
 * Coordinate descent by decreasing steps starts from the better of the last multipliers of this part
 * and those of the part before. */
static void choose_multipliers(struct pz_pricing *pricing, int part) {
  double *multiplier = pricing->multiplier[part];
  uint32_t first = pricing->part[part];
  double least = lagrangian_bound(pricing, first, multiplier);
  if (part > 0) {
    double other = lagrangian_bound(pricing, first, pricing->multiplier[part - 1]);
    if (other < least)
      memcpy(multiplier, pricing->multiplier[part - 1], sizeof pricing->multiplier[part]);
    least = pz_fmin(least, other);
  }
  for (int64_t divisor = FIRST_STEP; divisor <= LAST_STEP; divisor *= 2)
    for (int r = 0; r < PZ_RESOURCES; r++)
      for (int direction = -1; direction <= 1 && pricing->used[r]; direction += 2) {
        double before = multiplier[r];
        multiplier[r] = pz_fmax(0, before + direction * (1.0 / (double)divisor));
        double bound = lagrangian_bound(pricing, first, multiplier);
        if (bound < least)
          least = bound;
        else
          multiplier[r] = before;
      }
  for (uint32_t k = first; k < pricing->n_choices; k++)
    pricing->choices[k].reduced[part] = reduced_rate(pricing, &pricing->choices[k], multiplier);
}

/* ---- choices of the current rates ------------------------------------------------------------ */

/* Returns whether task b is preferred to task a, which has the same modes: in every mode b has a
 * higher rate (or the same, and a lower index), and its advantage does not shrink where a's rate is
 * higher.  Then exchanging the two does not lower the value of a subset that has a without b, or b
 * in a mode of lower rate than a. */
static bool is_preferred(const struct pz_pricing *pricing, uint32_t b, uint32_t a) {
  const double *rate_a = &pricing->rate[pricing->first_mode[a]];
  const double *rate_b = &pricing->rate[pricing->first_mode[b]];
  uint32_t n = pricing->problem->tasks[a].n_modes;
  for (uint32_t m = 0; m < n; m++) {
    if (rate_b[m] < rate_a[m] || (rate_b[m] <= rate_a[m] && b > a)) return false;
    for (uint32_t k = 0; k < n; k++)
      if (rate_a[m] > rate_a[k] && rate_b[m] - rate_a[m] < rate_b[k] - rate_a[k] - 1e-14)
        return false;
  }
  return true;
}

/* Compares two choices for qsort(): the higher rate first, then the lower task and mode. */
static int compare_choices(const void *left, const void *right) {
  const struct pz_choice *first = left, *second = right;
  if (first->rate > second->rate) return -1;
  if (first->rate < second->rate) return 1;
  if (first->task != second->task) return first->task < second->task ? -1 : 1;
  return (int)first->mode - (int)second->mode;
}

/* Sorts the choices by rate, finds preferred tasks, and chooses multipliers for each part. */
void pz_pricing_begin(struct pz_pricing *pricing) {
  const struct pz_problem *problem = pricing->problem;
  pricing->n_choices = 0;
  pricing->priced = (struct pz_bits){{0}};
  for (uint32_t i = 0; i < problem->n; i++) {
    for (uint32_t m = 0; m < problem->tasks[i].n_modes; m++) {
      double rate = pricing->rate[pricing->first_mode[i] + m];
      if (rate <= 0) continue;
      struct pz_choice *choice = &pricing->choices[pricing->n_choices++];
      *choice = (struct pz_choice){.rate = rate, .task = i, .mode = m, .chain = pricing->chain[i]};
      choice->chosen_mode = problem->tasks[i].modes[m];
      pz_bits_set(&pricing->priced, i);
    }
    pricing->preferred[i] = (struct pz_bits){{0}};
    for (uint32_t other = 0; other < problem->n; other++)
      if (pz_bits_has(&pricing->interchangeable[i], other) && is_preferred(pricing, other, i))
        pz_bits_set(&pricing->preferred[i], other);
  }
  qsort(pricing->choices, pricing->n_choices, sizeof *pricing->choices, compare_choices);
  double rate_limit = WIDE_RATE;
  for (int part = 0; part < PZ_PRICING_PARTS; part++, rate_limit /= 2) {
    uint32_t first = part ? pricing->part[part - 1] : 0;
    while (part && first < pricing->n_choices && pricing->choices[first].rate > rate_limit) first++;
    pricing->part[part] = first;
    if (pricing->techniques->pricing_multipliers) choose_multipliers(pricing, part);
  }
}

/* Forgets the largest values that were found for each first task. */
void pz_pricing_reset(struct pz_pricing *pricing) {
  pricing->upper_bound = 0;
  for (uint32_t i = 0; i < pricing->problem->n; i++) pricing->best_value[i] = 1;
}

/* ---- branch and bound ------------------------------------------------------------------------ */

/* Sets for each of n extensions an upper bound on the value that it and those after it can add.  The
 * bound is the sum over chains of the largest rate, or the Lagrangian bound if that is lower: the
 * multipliers of the part times the residual capacity, plus the largest reduced rate of each chain. */
static void bound_extensions(struct pz_pricing *pricing, struct pz_extension *extensions,
                             uint32_t n, const int32_t residual[PZ_RESOURCES], int part) {
  double by_rate = 0, by_multiplier = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    by_multiplier += pricing->multiplier[part][r] * pricing->unit[r] * residual[r];
  for (uint32_t k = 0; k < n; k++) {
    uint32_t chain = pricing->choices[extensions[k].choice].chain;
    pricing->most_rate[chain] = pricing->most_reduced[chain] = 0;
  }
  for (uint32_t k = n; k-- > 0;) { /* from the last extension, so that sums cover those after k */
    const struct pz_choice *choice = &pricing->choices[extensions[k].choice];
    double *most_rate = &pricing->most_rate[choice->chain];
    double *most_reduced = &pricing->most_reduced[choice->chain];
    if (choice->rate > *most_rate) {
      by_rate += choice->rate - *most_rate;
      *most_rate = choice->rate;
    }
    if (choice->reduced[part] > *most_reduced) {
      by_multiplier += choice->reduced[part] - *most_reduced;
      *most_reduced = choice->reduced[part];
    }
    extensions[k].by_multipliers =
        pricing->techniques->pricing_multipliers && by_multiplier < by_rate;
    extensions[k].most = extensions[k].by_multipliers ? by_multiplier : by_rate;
  }
}

/* Returns whether a preferred task can replace task i in the subset (dominance): it is compatible
 * with the subset and with all tasks that can still be added together with i.  If it is added later
 * too, the two can exchange their modes.  `incompatible` are the tasks that cannot be added to the
 * subset, and incompatible_with_i those that cannot be added to the subset with i. */
static bool is_replaceable(const struct pz_pricing *pricing, uint32_t i,
                           const struct pz_bits *incompatible,
                           const struct pz_bits *incompatible_with_i) {
  struct pz_bits preferred = pz_bits_minus(&pricing->preferred[i], incompatible);
  PZ_EACH_BIT(other, PZ_BITS_WORDS, preferred.words[w]) {
    struct pz_bits conflicts = pz_bits_minus(&pricing->incompatible[other], incompatible_with_i);
    uint64_t priced_conflicts = 0;
    pz_bits_clear(&conflicts, other);
    for (int k = 0; k < PZ_BITS_WORDS; k++)
      priced_conflicts |= conflicts.words[k] & pricing->priced.words[k];
    if (!priced_conflicts) return true;
  }
  return false;
}

static void extend_subset(struct pz_pricing *pricing, const struct pz_extension *from,
                          uint32_t n_from, const struct pz_bits *incompatible,
                          const int32_t residual[PZ_RESOURCES], int part);

/* Adds choice k to the current subset, extends the subset by the n_after choices that may follow,
 * and removes choice k again. */
static void try_choice(struct pz_pricing *pricing, uint32_t k, const struct pz_extension *after,
                       uint32_t n_after, const struct pz_bits *incompatible,
                       const int32_t residual[PZ_RESOURCES], int part) {
  const struct pz_choice *choice = &pricing->choices[k];
  struct pz_subset *current = &pricing->current;
  double value_before = current->value;
  struct pz_bits incompatible_with_choice = *incompatible;
  pz_bits_merge(&incompatible_with_choice, &pricing->incompatible[choice->task]);
  if (pricing->techniques->pricing_dominance &&
      is_replaceable(pricing, choice->task, incompatible, &incompatible_with_choice)) {
    pricing->n_dominated++;
    return;
  }
  int32_t residual_after[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++)
    residual_after[r] = residual[r] - choice->chosen_mode.use[r];
  current->value = value_before + choice->rate;
  current->task[current->n] = choice->task;
  current->mode[current->n++] = choice->mode;
  while (part + 1 < PZ_PRICING_PARTS && k + 1 >= pricing->part[part + 1]) part++;
  extend_subset(pricing, after, n_after, &incompatible_with_choice, residual_after, part);
  current->n--;
  current->value = value_before;
}

/* Extends the current subset by each of the n_from choices in `from` that can run concurrently with it,
 * in the order of descending rates.  The best subset is stored in pricing->best. */
static void extend_subset(struct pz_pricing *pricing, const struct pz_extension *from,
                          uint32_t n_from, const struct pz_bits *incompatible,
                          const int32_t residual[PZ_RESOURCES], int part) {
  const struct pz_subset *current = &pricing->current;
  struct pz_subset *best = &pricing->best;
  if (current->value > best->value) {
    best->value = current->value;
    best->n = current->n;
    memcpy(best->task, current->task, current->n * sizeof *current->task);
    memcpy(best->mode, current->mode, current->n * sizeof *current->mode);
  }
  struct pz_extension *extensions = &pricing->extensions[(size_t)current->n * pricing->n_choices];
  uint32_t n = 0; /* extensions that fit beside the current subset */
  for (uint32_t k = 0; k < n_from; k++) {
    const struct pz_choice *choice = &pricing->choices[from[k].choice];
    if (!pz_bits_has(incompatible, choice->task) && pz_mode_fits(residual, &choice->chosen_mode))
      extensions[n++].choice = from[k].choice;
  }
  pricing->nodes++;
  bound_extensions(pricing, extensions, n, residual, part);
  for (uint32_t k = 0; k < n; k++) {
    double most = current->value + extensions[k].most;
    if (most <= best->value) { /* then those after k cannot improve the best subset either */
      pricing->n_cut += extensions[k].by_multipliers;
      return;
    }
    if (pricing->nodes > pricing->most_nodes) { /* give up; `most` bounds what was not searched */
      pricing->upper_bound = pz_fmax(pricing->upper_bound, most);
      return;
    }
    try_choice(pricing, extensions[k].choice, &extensions[k + 1], n - k - 1, incompatible, residual,
               part);
  }
}

/* Finds the best subset with this first choice and otherwise only later choices. */
void pz_pricing_solve(struct pz_pricing *pricing, uint32_t first) {
  static const struct pz_bits none;
  const struct pz_choice *choice = &pricing->choices[first];
  double *best_value = &pricing->best_value[choice->task];
  pricing->nodes = 0;
  pricing->current.n = pricing->best.n = 0;
  pricing->current.value = 0;
  pricing->best.value = *best_value;
  for (uint32_t k = first + 1; k < pricing->n_choices; k++) pricing->extensions[k].choice = k;
  if (pz_mode_fits(pricing->problem->capacity, &choice->chosen_mode))
    try_choice(pricing, first, &pricing->extensions[first + 1], pricing->n_choices - first - 1,
               &none, pricing->problem->capacity, 0);
  *best_value = pricing->best.value;
  pricing->upper_bound = pz_fmax(pricing->upper_bound, pricing->best.value);
}
