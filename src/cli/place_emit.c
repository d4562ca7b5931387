/* phaze place --emit: the chosen plan as the launch script of its framework. */
#include <stdio.h>

#include "cli/place_training.h"
#include "core/alloc.h"
#include "launch/launch.h"

enum pz_status pz_place_emit(struct pz_place_job *j, const struct pz_training_run *r) {
  const struct pz_machine *m = &j->machine;
  struct pz_launch l;
  char *text = NULL;
  enum pz_status status =
      pz_launch_fill(j->q->model, &r->plan, m->own_link ? NULL : &m->net, &l, j->err);
  if (status == PZ_OK) status = pz_launch_script(j->emit, &l, &text, j->err);
  if (status != PZ_OK) return status;
  fputs(text, stdout);
  pz_free(text);
  if (!j->q->s->quiet && fflush(stdout) == 0)
    pz_command_say("%.4g s per step, MFU %.1f%%, %.1f GB of a device's memory", r->p.step_s,
                   100 * r->p.mfu, r->p.peak_bytes / 1e9);
  return PZ_OK;
}
