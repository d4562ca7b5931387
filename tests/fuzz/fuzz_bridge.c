/* A program for Megatron Bridge, alone or in a script: any bytes give a run that can be written and read again, or an error
 * with a message. */
#include <stdlib.h>
#include <string.h>

#include "launch/run_readers.h"
#include "plan/plan_fill.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_run_plan r, *back = NULL;
  struct pz_arena arena;
  struct pz_error err = {0};
  char *text = NULL;
  if (bytes > 1 << 16) return 0;
  o.devices = bytes % 2 ? 64 : 0;
  pz_arena_init(&arena, NULL);
  if (pz_bridge_read("fuzz", (const char *)data, bytes, &o, &arena, &r, &err) == PZ_OK) {
    require(r.model && r.plan.devices > 0);
    require(pz_run_plan_text(&r, &text, &err) == PZ_OK);
    require(pz_run_plan_read("fuzz", text, strlen(text), NULL, &back, &err) == PZ_OK);
    require(back->plan.tp == r.plan.tp && back->plan.devices == r.plan.devices);
    if (pz_plan_fill(&r.plan, NULL, &err) != PZ_OK) require(err.message[0]);
    pz_run_plan_free(back);
    pz_text_free(text);
  } else {
    require(err.message[0]);
  }
  pz_arena_release(&arena);
  return 0;
}
