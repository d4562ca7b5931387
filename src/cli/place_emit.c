/* phaze place --emit with training semantics: the best plan that a framework can express, as its launch
 * script. */
#include <stdio.h>
#include <string.h>

#include "cli/place_training.h"
#include "core/alloc.h"
#include "launch/launch.h"
#include "place/found_plan.h"

enum { NOT_FOUND = 0 };

static int launch_index(const char *name) {
  for (int i = 1; pz_launch_names[i]; i++)
    if (strcmp(pz_launch_names[i], name) == 0) return i;
  return NOT_FOUND;
}

/* The script of one plan; PZ_BAD_USE where it cannot be expressed. */
static enum pz_status script_of(const struct pz_place_job *j, const struct pz_training_run *r,
                                char **text, struct pz_error *err) {
  const struct pz_machine *m = &j->machine;
  const struct pz_training_options *o = &r->plan;
  struct pz_launch l;
  enum pz_status status = pz_launch_fill(j->q->model, o, m->own_link ? NULL : &m->net, &l, err);
  return status == PZ_OK ? pz_launch_script(launch_index(j->emit), &l, text, err) : status;
}

static void note_choice(const struct pz_place_job *j, const struct pz_training_plans *p,
                        uint32_t chosen, const char *why) {
  const struct pz_training_run *r = p->runs[chosen], *best = p->runs[0];
  if (j->q->s->quiet || fflush(stdout) != 0) return;
  pz_command_say("%.4g s per step, MFU %.1f%%, %.1f GB of a device's memory", r->p.step_s,
                 100 * r->p.mfu, r->p.peak_bytes / 1e9);
  if (chosen)
    pz_command_say("a plan of %.4g s cannot be expressed for %s: %s", best->p.step_s, j->emit, why);
}

/* The first plan of a list that can be expressed; *found: there is one. */
static enum pz_status emit_first(struct pz_place_job *j, uint32_t top, bool *found,
                                 struct pz_error *why) {
  struct pz_training_place_options o = j->options;
  struct pz_training_plans *p = NULL;
  char *text = NULL;
  o.top = top;
  o.uniform = true; /* no framework has another recomputation in every stage */
  o.events = false;
  enum pz_status status = pz_place_search(j, &j->machine.chip, &o, &p, j->err);
  if (status == PZ_OK && !p->n) status = pz_place_nothing_fits(j, p);
  *found = false;
  for (uint32_t i = 0; status == PZ_OK && !*found && i < p->n; i++) {
    struct pz_error one = {0};
    enum pz_status made = script_of(j, p->runs[i], &text, &one);
    if (made == PZ_NO_MEMORY) status = pz_fail(j->err, made, "%s", one.message);
    *found = made == PZ_OK;
    if (!*found && why->status == PZ_OK) *why = one;
    if (!*found) continue;
    fputs(text, stdout);
    note_choice(j, p, i, why->message);
  }
  pz_free(text);
  pz_training_plans_free(p);
  return status;
}

enum pz_status pz_place_emit(struct pz_place_job *j) {
  static const uint32_t tops[] = {16, 1000};
  struct pz_error why = {0};
  bool found = false;
  enum pz_status status = PZ_OK;
  if (j->machine.chip.execution != PZ_CHIP_STREAM)
    return pz_fail(j->err, PZ_BAD_USE, "--emit %s for chip %s; accepted: GPUs", j->emit,
                   j->machine.chip.name);
  for (size_t i = 0; i < sizeof tops / sizeof *tops && !found && status == PZ_OK; i++) {
    why = (struct pz_error){0};
    status = emit_first(j, tops[i], &found, &why);
  }
  if (status != PZ_OK || found) return status;
  return pz_fail(j->err, PZ_BAD_USE, "none of the best plans can be expressed for %s: %s", j->emit,
                 why.message);
}
