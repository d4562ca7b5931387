#include "cli/plan_page.h"

#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "plan/plan_text.h"
#include "report/scaling_page.h"
#include "report/step_view.h"
#include "step/prediction.h"

enum { MOST_PARTS = 16 };

static uint32_t part_names(const char *names[MOST_PARTS]) {
  const struct pz_part_info *part;
  uint32_t n = 0;
  for (; n < MOST_PARTS && (part = pz_time_part_at(n)); n++) names[n] = part->label;
  return n;
}

static enum pz_status fill_row(const struct pz_plan_page_row *x, uint32_t n_parts,
                               struct pz_arena *arena, struct pz_scaling_row *out) {
  *out = (struct pz_scaling_row){.devices = x->devices, .batch = x->batch};
  if (!x->run) return PZ_OK;
  double *parts = pz_arena_alloc(arena, n_parts, sizeof *parts);
  out->plan = pz_found_plan_text(x->run, arena);
  if (!parts || !out->plan) return PZ_NO_MEMORY;
  for (uint32_t k = 0; k < n_parts; k++)
    parts[k] = pz_time_part(&x->run->p.parts, pz_time_part_at(k));
  out->run = x->run;
  out->parts_s = parts;
  out->tokens_per_s_per_device = x->tokens_per_s_per_device;
  return PZ_OK;
}

/* ---- the simulated steps -------------------------------------------------------------------- */

static enum pz_status add_step(const struct pz_plan_page *p, const struct pz_plan_page_row *x,
                               uint32_t most, json_t *datasets, struct pz_error *err) {
  struct pz_plan o = x->run->plan;
  struct pz_training_run *run = NULL;
  struct pz_memory_curve *curves = NULL;
  struct pz_arena arena;
  const struct pz_cluster *net = p->machine->own_link ? NULL : &p->machine->net;
  pz_arena_init(&arena, NULL);
  enum pz_status status =
      pz_training_predict(p->model, &p->machine->chip, net, &o, true, &run, err);
  if (status == PZ_OK) {
    struct pz_memory_question q = {p->model, &p->machine->chip, net, run};
    status = pz_memory_curves(&q, &arena, &curves, err);
  }
  if (status == PZ_OK) {
    struct pz_step_view v = {x->devices, run, curves, most};
    if (!pz_step_view_add(datasets, &v)) status = PZ_NO_MEMORY;
  }
  pz_arena_release(&arena);
  pz_training_run_free(run);
  return status;
}

/* All runs together have as many passes as a page can hold. */
static enum pz_status add_steps(const struct pz_plan_page *p, json_t *datasets,
                                struct pz_error *err) {
  uint32_t runs = 0;
  enum pz_status status = datasets ? PZ_OK : PZ_NO_MEMORY;
  for (uint32_t i = 0; i < p->n; i++) runs += p->rows[i].run != NULL;
  for (uint32_t i = 0; i < p->n && status == PZ_OK; i++)
    if (p->rows[i].run) status = add_step(p, &p->rows[i], PZ_STEP_VIEW_MOST / runs, datasets, err);
  return status;
}

/* ---- a page beside it ----------------------------------------------------------------------- */

static const char EXPLORE[] = "explore.html";

/* Does a page of `phaze explore` lie in the same folder? */
static bool explore_beside(const char *path, struct pz_arena *arena) {
  static const char title[] = "<title>phaze explore</title>";
  enum { HEAD = 1 << 12, MOST_BYTES = 1 << 24 };
  struct pz_file_bytes m;
  const char *slash = strrchr(path, '/');
  const char *beside =
      pz_arena_printf(arena, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, EXPLORE);
  if (!beside || pz_file_map(beside, MOST_BYTES, &m, NULL) != PZ_OK) return false;
  const char *at = m.data, *end = at + (m.bytes < HEAD ? m.bytes : HEAD);
  size_t n = strlen(title);
  bool found = false;
  for (; at + n <= end && !found; at++) found = memcmp(at, title, n) == 0;
  pz_file_unmap(&m);
  return found;
}

/* ---- the page ------------------------------------------------------------------------------- */

static enum pz_status write_text(const struct pz_plan_page *p, const struct pz_scaling *page,
                                 struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_scaling_page(page, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(p->path, text, bytes, err);
  pz_free(text);
  return status;
}

enum pz_status pz_plan_page_write(const struct pz_plan_page *p, struct pz_arena *arena,
                                  struct pz_error *err) {
  const struct pz_machine *m = p->machine;
  const char *names[MOST_PARTS];
  uint32_t n_parts = part_names(names);
  struct pz_scaling_row *rows = pz_arena_alloc(arena, p->n, sizeof *rows);
  json_t *steps = json_object();
  enum pz_status status = rows ? add_steps(p, steps, err) : PZ_NO_MEMORY;
  for (uint32_t i = 0; i < p->n && status == PZ_OK; i++)
    status = fill_row(&p->rows[i], n_parts, arena, &rows[i]);
  if (status == PZ_OK) {
    struct pz_scaling page = {.model = p->model,
                              .chip = m->chip.name,
                              .cluster = m->own_link ? NULL : m->net.name,
                              .weak = p->weak,
                              .rows = rows,
                              .n = p->n,
                              .part_names = names,
                              .n_parts = n_parts,
                              .explore = explore_beside(p->path, arena) ? EXPLORE : NULL,
                              .steps = steps};
    status = write_text(p, &page, err);
  }
  json_decref(steps);
  if (status == PZ_NO_MEMORY && err->status == PZ_OK)
    status = pz_fail(err, status, "out of memory for the page");
  return status;
}
