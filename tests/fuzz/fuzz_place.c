/* Placement instances: any bytes give a checked plan, no plan, or an error with a message. */
#include <float.h>
#include <stdlib.h>

#include "partition/instance.h"
#include "partition/problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_arena arena;
  struct pz_instance x;
  struct pz_error err = {0};
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_place_parse("fuzz", (const char *)data, bytes, &arena, &x, &err);
  if (status == PZ_OK) {
    x.p.semantics = (enum pz_semantics)(bytes % 2);
    status = pz_place_solve(&x.p, DBL_MAX, &arena, &x.plan, &err);
  }
  if (status == PZ_OK)
    require(pz_partition_check(&x.p, &x.plan, &err) == PZ_OK);
  else
    require(err.message[0] && status != PZ_INTERNAL);
  pz_arena_release(&arena);
  return 0;
}
