/* Training plans as one HTML file that opens offline.  pz_plan_page() adds the datasets of the page: step time and tokens/s of
 * a device for each number of devices, the parts of the step, and for each run one simulated step with its pipeline and its
 * memory over time. */
#include "chip/chip.h"
#include "report/dataset.h"
#include "report/page.h"
#include "report/step_view.h"

static void add_about(struct pz_call *call, const struct pz_plan_page *p, json_t *datasets) {
  json_t *rows = pz_dataset_new(call, datasets, "about", "model,chip,cluster,scaling");
  json_t *model = json_string(p->model); /* fails for a path that is not UTF-8 */
  if (!model) model = json_string("model");
  pz_dataset_append(call, rows,
                    json_pack("[o,s,s,s]", model, p->chip->name, p->net ? p->net->name : "",
                              p->weak ? "weak" : "strong"));
}

/* One row for each number of devices, also where no plan was found. */
static void add_scaling(struct pz_call *call, const struct pz_plan_page *p, json_t *datasets) {
  static const struct pz_training_run none = {0};
  json_t *rows = pz_dataset_new(call, datasets, "scaling",
                                "devices,batch,found,fits,devices_used,step_s,"
                                "tokens_per_s_per_device,mfu,mfu_conventional,peak_bytes,"
                                "needed_bytes,usable_bytes,plan");
  for (uint32_t i = 0; i < p->n_rows; i++) {
    const struct pz_scaling_row *x = &p->rows[i];
    bool found = x->run != NULL;
    const struct pz_training_run *r = found ? x->run : &none;
    char plan[PZ_PLAN_TEXT_MOST] = "";
    if (found) pz_plan_text(&r->plan, plan, sizeof plan);
    pz_dataset_append(call, rows,
                      json_pack("[I,I,b,b,I,f,f,f,f,f,f,f,s]", (json_int_t)x->devices,
                                (json_int_t)x->batch, found, found && pz_prediction_fits(&r->p),
                                (json_int_t)r->plan.devices, r->p.step_s,
                                x->tokens_per_s_per_device, r->p.mfu, r->p.mfu_conventional,
                                r->p.peak_bytes, r->p.needed_bytes, r->p.usable_bytes, plan));
  }
}

static void add_parts(struct pz_call *call, const struct pz_plan_page *p, json_t *datasets) {
  json_t *rows = pz_dataset_new(call, datasets, "parts", "devices,part,seconds");
  for (uint32_t i = 0; i < p->n_rows; i++) {
    if (!p->rows[i].run) continue;
    for (size_t k = 0; pz_time_part_at(k); k++) {
      const struct pz_part_info *part = pz_time_part_at(k);
      pz_dataset_append(call, rows,
                        json_pack("[I,s,f]", (json_int_t)p->rows[i].devices, part->label,
                                  pz_time_part(&p->rows[i].run->p.parts, part)));
    }
  }
}

static void free_training_run(void *run) { pz_training_run_free(run); }

/* Simulates the step of every run that has a plan.  All of them together contain at most as many passes as a page can show. */
static void add_steps(struct pz_call *call, const struct pz_plan_page *p, json_t *datasets) {
  uint32_t n_runs = 0;
  for (uint32_t i = 0; i < p->n_rows; i++)
    if (p->rows[i].run) n_runs++;
  for (uint32_t i = 0; i < p->n_rows; i++) {
    const struct pz_scaling_row *x = &p->rows[i];
    if (!x->run) continue;
    struct pz_call step = pz_scratch(call);
    struct pz_training_run *run = NULL;
    pz_must(&step, pz_training_predict(p->model, p->chip, p->net, &x->run->plan, true, &run,
                                       pz_call_error(&step)));
    pz_defer(&step, free_training_run, run);
    struct pz_memory_question q = {p->model, p->chip, p->net, run};
    struct pz_memory_curve *curves = pz_memory_curves(&step, &q);
    struct pz_step_view v = {x->devices, run, curves, PZ_STEP_VIEW_MOST / n_runs};
    pz_step_view_add(&step, datasets, &v);
    pz_close(&step, run);
    pz_scratch_end(&step);
  }
}

struct plan_page {
  const struct pz_plan_page *given;
  char **text;
  size_t *bytes;
};

static void write_plan_page(struct pz_call *call, void *ctx) {
  struct plan_page *x = ctx;
  struct pz_plan_page p = {.size = sizeof p};
  pz_require(call, x->given, "page");
  pz_require_options(call, &p, sizeof p, x->given, "sizeof");
  pz_require(call, p.model, "model");
  pz_require(call, p.chip, "chip");
  pz_require(call, p.rows, "rows");
  pz_require(call, x->text, "text");
  pz_require(call, x->bytes, "bytes");
  json_t *datasets = pz_json_built(call, json_object());
  add_about(call, &p, datasets);
  add_scaling(call, &p, datasets);
  add_parts(call, &p, datasets);
  add_steps(call, &p, datasets);
  json_t *document = pz_json_built(call, json_pack("{s:s,s:O,s:s?}", "version", pz_version(),
                                                   "datasets", datasets, "explore", p.explore));
  struct pz_buffer *html = pz_page_html(call, "scaling_page", document);
  *x->text = pz_buffer_take(call, html);
  *x->bytes = html->bytes;
}

enum pz_status pz_plan_page(const struct pz_plan_page *page, char **text, size_t *bytes,
                            struct pz_error *err) {
  struct plan_page x = {page, text, bytes};
  return pz_border(write_plan_page, &x, err);
}
