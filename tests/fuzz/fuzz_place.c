/* Placement instances: any bytes give a checked plan, no plan, or an error with a message. */
#include <stdlib.h>

#include "partition/checker.h"
#include "partition/instance.h"
#include "partition/solve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_arena arena;
  struct pz_place_problem p;
  struct pz_fixed fixed;
  struct pz_place_solution plan;
  struct pz_error err = {0};
  enum pz_semantics semantics = (enum pz_semantics)(bytes % 2);
  pz_arena_init(&arena, NULL);
  enum pz_status status =
      pz_place_parse("fuzz", (const char *)data, bytes, &arena, &p, &fixed, &err);
  if (status == PZ_OK) status = pz_place_solve(&p, semantics, &arena, &plan, &err);
  if (status == PZ_OK)
    require(pz_partition_check(&p, semantics, &plan, &err) == PZ_OK);
  else
    require(err.message[0] && status != PZ_INTERNAL);
  pz_arena_release(&arena);
  return 0;
}
