/* The plans that phaze place --semantics training found, as text.  pz_place_print() prints the best plan with its rates, the
 * alternatives to it and the certificate, then the parts of the step, the memory of the stages and the next best plans. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/place_training.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

/* ---- the best plan -------------------------------------------------------------------------- */

static void print_plan(const struct pz_place_job *j, const struct pz_training_run *r) {
  const struct pz_plan *o = &r->plan;
  const struct pz_machine *m = j->machine;
  bool own_link = m->network.own_link;
  char name[256], line[PZ_PLAN_LINE_MOST];
  printf("%s on %" PRId64 " x %s%s%s: %.4g s per step\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->model)), j->options.plan.devices,
         m->chip.name, own_link ? "" : " in ", own_link ? "" : m->network.cluster.name,
         r->p.step_s);
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

static void print_switched(const struct pz_training_plans *p) {
  if (!p->n_switched) return;
  printf("switched on beyond the framework's defaults, with the time that it saves: ");
  for (uint32_t i = 0; i < p->n_switched; i++)
    printf("%s%s %.1f%%", i ? ", " : "", p->switched[i].option,
           100 * (1 - 1 / (1 + p->switched[i].gain)));
  putchar('\n');
}

/* Prints the best plan that uses all devices, if the chosen plan leaves some idle. */
static void print_all_devices(const struct pz_training_plans *p, bool idle) {
  const struct pz_training_run *all = p->all_devices;
  char text[PZ_PLAN_TEXT_MOST];
  if (all)
    printf("with all devices: %.4g s (%+.2f%%), +-%.0f%%: %s\n", all->p.step_s,
           100 * (all->p.step_s / p->runs[0]->p.step_s - 1), 100 * all->expected.error,
           pz_plan_text(&all->plan, text, sizeof text));
  else if (idle)
    puts("no plan uses all of them");
}

/* The time by which plans are ranked: `counted` adds the expected error. */
static double ranked_s(const struct pz_training_run *r, bool counted) {
  return r->p.step_s * (counted ? 1 + r->expected.error : 1);
}

/* Prints the fastest plan, if a simpler one of nearly the same time was chosen. */
static void print_fastest(const struct pz_training_plans *p, bool counted) {
  char text[256], saved[32] = "less than 0.01%";
  if (!p->fastest) return;
  double percent = 100 * (1 - ranked_s(p->fastest, counted) / ranked_s(p->runs[0], counted));
  if (percent >= 0.01) snprintf(saved, sizeof saved, "%.2f%%", percent);
  printf("%s, %s less than this simpler plan: %.4g s, %s\n",
         counted ? "least counted time" : "fastest by prediction", saved, p->fastest->p.step_s,
         pz_plan_text(&p->fastest->plan, text, sizeof text));
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

/* ---- the next best -------------------------------------------------------------------------- */

/* Appends the part of the step that is longer than that of the best plan by most. */
static void append_grown_part(struct pz_table *t, const struct pz_training_run *best,
                              const struct pz_training_run *r) {
  double grown_s;
  const struct pz_part_info *part = pz_grown_part(&best->p, &r->p, &grown_s);
  if (part && grown_s > 1e-4 * best->p.step_s)
    pz_table_cell(t, "%s +%.3g s", pz_time_part_label(&r->p, part), grown_s);
  else
    pz_table_cell(t, "-");
}

static void print_others(struct pz_call *call, const struct pz_training_plans *p) {
  static const char *const heads[] = {">s per step",      ">slower",        ">error", ">at most GB",
                                      "best of its kind", "what grew most", NULL};
  struct pz_table t;
  if (p->n < 2) return;
  pz_table_init(&t, call->arena, heads);
  for (uint32_t i = 1; i < p->n; i++) {
    const struct pz_training_run *r = p->runs[i];
    char text[PZ_PLAN_TEXT_MOST];
    pz_table_cell(&t, "%.4g", r->p.step_s);
    pz_table_cell(&t, "%+.2f%%", 100 * (r->p.step_s / p->runs[0]->p.step_s - 1));
    pz_table_cell(&t, "%.0f%%", 100 * r->expected.error);
    pz_table_cell(&t, "%.1f", r->p.needed_bytes / 1e9);
    pz_table_cell(&t, "%s", pz_plan_text(&r->plan, text, sizeof text));
    append_grown_part(&t, p->runs[0], r);
  }
  putchar('\n');
  pz_must(call, pz_table_print(&t, 0, stdout));
}

/* Suggests to rehearse the plan on one GPU, if a script can be written for it. */
static void suggest_rehearsal(struct pz_call *call, const struct pz_place_job *j,
                              const struct pz_training_run *r) {
  int framework = r->plan.framework;
  bool supported =
      framework == pz_framework_find("torchtitan") || framework == pz_framework_find("megatron");
  if (!supported || r->plan.devices == 1 || *r->refusal) return;
  enum pz_status status = pz_launch_check(j->model, &j->machine->chip, framework, NULL);
  if (status == PZ_NO_MEMORY) pz_must(call, status);
  if (status == PZ_OK)
    printf("\nto try the plan on one GPU: save it with --json, then 'phaze rehearse'\n");
}

void pz_place_print(struct pz_call *call, const struct pz_place_job *j,
                    const struct pz_training_plans *p) {
  const struct pz_training_run *best = p->runs[0];
  int64_t devices = j->options.plan.devices;
  print_plan(j, best);
  print_switched(p);
  print_all_devices(p, best->plan.devices < devices);
  print_fastest(p, j->options.risk == PZ_RISK_COUNTED);
  print_certificate(p);
  if (j->diff) pz_place_print_compared(call, j);
  pz_predict_print_parts(call, &best->p);
  pz_predict_print_memory(call, best);
  print_others(call, p);
  struct pz_predicted priced = {.s = &j->priced, .machine = j->machine, .run = best};
  if (j->t->tokens) pz_predict_print_cost(call, &priced, &j->cost);
  if (j->late)
    printf("\nno plan on %" PRId64 " device%s ends within %s; this is the fastest\n", devices,
           pz_text_s((double)devices), j->t->deadline);
  suggest_rehearsal(call, j, best);
}
