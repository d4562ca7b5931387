#include "report/validation_page.h"

#include <math.h>
#include <string.h>

#include "report/dataset.h"
#include "report/page.h"

static json_t *real_or_null(double x) { return isnan(x) ? json_null() : json_real(x); }

static bool tell_points(const struct pz_validation *v, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "points",
                                "kind,group,run,quality,chip,framework,model,shape,plan,devices,"
                                "batch,measured_s,predicted_s,measured_bytes,predicted_bytes,"
                                "not_predicted");
  bool good = rows;
  for (uint32_t i = 0; i < v->n_points && good; i++) {
    const struct pz_validation_point *p = &v->points[i];
    good = pz_dataset_row(
        rows, json_pack("[s,s,s,s,s,s,s,s,s,I,I,f,f,f,f,s]", pz_point_kind_names[p->kind], p->group,
                        p->id, p->quality, p->chip, p->framework, p->model, p->shape, p->plan,
                        (json_int_t)p->devices, (json_int_t)p->batch, p->measured_s, p->predicted_s,
                        p->measured_bytes, p->predicted_bytes, p->reason));
  }
  return good;
}

static bool tell_errors(const struct pz_validation *v, const struct pz_errors *list, uint32_t n,
                        const char *set, json_t *rows) {
  bool good = true, apart = strcmp(set, "apart") == 0;
  for (uint32_t i = 0; i < n && good; i++) {
    const struct pz_errors *g = &list[i];
    double limit = apart ? (double)NAN : pz_limit_of(v, g->name, PZ_LIMITED_TIME);
    double memory_limit = apart ? (double)NAN : pz_limit_of(v, g->name, PZ_LIMITED_MEMORY);
    good = pz_dataset_row(
        rows, json_pack("[s,s,s,I,I,o,o,o,o,I,o,o]", set, pz_point_kind_names[g->kind], g->name,
                        (json_int_t)g->n, (json_int_t)g->not_predicted, real_or_null(g->mean),
                        real_or_null(limit), real_or_null(g->bias), real_or_null(g->worst),
                        (json_int_t)g->n_memory, real_or_null(g->memory_mean),
                        real_or_null(memory_limit)));
  }
  return good;
}

static bool tell_groups(const struct pz_validation *v, json_t *datasets) {
  json_t *rows = pz_dataset_add(datasets, "groups",
                                "set,kind,group,rows,not_predicted,mean_error,limit,bias,worst,"
                                "memory_rows,memory_error,memory_limit");
  return rows && tell_errors(v, v->groups, v->n_groups, "groups", rows) &&
         tell_errors(v, v->totals, v->n_totals, "totals", rows) &&
         tell_errors(v, v->apart, v->n_apart, "apart", rows);
}

static bool tell_plans(const struct pz_validation *v, json_t *datasets) {
  json_t *plans = pz_dataset_add(datasets, "plans", "group,model,plans,rank_correlation,regret");
  json_t *means = pz_dataset_add(datasets, "plan_means", "group,models,rank_correlation,regret");
  bool good = plans && means;
  for (uint32_t i = 0; i < v->n_orders && good; i++) {
    const struct pz_plan_order *o = &v->orders[i];
    good = pz_dataset_row(plans, json_pack("[s,s,I,o,f]", o->group, o->name, (json_int_t)o->plans,
                                           real_or_null(o->rank_correlation), o->regret));
  }
  for (uint32_t i = 0; i < v->n_order_means && good; i++) {
    const struct pz_order_mean *m = &v->order_means[i];
    good = pz_dataset_row(means, json_pack("[s,I,o,f]", m->name, (json_int_t)m->n,
                                           real_or_null(m->rank_correlation), m->regret));
  }
  return good;
}

enum pz_status pz_validation_page(const struct pz_validation *v, char **text, size_t *bytes,
                                  struct pz_error *err) {
  json_t *datasets = json_object();
  bool good = tell_points(v, datasets) && tell_groups(v, datasets) && tell_plans(v, datasets);
  json_t *document =
      good ? json_pack("{s:s,s:O}", "version", pz_version(), "datasets", datasets) : NULL;
  enum pz_status status = document ? pz_page_text("validation_page", document, text, bytes, err)
                                   : pz_fail(err, PZ_NO_MEMORY, "out of memory for the page");
  json_decref(document);
  json_decref(datasets);
  return status;
}
