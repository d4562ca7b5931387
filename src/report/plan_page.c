/* Training plans as one HTML file that opens offline: step time and tokens/s of a device for each
 * number of devices, the parts of the step, and for each run one simulated step.  That step is one
 * row of the dataset "pipelines" and a row of "stages" for each stage, whose passes (forward or
 * backward of a microbatch) are columns of equal length, which is shorter than objects. */
#include <math.h>

#include "chip/chip.h"
#include "core/num.h"
#include "report/dataset.h"
#include "report/page.h"
#include "step/memory_curve.h"

/* Largest number of passes on a page, which more would make slow to open. */
enum { MOST_PASSES = 1 << 17 };

/* ---- numbers of devices --------------------------------------------------------------------- */

/* Adds one row for each number of devices, also where no plan was found. */
static void add_scaling(struct pz_call *call, const struct pz_plan_page *page, json_t *datasets) {
  static const struct pz_training_run none = {0};
  json_t *rows = pz_dataset_new(call, datasets, "scaling",
                                "devices,batch,found,fits,devices_used,step_s,"
                                "tokens_per_s_per_device,mfu,mfu_conventional,peak_bytes,"
                                "needed_bytes,usable_bytes,plan");
  for (uint32_t i = 0; i < page->n_rows; i++) {
    const struct pz_scaling_row *row = &page->rows[i];
    bool found = row->run != NULL;
    const struct pz_training_run *run = found ? row->run : &none;
    const struct pz_prediction *prediction = &run->p;
    char plan[PZ_PLAN_TEXT_MOST] = "";
    if (found) pz_plan_text(&run->plan, plan, sizeof plan);
    pz_dataset_add(call, rows, "[I,I,b,b,I,f,f,f,f,f,f,f,s]", (json_int_t)row->devices,
                   (json_int_t)row->batch, found, found && pz_prediction_fits(prediction),
                   (json_int_t)run->plan.devices, prediction->step_s, row->tokens_per_s_per_device,
                   prediction->mfu, prediction->mfu_conventional, prediction->peak_bytes,
                   prediction->needed_bytes, prediction->usable_bytes, plan);
  }
}

/* ---- simulated steps ------------------------------------------------------------------------ */

/* Returns a row of the dataset "stages": the memory of a stage and its passes, or only the first
 * and last `n_at_each_end`.  Letters of passes: f is forward, b backward, w gradients of weights
 * alone. */
static json_t *stage_row(struct pz_call *call, int64_t devices, const struct pz_training_run *run,
                         int64_t stage, const struct pz_memory_curve *curve,
                         uint32_t n_at_each_end) {
  const struct pz_training_memory *memory = &run->stages[stage];
  bool is_complete = curve->n <= 2 * n_at_each_end;
  bool several_chunks = run->plan.vpp > 1;
  json_t *chunks = json_array(), *microbatches = json_array(), *starts = json_array();
  json_t *ends = json_array(), *held = json_array();
  char *kinds = pz_alloc(call, (size_t)curve->n + 1, 1);
  size_t n_kinds = 0;
  for (uint32_t i = 0; i < curve->n; i++) {
    const struct pz_stage_pass *pass = &curve->passes[i];
    const struct pz_pipeline_event *event = pass->event;
    bool included = is_complete || i < n_at_each_end || i >= curve->n - n_at_each_end;
    if (!included) continue;
    char kind = event->backward ? 'b' : 'f';
    kinds[n_kinds++] = pass->weights ? 'w' : kind;
    if (several_chunks) json_array_append_new(chunks, json_integer((json_int_t)event->chunk + 1));
    json_array_append_new(microbatches, json_integer((json_int_t)event->microbatch + 1));
    json_array_append_new(starts, json_integer(llround(event->start_s * 1e6)));
    json_array_append_new(ends, json_integer(llround(event->end_s * 1e6)));
    json_array_append_new(held, json_integer(llround(pass->activation_bytes / 1e6)));
  }
  uint32_t n_left_out = is_complete ? 0 : curve->n - 2 * n_at_each_end;
  double working_bytes = pz_working_bytes(memory);
  double state_bytes = memory->weight_bytes + memory->optimizer_bytes;
  double gradient_bytes = pz_fmin(memory->gradient_bytes, curve->constant_bytes - state_bytes);
  double peak_bytes = state_bytes + memory->gradient_bytes + memory->activation_bytes +
                      memory->reserve_bytes + working_bytes;
  return json_pack("[I,I,f,f,f,f,f,f,f,I,o,o,o,o,o,o]", (json_int_t)devices, (json_int_t)stage + 1,
                   memory->weight_bytes, gradient_bytes, memory->optimizer_bytes,
                   curve->constant_bytes - state_bytes - gradient_bytes, curve->most_bytes,
                   working_bytes, peak_bytes, (json_int_t)n_left_out, json_stringn(kinds, n_kinds),
                   chunks, microbatches, starts, ends, held);
}

static void free_training_run(void *run) { pz_training_run_free(run); }

/* Simulates the step of every run that has a plan and lists at most MOST_PASSES passes in total. */
static void add_steps(struct pz_call *call, const struct pz_plan_page *page, json_t *datasets) {
  json_t *pipelines = NULL, *stages = NULL;
  uint32_t n_runs = 0;
  for (uint32_t i = 0; i < page->n_rows; i++)
    if (page->rows[i].run) n_runs++;
  for (uint32_t i = 0; i < page->n_rows; i++) {
    const struct pz_scaling_row *row = &page->rows[i];
    if (!row->run) continue;
    struct pz_call step = pz_scratch(call);
    struct pz_training_run *run = NULL;
    pz_must(&step, pz_training_predict(page->model, page->chip, page->net, &row->run->plan, true,
                                       &run, pz_call_error(&step)));
    pz_defer(&step, free_training_run, run);
    struct pz_memory_question question = {page->model, page->chip, page->net, run};
    struct pz_memory_curve *curves = pz_memory_curves(&step, &question);
    if (!pipelines) {
      pipelines = pz_dataset_new(call, datasets, "pipelines",
                                 "devices,step_s,exchange_s,optimizer_s,hbm_bytes,stages,chunks,"
                                 "microbatches,passes,order");
      stages = pz_dataset_new(call, datasets, "stages",
                              "devices,stage,weight_bytes,gradient_bytes,optimizer_bytes,"
                              "other_bytes,most_bytes,working_bytes,peak_bytes,left_out,kind,chunk,"
                              "microbatch,start_us,end_us,held_mb");
    }
    const struct pz_plan *plan = &run->plan;
    pz_dataset_add(&step, pipelines, "[I,f,f,f,f,I,I,I,I,s]", (json_int_t)row->devices,
                   run->p.step_s, run->p.parts.gradient_s, run->p.parts.optimizer_s, run->hbm_bytes,
                   (json_int_t)plan->pp, (json_int_t)plan->vpp, (json_int_t)run->p.microbatches,
                   (json_int_t)run->n_events, pz_pipeline_names[plan->pipeline]);
    uint32_t n_at_each_end = MOST_PASSES / n_runs / (2 * (uint32_t)plan->pp);
    if (n_at_each_end < 1) n_at_each_end = 1;
    for (int64_t k = 0; k < plan->pp; k++)
      pz_dataset_append(&step, stages,
                        stage_row(&step, row->devices, run, k, &curves[k], n_at_each_end));
    pz_close(&step, run);
    pz_scratch_end(&step);
  }
}

/* ---- the page ------------------------------------------------------------------------------- */

struct plan_page {
  const struct pz_plan_page *given;
  char **text;
  size_t *bytes;
};

/* Adds the datasets of the page, then writes the page with them. */
static void write_plan_page(struct pz_call *call, void *ctx) {
  struct plan_page *args = ctx;
  struct pz_plan_page page = {.size = sizeof page};
  pz_require(call, args->given, "page");
  pz_require_options(call, &page, sizeof page, args->given, "sizeof");
  pz_require(call, page.model, "model");
  pz_require(call, page.chip, "chip");
  pz_require(call, page.rows, "rows");
  pz_require(call, args->text, "text");
  pz_require(call, args->bytes, "bytes");
  json_t *datasets = pz_json_built(call, json_object());
  json_t *about = pz_dataset_new(call, datasets, "about", "model,chip,cluster,scaling");
  json_t *model = json_string(page.model); /* fails for a path that is not UTF-8 */
  if (!model) model = json_string("model");
  pz_dataset_add(call, about, "[o,s,s,s]", model, page.chip->name, page.net ? page.net->name : "",
                 page.weak ? "weak" : "strong");
  add_scaling(call, &page, datasets);
  /* The parts of the step time of every run. */
  json_t *rows = pz_dataset_new(call, datasets, "parts", "devices,part,seconds");
  for (uint32_t i = 0; i < page.n_rows; i++) {
    const struct pz_scaling_row *row = &page.rows[i];
    for (size_t k = 0; row->run && pz_time_part_at(k); k++) {
      const struct pz_part_info *part = pz_time_part_at(k);
      pz_dataset_add(call, rows, "[I,s,f]", (json_int_t)row->devices, part->label,
                     pz_time_part(&row->run->p.parts, part));
    }
  }
  add_steps(call, &page, datasets);
  json_t *document = pz_json_built(call, json_pack("{s:s,s:O,s:s?}", "version", pz_version(),
                                                   "datasets", datasets, "explore", page.explore));
  struct pz_buffer *html = pz_page_html(call, "scaling_page", document);
  *args->text = pz_buffer_take(call, html);
  *args->bytes = html->bytes;
}

enum pz_status pz_plan_page(const struct pz_plan_page *page, char **text, size_t *bytes,
                            struct pz_error *err) {
  struct plan_page args = {page, text, bytes};
  return pz_border(write_plan_page, &args, err);
}
