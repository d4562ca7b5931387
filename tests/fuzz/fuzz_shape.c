/* Shapes for launch scripts: any bytes of a config.json give a shape that every emitter prints or
 * refuses, or an error with a message, never a crash. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "launch/launch.h"
#include "plan/plan_fill.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void print(const struct pz_model_shape *s, int64_t pp) {
  struct pz_launch l = {.model = "fuzz", .shape = *s, .nodes = pp, .gpus = 4};
  struct pz_error err = {0};
  l.plan = pz_plan_default();
  l.plan.tp = 2;
  l.plan.pp = pp;
  l.plan.dp = 2;
  l.plan.batch = 8 * pp;
  l.plan.seq = 64;
  require(pz_plan_fill(&l.plan, NULL, &err) == PZ_OK);
  for (int i = 1; pz_launch_names[i]; i++) {
    char *text = NULL;
    enum pz_status status = pz_launch_script(i, &l, &text, &err);
    require(status == PZ_OK ? text && strstr(text, "torchrun") : err.message[0] && !text);
    pz_free(text);
    err = (struct pz_error){0};
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_model_shape s;
  struct pz_error err = {0};
  if (pz_model_shape_parse("fuzz", (const char *)data, bytes, &s, &err) != PZ_OK) {
    require(err.message[0]);
    return 0;
  }
  require(s.layers > 0 && s.heads > 0 && s.topk <= s.experts && s.dense_layers <= s.layers);
  print(&s, 1);
  if (s.layers >= 3) print(&s, 3);
  return 0;
}
