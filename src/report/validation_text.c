/* A validation as JSON, as tables and as a page. */

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/num.h"
#include "core/record.h"
#include "report/validation_page.h"
#include "study/error_fit.h"
#include "study/validate.h"

/* ---- JSON ----------------------------------------------------------------------------------- */

static const char *const limited_names[] = {"mean_error",       "memory_error", "not_predicted",
                                            "rank_correlation", "regret",       NULL};

#define E(f, t) PZ_FIELD(struct pz_errors, f, t)
#define E_AS(f, t, name) PZ_FIELD_AS(struct pz_errors, f, t, name)
static const struct pz_field error_fields[] = {
    E_AS(name, PZ_FIELD_TEXT, "group"),
    PZ_FIELD_NAMED(struct pz_errors, kind, "kind", pz_point_kind_names),
    E_AS(n, PZ_FIELD_COUNT, "rows"),
    E(not_predicted, PZ_FIELD_COUNT),
    E_AS(mean, PZ_FIELD_REAL_OR_NULL, "mean_error"),
    E(bias, PZ_FIELD_REAL_OR_NULL),
    E(worst, PZ_FIELD_REAL_OR_NULL),
    E(worst_id, PZ_FIELD_TEXT_OR_NULL),
    E_AS(n_memory, PZ_FIELD_COUNT, "memory_rows"),
    E_AS(memory_mean, PZ_FIELD_REAL_OR_NULL, "memory_error"),
    E(memory_bias, PZ_FIELD_REAL_OR_NULL),
    E(memory_worst, PZ_FIELD_REAL_OR_NULL)};
static const struct pz_record error_record = PZ_RECORD(error_fields, struct pz_errors);

#define O(f, t) PZ_FIELD(struct pz_plan_order, f, t)
static const struct pz_field order_fields[] = {
    O(model, PZ_FIELD_TEXT),  O(shape, PZ_FIELD_TEXT),
    O(group, PZ_FIELD_TEXT),  O(chip, PZ_FIELD_TEXT),
    O(devices, PZ_FIELD_INT), O(batch, PZ_FIELD_INT),
    O(plans, PZ_FIELD_COUNT), O(rank_correlation, PZ_FIELD_REAL_OR_NULL),
    O(regret, PZ_FIELD_REAL)};
static const struct pz_record order_record = PZ_RECORD(order_fields, struct pz_plan_order);

static const struct pz_field mean_fields[] = {
    PZ_FIELD_AS(struct pz_order_mean, name, PZ_FIELD_TEXT, "group"),
    PZ_FIELD_AS(struct pz_order_mean, n, PZ_FIELD_COUNT, "models"),
    PZ_FIELD(struct pz_order_mean, rank_correlation, PZ_FIELD_REAL_OR_NULL),
    PZ_FIELD(struct pz_order_mean, regret, PZ_FIELD_REAL)};
static const struct pz_record mean_record = PZ_RECORD(mean_fields, struct pz_order_mean);

static const struct pz_field broken_fields[] = {
    PZ_FIELD(struct pz_broken_limit, group, PZ_FIELD_TEXT),
    PZ_FIELD_NAMED(struct pz_broken_limit, what, "what", limited_names),
    PZ_FIELD(struct pz_broken_limit, value, PZ_FIELD_REAL_OR_NULL),
    PZ_FIELD(struct pz_broken_limit, limit, PZ_FIELD_REAL)};
static const struct pz_record broken_record = PZ_RECORD(broken_fields, struct pz_broken_limit);

#define P(f, t) PZ_FIELD(struct pz_validation_point, f, t)
static const struct pz_field point_fields[] = {
    PZ_FIELD_NAMED(struct pz_validation_point, kind, "kind", pz_point_kind_names),
    P(id, PZ_FIELD_TEXT),
    P(group, PZ_FIELD_TEXT),
    P(quality, PZ_FIELD_TEXT),
    P(chip, PZ_FIELD_TEXT),
    P(framework, PZ_FIELD_TEXT),
    P(model, PZ_FIELD_TEXT),
    P(shape, PZ_FIELD_TEXT),
    P(plan, PZ_FIELD_TEXT),
    P(devices, PZ_FIELD_INT),
    P(batch, PZ_FIELD_INT),
    P(measured_s, PZ_FIELD_REAL),
    P(predicted_s, PZ_FIELD_REAL),
    P(measured_bytes, PZ_FIELD_REAL),
    P(predicted_bytes, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_validation_point, reason, PZ_FIELD_TEXT, "not_predicted")};
static const struct pz_record point_record = PZ_RECORD(point_fields, struct pz_validation_point);

#define F(f, t) PZ_FIELD(struct pz_cold_family, f, t)
#define C(f, t) PZ_FIELD(struct pz_cold_errors, f, t)
static const struct pz_field chip_fields[] = {
    PZ_FIELD(struct pz_errors, name, PZ_FIELD_TEXT), E(n, PZ_FIELD_COUNT),
    E(not_predicted, PZ_FIELD_COUNT), E(mean, PZ_FIELD_REAL_OR_NULL),
    E(bias, PZ_FIELD_REAL_OR_NULL)};
static const struct pz_record chip_record = PZ_RECORD(chip_fields, struct pz_errors);
static const struct pz_field value_fields[] = {
    PZ_FIELD(struct pz_cold_value, name, PZ_FIELD_TEXT),
    PZ_FIELD(struct pz_cold_value, value, PZ_FIELD_REAL)};
static const struct pz_record value_record = PZ_RECORD(value_fields, struct pz_cold_value);
static const struct pz_field family_fields[] = {
    F(name, PZ_FIELD_TEXT), F(n, PZ_FIELD_COUNT), F(mean, PZ_FIELD_REAL_OR_NULL),
    F(bias, PZ_FIELD_REAL_OR_NULL),
    PZ_FIELD_MANY(struct pz_cold_family, constants, PZ_FIELD_LIST, "constants", &value_record)};
static const struct pz_record family_record = PZ_RECORD(family_fields, struct pz_cold_family);
static const struct pz_field cold_fields[] = {
    PZ_FIELD_MANY(struct pz_cold_errors, chips, PZ_FIELD_LIST, "chips", &chip_record),
    C(mean, PZ_FIELD_REAL_OR_NULL),
    C(spread, PZ_FIELD_REAL_OR_NULL),
    PZ_FIELD_MANY(struct pz_cold_errors, others, PZ_FIELD_LIST, "others", &chip_record),
    PZ_FIELD_MANY(struct pz_cold_errors, families, PZ_FIELD_LIST, "families", &family_record),
    C(families_mean, PZ_FIELD_REAL_OR_NULL)};
static const struct pz_record cold_record = PZ_RECORD(cold_fields, struct pz_cold_errors);

#define V(f, name, record) PZ_FIELD_MANY(struct pz_validation, f, PZ_FIELD_LIST, name, record)
static const struct pz_field validation_fields[] = {
    V(groups, "groups", &error_record),
    V(apart, "apart", &error_record),
    V(totals, "totals", &error_record),
    V(orders, "plans", &order_record),
    V(order_means, "plan_means", &mean_record),
    V(broken, "broken_limits", &broken_record),
    V(points, "rows", &point_record)}; /* the last, which may be left out */
enum { FIELDS = sizeof validation_fields / sizeof *validation_fields };
static const struct pz_record with_rows = {validation_fields, FIELDS, sizeof(struct pz_validation)};
static const struct pz_record without_rows = {validation_fields, FIELDS - 1,
                                              sizeof(struct pz_validation)};

static enum pz_status json_text(const struct pz_validation *v, bool rows, char **text,
                                size_t *bytes, struct pz_error *err) {
  json_t *j = pz_record_json(rows ? &with_rows : &without_rows, v);
  if (j && v->cold.n_chips + v->cold.n_others &&
      json_object_set_new(j, "cold", pz_record_json(&cold_record, &v->cold)) != 0) {
    json_decref(j);
    j = NULL;
  }
  enum pz_status status = pz_json_text(j, text, err);
  if (status == PZ_OK) *bytes = strlen(*text);
  json_decref(j);
  return status;
}

/* ---- CSV ------------------------------------------------------------------------------------ */

/* A fraction with so many digits behind the point; nothing for NaN.  A comma before it. */
static void put_part(double x, FILE *out) {
  fputc(',', out);
  if (!isnan(x)) fprintf(out, "%.4f", x);
}

static void put_text(const char *text, FILE *out) {
  pz_csv_put(text, out);
  fputc(',', out);
}

static void put_errors(const char *set, const struct pz_errors *g, FILE *out) {
  put_text(set, out);
  pz_csv_put(g->name, out);
  fprintf(out, ",%u,%u", g->n, g->not_predicted);
  const double list[] = {g->mean, g->bias, g->worst};
  for (int i = 0; i < 3; i++) put_part(list[i], out);
  fprintf(out, ",%u", g->n_memory);
  put_part(g->memory_mean, out);
  put_part(g->memory_worst, out);
  fputs(",,\n", out);
}

static void put_order(const char *set, const char *name, uint32_t n, double rank, double regret,
                      FILE *out) {
  put_text(set, out);
  pz_csv_put(name, out);
  fprintf(out, ",%u,,,,,,,", n);
  put_part(rank, out);
  put_part(regret, out);
  fputc('\n', out);
}

static bool put_groups(const struct pz_validation *v, FILE *out) {
  fputs("set,group,rows,not_predicted,mean_error,bias,worst,memory_rows,memory_error,memory_worst,"
        "rank_correlation,regret\n",
        out);
  for (uint32_t i = 0; i < v->n_groups; i++)
    put_errors(pz_point_kind_names[v->groups[i].kind], &v->groups[i], out);
  for (uint32_t i = 0; i < v->n_totals; i++) put_errors("total", &v->totals[i], out);
  for (uint32_t i = 0; i < v->n_apart; i++) put_errors("quality not ok", &v->apart[i], out);
  for (uint32_t i = 0; i < v->cold.n_chips; i++) put_errors("chip", &v->cold.chips[i], out);
  for (uint32_t i = 0; i < v->cold.n_others; i++)
    put_errors("8 bits or experts", &v->cold.others[i], out);
  for (uint32_t i = 0; i < v->cold.n_families; i++)
    fprintf(out, "family left out,%s,%u,,%.4f,%.4f,,,,,,\n", v->cold.families[i].name,
            v->cold.families[i].n, v->cold.families[i].mean, v->cold.families[i].bias);
  for (uint32_t i = 0; i < v->n_orders; i++)
    put_order("plans of one model", v->orders[i].name, v->orders[i].plans,
              v->orders[i].rank_correlation, v->orders[i].regret, out);
  for (uint32_t i = 0; i < v->n_order_means; i++)
    put_order("mean over models", v->order_means[i].name, v->order_means[i].n,
              v->order_means[i].rank_correlation, v->order_means[i].regret, out);
  return true;
}

/* A number above 0; nothing for what is not known.  A comma behind it. */
static void put_known(double x, FILE *out) {
  if (x > 0) fprintf(out, "%.6g", x);
  fputc(',', out);
}

static void put_point(const struct pz_validation_point *p, FILE *out) {
  const char *const texts[] = {pz_point_kind_names[p->kind],
                               p->group,
                               p->id,
                               p->quality,
                               p->chip,
                               p->framework,
                               p->model,
                               p->plan};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) put_text(texts[i], out);
  fprintf(out, "%lld,%lld,", (long long)p->devices, (long long)p->batch);
  put_known(p->measured_s, out);
  put_known(p->predicted_s, out);
  if (p->measured_s > 0 && p->predicted_s > 0)
    fprintf(out, "%.4f", p->predicted_s / p->measured_s - 1);
  fputc(',', out);
  put_known(p->measured_bytes, out);
  put_known(p->measured_bytes > 0 ? p->predicted_bytes : 0, out);
  pz_csv_put(p->reason, out);
  fputc('\n', out);
}

static bool put_points(const struct pz_validation *v, FILE *out) {
  fputs(
      "kind,group,id,quality,chip,framework,model,plan,devices,batch,measured_s,predicted_s,error,"
      "measured_bytes,predicted_bytes,not_predicted\n",
      out);
  for (uint32_t i = 0; i < v->n_points; i++) put_point(&v->points[i], out);
  return true;
}

/* ---- limits --------------------------------------------------------------------------------- */

/* An error of 3.72% becomes a limit of 4.1%: a tenth more, and up to the next 0.1%. */
static void put_limit(double error, FILE *out) {
  fputc(',', out);
  if (!isnan(error)) fprintf(out, "%.3f", ceil(error * 1.1 * 1000 - 1e-9) / 1000);
}

/* A rank correlation may lose 0.05, a regret gain a point: few plans are near each other. */
static void put_order_limit(const char *name, double rank, double regret, FILE *out) {
  pz_csv_put(name, out);
  fputs(",,,,", out);
  if (!isnan(rank)) fprintf(out, "%.2f", fmax(0, floor((rank - 0.05) * 100 + 1e-9) / 100));
  fprintf(out, ",%.2f\n", ceil((regret + 0.01) * 100 - 1e-9) / 100);
}

/* Of models with many plans: a pair that changes places says little about few. */
static const uint32_t LEAST_LIMITED_PLANS = 8;

static void put_order_limits(const struct pz_validation *v, FILE *out) {
  for (uint32_t i = 0; i < v->n_orders; i++)
    if (v->orders[i].plans >= LEAST_LIMITED_PLANS)
      put_order_limit(v->orders[i].name, v->orders[i].rank_correlation, v->orders[i].regret, out);
  for (uint32_t i = 0; i < v->n_order_means; i++)
    put_order_limit(v->order_means[i].name, v->order_means[i].rank_correlation,
                    v->order_means[i].regret, out);
}

/* Of operators the mean of fewer rows says little. */
static const uint32_t LEAST_LIMITED_ROWS = 4;

static bool put_limits(const struct pz_validation *v, FILE *out) {
  for (int k = 0; k <= PZ_LIMITEDS; k++)
    fprintf(out, "%s%c", pz_limit_heads[k], k < PZ_LIMITEDS ? ',' : '\n');
  for (uint32_t i = 0; i < v->n_groups + v->n_totals; i++) {
    const struct pz_errors *g = i < v->n_groups ? &v->groups[i] : &v->totals[i - v->n_groups];
    if (i == v->n_groups) continue; /* all runs: rows that are newly predicted change its mean */
    if (g->n + g->not_predicted == 0) continue;
    bool few = g->kind == PZ_POINT_OPERATOR && g->n < LEAST_LIMITED_ROWS;
    pz_csv_put(g->name, out);
    put_limit(few ? (double)NAN : g->mean, out);
    put_limit(g->memory_mean, out);
    fprintf(out, ",%u,,\n", g->not_predicted);
  }
  put_order_limits(v, out);
  return true;
}

static bool put_told(const struct pz_validation *v, FILE *out) {
  return pz_error_fit_tell(v->points, v->n_points, out);
}

static bool put_expected(const struct pz_validation *v, FILE *out) {
  return pz_error_fit_put(v->points, v->n_points, out);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* False: out of memory. */
typedef bool put_fn(const struct pz_validation *v, FILE *out);

static enum pz_status make_text(const struct pz_validation *v, put_fn *put, char **text,
                                size_t *bytes, struct pz_error *err) {
  struct pz_buffer b = {0};
  FILE *out = pz_buffer_stream(&b);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the table");
  bool put_all = put(v, out);
  if (pz_buffer_close(out) && put_all) {
    *text = b.text;
    *bytes = b.bytes;
    return PZ_OK;
  }
  pz_free(b.text);
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the table");
}

enum pz_status pz_validation_text(const struct pz_validation *v, enum pz_validation_form form,
                                  char **text, size_t *bytes, struct pz_error *err) {
  enum pz_status status = pz_need_each(err, {v, "validation"}, {text, "text"}, {bytes, "bytes"});
  if (status != PZ_OK) return status;
  switch (form) {
  case PZ_VALIDATION_JSON: return json_text(v, false, text, bytes, err);
  case PZ_VALIDATION_JSON_ROWS: return json_text(v, true, text, bytes, err);
  case PZ_VALIDATION_GROUPS: return make_text(v, put_groups, text, bytes, err);
  case PZ_VALIDATION_ROWS: return make_text(v, put_points, text, bytes, err);
  case PZ_VALIDATION_LIMITS: return make_text(v, put_limits, text, bytes, err);
  case PZ_VALIDATION_FEATURES: return make_text(v, put_told, text, bytes, err);
  case PZ_VALIDATION_EXPECTED: return make_text(v, put_expected, text, bytes, err);
  case PZ_VALIDATION_PAGE: return pz_validation_page(v, text, bytes, err);
  }
  return pz_fail(err, PZ_BAD_USE, "form %d of a validation is not known", (int)form);
}
