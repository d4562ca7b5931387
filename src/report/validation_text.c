/* A validation as JSON, CSV tables, limits or an HTML page, by pz_validation_text().  The page shows predicted against measured step times of each run, the
 * errors by group, and how well the order of plans is predicted. */
#include <math.h>
#include <stdio.h>

#include "core/csv.h"
#include "report/dataset.h"
#include "report/page.h"
#include "report/records.h"
#include "study/error_fit.h"
#include "study/validate.h"

/* ---- CSV ------------------------------------------------------------------------------------ */

/* Prints a comma and a fraction, or nothing after the comma if it is NaN. */
static void print_fraction(double fraction, FILE *out) {
  fputc(',', out);
  if (!isnan(fraction)) fprintf(out, "%.4f", fraction);
}

/* Prints the row of a group; its last two columns belong to orders of plans and are empty. */
static void print_errors(const char *set, const struct pz_errors *errors, FILE *out) {
  pz_csv_put(set, out);
  fputc(',', out);
  pz_csv_put(errors->name, out);
  fprintf(out, ",%u,%u", errors->n, errors->not_predicted);
  print_fraction(errors->mean, out);
  print_fraction(errors->bias, out);
  print_fraction(errors->worst, out);
  fprintf(out, ",%u", errors->n_memory);
  print_fraction(errors->memory_mean, out);
  print_fraction(errors->memory_worst, out);
  fputs(",,\n", out);
}

/* Prints the rank correlation and the regret of n plans, or their means over n models. */
static void print_order(const char *set, const char *name, uint32_t n, double rank_correlation,
                        double regret, FILE *out) {
  pz_csv_put(set, out);
  fputc(',', out);
  pz_csv_put(name, out);
  fprintf(out, ",%u,,,,,,,", n);
  print_fraction(rank_correlation, out);
  print_fraction(regret, out);
  fputc('\n', out);
}

/* Prints the errors of all groups and totals, those by chip and family of runs that were predicted
 * from data sheets alone ("cold"), and how well plans are ordered. */
static void print_groups(const struct pz_validation *validation, FILE *out) {
  const struct pz_cold_errors *cold = &validation->cold;
  fputs("set,group,rows,not_predicted,mean_error,bias,worst,memory_rows,memory_error,memory_worst,"
        "rank_correlation,regret\n",
        out);
  for (uint32_t i = 0; i < validation->n_groups; i++)
    print_errors(pz_point_kind_names[validation->groups[i].kind], &validation->groups[i], out);
  for (uint32_t i = 0; i < validation->n_totals; i++)
    print_errors("total", &validation->totals[i], out);
  for (uint32_t i = 0; i < validation->n_apart; i++)
    print_errors("quality not ok", &validation->apart[i], out);
  for (uint32_t i = 0; i < cold->n_chips; i++) print_errors("chip", &cold->chips[i], out);
  for (uint32_t i = 0; i < cold->n_others; i++)
    print_errors("8 bits or experts", &cold->others[i], out);
  for (uint32_t i = 0; i < cold->n_families; i++)
    fprintf(out, "family left out,%s,%u,,%.4f,%.4f,,,,,,\n", cold->families[i].name,
            cold->families[i].n, cold->families[i].mean, cold->families[i].bias);
  for (uint32_t i = 0; i < validation->n_orders; i++) {
    const struct pz_plan_order *order = &validation->orders[i];
    print_order("plans of one model", order->name, order->plans, order->rank_correlation,
                order->regret, out);
  }
  for (uint32_t i = 0; i < validation->n_order_means; i++) {
    const struct pz_order_mean *mean = &validation->order_means[i];
    print_order("mean over models", mean->name, mean->n, mean->rank_correlation, mean->regret, out);
  }
}

/* Prints a number, or nothing if it is unknown (0), and a comma. */
static void print_known(double value, FILE *out) {
  if (value > 0) fprintf(out, "%.6g", value);
  fputc(',', out);
}

/* Prints a row for each point.  Its predicted bytes are printed only if they were measured too. */
static void print_points(const struct pz_validation *validation, FILE *out) {
  fputs(
      "kind,group,id,quality,chip,framework,model,plan,devices,batch,measured_s,predicted_s,error,"
      "measured_bytes,predicted_bytes,not_predicted\n",
      out);
  for (uint32_t i = 0; i < validation->n_points; i++) {
    const struct pz_validation_point *point = &validation->points[i];
    double measured_s = point->measured_s, predicted_s = point->predicted_s;
    const char *kind = pz_point_kind_names[point->kind];
    const char *const texts[] = {kind,        point->group,     point->id,    point->quality,
                                 point->chip, point->framework, point->model, point->plan};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
      pz_csv_put(texts[k], out);
      fputc(',', out);
    }
    fprintf(out, "%lld,%lld,", (long long)point->devices, (long long)point->batch);
    print_known(measured_s, out);
    print_known(predicted_s, out);
    if (measured_s > 0 && predicted_s > 0) fprintf(out, "%.4f", predicted_s / measured_s - 1);
    fputc(',', out);
    print_known(point->measured_bytes, out);
    print_known(point->measured_bytes > 0 ? point->predicted_bytes : 0, out);
    pz_csv_put(point->reason, out);
    fputc('\n', out);
  }
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Groups of operators with fewer rows, and models with fewer plans, get no limit: a single row
 * changes their mean error or rank correlation too much. */
static const uint32_t LEAST_LIMITED_ROWS = 4, LEAST_LIMITED_PLANS = 8;

/* Prints the limits of an order of plans.  A rank correlation may fall by 0.05, and a regret may
 * rise by one point, because few plans are close to each other. */
static void print_order_limit(const char *name, double rank_correlation, double regret, FILE *out) {
  pz_csv_put(name, out);
  fputs(",,,,", out);
  if (!isnan(rank_correlation))
    fprintf(out, "%.2f", fmax(0, floor((rank_correlation - 0.05) * 100 + 1e-9) / 100));
  fprintf(out, ",%.2f\n", ceil((regret + 0.01) * 100 - 1e-9) / 100);
}

/* Prints a table of limits that this validation keeps, as pz_limits_parse() reads it.  The limit of
 * an error is 1.1 times the error, rounded up to 0.1%, so that 3.72% becomes 4.1%. */
static void print_limits(const struct pz_validation *validation, FILE *out) {
  for (int k = 0; k <= PZ_LIMITEDS; k++)
    fprintf(out, "%s%c", pz_limit_heads[k], k < PZ_LIMITEDS ? ',' : '\n');
  for (uint32_t i = 0; i < validation->n_groups + validation->n_totals; i++) {
    const struct pz_errors *errors = i < validation->n_groups
                                         ? &validation->groups[i]
                                         : &validation->totals[i - validation->n_groups];
    /* The total over all runs has no limit: its mean changes when more runs can be predicted. */
    if (i == validation->n_groups || errors->n + errors->not_predicted == 0) continue;
    bool few = errors->kind == PZ_POINT_OPERATOR && errors->n < LEAST_LIMITED_ROWS;
    const double limited[] = {few ? (double)NAN : errors->mean, errors->memory_mean};
    pz_csv_put(errors->name, out);
    for (int k = 0; k < 2; k++) {
      fputc(',', out);
      if (!isnan(limited[k])) fprintf(out, "%.3f", ceil(limited[k] * 1.1 * 1000 - 1e-9) / 1000);
    }
    fprintf(out, ",%u,,\n", errors->not_predicted);
  }
  for (uint32_t i = 0; i < validation->n_orders; i++) {
    const struct pz_plan_order *order = &validation->orders[i];
    if (order->plans >= LEAST_LIMITED_PLANS)
      print_order_limit(order->name, order->rank_correlation, order->regret, out);
  }
  for (uint32_t i = 0; i < validation->n_order_means; i++) {
    const struct pz_order_mean *mean = &validation->order_means[i];
    print_order_limit(mean->name, mean->rank_correlation, mean->regret, out);
  }
}

/* ---- the page ------------------------------------------------------------------------------- */

/* Adds the errors of groups; those in `apart`, with low quality, have no limits. */
static void add_errors(struct pz_call *call, const struct pz_validation *validation,
                       const struct pz_errors *list, uint32_t n, const char *set, json_t *rows) {
  bool has_limits = list != validation->apart;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_errors *errors = &list[i];
    double limit = (double)NAN, memory_limit = (double)NAN;
    if (has_limits) {
      limit = pz_limit_of(validation, errors->name, PZ_LIMITED_TIME);
      memory_limit = pz_limit_of(validation, errors->name, PZ_LIMITED_MEMORY);
    }
    pz_dataset_add(call, rows, "[s,s,s,I,I,o,o,o,o,I,o,o]", set, pz_point_kind_names[errors->kind],
                   errors->name, (json_int_t)errors->n, (json_int_t)errors->not_predicted,
                   pz_dataset_real(errors->mean), pz_dataset_real(limit),
                   pz_dataset_real(errors->bias), pz_dataset_real(errors->worst),
                   (json_int_t)errors->n_memory, pz_dataset_real(errors->memory_mean),
                   pz_dataset_real(memory_limit));
  }
}

/* Returns the page with the points, the errors by group, and the order of plans. */
static struct pz_buffer *build_page(struct pz_call *call, const struct pz_validation *validation) {
  json_t *datasets = pz_json_built(call, json_object());
  json_t *points = pz_dataset_new(call, datasets, "points",
                                  "kind,group,run,quality,chip,framework,model,shape,plan,devices,"
                                  "batch,measured_s,predicted_s,measured_bytes,predicted_bytes,"
                                  "not_predicted");
  for (uint32_t i = 0; i < validation->n_points; i++) {
    const struct pz_validation_point *point = &validation->points[i];
    pz_dataset_add(call, points, "[s,s,s,s,s,s,s,s,s,I,I,f,f,f,f,s]",
                   pz_point_kind_names[point->kind], point->group, point->id, point->quality,
                   point->chip, point->framework, point->model, point->shape, point->plan,
                   (json_int_t)point->devices, (json_int_t)point->batch, point->measured_s,
                   point->predicted_s, point->measured_bytes, point->predicted_bytes,
                   point->reason);
  }
  json_t *groups = pz_dataset_new(call, datasets, "groups",
                                  "set,kind,group,rows,not_predicted,mean_error,limit,bias,worst,"
                                  "memory_rows,memory_error,memory_limit");
  add_errors(call, validation, validation->groups, validation->n_groups, "groups", groups);
  add_errors(call, validation, validation->totals, validation->n_totals, "totals", groups);
  add_errors(call, validation, validation->apart, validation->n_apart, "apart", groups);
  json_t *plans =
      pz_dataset_new(call, datasets, "plans", "group,model,plans,rank_correlation,regret");
  json_t *means =
      pz_dataset_new(call, datasets, "plan_means", "group,models,rank_correlation,regret");
  for (uint32_t i = 0; i < validation->n_orders; i++) {
    const struct pz_plan_order *order = &validation->orders[i];
    pz_dataset_add(call, plans, "[s,s,I,o,f]", order->group, order->name, (json_int_t)order->plans,
                   pz_dataset_real(order->rank_correlation), order->regret);
  }
  for (uint32_t i = 0; i < validation->n_order_means; i++) {
    const struct pz_order_mean *mean = &validation->order_means[i];
    pz_dataset_add(call, means, "[s,I,o,f]", mean->name, (json_int_t)mean->n,
                   pz_dataset_real(mean->rank_correlation), mean->regret);
  }
  json_t *document =
      pz_json_built(call, json_pack("{s:s,s:O}", "version", pz_version(), "datasets", datasets));
  return pz_page_html(call, "validation_page", document);
}

/* ---- texts ---------------------------------------------------------------------------------- */

struct validation_text {
  const struct pz_validation *validation;
  enum pz_validation_form form;
  char **text;
  size_t *bytes;
};

/* Writes one form of a validation and hands its text to the caller.  Tables (CSV and text) are
 * printed to `out`, a stream into `text`, which stays empty for the other forms.  Then JSON is
 * printed into `text`, or the HTML page replaces it. */
static void write_validation_text(struct pz_call *call, void *ctx) {
  struct validation_text *args = ctx;
  const struct pz_validation *validation = args->validation;
  pz_require(call, validation, "validation");
  pz_require(call, args->text, "text");
  pz_require(call, args->bytes, "bytes");
  struct pz_buffer *text = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, text);
  switch (args->form) {
  case PZ_VALIDATION_JSON:
  case PZ_VALIDATION_JSON_ROWS:
  case PZ_VALIDATION_PAGE: break; /* below */
  case PZ_VALIDATION_GROUPS: print_groups(validation, out); break;
  case PZ_VALIDATION_ROWS: print_points(validation, out); break;
  case PZ_VALIDATION_LIMITS: print_limits(validation, out); break;
  case PZ_VALIDATION_FEATURES:
    pz_error_fit_print(call, validation->points, validation->n_points, out);
    break;
  case PZ_VALIDATION_EXPECTED:
    pz_error_fit_write_csv(call, validation->points, validation->n_points, out);
    break;
  default: pz_raise(call, PZ_BAD_USE, "form %d of a validation is not known", (int)args->form);
  }
  pz_buffer_flush(call, out);
  bool rows = args->form == PZ_VALIDATION_JSON_ROWS;
  if (args->form == PZ_VALIDATION_JSON || rows) {
    const struct pz_record *record = rows ? &pz_validation_rows_record : &pz_validation_record;
    json_t *root = pz_record_json(record, validation);
    json_object_set_new(root, "json_version", json_integer(PZ_JSON_VERSION));
    pz_json_built(call, root);
    pz_json_print(call, text, root);
  }
  if (args->form == PZ_VALIDATION_PAGE) text = build_page(call, validation);
  *args->text = pz_buffer_take(call, text);
  *args->bytes = text->bytes;
}

enum pz_status pz_validation_text(const struct pz_validation *validation,
                                  enum pz_validation_form form, char **text, size_t *bytes,
                                  struct pz_error *err) {
  struct validation_text args = {validation, form, text, bytes};
  return pz_border(write_validation_text, &args, err);
}
