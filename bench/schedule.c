/* The schedule instances of a folder: makespan, bound and effort beside the proven optimum or the
 * best known, and the seconds the original ILP needed (index.csv of the folder).  Usage:
 * bench_schedule FOLDER [STEPS]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/file.h"
#include "core/progress.h"
#include "schedule/model/instance.h"
#include "schedule/solve.h"

static void solve(const char *folder, const struct pz_csv *index, uint32_t row, int64_t steps) {
  char path[1024], *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule s;
  struct pz_solve_options o = {.steps = steps};
  struct pz_error err = {0};
  const char *name = pz_csv_cell(index, row, pz_csv_column(index, "name"));
  const char *incumbent = pz_csv_cell(index, row, pz_csv_column(index, "incumbent"));
  const char *bound = pz_csv_cell(index, row, pz_csv_column(index, "lower_bound"));
  const char *ilp = pz_csv_cell(index, row, pz_csv_column(index, "ilp_seconds"));
  snprintf(path, sizeof path, "%s/%s.json", folder, name);
  pz_arena_init(&arena, NULL);
  if (pz_file_read(path, PZ_INSTANCE_MOST_BYTES, &text, &bytes, &err) != PZ_OK ||
      pz_instance_parse(name, text, bytes, PZ_EXCLUSIVE_ALL, &arena, &p, &err) != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    exit(1);
  }
  double start = pz_clock_s();
  if (pz_schedule_solve(&p, &o, &arena, &s, &err) != PZ_OK) exit(1);
  double took = pz_clock_s() - start;
  const char *verdict = s.makespan > atof(incumbent) ? "above"
                        : s.makespan < atof(bound)   ? "IMPOSSIBLE"
                                                     : "good";
  printf("%s,%u,%.0f,%.1f,%s,%s,%s,%s,%lld,%.6f,%s,%.0f\n", name, p.n, s.makespan, s.lower_bound,
         s.outcome == PZ_OUTCOME_OPTIMAL ? "optimal" : "feasible", incumbent, bound, verdict,
         (long long)s.steps, took, ilp, atof(ilp) / took);
  fflush(stdout);
  free(text);
  pz_arena_release(&arena);
}

int main(int argc, char **argv) {
  char path[1024], *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_csv index;
  struct pz_error err = {0};
  if (argc < 2) return 2;
  snprintf(path, sizeof path, "%s/index.csv", argv[1]);
  pz_arena_init(&arena, NULL);
  if (pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, &err) != PZ_OK ||
      pz_csv_parse(path, text, bytes, &arena, &index, &err) != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  printf("instance,ops,makespan,lower_bound,outcome,best_known,known_bound,verdict,steps,seconds,"
         "ilp_seconds,times_faster\n");
  for (uint32_t r = 0; r < index.rows; r++)
    solve(argv[1], &index, r, argc > 2 ? atoll(argv[2]) : 0);
  free(text);
  pz_arena_release(&arena);
  return 0;
}
