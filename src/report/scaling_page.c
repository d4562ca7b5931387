#include "report/scaling_page.h"

#include "report/dataset.h"
#include "report/page.h"

static bool tell_rows(const struct pz_scaling *s, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "scaling",
                                "devices,batch,found,fits,devices_used,step_s,"
                                "tokens_per_s_per_device,mfu,mfu_conventional,peak_bytes,"
                                "usable_bytes,plan");
  bool good = rows;
  for (uint32_t i = 0; i < s->n && good; i++) {
    const struct pz_scaling_row *x = &s->rows[i];
    const struct pz_training_run *r = x->run;
    good = pz_dataset_row(
        rows, json_pack("[I,I,b,b,I,f,f,f,f,f,f,s]", (json_int_t)x->devices, (json_int_t)x->batch,
                        r != NULL, r && pz_prediction_fits(&r->p),
                        (json_int_t)(r ? r->plan.devices : 0), r ? r->p.step_s : 0,
                        x->tokens_per_s_per_device, r ? r->p.mfu : 0, r ? r->p.mfu_conventional : 0,
                        r ? r->p.peak_bytes : 0, r ? r->p.usable_bytes : 0, r ? x->plan : ""));
  }
  return good;
}

static bool tell_parts(const struct pz_scaling *s, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "parts", "devices,part,seconds");
  bool good = rows;
  for (uint32_t i = 0; i < s->n; i++)
    for (uint32_t k = 0; s->rows[i].parts_s && k < s->n_parts && good; k++)
      good = pz_dataset_row(rows, json_pack("[I,s,f]", (json_int_t)s->rows[i].devices,
                                            s->part_names[k], s->rows[i].parts_s[k]));
  return good;
}

static bool tell_about(const struct pz_scaling *s, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "about", "model,chip,cluster,scaling");
  if (!rows) return false;
  json_t *model = json_string(s->model); /* a path may be any bytes */
  return pz_dataset_row(rows, json_pack("[o,s,s,s]", model ? model : json_string("model"), s->chip,
                                        s->cluster ? s->cluster : "", s->weak ? "weak" : "strong"));
}

enum pz_status pz_scaling_page(const struct pz_scaling *s, char **text, size_t *bytes,
                               struct pz_error *err) {
  json_t *datasets = json_object();
  bool good = tell_about(s, datasets) && tell_rows(s, datasets) && tell_parts(s, datasets) &&
              json_object_update(datasets, (json_t *)(uintptr_t)s->steps) == 0;
  json_t *document = good ? json_pack("{s:s,s:O,s:s?}", "version", pz_version(), "datasets",
                                      datasets, "explore", s->explore)
                          : NULL;
  enum pz_status status = document ? pz_page_text("scaling_page", document, text, bytes, err)
                                   : pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
  json_decref(document);
  json_decref(datasets);
  return status;
}
