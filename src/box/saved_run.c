#include "box/saved_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "box/run_digest.h"
#include "core/alloc.h"
#include "core/file.h"

enum { RUN_MOST_BYTES = 256 << 20 };

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }

static bool same_kind(const struct pz_chip *a, const struct pz_chip *b) {
  return a->tech == b->tech && a->tensor.rows == b->tensor.rows &&
         a->tensor.cols == b->tensor.cols && a->hbm.bytes_per_stack == b->hbm.bytes_per_stack &&
         near(a->hbm.bytes_per_s_per_stack, b->hbm.bytes_per_s_per_stack);
}

static double axis_value(const struct pz_chip *c, enum pz_range_axis a) {
  switch (a) {
  case PZ_RANGE_TENSOR_CORES: return (double)c->tensor.cores;
  case PZ_RANGE_LOCAL_KIB: return (double)(c->tensor.local_bytes >> 10);
  case PZ_RANGE_VECTOR_CORES: return (double)c->vector.cores;
  case PZ_RANGE_LANES: return (double)c->vector.lanes;
  case PZ_RANGE_GLB_MIB: return (double)(c->glb_bytes >> 20);
  case PZ_RANGE_GLB_BYTES_PER_CYCLE: return c->glb_bytes_per_s / c->clock_hz;
  case PZ_RANGE_CLOCK_MHZ: return c->clock_hz / 1e6;
  case PZ_RANGE_HBM_STACKS: return (double)c->hbm.stacks;
  default: return c->link_bytes_per_s / 1e9;
  }
}

enum pz_status pz_range_find(const struct pz_range_space *s, const struct pz_chip *c,
                             struct pz_box *out, struct pz_error *err) {
  struct pz_box b = {.kind = 0};
  struct pz_chip one;
  bool found = false;
  for (; !found && b.kind < pz_range_kinds(s); b.kind++) {
    pz_box_lo(s, &b, &one);
    found = same_kind(&one, c);
  }
  b.kind -= found;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES && found; a++) {
    int i = 0;
    while (i < s->n[a] && s->value[a][i] > 0 && !near(axis_value(c, a), s->value[a][i])) i++;
    found = i < s->n[a];
    b.lo[a] = b.hi[a] = (uint8_t)i;
  }
  if (!found)
    return pz_fail(err, PZ_BAD_INPUT, "chip %s is none of the space %s", c->name, s->name);
  *out = b;
  return PZ_OK;
}

static enum pz_status read_best(struct pz_box_run *r, struct pz_error *err) {
  struct pz_chip *c = &r->best_chip;
  json_t *best = json_object_get(json_object_get(r->result, "best"), "chip");
  char *text = json_is_object(best) ? pz_json_dump(best, JSON_COMPACT) : NULL;
  if (!text) return pz_fail(err, PZ_BAD_INPUT, "result.json: the best chip is missing");
  enum pz_status status = pz_chip_parse("result.json: best", text, strlen(text), c, err);
  pz_free(text);
  return status == PZ_OK ? pz_range_find(&r->in->space, c, &r->best, err) : status;
}

static enum pz_status read_file(const char *dir, const char *file, char **text, size_t *bytes,
                                struct pz_error *err) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/%s", dir, file);
  if (n < 0 || (size_t)n >= sizeof path)
    return pz_fail(err, PZ_BAD_USE, "the path of %s in %.100s is too long", file, dir);
  return pz_file_read(path, RUN_MOST_BYTES, text, bytes, err);
}

/* What is read is what the search wrote. */
static enum pz_status check_digest(const char *dir, const json_t *result, struct pz_error *err) {
  char *boxes = NULL;
  size_t bytes = 0;
  enum pz_status status = read_file(dir, "boxes.csv", &boxes, &bytes, err);
  if (status == PZ_OK) status = pz_run_digest_check(dir, result, boxes, err);
  pz_free(boxes);
  return status;
}

enum pz_status pz_box_run_read(const char *dir, struct pz_box_run *r, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  *r = (struct pz_box_run){.result = NULL};
  pz_arena_init(&r->arena, NULL);
  r->in = pz_arena_alloc(&r->arena, 1, sizeof *r->in);
  if (!r->in) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the run");
  enum pz_status status = read_file(dir, "result.json", &text, &bytes, err);
  if (status == PZ_OK) status = pz_json_parse("result.json", text, bytes, &r->result, err);
  pz_free(text);
  if (status == PZ_OK) status = check_digest(dir, r->result, err);
  if (status == PZ_OK)
    status = pz_box_inputs_read("result.json: inputs", json_object_get(r->result, "inputs"),
                                &r->arena, r->in, err);
  return status == PZ_OK ? read_best(r, err) : status;
}

void pz_box_run_release(struct pz_box_run *r) {
  json_decref(r->result);
  pz_arena_release(&r->arena);
}
