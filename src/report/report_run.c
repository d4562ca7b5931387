/* The run itself: models, objective runs with their certificates, steps from the winner, inputs, and the
 * command that makes it again. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/buffer.h"
#include "core/text.h"
#include "report/command_line.h"
#include "report/comparison.h"
#include "report/report_data.h"
#include "report/result.h"
#include "search/space.h"

/* Parameters that a run may vary, by their names in results.  One that is not here is shown by that
 * name. */
static const struct parameter {
  const char *name, *text, *unit;
} parameters[] = {
    {"tensor_cores", "tensor cores", ""},     {"rows", "rows of a tensor core", ""},
    {"cols", "columns of a tensor core", ""}, {"vector_cores", "vector cores", ""},
    {"lanes", "lanes of a vector core", ""},  {"glb_mib", "global buffer", "MiB"},
    {"hbm_gib", "HBM capacity", "GiB"},
};

/* ---- objective runs ------------------------------------------------------------------------------- */

/* As the result has it. */
static const json_t *certificate(const struct pz_story *t, uint32_t objective_run) {
  const json_t *alone = json_array_get(json_object_get(t->result, "per_model"), objective_run);
  return json_object_get(objective_run + 1 < t->study->n_runs ? alone : t->result, "certificate");
}

static enum pz_status tell_objective_runs(struct pz_story *t) {
  json_t *rows =
      pz_dataset_add(t->datasets, "objective_runs",
                     "objective_run,chip,chip_id,hbm_gib,area_mm2,area_part,watts,objective,"
                     "chips,evaluated,excluded_after_schedules,excluded_by_tables,open_"
                     "schedules,gap");
  const struct pz_study *s = t->study;
  bool good = rows;
  for (uint32_t i = 0; i < s->n_runs && good; i++) {
    const struct pz_objective_run *c = &s->objective_run[i];
    uint32_t kinds[PZ_CHIP_STATUSES] = {0};
    struct pz_chip chip;
    double area = pz_search_area_um2(s->search, c->best);
    for (uint32_t p = 0; p < s->n_points; p++) kinds[c->chip_status[p].kind]++;
    pz_study_chip(s, c, &chip);
    good = pz_dataset_row(
        rows, json_pack("[s,s,I,f,f,f,f,f,I,I,I,I,I,f]", pz_study_run_name(s, i), chip.name,
                        (json_int_t)s->points[c->best].id, c->hbm_gib, area / 1e6,
                        area / s->space.budget_um2, pz_search_watts(s->search, c->best), c->value,
                        (json_int_t)s->n_points, (json_int_t)kinds[PZ_CHIP_EVALUATED],
                        (json_int_t)kinds[PZ_CHIP_EXCLUDED_BY_SCHEDULES],
                        (json_int_t)kinds[PZ_CHIP_EXCLUDED_BY_TABLES],
                        (json_int_t)pz_result_number(certificate(t, i), "open_schedules"),
                        fmax(0, pz_result_number(certificate(t, i), "gap"))));
  }
  return pz_story_check(t, good);
}

/* ---- sensitivity of the best chip ----------------------------------------------------------- */

static struct parameter find_parameter(const char *name) {
  for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
    if (strcmp(parameters[i].name, name) == 0) return parameters[i];
  return (struct parameter){name, name, ""};
}

static enum pz_status tell_sensitivity(struct pz_story *t) {
  json_t *rows =
      pz_dataset_add(t->datasets, "sensitivity",
                     "parameter,unit,from,to,change,change_at_most,area_mm2,within_budget");
  const json_t *list = json_object_get(t->result, "sensitivity");
  bool good = rows;
  for (size_t i = 0; i < json_array_size(list) && good; i++) {
    const json_t *o = json_array_get(list, i);
    struct parameter p = find_parameter(pz_result_text(o, "parameter"));
    good = pz_dataset_row(
        rows, json_pack("[s,s,f,f,f,f,f,b]", p.text, p.unit, pz_result_number(o, "from"),
                        pz_result_number(o, "to"), pz_result_number(o, "change"),
                        pz_result_number(o, "change_at_most"), pz_result_number(o, "area_mm2"),
                        json_is_true(json_object_get(o, "within_budget"))));
  }
  return pz_story_check(t, good);
}

/* ---- inputs --------------------------------------------------------------------------------- */

struct list {
  struct pz_story *t;
  json_t *rows;
  bool good;
};

static void add(struct list *l, const char *what, const char *format, ...) PZ_PRINTF(3, 4);

static void add(struct list *l, const char *what, const char *format, ...) {
  va_list args;
  va_start(args, format);
  json_t *text = json_vsprintf(format, args);
  va_end(args);
  l->good = l->good && pz_dataset_row(l->rows, json_pack("[s,o]", what, text));
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

static void add_machines(struct list *l, const struct pz_study *s) {
  const struct pz_cluster *net = &s->task.net;
  char buf[256];
  add(l, "design space", "%s: %s (%u chip%s within the area budget)", s->space.name, s->space.about,
      s->n_points, pz_text_s(s->n_points));
  add(l, "area budget", "%.3f mm²", s->space.budget_um2 / 1e6);
  add(l, "network", "%s: %s", net->name, net->about);
  add(l, "chips in the cluster", "%" PRId64, s->o.devices);
  add(l, "global batch size", "%" PRId64 " sample%s", s->o.batch, pz_text_s((double)s->o.batch));
  add(l, "microbatch sizes considered", "%s", choices_text(&s->o.mbs, buf, sizeof buf));
  add(l, "tensor-parallel degrees considered", "%s", choices_text(&s->o.tp, buf, sizeof buf));
  add(l, "HBM capacities considered", "%s GiB", choices_text(&s->o.hbm_gib, buf, sizeof buf));
}

static enum pz_status tell_inputs(struct pz_story *t) {
  struct list l = {t, pz_dataset_add(t->datasets, "inputs", "input,value"), true};
  const struct pz_study *s = t->study;
  const json_t *models = json_object_get(json_object_get(t->result, "inputs"), "models");
  if (!l.rows) return pz_story_check(t, false);
  add(&l, "phaze", "version %s", pz_version());
  for (uint32_t m = 0; m < s->portfolio.n_models; m++)
    add(&l, "model", "%s: %" PRId64 " tokens per sample, digest %s", s->portfolio.models[m],
        s->portfolio.seq[m], pz_result_text(json_array_get(models, m), "digest"));
  add_machines(&l, s);
  add(&l, "objective", "%s: %s", pz_objective_names[s->o.objective],
      pz_objective_unit(s->o.objective));
  add(&l, "parameters, gradients and optimizer state", "%g bytes per byte of parameters",
      s->o.state);
  add(&l, "step limit of a schedule solve", "%" PRId64, s->o.steps);
  add(&l, "search",
      s->o.exhaustive ? "exhaustive: every chip evaluated" : "chips excluded by upper bounds");
  return pz_story_check(t, l.good);
}

static enum pz_status tell_command(struct pz_story *t) {
  json_t *rows = pz_dataset_add(t->datasets, "command", "command");
  struct pz_buffer b = {0};
  FILE *out = pz_buffer_stream(&b);
  if (!out) return pz_story_check(t, false);
  pz_command_line_print(t->study, pz_compared_seed(t->comparison), out);
  bool good = pz_buffer_close(out) && rows && pz_dataset_row(rows, json_pack("[s]", b.text));
  pz_free(b.text);
  return pz_story_check(t, good);
}

enum pz_status pz_story_run(struct pz_story *t) {
  enum pz_status status = tell_objective_runs(t);
  if (status == PZ_OK) status = tell_sensitivity(t);
  if (status == PZ_OK) status = tell_inputs(t);
  return status == PZ_OK ? tell_command(t) : status;
}
