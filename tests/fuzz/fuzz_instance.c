/* Schedule instances: any bytes give a checked schedule or an error with a message. */
#include <stdlib.h>

#include "schedule/model/instance.h"
#include "schedule/solve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_arena arena;
  struct pz_problem p;
  struct pz_schedule s;
  struct pz_solve_options o = {.steps = 2000};
  struct pz_error err = {0};
  pz_arena_init(&arena, NULL);
  if (pz_instance_parse("fuzz", (const char *)data, bytes, (enum pz_exclusive)(bytes % 2), &arena,
                        &p, &err) != PZ_OK)
    require(err.message[0]);
  else /* a schedule that the checker refuses would be PZ_INTERNAL */
    require(pz_schedule_solve(&p, &o, &arena, &s, &err) == PZ_OK && s.lower_bound <= s.makespan);
  pz_arena_release(&arena);
  return 0;
}
