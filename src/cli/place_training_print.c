/* phaze place --semantics training: the plans that were found, for people. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/place_training.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

static void print_title(const struct pz_place_job *j, const struct pz_training_run *r) {
  const struct pz_machine *m = &j->machine;
  char name[256];
  printf("%s on %" PRId64 " x %s%s%s: %.4g s per step\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->q->model)), j->options.plan.devices,
         m->chip.name, m->at.own_link ? "" : " in ", m->at.own_link ? "" : m->at.cluster.name,
         r->p.step_s);
}

static void print_plan(const struct pz_place_job *j, const struct pz_training_run *r) {
  const struct pz_plan *o = &r->plan;
  char line[PZ_PLAN_LINE_MOST];
  print_title(j, r);
  printf("%s\n", pz_plan_line(o, false, line, sizeof line));
  printf("layers: %s", r->layers_text);
  if (o->first_layers && o->vpp > 1)
    printf(" (first chunk %" PRId64 ", last chunk %" PRId64 ")", o->first_layers, o->last_layers);
  printf("\nrecompute: %s\n", r->recompute_text);
  printf("batch %" PRId64 " x %" PRId64 " tokens: %" PRId64 " microbatch%s of %" PRId64
         " sample%s on each replica\n",
         o->batch, o->seq, r->p.microbatches, r->p.microbatches == 1 ? "" : "es", o->mbs,
         pz_text_s((double)o->mbs));
  if (o->devices < j->options.plan.devices)
    printf("%" PRId64 " device%s used, %" PRId64 " idle\n", o->devices,
           o->devices == 1 ? " is" : "s are", j->options.plan.devices - o->devices);
  pz_predict_print_rates(r);
  pz_predict_print_expected(&r->expected, r->p.step_s);
}

static void print_certificate(const struct pz_training_plans *p) {
  const struct pz_plan_certificate *c = &p->certificate;
  char plans[32], solved[32], bound[32], memory[32], gap[32] = "0";
  if (c->gap > 0) snprintf(gap, sizeof gap, "%.3g%%", 100 * c->gap);
  printf("%s: %s plans, %s simulated, %s excluded by their bound, %s by memory; gap %s\n",
         p->stopped ? "the best so far" : "proved",
         pz_text_count(plans, sizeof plans, (int64_t)c->plans),
         pz_text_count(solved, sizeof solved, (int64_t)c->solved),
         pz_text_count(bound, sizeof bound, (int64_t)c->by_bound),
         pz_text_count(memory, sizeof memory, (int64_t)c->by_memory), gap);
}

static double counted_s(const struct pz_training_run *r, bool counted) {
  return r->p.step_s * (counted ? 1 + r->expected.error : 1);
}

/* Where a simpler plan was chosen: the best. */
static void print_fastest(const struct pz_training_plans *p, bool counted) {
  char text[256];
  if (!p->fastest) return;
  double less = 100 * (1 - counted_s(p->fastest, counted) / counted_s(p->runs[0], counted));
  char by[32] = "less than 0.01%";
  if (less >= 0.01) snprintf(by, sizeof by, "%.2f%%", less);
  printf("%s, %s less than this simpler plan: %.4g s, %s\n",
         counted ? "least counted time" : "fastest by prediction", by, p->fastest->p.step_s,
         pz_plan_text(&p->fastest->plan, text, sizeof text));
}

/* The best plan that uses all devices, where the chosen one leaves some idle. */
static void print_all_devices(const struct pz_training_plans *p, bool idle) {
  char text[PZ_PLAN_TEXT_MOST];
  if (!p->all_devices) {
    if (idle) puts("no plan uses all of them");
    return;
  }
  printf("with all devices: %.4g s (%+.2f%%), +-%.0f%%: %s\n", p->all_devices->p.step_s,
         100 * (p->all_devices->p.step_s / p->runs[0]->p.step_s - 1),
         100 * p->all_devices->expected.error,
         pz_plan_text(&p->all_devices->plan, text, sizeof text));
}

static void print_switched(const struct pz_training_plans *p) {
  if (!p->n_switched) return;
  printf("switched on beyond the framework's defaults, with the time that it saves: ");
  for (uint32_t i = 0; i < p->n_switched; i++)
    printf("%s%s %.1f%%", i ? ", " : "", p->switched[i].option,
           100 * (1 - 1 / (1 + p->switched[i].gain)));
  putchar('\n');
}

/* ---- the next best -------------------------------------------------------------------------- */

static void grown_cell(struct pz_table *t, const struct pz_training_run *best,
                       const struct pz_training_run *r) {
  double grew;
  const struct pz_part_info *part = pz_grown_part(&best->p, &r->p, &grew);
  if (part && grew > 1e-4 * best->p.step_s)
    pz_table_cell(t, "%s +%.3g s", pz_time_part_label(&r->p, part), grew);
  else
    pz_table_cell(t, "-");
}

static enum pz_status print_others(struct pz_place_job *j, const struct pz_training_plans *p) {
  static const char *const heads[] = {">s per step",      ">slower",        ">error", ">at most GB",
                                      "best of its kind", "what grew most", NULL};
  struct pz_table t;
  if (p->n < 2) return PZ_OK;
  pz_table_init(&t, &j->arena, heads);
  for (uint32_t i = 1; i < p->n; i++) {
    const struct pz_training_run *r = p->runs[i];
    char text[PZ_PLAN_TEXT_MOST];
    pz_table_cell(&t, "%.4g", r->p.step_s);
    pz_table_cell(&t, "%+.2f%%", 100 * (r->p.step_s / p->runs[0]->p.step_s - 1));
    pz_table_cell(&t, "%.0f%%", 100 * r->expected.error);
    pz_table_cell(&t, "%.1f", r->p.needed_bytes / 1e9);
    pz_table_cell(&t, "%s", pz_plan_text(&r->plan, text, sizeof text));
    grown_cell(&t, p->runs[0], r);
  }
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

/* The next step: a plan that a script can launch can be tried on one GPU. */
static enum pz_status print_rehearsal(const struct pz_place_job *j,
                                      const struct pz_training_run *r) {
  int f = r->plan.framework;
  bool rehearsed = f == pz_framework_find("torchtitan") || f == pz_framework_find("megatron");
  if (!rehearsed || r->plan.devices == 1 || *r->refusal) return PZ_OK;
  enum pz_status status = pz_launch_check(j->q->model, &j->machine.chip, f, NULL);
  if (status == PZ_OK)
    printf("\nto try the plan on one GPU: save it with --json, then 'phaze rehearse'\n");
  return status == PZ_NO_MEMORY ? status : PZ_OK; /* no script is written for the model or chip */
}

enum pz_status pz_place_print(struct pz_place_job *j, const struct pz_training_plans *p) {
  print_plan(j, p->runs[0]);
  print_switched(p);
  print_all_devices(p, p->runs[0]->plan.devices < j->options.plan.devices);
  print_fastest(p, j->options.risk == PZ_RISK_COUNTED);
  print_certificate(p);
  enum pz_status status = pz_place_print_compared(j);
  if (status == PZ_OK) status = pz_predict_print_parts(&p->runs[0]->p, &j->arena);
  if (status == PZ_OK) status = pz_predict_print_memory(p->runs[0], &j->arena);
  if (status == PZ_OK) status = print_others(j, p);
  struct pz_predicted x = {.s = &j->cost_asked, .machine = j->machine, .run = p->runs[0]};
  if (status == PZ_OK && j->q->t->tokens) status = pz_predict_print_cost(&x, &j->cost, &j->arena);
  if (status == PZ_OK && j->late)
    printf("\nno plan on %" PRId64 " device%s ends within %s; this is the fastest\n",
           j->options.plan.devices, pz_text_s((double)j->options.plan.devices), j->q->t->deadline);
  return status == PZ_OK ? print_rehearsal(j, p->runs[0]) : status;
}
