/* Megatron's arguments and plan files: any bytes give a run that can be written and read again, or an error with a message. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "launch/megatron_args.h"
#include "launch/run_log.h"
#include "plan/plan_fill.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

/* A run that was read, as a plan file. */
static void write_and_read(const struct pz_run_plan *r, struct pz_arena *arena) {
  struct pz_run_plan back, filled = *r;
  struct pz_error err = {0};
  char *text = NULL, a[PZ_FIELD_TEXT_MOST], b[PZ_FIELD_TEXT_MOST];
  json_t *j = pz_run_plan_json(r);
  require(j && pz_json_text(j, &text, &err) == PZ_OK);
  require(pz_plan_file_read("fuzz", text, strlen(text), arena, &back, &err) == PZ_OK);
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    require(!pz_plan_field_told(&r->plan, (enum pz_plan_field)f) ||
            strcmp(pz_plan_field_text(&r->plan, (enum pz_plan_field)f, a, sizeof a),
                   pz_plan_field_text(&back.plan, (enum pz_plan_field)f, b, sizeof b)) == 0);
  require(!r->chip == !back.chip && !r->cluster == !back.cluster);
  if (pz_plan_fill(&filled.plan, NULL, &err) != PZ_OK) require(err.message[0]);
  json_decref(j);
  pz_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char *const set[] = {"N=8", NULL};
  struct pz_run_plan_options o = {.set = set};
  struct pz_run_plan m;
  struct pz_run_plan r;
  struct pz_arena arena;
  struct pz_error err = {0};
  if (bytes > 1 << 16) return 0;
  pz_arena_init(&arena, NULL);
  if (pz_megatron_read("fuzz", (const char *)data, bytes, &o, &arena, &m, &err) == PZ_OK)
    write_and_read(&m, &arena);
  else
    require(err.message[0]);
  err = (struct pz_error){0};
  if (pz_run_log_is((const char *)data, bytes)) {
    struct pz_run_plan *logged = NULL;
    if (pz_run_plan_read("fuzz", (const char *)data, bytes, NULL, &logged, &err) != PZ_OK)
      require(err.message[0]);
    pz_run_plan_free(logged);
  }
  err = (struct pz_error){0};
  if (pz_plan_file_read("fuzz", (const char *)data, bytes, &arena, &r, &err) == PZ_OK)
    write_and_read(&r, &arena);
  else
    require(err.message[0]);
  pz_arena_release(&arena);
  return 0;
}
