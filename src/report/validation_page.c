/* The page of a validation: its datasets are the points (one for each measured run), the errors by group, and how well the
 * order of plans is predicted. */
#include "report/validation_page.h"

#include <math.h>

#include "report/dataset.h"
#include "report/page.h"

static json_t *real_or_null(double x) { return isnan(x) ? json_null() : json_real(x); }

static void add_points(struct pz_call *call, const struct pz_validation *v, json_t *datasets) {
  json_t *rows = pz_dataset_new(call, datasets, "points",
                                "kind,group,run,quality,chip,framework,model,shape,plan,devices,"
                                "batch,measured_s,predicted_s,measured_bytes,predicted_bytes,"
                                "not_predicted");
  for (uint32_t i = 0; i < v->n_points; i++) {
    const struct pz_validation_point *p = &v->points[i];
    pz_dataset_append(call, rows,
                      json_pack("[s,s,s,s,s,s,s,s,s,I,I,f,f,f,f,s]", pz_point_kind_names[p->kind],
                                p->group, p->id, p->quality, p->chip, p->framework, p->model,
                                p->shape, p->plan, (json_int_t)p->devices, (json_int_t)p->batch,
                                p->measured_s, p->predicted_s, p->measured_bytes,
                                p->predicted_bytes, p->reason));
  }
}

/* Groups that are shown apart because of their quality have no limits. */
static void append_errors(struct pz_call *call, const struct pz_validation *v,
                          const struct pz_errors *list, uint32_t n, const char *set,
                          bool has_limits, json_t *rows) {
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_errors *g = &list[i];
    double limit = (double)NAN, memory_limit = (double)NAN;
    if (has_limits) {
      limit = pz_limit_of(v, g->name, PZ_LIMITED_TIME);
      memory_limit = pz_limit_of(v, g->name, PZ_LIMITED_MEMORY);
    }
    pz_dataset_append(call, rows,
                      json_pack("[s,s,s,I,I,o,o,o,o,I,o,o]", set, pz_point_kind_names[g->kind],
                                g->name, (json_int_t)g->n, (json_int_t)g->not_predicted,
                                real_or_null(g->mean), real_or_null(limit), real_or_null(g->bias),
                                real_or_null(g->worst), (json_int_t)g->n_memory,
                                real_or_null(g->memory_mean), real_or_null(memory_limit)));
  }
}

static void add_plan_orders(struct pz_call *call, const struct pz_validation *v, json_t *datasets) {
  json_t *plans =
      pz_dataset_new(call, datasets, "plans", "group,model,plans,rank_correlation,regret");
  json_t *means =
      pz_dataset_new(call, datasets, "plan_means", "group,models,rank_correlation,regret");
  for (uint32_t i = 0; i < v->n_orders; i++) {
    const struct pz_plan_order *o = &v->orders[i];
    pz_dataset_append(call, plans,
                      json_pack("[s,s,I,o,f]", o->group, o->name, (json_int_t)o->plans,
                                real_or_null(o->rank_correlation), o->regret));
  }
  for (uint32_t i = 0; i < v->n_order_means; i++) {
    const struct pz_order_mean *m = &v->order_means[i];
    pz_dataset_append(call, means,
                      json_pack("[s,I,o,f]", m->name, (json_int_t)m->n,
                                real_or_null(m->rank_correlation), m->regret));
  }
}

struct pz_buffer *pz_validation_html(struct pz_call *call, const struct pz_validation *v) {
  json_t *datasets = pz_json_built(call, json_object());
  add_points(call, v, datasets);
  json_t *groups = pz_dataset_new(call, datasets, "groups",
                                  "set,kind,group,rows,not_predicted,mean_error,limit,bias,worst,"
                                  "memory_rows,memory_error,memory_limit");
  append_errors(call, v, v->groups, v->n_groups, "groups", true, groups);
  append_errors(call, v, v->totals, v->n_totals, "totals", true, groups);
  append_errors(call, v, v->apart, v->n_apart, "apart", false, groups);
  add_plan_orders(call, v, datasets);
  json_t *document =
      pz_json_built(call, json_pack("{s:s,s:O}", "version", pz_version(), "datasets", datasets));
  return pz_page_html(call, "validation_page", document);
}
