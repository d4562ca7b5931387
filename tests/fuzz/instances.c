/* Instances of scheduling, with a schedule that is checked, and of placement, with a plan that is checked or none. */
#include <float.h>

#include "../unit/partition_calls.h"
#include "../unit/schedule_calls.h"
#include "fuzz.h"

void fuzz_instance(const char *text, size_t bytes) {
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule s;
  struct pz_solve_options o = {.steps = 2000};
  struct pz_error err = {0};
  enum pz_exclusive exclusive = (enum pz_exclusive)(bytes % 2);
  pz_arena_init(&arena);
  if (was_read(pz_instance_parse("fuzz", text, bytes, exclusive, &arena, &p, &err), &err))
    require(pz_schedule_solve(&p, &o, &arena, &s, &err) == PZ_OK && s.lower_bound <= s.makespan);
  pz_arena_release(&arena);
}

void fuzz_place(const char *text, size_t bytes) {
  struct pz_arena arena;
  struct pz_instance x;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  enum pz_status status = pz_place_parse("fuzz", text, bytes, &arena, &x, &err);
  if (status == PZ_OK) {
    x.problem.semantics = (enum pz_semantics)(bytes % 2);
    status = pz_place_solve(&x.problem, DBL_MAX, &arena, &x.plan, &err);
  }
  if (was_read(status, &err)) require(pz_partition_check(&x.problem, &x.plan, &err) == PZ_OK);
  pz_arena_release(&arena);
}
