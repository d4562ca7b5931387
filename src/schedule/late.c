/* Exact search in two steps: short tasks that nothing waits for are left out of the tree and fitted
 * into its schedules; those that do not fit come back into the tree. */
#include "schedule/context.h"

/* Short tasks that nothing waits for: they mostly fit somewhere beside the others. */
static uint32_t mark_late(const struct pz_context *c, bool *late) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->p->n; i++) /* those put in later would not leave it */
    if (pz_wants_instant(&c->p->tasks[i])) return 0;
  for (uint32_t i = c->p->n; i-- > 0;) {
    const struct pz_task *t = &c->p->tasks[i];
    late[i] = c->least_s[i] > 0 && c->least_s[i] < 0.03 * c->best_s &&
              c->head_s[i] + c->least_s[i] < 0.9 * c->bound_s;
    for (uint32_t k = 0; k < t->n_succ; k++) late[i] = late[i] && late[t->succ[k]];
    n += late[i];
  }
  return n;
}

/* First without late tasks, as long as those that do not fit are few, then with all. */
enum pz_status pz_late_search(struct pz_context *c, int64_t steps, struct pz_error *err) {
  bool *late = pz_arena_alloc(c->arena, c->p->n, sizeof *late);
  if (!late) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
  enum pz_status status = PZ_OK;
  int64_t end = c->steps + steps;
  for (uint32_t n = mark_late(c, late), left = 0; n && status == PZ_OK && pz_open(c); n = left) {
    status = pz_exact_search(c, (end - c->steps) / 2, late, err);
    pz_bound_tighten(c);
    left = 0;
    for (uint32_t i = 0; i < c->p->n; i++) left += late[i];
    if (left == n) break;
  }
  if (status == PZ_OK && pz_open(c)) status = pz_exact_search(c, end - c->steps, NULL, err);
  return status;
}
