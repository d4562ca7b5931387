/* Section of a report: the run itself.  It lists the objective runs with their certificates, the sensitivity of the best
 * chip, the inputs, and the command line that repeats the search.  Objective runs and command exist only in results of the
 * evaluator original, which have a comparison. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "report/command_line.h"
#include "report/report_data.h"

/* How the parameters that a search varies are shown.  A parameter that is missing here is shown by its name in results. */
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

static void append_objective_runs(struct pz_call *call, struct pz_report *report) {
  json_t *rows = pz_dataset_new(call, report->datasets, "objective_runs",
                                "objective_run,chip,chip_id,hbm_gib,area_mm2,area_part,watts,"
                                "objective,chips,evaluated,excluded_after_schedules,excluded_by_"
                                "tables,open_schedules,gap");
  const struct pz_result *r = report->result;
  for (uint32_t i = 0; i < r->n_answers; i++) {
    const struct pz_answer *a = &r->answers[i];
    const struct pz_result_chip *chip = pz_result_chip(r, a->chip_id);
    uint32_t n_of_kind[PZ_CHIP_STATUSES] = {0};
    for (uint32_t k = 0; k < r->n_chips; k++) n_of_kind[a->status[k].kind]++;
    json_t *row = chip ? json_pack("[s,s,I,f,f,f,f,f,I,I,I,I,I,f]", a->name, a->chip->name,
                                   (json_int_t)a->chip_id, a->hbm_gib, chip->area_mm2, a->area_part,
                                   chip->watts, a->objective, (json_int_t)r->n_chips,
                                   (json_int_t)n_of_kind[PZ_CHIP_EVALUATED],
                                   (json_int_t)n_of_kind[PZ_CHIP_EXCLUDED_BY_SCHEDULES],
                                   (json_int_t)n_of_kind[PZ_CHIP_EXCLUDED_BY_TABLES],
                                   (json_int_t)a->certificate.n_open, fmax(0, a->certificate.gap))
                       : NULL;
    pz_dataset_append(call, rows, row);
  }
}

/* ---- sensitivity of the best chip ----------------------------------------------------------- */

static struct parameter find_parameter(const char *name) {
  for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
    if (strcmp(parameters[i].name, name) == 0) return parameters[i];
  return (struct parameter){name, name, ""};
}

/* Most axes have numbers as values; the others, such as the HBM generation, have names. */
static json_t *axis_value_json(const char *text) {
  char *end;
  double v = strtod(text, &end);
  return end != text && !*end ? json_real(v) : json_string(text);
}

/* Appends the parts of each model's step time on the changed chip, and their differences to those on the best chip. */
static void append_changed_parts(struct pz_call *call, const struct pz_answer *best,
                                 const struct pz_result_step *step, const char *parameter,
                                 json_t *rows) {
  for (uint32_t i = 0; i < step->n_models; i++) {
    const struct pz_step_answer *m = &step->models[i];
    const struct pz_training_answer *on_best = best->models[i].training;
    for (size_t k = 0; pz_time_part_at(k); k++) {
      const struct pz_part_info *part = pz_time_part_at(k);
      double changed_s = pz_time_part(&m->parts, part);
      double best_s = pz_time_part(&on_best->parts, part);
      bool negligible = !(fmax(changed_s, best_s) > 1e-9 * m->step_s);
      if (negligible) continue;
      pz_dataset_append(call, rows,
                        json_pack("[s,o,o,s,s,f,f,s]", parameter, axis_value_json(step->from),
                                  axis_value_json(step->to), m->model, part->label, changed_s,
                                  (changed_s - best_s) / on_best->step_s, m->plan));
    }
  }
}

static void append_sensitivity(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *r = report->result;
  json_t *rows = pz_dataset_new(call, report->datasets, "sensitivity",
                                "parameter,unit,from,to,change,change_at_most,area_mm2,watts,"
                                "dollars,breaks,where,where_change");
  json_t *parts = NULL;
  if (r->inputs.options.evaluator == PZ_EVALUATOR_TRAINING)
    parts = pz_dataset_new(call, report->datasets, "neighbours",
                           "parameter,from,to,model,term,seconds,change,plan");
  for (uint32_t i = 0; i < r->n_sensitivity; i++) {
    const struct pz_result_step *s = &r->sensitivity[i];
    struct parameter p = find_parameter(s->parameter);
    pz_dataset_append(call, rows,
                      json_pack("[s,s,o,o,f,f,f,f,f,s?,s?,o]", p.text, p.unit,
                                axis_value_json(s->from), axis_value_json(s->to), s->change,
                                s->change_at_most, s->area_mm2, s->peak_watts, s->dollars,
                                s->breaks, s->where,
                                s->where ? json_real(s->where_change) : json_null()));
    append_changed_parts(call, pz_result_best(r), s, p.text, parts);
  }
}

/* ---- inputs --------------------------------------------------------------------------------- */

static void append_input(struct pz_call *call, json_t *rows, const char *input, const char *format,
                         ...) PZ_PRINTF(4, 5);

static void append_input(struct pz_call *call, json_t *rows, const char *input, const char *format,
                         ...) {
  va_list args;
  va_start(args, format);
  json_t *value = json_vsprintf(format, args);
  va_end(args);
  pz_dataset_append(call, rows, json_pack("[s,o]", input, value));
}

static const char *choices_text(struct pz_call *call, const struct pz_choices *c) {
  struct pz_buffer *text = pz_buffer_new(call);
  pz_buffer_add(call, text, "", 0);
  for (int i = 0; i < c->n; i++) pz_buffer_print(call, text, i ? ",%" PRId64 : "%" PRId64, c->v[i]);
  return text->text;
}

static void append_machine_inputs(struct pz_call *call, json_t *rows, const struct pz_result *r) {
  const struct pz_result_inputs *in = &r->inputs;
  const struct pz_study_options *o = &in->options;
  append_input(call, rows, "chips in the cluster", "%" PRId64, o->devices);
  append_input(call, rows, "global batch size", "%" PRId64 " sample%s", o->batch,
               pz_text_s((double)o->batch));
  if (o->limit_mm2 > 0) append_input(call, rows, "area budget", "%.3f mm²", o->limit_mm2);
  if (o->limit_watts > 0) append_input(call, rows, "limit of peak watts", "%.6g W", o->limit_watts);
  if (o->limit_dollars > 0)
    append_input(call, rows, "limit of price", "%.6g dollars", o->limit_dollars);
  if (o->evaluator == PZ_EVALUATOR_TRAINING) {
    append_input(call, rows, "design space", "%s: %s", in->space_name, in->space_about);
    append_input(call, rows, "network",
                 "the chip's links in groups of %" PRId64 ", %.4g GB/s of a device between them",
                 o->scale_up, o->outer_bytes_per_s / 1e9);
    append_input(call, rows, "operators of a layer", "%s",
                 o->serial ? "one after another" : "scheduled beside each other");
    return;
  }
  append_input(call, rows, "design space", "%s: %s (%u chip%s within the area budget)",
               in->space_name, in->space_about, r->n_chips, pz_text_s(r->n_chips));
  append_input(call, rows, "network", "%s: %s", in->cluster_name, in->cluster_about);
  append_input(call, rows, "microbatch sizes considered", "%s", choices_text(call, &o->mbs));
  append_input(call, rows, "tensor-parallel degrees considered", "%s", choices_text(call, &o->tp));
  append_input(call, rows, "HBM capacities considered", "%s GiB", choices_text(call, &o->hbm_gib));
  append_input(call, rows, "parameters, gradients and optimizer state",
               "%g bytes per byte of parameters", o->state);
  append_input(call, rows, "step limit of a schedule solve", "%" PRId64, o->steps);
}

static void append_inputs(struct pz_call *call, struct pz_report *report) {
  const struct pz_result_inputs *in = &report->result->inputs;
  const struct pz_study_options *o = &in->options;
  json_t *rows = pz_dataset_new(call, report->datasets, "inputs", "input,value");
  append_input(call, rows, "phaze", "version %s", pz_version());
  for (uint32_t m = 0; m < o->n_models; m++)
    append_input(call, rows, "model", "%s: %" PRId64 " tokens per sample, digest %s",
                 in->models[m].name, in->models[m].seq, in->models[m].digest);
  append_machine_inputs(call, rows, report->result);
  append_input(call, rows, "objective", "%s: %s", pz_objective_names[o->objective],
               pz_objective_unit(o->objective));
  append_input(call, rows, "search", "%s",
               o->exhaustive ? "exhaustive: every chip evaluated"
                             : "chips excluded by upper bounds, of their own or of boxes of chips");
}

void pz_report_run(struct pz_call *call, struct pz_report *report) {
  bool has_comparison = report->result->comparison != NULL;
  if (has_comparison) append_objective_runs(call, report);
  append_sensitivity(call, report);
  append_inputs(call, report);
  if (!has_comparison) return;
  json_t *rows = pz_dataset_new(call, report->datasets, "command", "command");
  struct pz_buffer *command = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, command);
  pz_command_line_print(&report->result->inputs, report->result->comparison->seed, out);
  pz_buffer_flush(call, out);
  pz_dataset_append(call, rows, json_pack("[s]", command->text));
}
