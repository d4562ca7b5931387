/* Training plans as one HTML file that opens offline: step time and tokens/s of a device where there are several numbers of
 * devices, the parts of the step, its pipeline and memory over time. */
#include "chip/chip.h"
#include "core/status.h"
#include "report/dataset.h"
#include "report/page.h"
#include "report/step_view.h"

/* ---- rows ----------------------------------------------------------------------------------- */

static bool tell_about(const struct pz_plan_page *p, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "about", "model,chip,cluster,scaling");
  if (!rows) return false;
  json_t *model = json_string(p->model); /* a path may be any bytes */
  return pz_dataset_row(rows,
                        json_pack("[o,s,s,s]", model ? model : json_string("model"), p->chip->name,
                                  p->net ? p->net->name : "", p->weak ? "weak" : "strong"));
}

static bool tell_rows(const struct pz_plan_page *p, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "scaling",
                                "devices,batch,found,fits,devices_used,step_s,"
                                "tokens_per_s_per_device,mfu,mfu_conventional,peak_bytes,"
                                "needed_bytes,usable_bytes,plan");
  bool good = rows;
  for (uint32_t i = 0; i < p->n_rows && good; i++) {
    const struct pz_scaling_row *x = &p->rows[i];
    const struct pz_training_run *r = x->run;
    char plan[PZ_PLAN_TEXT_MOST] = "";
    if (r) pz_plan_text(&r->plan, plan, sizeof plan);
    good = pz_dataset_row(rows,
                          json_pack("[I,I,b,b,I,f,f,f,f,f,f,f,s]", (json_int_t)x->devices,
                                    (json_int_t)x->batch, r != NULL, r && pz_prediction_fits(&r->p),
                                    (json_int_t)(r ? r->plan.devices : 0), r ? r->p.step_s : 0,
                                    x->tokens_per_s_per_device, r ? r->p.mfu : 0,
                                    r ? r->p.mfu_conventional : 0, r ? r->p.peak_bytes : 0,
                                    r ? r->p.needed_bytes : 0, r ? r->p.usable_bytes : 0, plan));
  }
  return good;
}

static bool tell_parts(const struct pz_plan_page *p, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "parts", "devices,part,seconds");
  const struct pz_part_info *part;
  bool good = rows;
  for (uint32_t i = 0; i < p->n_rows; i++)
    for (size_t k = 0; p->rows[i].run && (part = pz_time_part_at(k)) && good; k++)
      good = pz_dataset_row(rows, json_pack("[I,s,f]", (json_int_t)p->rows[i].devices, part->label,
                                            pz_time_part(&p->rows[i].run->p.parts, part)));
  return good;
}

/* ---- the simulated steps -------------------------------------------------------------------- */

static enum pz_status add_step(const struct pz_plan_page *p, const struct pz_scaling_row *x,
                               uint32_t most, json_t *datasets, struct pz_error *err) {
  struct pz_training_run *run = NULL;
  struct pz_memory_curve *curves = NULL;
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  enum pz_status status =
      pz_training_predict(p->model, p->chip, p->net, &x->run->plan, true, &run, err);
  if (status == PZ_OK) {
    struct pz_memory_question q = {p->model, p->chip, p->net, run};
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
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < p->n_rows; i++) runs += p->rows[i].run != NULL;
  for (uint32_t i = 0; i < p->n_rows && status == PZ_OK; i++)
    if (p->rows[i].run) status = add_step(p, &p->rows[i], PZ_STEP_VIEW_MOST / runs, datasets, err);
  return status;
}

/* ---- the page ------------------------------------------------------------------------------- */

enum pz_status pz_plan_page(const struct pz_plan_page *page, char **text, size_t *bytes,
                            struct pz_error *err) {
  struct pz_plan_page p = {.size = sizeof p};
  enum pz_status status = pz_need(page, "page", err);
  if (status == PZ_OK) status = pz_sized_take(&p, sizeof p, page, "sizeof", err);
  if (status == PZ_OK)
    status = pz_need_each(err, {p.model, "model"}, {p.chip, "chip"}, {p.rows, "rows"},
                          {text, "text"}, {bytes, "bytes"});
  if (status != PZ_OK) return status;
  json_t *datasets = json_object(), *document = NULL;
  bool good = tell_about(&p, datasets) && tell_rows(&p, datasets) && tell_parts(&p, datasets);
  status = good ? add_steps(&p, datasets, err) : PZ_NO_MEMORY;
  if (status == PZ_OK)
    document = json_pack("{s:s,s:O,s:s?}", "version", pz_version(), "datasets", datasets, "explore",
                         p.explore);
  if (document) status = pz_page_text("scaling_page", document, text, bytes, err);
  if (status == PZ_NO_MEMORY || (status == PZ_OK && !document))
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
  json_decref(document);
  json_decref(datasets);
  return status;
}
