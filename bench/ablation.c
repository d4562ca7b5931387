/* What each technique of the scheduler (schedule/options.def) is worth: every set of problems with
 * it switched off, beside all techniques on.  Usage: bench_ablation [FOLDER [NAME...]]; FOLDER
 * holds reference instances ("" for none), NAMEs limit the rows to these techniques ("all": none
 * off).  Times are printed on stderr: they are of one machine. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "problems.h"

struct tally {
  const struct pz_techniques *techniques;
  int64_t limit, steps;
  uint32_t n, proven;
  double gap, worst;
};

static void solve(struct tally *t, const struct pz_problem *p) {
  struct pz_arena arena;
  struct pz_schedule s;
  struct pz_error err = {0};
  struct pz_solve_options o = {.steps = t->limit, .techniques = t->techniques};
  pz_arena_init(&arena);
  if (pz_schedule_solve(p, &o, &arena, &s, &err) != PZ_OK) give_up(&err);
  double gap = gap_percent(&s);
  t->n++;
  t->proven += s.outcome == PZ_OUTCOME_OPTIMAL;
  t->steps += s.steps;
  t->gap += gap;
  if (gap > t->worst) t->worst = gap;
  pz_arena_release(&arena);
}

static void solve_layer(void *ctx, const struct layer_problem *l, const struct pz_problem *p) {
  (void)l;
  solve(ctx, p);
}

static void solve_reference(void *ctx, const struct reference *r, const struct pz_problem *p) {
  (void)r;
  solve(ctx, p);
}

static void solve_random(void *ctx, const struct pz_problem *p) { solve(ctx, p); }

enum set { LAYERS_SHORT, LAYERS, REFERENCE, RANDOM, SETS };
static const struct {
  const char *name;
  int64_t steps;
} sets[SETS] = {{"layers", 20000}, {"layers", 200000}, {"reference", 2000000}, {"random", 200000}};

static struct tally run(enum set set, const struct pz_techniques *techniques, const char *folder) {
  struct tally t = {.techniques = techniques, .limit = sets[set].steps};
  if (set == LAYERS_SHORT || set == LAYERS) each_layer(solve_layer, &t);
  if (set == REFERENCE) each_reference(folder, solve_reference, &t);
  for (int c = 0; set == RANDOM && c < RANDOM_CORES; c++)
    each_random(&(struct random_options){40, 6, 1, c}, solve_random, &t);
  return t;
}

static void print_rows(const char *off, const struct pz_techniques *techniques,
                       const char *folder) {
  for (enum set set = 0; set < SETS; set++) {
    if (set == REFERENCE && !*folder) continue;
    clock_t start = clock();
    struct tally t = run(set, techniques, folder);
    fprintf(stderr, "%s,%s,%lld: %.2f s\n", off, sets[set].name, (long long)sets[set].steps,
            (double)(clock() - start) / CLOCKS_PER_SEC);
    printf("%s,%s,%lld,%u,%u,%.4f,%.2f,%lld\n", off, sets[set].name, (long long)sets[set].steps,
           t.n, t.proven, t.gap / t.n, t.worst, (long long)t.steps);
    fflush(stdout);
  }
}

static bool named(const char *name, int argc, char **argv) {
  for (int i = 2; i < argc; i++)
    if (strcmp(argv[i], name) == 0) return true;
  return argc < 3;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "";
  printf("switched_off,set,step_limit,problems,proven,mean_gap_percent,worst_gap_percent,steps\n");
  if (named("all", argc, argv)) print_rows("nothing", &pz_techniques_all, folder);
  for (enum pz_technique k = 0; k < PZ_TECHNIQUES; k++) {
    struct pz_techniques techniques = pz_techniques_all;
    struct pz_error err = {0};
    const char *name = pz_technique_name(k);
    if (!named(name, argc, argv)) continue;
    if (disable_techniques(&techniques, name, &err) != PZ_OK) give_up(&err);
    print_rows(name, &techniques, folder);
  }
  return 0;
}
