/* Chips beside each other: given ones, as their presets know them, and those of files and saved searches.  Each trains every
 * model with its best plan, in its own network, under the training evaluator's model of time and one cost breakdown.  It is
 * another question than that of compare.h, where methods choose a chip of a space and are judged as the search judges its
 * own. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chip/price_table.h"
#include "core/status.h"
#include "core/text.h"
#include "place/plan_question.h"
#include "step/run_cost.h"
#include "step/step_energy.h"
#include "study/run.h"

enum { MOST_CHIPS = 64 };

struct knowledge {
  const char *name;
  double error; /* 0: nobody validated it */
};

struct compared_chip {
  const char *text; /* as it was asked for */
  double price;     /* dollars of a device for an hour; 0: not asked for */
  struct pz_chip chip;
  struct pz_cluster net;
  struct knowledge known;
  struct pz_taken taken;
  double tdp_watts; /* of the data sheet; 0: none */
};

struct chips_question {
  struct pz_study *s;
  const char *cluster;                /* NULL: each chip's own */
  bool cold;                          /* all chips by their data sheets */
  const struct pz_rent_options *rent; /* NULL: chips are not rented */
  struct compared_chip *chips;
  uint32_t n;
  double first_s[PZ_SEARCH_MOST_MODELS]; /* step of the first chip; 0: the model does not fit */
  struct pz_error *err;
};

/* ---- how a chip is known -------------------------------------------------------------------- */

/* How wrong chips known in the same way were: the mean over chips of the mean error of their dense 16-bit runs of quality ok
 * (ref/published/runs.csv: 6 chips, 6 and these 12; UNSEEN: all runs on 6 chips of ref/otherchips/runs.csv).
 * tests/cli/requirements finds the figures again. */
enum { COLD = PZ_CALIBRATED_BY_RUNS + 1, UNSEEN };
static const struct knowledge knowledge[] = {
    [PZ_CALIBRATED_SOMEHOW] = {"calibrated", 0},
    [PZ_CALIBRATED_BY_OPERATORS] = {"measured", 0.045},
    [PZ_CALIBRATED_BY_RUNS] = {"published runs", 0.140},
    [COLD] = {"cold", 0.077},   /* of chips whose runs the constants of a class were fitted to */
    [UNSEEN] = {"cold", 0.198}, /* of others */
};

static struct knowledge known_by(const struct pz_chip *c, bool cold) {
  bool seen = !c->cold && c->calibrated_by != PZ_CALIBRATED_SOMEHOW;
  if (c->cold || cold) return knowledge[seen ? COLD : UNSEEN];
  if (c->correction.error > 0) return (struct knowledge){"own steps", c->correction.error};
  return knowledge[c->calibrated_by];
}

/* ---- where a built chip stands -------------------------------------------------------------- */

/* A preset, calibrated or not, stands in the network that it is sold in, other chips in groups that their links join. */
static enum pz_status set_network(const struct chips_question *q, struct compared_chip *x) {
  const char *text = x->text;
  enum pz_status status = PZ_OK;
  struct pz_training_question own = q->s->training;
  if (pz_text_same(text, "trainium2")) { /* trn2.48xlarge: 16 chips, 3.2 Tb/s (AWS) */
    own.scale_up = 16;
    own.outer_bytes_per_s = 25e9;
  }
  if (q->cluster)
    status = pz_cluster_load(q->cluster, &x->net, q->err);
  else if (!(pz_chip_preset_text(text) || strchr(x->chip.name, ',')) ||
           !pz_cluster_standard(x->chip.name, &x->net))
    return x->net = pz_training_cluster(&own, &x->chip), PZ_OK;
  return status == PZ_OK ? pz_cluster_reach(&x->net, q->s->o.devices, "devices", q->err) : status;
}

/* ---- chips ---------------------------------------------------------------------------------- */

/* Is it the folder of a run? */
static bool has_run(const char *dir) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/run.sqlite", dir);
  return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

/* The best chip of a saved search. */
static enum pz_status load_winner(const char *dir, struct pz_chip *out, struct pz_error *err) {
  struct pz_run_options o = pz_run_options_default();
  struct pz_run *run = NULL;
  o.dir = dir;
  o.threads = 1;
  enum pz_status status = pz_run_look(&o, &run, err);
  if (status == PZ_OK) *out = *pz_result_best(pz_run_result(run))->chip;
  pz_run_close(run);
  return status;
}

static bool is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static enum pz_status load_described(const char *text, struct pz_chip *out, struct pz_error *err) {
  if (has_run(text)) return load_winner(text, out, err);
  bool folder = is_folder(text); /* which may have the name of a chip */
  enum pz_status status = pz_chip_read(text, out, folder ? NULL : err);
  if (status == PZ_OK || !folder) return status;
  return pz_fail(err, PZ_BAD_INPUT,
                 "%.200s: no search is saved here; accepted: the name of a chip, a chip.json, or "
                 "the directory of a search",
                 text);
}

static enum pz_status load_chip(struct chips_question *q, const char *text) {
  if (q->n == MOST_CHIPS)
    return pz_fail(q->err, PZ_BAD_USE, "--chips: more than %d chips; accepted: at most %d",
                   MOST_CHIPS, MOST_CHIPS);
  struct compared_chip *x = &q->chips[q->n++];
  struct pz_chip *c = &x->chip;
  enum pz_status status = load_described(text, c, q->err);
  if (status != PZ_OK) return status;
  if (pz_tech_is_library(pz_tech_at(c->tech)))
    return pz_fail(q->err, PZ_BAD_USE,
                   "chip %s is of %s, whose library has no bill of HBM, links and static power; "
                   "accepted: a chip of 16 nm or below",
                   c->name, pz_tech_at(c->tech)->name);
  x->text = text;
  x->known = known_by(c, q->cold);
  x->tdp_watts = c->watts;
  if (q->cold || c->cold) status = pz_chip_make_cold(c, NULL, q->err);
  if (status != PZ_OK) return status;
  x->taken = pz_chip_taken(c);
  return PZ_OK;
}

static enum pz_status load_chips(struct chips_question *q, const char *text) {
  char *list = pz_arena_strdup(&q->s->arena, text), *rest = list;
  q->chips = pz_arena_alloc(&q->s->arena, MOST_CHIPS, sizeof *q->chips);
  if (!list || !q->chips) return pz_fail(q->err, PZ_NO_MEMORY, "out of memory for the chips");
  enum pz_status status = PZ_OK;
  while (status == PZ_OK && rest) {
    char *word = rest, *comma = strchr(rest, ',');
    rest = comma ? comma + 1 : NULL;
    if (comma) *comma = '\0';
    status = *word ? load_chip(q, word)
                   : pz_fail(q->err, PZ_BAD_USE,
                             "--chips '%s'; accepted: chips separated by commas", text);
  }
  return status;
}

/* ---- rent ----------------------------------------------------------------------------------- */

static const double DAY_S = 86400;

struct pz_rent_options pz_rent_options_default(void) {
  return (struct pz_rent_options){.size = sizeof(struct pz_rent_options),
                                  .prices_name = "the price table"};
}

static enum pz_status check_rent(const struct pz_rent_options *r, struct pz_error *err) {
  if (r->price > 0 && r->prices)
    return pz_fail(err, PZ_BAD_USE, "a price and a table of prices; accepted: one of them");
  if (!(r->deadline_s >= 0 && r->deadline_s <= 1e30))
    return pz_fail(err, PZ_BAD_USE, "deadline_s %g; accepted: 0 (none) to 1e30", r->deadline_s);
  return pz_need_range("number of devices", r->devices.n, 0, PZ_CHOICES_MOST, err);
}

static enum pz_status set_prices(struct chips_question *q, const char *chips) {
  const struct pz_rent_options *r = q->rent;
  struct pz_price_table t = {0};
  enum pz_status status = PZ_OK;
  if (r->prices)
    status = pz_price_table_read(r->prices_name, r->prices, strlen(r->prices), chips, &q->s->arena,
                                 &t, q->err);
  for (uint32_t i = 0; i < q->n && status == PZ_OK; i++) {
    q->chips[i].price = r->prices ? pz_price_of(&t, q->chips[i].text) : r->price;
    if (r->prices && !(q->chips[i].price > 0))
      status =
          pz_fail(q->err, PZ_BAD_INPUT, "%s: no price of %.200s; accepted: a row for each chip",
                  r->prices_name, q->chips[i].text);
  }
  return status;
}

/* What is expected of a plan, and what the error leaves of it. */
static void set_range(json_t *row, const char *name, double value, double error) {
  const double ends[] = {value * (1 - error), value * (1 + error)};
  static const char *const suffixes[] = {"_low", "_high"};
  char key[40];
  json_object_set_new(row, name, json_real(value));
  for (int i = 0; i < 2; i++) {
    snprintf(key, sizeof key, "%s%s", name, suffixes[i]);
    json_object_set_new(row, key, error > 0 ? json_real(ends[i]) : json_null());
  }
}

static enum pz_status add_rent(const struct chips_question *q, const struct compared_chip *x,
                               const struct pz_found_plan *found, json_t *row) {
  const struct pz_rent_options *r = q->rent;
  struct pz_run_cost_options o = pz_run_cost_options_default();
  struct pz_training_run run = {.plan = found->plan, .p = found->p};
  struct pz_run_cost c;
  double error = x->known.error;
  o.tokens = r->tokens;
  o.price = x->price;
  enum pz_status status = pz_run_cost(&run, &x->chip, &o, &c, q->err);
  if (status != PZ_OK) return status;
  json_object_set_new(row, "devices", json_integer(found->plan.devices));
  set_range(row, "days", c.seconds / DAY_S, error);
  json_object_set_new(row, "device_hours", json_real(c.device_hours));
  if (x->price > 0) {
    json_object_set_new(row, "dollars_per_device_hour", json_real(x->price));
    set_range(row, "run_dollars", c.dollars, error);
    json_object_set_new(row, "tokens_per_dollar", json_real(r->tokens / c.dollars));
  }
  if (r->deadline_s > 0)
    json_object_set_new(row, "deadline",
                        json_string(c.seconds > r->deadline_s                 ? "missed"
                                    : c.seconds * (1 + error) > r->deadline_s ? "uncertain"
                                                                              : "met"));
  return PZ_OK;
}

/* Of the rows of each model, which are n_models apart. */
static void mark_cheapest(const struct chips_question *q, json_t *rows) {
  uint32_t n_models = q->s->o.n_models;
  for (size_t m = 0; m < n_models; m++) {
    json_t *best = NULL;
    for (size_t i = m; i < json_array_size(rows); i += n_models) {
      json_t *row = json_array_get(rows, i), *dollars = json_object_get(row, "run_dollars");
      const char *deadline = json_string_value(json_object_get(row, "deadline"));
      if (!dollars) continue;
      json_object_set_new(row, "cheapest", json_false());
      if (deadline && strcmp(deadline, "missed") == 0) continue;
      if (!best || json_real_value(dollars) < json_real_value(json_object_get(best, "run_dollars")))
        best = row;
    }
    if (best) json_object_set_new(best, "cheapest", json_true());
  }
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* 0: not known. */
static json_t *known_real(double x) { return x > 0 ? json_real(x) : json_null(); }

/* What every chip has, and where the model fits what its best plan takes. */
static json_t *row_json(const struct chips_question *q, const struct compared_chip *x,
                        uint32_t model, const struct pz_found_plan *found,
                        const struct pz_step_energy *energy) {
  char plan[PZ_PLAN_TEXT_MOST];
  json_t *o = json_pack("{s:s,s:s,s:s,s:o,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:o,s:b}", "chip",
                        x->chip.name, "model", q->s->o.models[model], "known", x->known.name,
                        "expected_error", known_real(x->known.error), "cluster", x->net.name,
                        "tech", pz_tech_at(x->chip.tech)->name, "clock_hz", x->chip.clock_hz,
                        "tensor_flop_per_s", pz_chip_tensor_flop_per_s(&x->chip), "area_mm2",
                        x->taken.mm2, "peak_watts", x->taken.watts, "dollars", x->taken.dollars,
                        "tdp_watts", known_real(x->tdp_watts), "fits", found != NULL);
  if (!o || !found) return o;
  const struct pz_prediction *p = &found->p;
  json_t *more =
      json_pack("{s:f,s:f,s:f,s:f,s:o,s:f,s:f,s:f,s:s}", "step_s", p->step_s, "mfu", p->mfu,
                "mfu_conventional", p->mfu_conventional, "samples_per_s", p->samples_per_s, "ratio",
                known_real(q->first_s[model] / p->step_s), "watts", energy->watts,
                "joules_per_sample", energy->joules_per_sample, "samples_per_s_per_dollar",
                p->samples_per_s / ((double)found->plan.devices * x->taken.dollars), "plan",
                pz_plan_text(&found->plan, plan, sizeof plan));
  if (more) json_object_update(o, more);
  json_decref(more);
  return o;
}

static enum pz_status compare_model(struct chips_question *q, const struct compared_chip *x,
                                    uint32_t model, unsigned threads, json_t *rows) {
  struct pz_plan_question one;
  struct pz_found_plans found;
  struct pz_step_energy energy = {0};
  enum pz_status status =
      pz_training_plan_question(&q->s->training, model, &x->chip, &x->net, &one, q->err);
  one.threads = threads;
  if (q->rent && q->rent->deadline_s > 0 && q->rent->devices.n < 2) { /* as few as end in time */
    one.all_devices = false;
    one.objective = PZ_PLAN_COST;
    one.tokens = q->rent->tokens;
    one.deadline_s = q->rent->deadline_s;
  }
  if (status == PZ_OK) status = pz_plan_search(&one, &q->s->arena, &found, q->err);
  if (status == PZ_OK && found.n)
    status = pz_step_energy(&one.job, &found.list[0].plan, &found.list[0].p, &energy, q->err);
  if (status != PZ_OK) return status;
  if (json_array_size(rows) == model) q->first_s[model] = found.n ? found.list[0].p.step_s : 0;
  json_t *row = row_json(q, x, model, found.n ? &found.list[0] : NULL, &energy);
  if (q->rent && row) json_object_set_new(row, "devices", json_integer(q->s->o.devices));
  if (q->rent && row && found.n) status = add_rent(q, x, &found.list[0], row);
  if (json_array_append_new(rows, row) != 0)
    return pz_fail(q->err, PZ_NO_MEMORY, "out of memory for the comparison");
  return status;
}

/* One chip with each number of devices. */
static enum pz_status compare_numbers(struct chips_question *q, struct compared_chip *x,
                                      unsigned threads, json_t *rows) {
  const struct pz_choices one = {.v = {q->s->o.devices}, .n = 1};
  const struct pz_choices *numbers = q->rent && q->rent->devices.n ? &q->rent->devices : &one;
  enum pz_status status = PZ_OK;
  for (int i = 0; i < numbers->n && status == PZ_OK; i++) {
    q->s->o.devices = q->s->training.devices = numbers->v[i];
    status = set_network(q, x);
    for (uint32_t m = 0; m < q->s->o.n_models && status == PZ_OK; m++)
      status = compare_model(q, x, m, threads, rows);
  }
  return status;
}

static enum pz_status compare_chips(struct chips_question *q, const struct pz_run_options *run,
                                    json_t *rows) {
  struct pz_progress p;
  atomic_bool stop = false;
  enum pz_status status = PZ_OK;
  if (run->progress) pz_progress_start_call(&p, run->progress, run->ctx, &stop);
  struct pz_progress *progress = run->progress ? &p : NULL;
  struct pz_ending ending = {.progress = progress};
  q->s->training.ending = &ending; /* a search for plans may take long */
  pz_progress_next(progress, "plans", "chips", q->n);
  for (uint32_t i = 0; i < q->n && status == PZ_OK; i++) {
    status = compare_numbers(q, &q->chips[i], run->threads, rows);
    pz_progress_add(progress, 1);
    if (status == PZ_OK && stop) status = pz_fail(q->err, PZ_STOPPED, "the comparison was stopped");
  }
  pz_progress_finish(progress, NULL);
  q->s->training.ending = NULL;
  return status;
}

enum pz_status pz_chips_rent(const struct pz_study_options *study, const char *chips, bool cold,
                             const struct pz_rent_options *rent, const struct pz_run_options *run,
                             char **text, struct pz_error *err) {
  struct pz_study_options o = pz_study_options_default();
  struct pz_run_options r = pz_run_options_default();
  struct pz_rent_options rented = pz_rent_options_default();
  struct pz_study s;
  enum pz_status status = pz_need_each(err, {chips, "chips"}, {text, "text"});
  if (status == PZ_OK) status = pz_sized_take(&o, sizeof o, study, "pz_study_options_default", err);
  if (status == PZ_OK && run)
    status = pz_sized_take(&r, sizeof r, run, "pz_run_options_default", err);
  if (status == PZ_OK && rent)
    status = pz_sized_take(&rented, sizeof rented, rent, "pz_rent_options_default", err);
  if (status == PZ_OK && rent) status = check_rent(&rented, err);
  if (status != PZ_OK) return status;
  struct chips_question q = {
      .s = &s, .cluster = o.cluster, .cold = cold, .rent = rent ? &rented : NULL, .err = err};
  o.evaluator = PZ_EVALUATOR_TRAINING;
  o.cluster = pz_study_options_default().cluster;
  status = pz_study_init(&s, &o, 1, err);
  if (status != PZ_OK) return status;
  json_t *rows = json_array(), *root = json_pack("{s:O}", "chips", rows);
  status = load_chips(&q, chips);
  if (status == PZ_OK && rent) status = set_prices(&q, chips);
  if (status == PZ_OK) status = compare_chips(&q, &r, rows);
  if (status == PZ_OK && rent) mark_cheapest(&q, rows);
  if (status == PZ_OK) status = pz_json_text(root, text, err);
  json_decref(root);
  json_decref(rows);
  pz_study_release(&s);
  return status;
}

enum pz_status pz_chips_compare(const struct pz_study_options *study, const char *chips, bool cold,
                                const struct pz_run_options *run, char **text,
                                struct pz_error *err) {
  return pz_chips_rent(study, chips, cold, NULL, run, text, err);
}
