/* The placement instances of a folder: step times by both semantics, and one of the instances on
 * more and more devices.  On stderr the time to solve beside the original program's (index.csv).
 * Usage: bench_placement FOLDER. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/progress.h"
#include "unit/core_borders.h"
#include "unit/partition_calls.h"

static struct pz_place_problem read_problem(const char *folder, const char *name,
                                            struct pz_arena *arena) {
  char path[1024];
  struct pz_instance x;
  struct pz_error err = {0};
  char *text = NULL;
  size_t bytes = 0;
  snprintf(path, sizeof path, "%s/%s.json", folder, name);
  if (pz_file_read(path, PZ_INSTANCE_MOST_BYTES, &text, &bytes, &err) != PZ_OK ||
      pz_place_parse(path, text, bytes, arena, &x, &err) != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    exit(1);
  }
  pz_free(text);
  return x.problem;
}

static double solve_s(struct pz_place_problem p, enum pz_semantics semantics, double *time_s) {
  double best = 1e9;
  p.semantics = semantics;
  for (int again = 0; again < 7; again++) {
    struct pz_arena arena;
    struct pz_place_solution plan;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    double start = pz_clock_s();
    *time_s = pz_place_solve(&p, DBL_MAX, &arena, &plan, &err) == PZ_OK ? plan.time_s
                                                                        : -1; /* no plan fits */
    double took = pz_clock_s() - start;
    if (took < best) best = took;
    pz_arena_release(&arena);
  }
  return best;
}

static void instances(const char *folder, const struct pz_csv *index) {
  printf("instance,batch_s,corrected_batch_s\n");
  for (uint32_t r = 0; r < index->rows; r++) {
    const char *name = pz_csv_cell(index, r, pz_csv_column(index, "name"));
    const char *original = pz_csv_cell(index, r, pz_csv_column(index, "time_O2"));
    struct pz_arena arena;
    double time, corrected;
    pz_arena_init(&arena);
    struct pz_place_problem p = read_problem(folder, name, &arena);
    double took = solve_s(p, PZ_SEMANTICS_ORIGINAL, &time);
    double took_corrected = solve_s(p, PZ_SEMANTICS_CORRECTED, &corrected);
    printf("%s,%.9g,%.9g\n", name, time, corrected);
    fprintf(stderr, "%s: %.2f us, original %.0f us, %.0f times as fast; corrected %.2f us\n", name,
            1e6 * took, 1e6 * atof(original), atof(original) / took, 1e6 * took_corrected);
    pz_arena_release(&arena);
  }
}

static void devices(const char *folder, const char *name) {
  struct pz_arena arena;
  double time;
  pz_arena_init(&arena);
  struct pz_place_problem p = read_problem(folder, name, &arena);
  for (int64_t n = 64; n <= 1000000; n = n == 65536 ? 1000000 : 4 * n) {
    p.devices = n;
    p.microbatches = 4 * n;
    double took = solve_s(p, PZ_SEMANTICS_ORIGINAL, &time);
    printf("%s on %lld devices,%.9g,\n", name, (long long)n, time);
    fprintf(stderr, "%s on %lld devices: %.2f us\n", name, (long long)n, 1e6 * took);
  }
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
  pz_arena_init(&arena);
  if (pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, &err) != PZ_OK ||
      pz_csv_parse(path, text, bytes, &arena, &index, &err) != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  instances(argv[1], &index);
  devices(argv[1], "A_gpt2xl_t1n1_mbs1_K1024_h32_ar1");
  pz_free(text);
  pz_arena_release(&arena);
  return 0;
}
