#include "box/certificate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "box/run_digest.h"
#include "chip/chip.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/vec.h"
#include "plan/plan_fields.h"

/* ---- inputs --------------------------------------------------------------------------------- */

json_t *pz_box_inputs_json(const struct pz_range_space *s, const struct pz_box_options *o) {
  const struct pz_judge_question *q = &o->question;
  json_t *models = json_array();
  for (uint32_t i = 0; i < q->n_models; i++) {
    char text[PZ_JUDGE_MODEL_TEXT];
    pz_judge_model_text(q, i, text);
    json_array_append_new(models, json_string(text));
  }
  return json_pack("{s:o,s:o,s:I,s:I,s:I,s:I,s:f,s:s,s:f,s:f,s:f,s:f}", "models", models, "space",
                   pz_range_json(s), "devices", (json_int_t)q->devices, "batch",
                   (json_int_t)q->batch, "seq", (json_int_t)q->seq, "scale_up",
                   (json_int_t)q->scale_up, "outer_bytes_per_s", q->outer_bytes_per_s, "per",
                   pz_box_objective_names[q->objective], "limit_mm2", o->limits.mm2, "limit_watts",
                   o->limits.watts, "limit_dollars", o->limits.dollars, "gap", o->gap);
}

enum pz_status pz_box_inputs_text(const struct pz_range_space *s, const struct pz_box_options *o,
                                  char **text, struct pz_error *err) {
  json_t *json = pz_box_inputs_json(s, o);
  enum pz_status status = pz_json_text(json, text, err);
  json_decref(json);
  return status;
}

static enum pz_status read_models(struct pz_fields *f, struct pz_arena *arena,
                                  struct pz_judge_question *q) {
  const json_t *list = pz_fields_value(f, "models");
  size_t n = json_array_size(list);
  bool good = n >= 1 && n <= PZ_JUDGE_MOST_MODELS;
  for (size_t i = 0; i < n && good; i++) {
    const char *name = json_string_value(json_array_get(list, i));
    good = name && pz_judge_add_model(q, name, arena, NULL) == PZ_OK;
  }
  if (!good) pz_fields_refuse(f, "models", "1 to 16 models");
  return f->status;
}

static void read_objective(struct pz_fields *f, struct pz_judge_question *q) {
  const char *name = pz_fields_text_or(f, "per", "");
  for (int i = 0; i < PZ_BOX_OBJECTIVES; i++)
    if (strcmp(pz_box_objective_names[i], name) == 0) {
      q->objective = (enum pz_box_objective)i;
      return;
    }
  pz_fields_refuse(f, "per", "chip, dollar, watt, ownership or joule");
}

static void read_numbers(struct pz_fields *f, struct pz_box_options *o) {
  static const struct pz_range many = {1, 1 << 24}, seq = {0, 1 << 24};
  struct pz_judge_question *q = &o->question;
  q->devices = pz_fields_int(f, "devices", many);
  q->batch = pz_fields_int(f, "batch", many);
  q->seq = pz_fields_int(f, "seq", seq);
  q->scale_up = pz_fields_int(f, "scale_up", many);
  q->outer_bytes_per_s = pz_fields_real(f, "outer_bytes_per_s", 1, 1e18);
  o->limits.mm2 = pz_fields_real(f, "limit_mm2", 0, 1e12);
  o->limits.watts = pz_fields_real(f, "limit_watts", 0, 1e12);
  o->limits.dollars = pz_fields_real(f, "limit_dollars", 0, 1e12);
  o->gap = pz_fields_real(f, "gap", 0, 10);
}

enum pz_status pz_box_inputs_read(const char *name, const json_t *json, struct pz_arena *arena,
                                  struct pz_box_inputs *out, struct pz_error *err) {
  struct pz_fields f = {.name = name, .root = json, .err = err};
  struct pz_box_options o = {.gap = 0};
  read_numbers(&f, &o);
  (void)read_models(&f, arena, &o.question);
  read_objective(&f, &o.question);
  const json_t *space = pz_fields_value(&f, "space");
  if (!json_is_object(space)) pz_fields_refuse(&f, "space", "a space with axes");
  enum pz_status status = pz_fields_finish(&f);
  if (status != PZ_OK) return status;
  char *text = pz_json_dump(space, JSON_COMPACT);
  if (!text) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  status = pz_range_parse(name, text, strlen(text), &out->space, err);
  pz_free(text);
  if (status == PZ_OK) out->options = o;
  return status;
}

/* ---- the result ----------------------------------------------------------------------------- */

static json_t *parts_json(const struct pz_training_parts *p) {
  return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "products_s", p->products_s,
                   "attention_s", p->attention_s, "elementwise_s", p->elementwise_s, "tensor_s",
                   p->tensor_s, "expert_s", p->expert_s, "transfer_s", p->transfer_s, "bubble_s",
                   p->bubble_s, "gradient_s", p->gradient_s, "optimizer_s", p->optimizer_s);
}

static json_t *models_json(const struct pz_judge_question *q, const struct pz_box_chip *x,
                           const struct pz_box_chip *reference) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < q->n_models; i++) {
    const struct pz_prediction *p = &x->plans[i].p;
    char text[PZ_JUDGE_MODEL_TEXT];
    pz_judge_model_text(q, i, text);
    json_array_append_new(
        list, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o}", "model", text, "step_s", p->step_s,
                        "samples_per_s", p->samples_per_s, "times_reference",
                        reference->steps.step_s[i] / x->steps.step_s[i], "mfu", p->mfu,
                        "mfu_conventional", p->mfu_conventional, "joules",
                        pz_judge_joules(q, &x->steps, i, &x->taken), "plan",
                        pz_plan_json(&x->plans[i].plan), "parts", parts_json(&p->parts)));
  }
  return list;
}

static json_t *numbers_json(const double *list, uint32_t n) {
  json_t *all = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(all, json_real(list[i]));
  return all;
}

/* Within its limit of power; null where nothing is known of it. */
static json_t *power_json(const struct pz_judge_question *q, const struct pz_step_power *x,
                          const struct pz_step_power *reference) {
  if (!x->known || !reference->known) return json_null();
  return json_pack("{s:f,s:f,s:o,s:o,s:o}", "limit_watts", x->limit_watts, "times_reference",
                   pz_step_power_ratio(q, x, reference), "full_watts",
                   numbers_json(x->full_watts, q->n_models), "clock_hz",
                   numbers_json(x->clock_hz, q->n_models), "step_s",
                   numbers_json(x->step_s, q->n_models));
}

static json_t *chip_json(const struct pz_judge_question *q, const struct pz_box_chip *x,
                         const struct pz_box_chip *reference) {
  const struct pz_taken *t = &x->taken;
  return json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "name", x->chip.name, "value",
                   x->value, "area_mm2", t->mm2, "watts", t->watts, "dollars", t->dollars,
                   "owner_dollars", t->owner_dollars, "edge_mm", t->edge_mm, "edge_room_mm",
                   t->edge_room_mm, "models", models_json(q, x, reference), "power",
                   power_json(q, &x->power, &reference->power), "chip", pz_chip_json(&x->chip));
}

static json_t *certificate_json(const struct pz_box_result *r) {
  return json_pack("{s:I,s:I,s:I,s:f,s:I,s:I,s:b}", "space", (json_int_t)r->chips, "closed",
                   (json_int_t)r->closed, "evaluated", (json_int_t)r->evaluated, "gap", r->gap,
                   "boxes", (json_int_t)r->n_boxes, "bounds", (json_int_t)r->bounds, "finished",
                   r->finished);
}

json_t *pz_box_result_json(const struct pz_range_space *s, const struct pz_box_options *o,
                           const struct pz_box_result *r) {
  const struct pz_judge_question *q = &o->question;
  json_t *reference = chip_json(q, &r->reference, &r->reference);
  json_object_set_new(reference, "breaks",
                      r->reference_breaks ? json_string(r->reference_breaks) : json_null());
  return json_pack("{s:o,s:o,s:o,s:o}", "best", chip_json(q, &r->best, &r->reference), "reference",
                   reference, "certificate", certificate_json(r), "inputs",
                   pz_box_inputs_json(s, o));
}

/* ---- boxes ---------------------------------------------------------------------------------- */

static void print_boxes(const struct pz_box_result *r, FILE *out) {
  fprintf(out, "kind");
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++)
    fprintf(out, ",%s_lo,%s_hi", pz_range_axis_name(a), pz_range_axis_name(a));
  fprintf(out, ",end,bound\n");
  for (uint32_t i = 0; i < r->n_boxes; i++) {
    const struct pz_closed_box *b = &r->boxes[i];
    fprintf(out, "%u", b->box.kind);
    for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++)
      fprintf(out, ",%d,%d", b->box.lo[a], b->box.hi[a]);
    fprintf(out, ",%s,%.17g\n", pz_box_end_names[b->end], b->bound);
  }
}

char *pz_boxes_text(const struct pz_box_result *r) {
  struct pz_buffer b = {0};
  FILE *out = pz_buffer_stream(&b);
  if (!out) return NULL;
  print_boxes(r, out);
  if (pz_buffer_close(out)) return b.text;
  pz_free(b.text);
  return NULL;
}

struct box_reader {
  const char *name;
  const struct pz_range_space *s;
  const struct pz_csv *csv;
  struct pz_error *err;
};

static enum pz_status refuse_row(const struct box_reader *x, uint32_t row, const char *accepted) {
  return pz_fail(x->err, PZ_BAD_INPUT, "%s:%u: no box of the space; accepted: %s", x->name,
                 x->csv->lines[row], accepted);
}

static enum pz_status read_box(const struct box_reader *x, uint32_t row,
                               struct pz_closed_box *out) {
  double v = 0;
  enum pz_status status = pz_csv_number(x->name, x->csv, row, 0, 1e9, &v, x->err);
  if (status != PZ_OK) return status;
  if (!(v < pz_range_kinds(x->s))) return refuse_row(x, row, "a kind of the space");
  out->box.kind = (uint32_t)v;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) {
    double lo = 0, hi = 0;
    status = pz_csv_number(x->name, x->csv, row, 1 + 2 * (uint32_t)a, 255, &lo, x->err);
    if (status == PZ_OK)
      status = pz_csv_number(x->name, x->csv, row, 2 + 2 * (uint32_t)a, 255, &hi, x->err);
    if (status != PZ_OK) return status;
    if (lo > hi || !(hi < x->s->n[a]))
      return refuse_row(x, row, "numbers of values, lo up to hi below their count");
    out->box.lo[a] = (uint8_t)lo;
    out->box.hi[a] = (uint8_t)hi;
  }
  const char *end = pz_csv_cell(x->csv, row, 2 * PZ_RANGE_AXES + 1);
  for (int e = 0; pz_box_end_names[e]; e++)
    if (strcmp(pz_box_end_names[e], end) == 0) {
      out->end = (enum pz_box_end)e;
      return pz_csv_number(x->name, x->csv, row, 2 * PZ_RANGE_AXES + 2, 1e300, &out->bound, x->err);
    }
  return refuse_row(x, row, "an end of infeasible, bound, evaluated or open");
}

enum pz_status pz_boxes_parse(const char *name, const char *text, size_t bytes,
                              const struct pz_range_space *s, struct pz_arena *arena,
                              struct pz_boxes *out, struct pz_error *err) {
  struct pz_csv csv;
  enum pz_status status = pz_csv_parse(name, text, bytes, arena, &csv, err);
  if (status != PZ_OK) return status;
  if (csv.columns != 2 * PZ_RANGE_AXES + 3 || strcmp(csv.cells[0], "kind") != 0)
    return pz_fail(err, PZ_BAD_INPUT, "%s:1: %u columns; accepted: the %d that a search writes",
                   name, csv.columns, 2 * PZ_RANGE_AXES + 3);
  struct box_reader x = {name, s, &csv, err};
  struct pz_boxes b = {pz_arena_alloc(arena, csv.rows, sizeof *b.list), csv.rows};
  if (!b.list) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  for (uint32_t i = 0; i < b.n && status == PZ_OK; i++) status = read_box(&x, i, &b.list[i]);
  if (status == PZ_OK) *out = b;
  return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

static enum pz_status path_in(const char *dir, const char *file, char *path, size_t size,
                              struct pz_error *err) {
  int n = snprintf(path, size, "%s/%s", dir, file);
  return n > 0 && (size_t)n < size
             ? PZ_OK
             : pz_fail(err, PZ_BAD_USE, "the path of %s in %.100s is too long", file, dir);
}

bool pz_box_is_run(const char *dir) {
  char path[4096];
  FILE *f = path_in(dir, "boxes.csv", path, sizeof path, NULL) == PZ_OK ? fopen(path, "rb") : NULL;
  if (f) fclose(f);
  return f != NULL;
}

static enum pz_status write_in(const char *dir, const char *file, const char *text,
                               struct pz_error *err) {
  char path[4096];
  enum pz_status status = path_in(dir, file, path, sizeof path, err);
  return status == PZ_OK ? pz_file_write(path, text, strlen(text), err) : status;
}

static enum pz_status write_json_in(const char *dir, const char *file, json_t *json,
                                    struct pz_error *err) {
  char *text = NULL;
  enum pz_status status = pz_json_text(json, &text, err);
  json_decref(json);
  if (status == PZ_OK) status = write_in(dir, file, text, err);
  pz_free(text);
  return status;
}

enum pz_status pz_box_save(const char *dir, const struct pz_range_space *s,
                           const struct pz_box_options *o, const struct pz_box_result *r,
                           struct pz_error *err) {
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    return pz_fail(err, PZ_IO, "cannot make the folder %s: %s", dir, strerror(errno));
  char digest[PZ_RUN_DIGEST_TEXT];
  struct pz_cluster net = pz_judge_cluster(&o->question, &r->best.chip);
  json_t *result = pz_box_result_json(s, o, r);
  char *boxes = pz_boxes_text(r);
  enum pz_status status = result && boxes ? pz_run_digest(result, boxes, digest, err)
                                          : pz_fail(err, PZ_NO_MEMORY, "out of memory for the run");
  if (status == PZ_OK) {
    json_object_set_new(result, "digest", json_string(digest));
    status = write_json_in(dir, "result.json", json_incref(result), err);
  }
  json_decref(result);
  if (status == PZ_OK) status = write_json_in(dir, "chip.json", pz_chip_json(&r->best.chip), err);
  if (status == PZ_OK) status = write_json_in(dir, "cluster.json", pz_cluster_json(&net), err);
  if (status == PZ_OK) status = write_in(dir, "boxes.csv", boxes, err);
  pz_free(boxes);
  return status;
}
