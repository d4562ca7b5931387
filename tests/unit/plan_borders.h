/* Functions of src/plan and src/place for tests, benchmarks and fuzz targets that check a status. */
#ifndef PZ_TESTS_PLAN_BORDERS_H
#define PZ_TESTS_PLAN_BORDERS_H

#include <string.h>

#include "place/plan_question.h"
#include "plan/model_shape.h"
#include "plan/plan_fields.h"
#include "plan/plan_file.h"
#include "plan/plan_fill.h"

struct plan_arguments {
  const struct pz_job *job;
  const struct pz_plan *given;
  struct pz_plan *plan;
  const struct pz_chip *chip;
  uint64_t pinned;
  const struct pz_plan_question *question;
  struct pz_plan_question *question_out;
  struct pz_found_plans *found;
  struct pz_arena *arena;
  const char *name, *text; /* of a file, a model, or the value of a field */
  size_t bytes;
  struct pz_model_shape *shape;
  enum pz_plan_field field;
  const json_t *json;
  int64_t layers;
  struct pz_run_plan *run;
  const struct pz_workload *workload;
};

/* ---- src/place ------------------------------------------------------------------------------ */

static inline void make_question_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  *x->question_out = pz_plan_question_make(call, x->job, x->given, x->pinned);
}

static inline enum pz_status try_make_question(const struct pz_job *job, const struct pz_plan *plan,
                                               uint64_t pinned, struct pz_plan_question *out,
                                               struct pz_error *err) {
  struct plan_arguments x = {.job = job, .given = plan, .pinned = pinned, .question_out = out};
  return pz_border(make_question_in_border, &x, err);
}

static inline void find_plans_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  struct pz_call results = pz_call_in(call, x->arena);
  *x->found = *pz_find_plans(&results, x->question);
}

/* The arena holds the plans. */
static inline enum pz_status try_find_plans(const struct pz_plan_question *q,
                                            struct pz_arena *arena, struct pz_found_plans *out,
                                            struct pz_error *err) {
  struct plan_arguments x = {.question = q, .arena = arena, .found = out};
  return pz_border(find_plans_in_border, &x, err);
}

/* ---- models --------------------------------------------------------------------------------- */

static inline void parse_shape_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  pz_parse_model_shape(call, x->name, x->text, x->bytes, x->shape);
}

static inline void load_shape_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  pz_load_model_shape(call, x->name, x->shape);
}

static inline enum pz_status try_parse_model_shape(const char *name, const char *text, size_t bytes,
                                                   struct pz_model_shape *out,
                                                   struct pz_error *err) {
  struct plan_arguments x = {.name = name, .text = text, .bytes = bytes, .shape = out};
  return pz_border(parse_shape_in_border, &x, err);
}

static inline enum pz_status try_load_model_shape(const char *model, struct pz_model_shape *out,
                                                  struct pz_error *err) {
  struct plan_arguments x = {.name = model, .shape = out};
  return pz_border(load_shape_in_border, &x, err);
}

static inline void describe_model_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  *x->shape = pz_model_shape_or_other(call, x->name, x->text, x->workload, x->layers);
}

static inline struct pz_model_shape try_describe_model(const char *model, const char *config,
                                                       const struct pz_workload *w,
                                                       int64_t layers) {
  struct pz_model_shape shape = {.name = model};
  struct plan_arguments x = {
      .name = model, .text = config, .workload = w, .layers = layers, .shape = &shape};
  return pz_border(describe_model_in_border, &x, NULL) == PZ_OK ? shape
                                                                : (struct pz_model_shape){0};
}

/* ---- plans ---------------------------------------------------------------------------------- */

static inline void fill_plan_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  pz_fill_plan(call, x->plan, x->chip);
}

static inline enum pz_status try_fill_plan(struct pz_plan *p, const struct pz_chip *chip,
                                           struct pz_error *err) {
  struct plan_arguments x = {.plan = p, .chip = chip};
  return pz_border(fill_plan_in_border, &x, err);
}

static inline void check_ranges_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  pz_require_plan_ranges(call, x->given);
}

static inline enum pz_status try_check_plan_ranges(const struct pz_plan *p, struct pz_error *err) {
  struct plan_arguments x = {.given = p};
  return pz_border(check_ranges_in_border, &x, err);
}

static inline void check_chunks_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  pz_require_chunks(call, x->given, x->layers);
}

static inline bool can_chunk_layers(const struct pz_plan *p, int64_t layers) {
  struct plan_arguments x = {.given = p, .layers = layers};
  return pz_border(check_chunks_in_border, &x, NULL) == PZ_OK;
}

static inline void read_field_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  struct pz_call results = x->arena ? pz_call_in(call, x->arena) : *call;
  if (x->json)
    pz_read_plan_json_field(&results, x->plan, x->field, x->json);
  else
    pz_read_plan_field(&results, PZ_BAD_USE, x->plan, x->field, x->text);
}

static inline enum pz_status try_read_plan_field(struct pz_plan *p, enum pz_plan_field f,
                                                 const char *text, struct pz_error *err) {
  struct plan_arguments x = {.plan = p, .field = f, .text = text};
  return pz_border(read_field_in_border, &x, err);
}

/* The arena holds texts and lists. */
static inline enum pz_status try_read_plan_json_field(struct pz_plan *p, enum pz_plan_field f,
                                                      const json_t *j, struct pz_arena *arena,
                                                      struct pz_error *err) {
  struct plan_arguments x = {.plan = p, .field = f, .json = j, .arena = arena};
  return pz_border(read_field_in_border, &x, err);
}

static inline void read_plan_file_in_border(struct pz_call *call, void *ctx) {
  struct plan_arguments *x = ctx;
  struct pz_call results = pz_call_in(call, x->arena);
  pz_read_plan_file(&results, x->name, x->text, x->bytes, x->run);
}

static inline enum pz_status try_read_plan_file(const char *name, const char *text, size_t bytes,
                                                struct pz_arena *arena, struct pz_run_plan *out,
                                                struct pz_error *err) {
  struct plan_arguments x = {
      .name = name, .text = text, .bytes = bytes, .arena = arena, .run = out};
  return pz_border(read_plan_file_in_border, &x, err);
}

#endif
