/* A validation as JSON, CSV tables, limits and a page: pz_validation_text() returns one of these forms.  The record tables
 * below describe the JSON; the functions after them print one form each. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/csv.h"
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
    V(points, "rows", &point_record)}; /* the last field may be omitted */
enum { FIELDS = sizeof validation_fields / sizeof *validation_fields };
static const struct pz_record with_rows = {validation_fields, FIELDS, sizeof(struct pz_validation)};
static const struct pz_record without_rows = {validation_fields, FIELDS - 1,
                                              sizeof(struct pz_validation)};

/* ---- CSV ------------------------------------------------------------------------------------ */

/* Prints a comma and a fraction, or nothing after the comma if it is NaN. */
static void print_fraction(double x, FILE *out) {
  fputc(',', out);
  if (!isnan(x)) fprintf(out, "%.4f", x);
}

static void print_errors(const char *set, const struct pz_errors *g, FILE *out) {
  pz_csv_put(set, out);
  fputc(',', out);
  pz_csv_put(g->name, out);
  fprintf(out, ",%u,%u", g->n, g->not_predicted);
  print_fraction(g->mean, out);
  print_fraction(g->bias, out);
  print_fraction(g->worst, out);
  fprintf(out, ",%u", g->n_memory);
  print_fraction(g->memory_mean, out);
  print_fraction(g->memory_worst, out);
  fputs(",,\n", out);
}

static void print_order(const char *set, const char *name, uint32_t n, double rank, double regret,
                        FILE *out) {
  pz_csv_put(set, out);
  fputc(',', out);
  pz_csv_put(name, out);
  fprintf(out, ",%u,,,,,,,", n);
  print_fraction(rank, out);
  print_fraction(regret, out);
  fputc('\n', out);
}

static void print_groups(const struct pz_validation *v, FILE *out) {
  fputs("set,group,rows,not_predicted,mean_error,bias,worst,memory_rows,memory_error,memory_worst,"
        "rank_correlation,regret\n",
        out);
  for (uint32_t i = 0; i < v->n_groups; i++)
    print_errors(pz_point_kind_names[v->groups[i].kind], &v->groups[i], out);
  for (uint32_t i = 0; i < v->n_totals; i++) print_errors("total", &v->totals[i], out);
  for (uint32_t i = 0; i < v->n_apart; i++) print_errors("quality not ok", &v->apart[i], out);
  for (uint32_t i = 0; i < v->cold.n_chips; i++) print_errors("chip", &v->cold.chips[i], out);
  for (uint32_t i = 0; i < v->cold.n_others; i++)
    print_errors("8 bits or experts", &v->cold.others[i], out);
  for (uint32_t i = 0; i < v->cold.n_families; i++)
    fprintf(out, "family left out,%s,%u,,%.4f,%.4f,,,,,,\n", v->cold.families[i].name,
            v->cold.families[i].n, v->cold.families[i].mean, v->cold.families[i].bias);
  for (uint32_t i = 0; i < v->n_orders; i++)
    print_order("plans of one model", v->orders[i].name, v->orders[i].plans,
                v->orders[i].rank_correlation, v->orders[i].regret, out);
  for (uint32_t i = 0; i < v->n_order_means; i++)
    print_order("mean over models", v->order_means[i].name, v->order_means[i].n,
                v->order_means[i].rank_correlation, v->order_means[i].regret, out);
}

/* Prints a number, or nothing if it is unknown (0), and a comma. */
static void print_known(double x, FILE *out) {
  if (x > 0) fprintf(out, "%.6g", x);
  fputc(',', out);
}

static void print_points(const struct pz_validation *v, FILE *out) {
  fputs(
      "kind,group,id,quality,chip,framework,model,plan,devices,batch,measured_s,predicted_s,error,"
      "measured_bytes,predicted_bytes,not_predicted\n",
      out);
  for (uint32_t i = 0; i < v->n_points; i++) {
    const struct pz_validation_point *p = &v->points[i];
    const char *const texts[] = {pz_point_kind_names[p->kind],
                                 p->group,
                                 p->id,
                                 p->quality,
                                 p->chip,
                                 p->framework,
                                 p->model,
                                 p->plan};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
      pz_csv_put(texts[k], out);
      fputc(',', out);
    }
    fprintf(out, "%lld,%lld,", (long long)p->devices, (long long)p->batch);
    print_known(p->measured_s, out);
    print_known(p->predicted_s, out);
    if (p->measured_s > 0 && p->predicted_s > 0)
      fprintf(out, "%.4f", p->predicted_s / p->measured_s - 1);
    fputc(',', out);
    print_known(p->measured_bytes, out);
    print_known(p->measured_bytes > 0 ? p->predicted_bytes : 0, out);
    pz_csv_put(p->reason, out);
    fputc('\n', out);
  }
}

/* ---- limits --------------------------------------------------------------------------------- */

/* The mean over fewer rows of an operator says little, and so does the order of fewer plans, where one pair of plans that
 * changes places moves the correlation much.  They get no limit. */
static const uint32_t LEAST_LIMITED_ROWS = 4, LEAST_LIMITED_PLANS = 8;

/* Prints the limit of an error: a tenth more, rounded up to 0.1%, so that 3.72% becomes 4.1%. */
static void print_error_limit(double error, FILE *out) {
  fputc(',', out);
  if (!isnan(error)) fprintf(out, "%.3f", ceil(error * 1.1 * 1000 - 1e-9) / 1000);
}

/* A rank correlation may fall by 0.05, and a regret may rise by one point, because few plans are close to each other. */
static void print_order_limit(const char *name, double rank, double regret, FILE *out) {
  pz_csv_put(name, out);
  fputs(",,,,", out);
  if (!isnan(rank)) fprintf(out, "%.2f", fmax(0, floor((rank - 0.05) * 100 + 1e-9) / 100));
  fprintf(out, ",%.2f\n", ceil((regret + 0.01) * 100 - 1e-9) / 100);
}

static void print_group_limit(const struct pz_errors *g, FILE *out) {
  if (g->n + g->not_predicted == 0) return;
  bool few = g->kind == PZ_POINT_OPERATOR && g->n < LEAST_LIMITED_ROWS;
  pz_csv_put(g->name, out);
  print_error_limit(few ? (double)NAN : g->mean, out);
  print_error_limit(g->memory_mean, out);
  fprintf(out, ",%u,,\n", g->not_predicted);
}

static void print_limits(const struct pz_validation *v, FILE *out) {
  for (int k = 0; k <= PZ_LIMITEDS; k++)
    fprintf(out, "%s%c", pz_limit_heads[k], k < PZ_LIMITEDS ? ',' : '\n');
  for (uint32_t i = 0; i < v->n_groups; i++) print_group_limit(&v->groups[i], out);
  /* the first total, over all runs, has no limit: its mean changes when more runs can be predicted */
  for (uint32_t i = 1; i < v->n_totals; i++) print_group_limit(&v->totals[i], out);
  for (uint32_t i = 0; i < v->n_orders; i++)
    if (v->orders[i].plans >= LEAST_LIMITED_PLANS)
      print_order_limit(v->orders[i].name, v->orders[i].rank_correlation, v->orders[i].regret, out);
  for (uint32_t i = 0; i < v->n_order_means; i++)
    print_order_limit(v->order_means[i].name, v->order_means[i].rank_correlation,
                      v->order_means[i].regret, out);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Appends one of the forms that are tables of text. */
static void append_table(struct pz_call *call, const struct pz_validation *v,
                         enum pz_validation_form form, struct pz_buffer *text) {
  FILE *out = pz_buffer_open(call, text);
  bool complete = true;
  if (form == PZ_VALIDATION_GROUPS)
    print_groups(v, out);
  else if (form == PZ_VALIDATION_ROWS)
    print_points(v, out);
  else if (form == PZ_VALIDATION_LIMITS)
    print_limits(v, out);
  else if (form == PZ_VALIDATION_FEATURES)
    complete = pz_error_fit_tell(v->points, v->n_points, out);
  else
    complete = pz_error_fit_put(v->points, v->n_points, out);
  pz_buffer_flush(call, out);
  if (!complete) pz_raise(call, PZ_NO_MEMORY, "out of memory for the table");
}

static void append_json(struct pz_call *call, const struct pz_validation *v, bool rows,
                        struct pz_buffer *text) {
  json_t *root = pz_json_built(call, pz_record_json(rows ? &with_rows : &without_rows, v));
  bool has_cold_chips = v->cold.n_chips + v->cold.n_others > 0;
  if (has_cold_chips &&
      json_object_set_new(root, "cold", pz_record_json(&cold_record, &v->cold)) != 0)
    pz_raise(call, PZ_NO_MEMORY, "out of memory while writing JSON");
  pz_json_print(call, text, root);
}

struct validation_text {
  const struct pz_validation *validation;
  enum pz_validation_form form;
  char **text;
  size_t *bytes;
};

static void write_validation_text(struct pz_call *call, void *ctx) {
  struct validation_text *x = ctx;
  const struct pz_validation *v = x->validation;
  pz_require(call, v, "validation");
  pz_require(call, x->text, "text");
  pz_require(call, x->bytes, "bytes");
  struct pz_buffer *text = pz_buffer_new(call);
  switch (x->form) {
  case PZ_VALIDATION_JSON:
  case PZ_VALIDATION_JSON_ROWS:
    append_json(call, v, x->form == PZ_VALIDATION_JSON_ROWS, text);
    break;
  case PZ_VALIDATION_GROUPS:
  case PZ_VALIDATION_ROWS:
  case PZ_VALIDATION_LIMITS:
  case PZ_VALIDATION_FEATURES:
  case PZ_VALIDATION_EXPECTED: append_table(call, v, x->form, text); break;
  case PZ_VALIDATION_PAGE: text = pz_validation_html(call, v); break;
  default: pz_raise(call, PZ_BAD_USE, "form %d of a validation is not known", (int)x->form);
  }
  *x->text = pz_buffer_take(call, text);
  *x->bytes = text->bytes;
}

enum pz_status pz_validation_text(const struct pz_validation *v, enum pz_validation_form form,
                                  char **text, size_t *bytes, struct pz_error *err) {
  struct validation_text x = {v, form, text, bytes};
  return pz_border(write_validation_text, &x, err);
}
