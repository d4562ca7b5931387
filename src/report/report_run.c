/* The run itself: models, steps from the winner, inputs; by the evaluator original, where chips are listed, also objective
 * runs with their certificates and the command that makes it again. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/text.h"
#include "report/command_line.h"
#include "report/report_data.h"

/* Parameters that a run may vary, by their names in results.  One that is not here is shown by that
 * name. */
static const struct parameter {
  const char *name, *text, *unit;
} parameters[] = {
    {"tensor_cores", "tensor cores", ""},
    {"rows", "rows of a tensor core", ""},
    {"cols", "columns of a tensor core", ""},
    {"vector_cores", "vector cores", ""},
    {"lanes", "lanes of a vector core", ""},
    {"glb_mib", "global buffer", "MiB"},
    {"hbm_gib", "HBM capacity", "GiB"},
    {"local_kib", "buffer of a tensor core", "KiB"},
    {"clock_mhz", "clock", "MHz"},
    {"glb_bytes_per_cycle", "global buffer rate", "B/cycle"},
    {"hbm_stacks", "HBM stacks", ""},
    {"link_gb_per_s", "link", "GB/s"},
    {"hbm", "HBM generation", ""},
};

/* ---- objective runs -------------------------------------------------------------------------- */

static enum pz_status tell_runs(struct pz_report *t) {
  json_t *rows = pz_dataset_add(t->datasets, "objective_runs",
                                "objective_run,chip,chip_id,hbm_gib,area_mm2,area_part,watts,"
                                "objective,chips,evaluated,excluded_after_schedules,excluded_by_"
                                "tables,open_schedules,gap");
  const struct pz_result *r = t->result;
  bool good = rows;
  for (uint32_t i = 0; i < r->n_answers && good; i++) {
    const struct pz_answer *a = &r->answers[i];
    const struct pz_result_chip *chip = pz_result_chip(r, a->chip_id);
    uint32_t kinds[PZ_CHIP_STATUSES] = {0};
    for (uint32_t p = 0; p < r->n_chips; p++) kinds[a->status[p].kind]++;
    good = chip &&
           pz_dataset_row(
               rows, json_pack("[s,s,I,f,f,f,f,f,I,I,I,I,I,f]", a->name, a->chip->name,
                               (json_int_t)a->chip_id, a->hbm_gib, chip->area_mm2, a->area_part,
                               chip->watts, a->objective, (json_int_t)r->n_chips,
                               (json_int_t)kinds[PZ_CHIP_EVALUATED],
                               (json_int_t)kinds[PZ_CHIP_EXCLUDED_BY_SCHEDULES],
                               (json_int_t)kinds[PZ_CHIP_EXCLUDED_BY_TABLES],
                               (json_int_t)a->certificate.n_open, fmax(0, a->certificate.gap)));
  }
  return pz_report_check(t, good);
}

/* ---- sensitivity of the best chip ----------------------------------------------------------- */

static struct parameter find_parameter(const char *name) {
  for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
    if (strcmp(parameters[i].name, name) == 0) return parameters[i];
  return (struct parameter){name, name, ""};
}

/* Of most axes a number. */
static json_t *axis_value(const char *text) {
  char *end;
  double v = strtod(text, &end);
  return end != text && !*end ? json_real(v) : json_string(text);
}

/* What each model's step on the changed chip is made of, beside that on the best. */
static bool tell_terms(const struct pz_answer *best, const struct pz_result_step *s,
                       const char *parameter, json_t *rows) {
  const struct pz_part_info *part;
  bool good = true;
  for (uint32_t i = 0; i < s->n_models; i++)
    for (size_t k = 0; (part = pz_time_part_at(k)) && good; k++) {
      const struct pz_step_answer *m = &s->models[i];
      double now = pz_time_part(&m->parts, part);
      double own = pz_time_part(&best->models[i].training->parts, part);
      if (fmax(now, own) > 1e-9 * m->step_s)
        good = pz_dataset_row(rows,
                              json_pack("[s,o,o,s,s,f,f,s]", parameter, axis_value(s->from),
                                        axis_value(s->to), m->model, part->label, now,
                                        (now - own) / best->models[i].training->step_s, m->plan));
    }
  return good;
}

static enum pz_status tell_sensitivity(struct pz_report *t) {
  json_t *rows = pz_dataset_add(t->datasets, "sensitivity",
                                "parameter,unit,from,to,change,change_at_most,area_mm2,watts,"
                                "dollars,breaks,where,where_change");
  bool trained = t->result->inputs.options.evaluator == PZ_EVALUATOR_TRAINING;
  json_t *terms = trained ? pz_dataset_add(t->datasets, "neighbours",
                                           "parameter,from,to,model,term,seconds,change,plan")
                          : NULL;
  bool good = rows && (terms || !trained);
  for (uint32_t i = 0; i < t->result->n_sensitivity && good; i++) {
    const struct pz_result_step *s = &t->result->sensitivity[i];
    struct parameter p = find_parameter(s->parameter);
    good = pz_dataset_row(rows, json_pack("[s,s,o,o,f,f,f,f,f,s?,s?,o]", p.text, p.unit,
                                          axis_value(s->from), axis_value(s->to), s->change,
                                          s->change_at_most, s->area_mm2, s->peak_watts, s->dollars,
                                          s->breaks, s->where,
                                          s->where ? json_real(s->where_change) : json_null())) &&
           tell_terms(pz_result_best(t->result), s, p.text, terms);
  }
  return pz_report_check(t, good);
}

/* ---- inputs --------------------------------------------------------------------------------- */

struct list {
  json_t *rows;
  bool good;
};

static void add(struct list *l, const char *what, const char *format, ...) PZ_PRINTF(3, 4);

static void add(struct list *l, const char *what, const char *format, ...) {
  va_list args;
  if (!l->good) return;
  va_start(args, format);
  json_t *text = json_vsprintf(format, args);
  va_end(args);
  l->good = pz_dataset_row(l->rows, json_pack("[s,o]", what, text));
}

static const char *choices_text(const struct pz_choices *c, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = '\0';
  for (int i = 0; i < c->n && at < size; i++) {
    int n = snprintf(buf + at, size - at, i ? ",%" PRId64 : "%" PRId64, c->v[i]);
    at += n > 0 ? (size_t)n : 0;
  }
  return buf;
}

static void add_machines(struct list *l, const struct pz_result *r) {
  const struct pz_result_inputs *in = &r->inputs;
  const struct pz_study_options *o = &in->options;
  char buf[256];
  add(l, "chips in the cluster", "%" PRId64, o->devices);
  add(l, "global batch size", "%" PRId64 " sample%s", o->batch, pz_text_s((double)o->batch));
  if (o->limit_mm2 > 0) add(l, "area budget", "%.3f mm²", o->limit_mm2);
  if (o->limit_watts > 0) add(l, "limit of peak watts", "%.6g W", o->limit_watts);
  if (o->limit_dollars > 0) add(l, "limit of price", "%.6g dollars", o->limit_dollars);
  if (o->evaluator == PZ_EVALUATOR_TRAINING) {
    add(l, "design space", "%s: %s", in->space_name, in->space_about);
    add(l, "network",
        "the chip's links in groups of %" PRId64 ", %.4g GB/s of a device between them",
        o->scale_up, o->outer_bytes_per_s / 1e9);
    add(l, "operators of a layer", "%s",
        o->serial ? "one after another" : "scheduled beside each other");
    return;
  }
  add(l, "design space", "%s: %s (%u chip%s within the area budget)", in->space_name,
      in->space_about, r->n_chips, pz_text_s(r->n_chips));
  add(l, "network", "%s: %s", in->cluster_name, in->cluster_about);
  add(l, "microbatch sizes considered", "%s", choices_text(&o->mbs, buf, sizeof buf));
  add(l, "tensor-parallel degrees considered", "%s", choices_text(&o->tp, buf, sizeof buf));
  add(l, "HBM capacities considered", "%s GiB", choices_text(&o->hbm_gib, buf, sizeof buf));
  add(l, "parameters, gradients and optimizer state", "%g bytes per byte of parameters", o->state);
  add(l, "step limit of a schedule solve", "%" PRId64, o->steps);
}

static enum pz_status tell_inputs(struct pz_report *t) {
  struct list l = {pz_dataset_add(t->datasets, "inputs", "input,value"), true};
  const struct pz_result_inputs *in = &t->result->inputs;
  const struct pz_study_options *o = &in->options;
  if (!l.rows) return pz_report_check(t, false);
  add(&l, "phaze", "version %s", pz_version());
  for (uint32_t m = 0; m < o->n_models; m++)
    add(&l, "model", "%s: %" PRId64 " tokens per sample, digest %s", in->models[m].name,
        in->models[m].seq, in->models[m].digest);
  add_machines(&l, t->result);
  add(&l, "objective", "%s: %s", pz_objective_names[o->objective], pz_objective_unit(o->objective));
  add(&l, "search",
      o->exhaustive ? "exhaustive: every chip evaluated"
                    : "chips excluded by upper bounds, of their own or of boxes of chips");
  return pz_report_check(t, l.good);
}

static enum pz_status tell_command(struct pz_report *t) {
  json_t *rows = pz_dataset_add(t->datasets, "command", "command");
  struct pz_buffer text = {0};
  FILE *out = pz_buffer_stream(&text);
  if (!out) return pz_report_check(t, false);
  pz_command_line_print(&t->result->inputs, t->result->comparison->seed, out);
  bool good = pz_buffer_close(out) && rows && pz_dataset_row(rows, json_pack("[s]", text.text));
  pz_free(text.text);
  return pz_report_check(t, good);
}

enum pz_status pz_report_run(struct pz_report *t) {
  bool listed = t->result->comparison != NULL; /* and every chip has a status */
  enum pz_status status = listed ? tell_runs(t) : PZ_OK;
  if (status == PZ_OK) status = tell_sensitivity(t);
  if (status == PZ_OK) status = tell_inputs(t);
  return status == PZ_OK && listed ? tell_command(t) : status;
}
