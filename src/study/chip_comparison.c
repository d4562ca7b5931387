/* Compares given chips: presets, chip files, and the best chips of saved searches.  Each trains
 * every model with its best plan in its own network, under the evaluator training and one cost
 * breakdown. compare_given_chips() reads the chips (load_chip) and their hourly prices
 * (set_prices), then appends one row for each chip, number of devices and model
 * (append_comparison).  If chips are rented, a row also has the time and price of the whole
 * training run (add_rent), and the cheapest row of each model is marked (mark_cheapest). */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chip/chip.h"
#include "core/status.h"
#include "core/text.h"
#include "place/plan_question.h"
#include "step/step_energy.h"
#include "study/run.h"
#include "study/tasks.h"

enum { MOST_CHIPS = 64 }; /* of one comparison */

/* The source of a chip's constants and the error to expect from them. */
struct knowledge {
  const char *name;
  double error; /* expected relative error of step times, or 0 if not validated */
};

struct compared_chip {
  const char *text; /* name or path as the user gave it */
  double price;     /* dollars per device-hour, or 0 if not known */
  struct pz_chip chip;
  struct pz_cluster net;
  struct knowledge known;
  struct pz_taken taken;
  double tdp_watts; /* power of the data sheet, or 0 if it states none */
};

struct chip_comparison {
  struct pz_study *study;
  const char *cluster;                /* cluster of all chips, or NULL if each chip has its own */
  bool cold;                          /* predict all chips by their data sheets */
  const struct pz_rent_options *rent; /* NULL if chips are not rented */
  struct compared_chip *chips;
  uint32_t n;
  double first_s[PZ_SEARCH_MOST_MODELS]; /* step time on the first chip, or 0 if nothing fits */
};

/* ---- expected error by the source of a chip's constants ------------------------------------- */

/* Expected errors: the mean over chips of the mean error of their dense 16-bit runs of quality ok
 * (tests/cli/requirements). "measured" is the mean over 6 chips of ref/published/runs.csv,
 * "published runs" over 6 others, COLD over all 12, UNSEEN over the 6 chips of
 * ref/otherchips/runs.csv. */
enum { COLD = PZ_CALIBRATED_BY_RUNS + 1, UNSEEN };
static const struct knowledge knowledge[] = {
    [PZ_CALIBRATED_SOMEHOW] = {"calibrated", 0},
    [PZ_CALIBRATED_BY_OPERATORS] = {"measured", 0.045},
    [PZ_CALIBRATED_BY_RUNS] = {"published runs", 0.140},
    [COLD] = {"cold", 0.077},   /* chips to whose runs the constants of a class were fitted */
    [UNSEEN] = {"cold", 0.198}, /* other chips */
};

/* ---- chips ---------------------------------------------------------------------------------- */

/* Reads a chip by name, from a file, or as the best chip of a search saved in a directory. */
static void read_described_chip(struct pz_call *call, const char *text, struct pz_chip *out) {
  struct pz_error *err = pz_call_error(call);
  struct stat file_state;
  if (access(pz_format(call, "%s/run.sqlite", text), F_OK) == 0) {
    struct pz_run_options options = pz_run_options_default();
    struct pz_run *run = NULL;
    options.dir = text;
    options.threads = 1;
    pz_must(call, pz_run_look(&options, &run, err));
    *out = *pz_result_best(pz_run_result(run))->chip;
    pz_run_close(run);
    return;
  }
  bool is_directory = stat(text, &file_state) == 0 && S_ISDIR(file_state.st_mode);
  struct pz_chip *loaded = NULL;
  /* A directory may have the name of a preset. */
  enum pz_status status = pz_chip_load(text, &loaded, is_directory ? NULL : err);
  if (status != PZ_OK && is_directory)
    pz_raise(call, PZ_BAD_INPUT,
             "%.200s: no search is saved here; accepted: the name of a chip, a chip.json, or the "
             "directory of a search",
             text);
  pz_must(call, status);
  *out = *loaded;
  pz_chip_free(loaded);
}

/* Reads a chip, checks that it has a cost breakdown, and adds it to the comparison. */
static void load_chip(struct pz_call *call, struct chip_comparison *comparison, const char *text) {
  if (comparison->n == MOST_CHIPS)
    pz_raise(call, PZ_BAD_USE, "--chips: more than %d chips; accepted: at most %d", MOST_CHIPS,
             MOST_CHIPS);
  struct compared_chip *compared = &comparison->chips[comparison->n];
  struct pz_chip *chip = &compared->chip;
  comparison->n++;
  read_described_chip(call, text, chip);
  if (pz_tech_is_library(pz_tech_at(chip->tech)))
    pz_raise(call, PZ_BAD_USE,
             "chip %s is of %s, whose library has no bill of HBM, links and static power; "
             "accepted: a chip of 16 nm or below",
             chip->name, pz_tech_at(chip->tech)->name);
  compared->text = text;
  /* Constants by the data sheet alone, those fitted to the chip's own steps, or calibrated ones. */
  bool cold = comparison->cold || chip->cold;
  bool seen = !chip->cold && chip->calibrated_by != PZ_CALIBRATED_SOMEHOW;
  if (cold)
    compared->known = knowledge[seen ? COLD : UNSEEN];
  else if (chip->correction.error > 0)
    compared->known = (struct knowledge){"own steps", chip->correction.error};
  else
    compared->known = knowledge[chip->calibrated_by];
  compared->tdp_watts = chip->watts;
  if (cold) pz_chip_make_cold(call, chip, NULL);
  compared->taken = pz_chip_taken(chip);
}

/* Sets the network of a chip: the cluster that the user named, the standard cluster of a preset,
 * or else groups of devices that the links of the chip connect. */
static void set_network(struct pz_call *call, const struct chip_comparison *comparison,
                        struct compared_chip *compared) {
  struct pz_error *err = pz_call_error(call);
  bool preset = pz_chip_preset_text(compared->text) || strchr(compared->chip.name, ',');
  if (comparison->cluster) {
    pz_must(call, pz_cluster_load(comparison->cluster, &compared->net, err));
  } else if (!preset || !pz_cluster_standard(compared->chip.name, &compared->net)) {
    struct pz_training_question question = comparison->study->training;
    if (pz_text_same(compared->text, "trainium2")) { /* trn2.48xlarge: 16 chips, 3.2 Tb/s (AWS) */
      question.scale_up = 16;
      question.outer_bytes_per_s = 25e9;
    }
    compared->net = pz_training_cluster(&question, &compared->chip);
    return;
  }
  pz_must(call,
          pz_cluster_reach(&compared->net, comparison->study->options.devices, "devices", err));
}

/* ---- rent ----------------------------------------------------------------------------------- */

static const double DAY_S = 86400;

struct pz_rent_options pz_rent_options_default(void) {
  return (struct pz_rent_options){.size = sizeof(struct pz_rent_options),
                                  .prices_name = "the price table"};
}

/* Sets the price per device-hour of every chip, from the price table or the single price. */
static void set_prices(struct pz_call *call, struct chip_comparison *comparison,
                       const char *chips) {
  const struct pz_rent_options *rent = comparison->rent;
  struct pz_price_table table = {0};
  if (rent->prices)
    table = pz_price_table_read(call, rent->prices_name, rent->prices, strlen(rent->prices), chips);
  for (uint32_t i = 0; i < comparison->n; i++) {
    struct compared_chip *compared = &comparison->chips[i];
    compared->price = rent->prices ? pz_price_of(&table, compared->text) : rent->price;
    bool missing = rent->prices && !(compared->price > 0);
    if (missing)
      pz_raise(call, PZ_BAD_INPUT, "%s: no price of %.200s; accepted: a row for each chip",
               rent->prices_name, compared->text);
  }
}

/* Sets the members NAME, NAME_low and NAME_high of a row: a value, and its range by the relative
 * error, or null for both ends if the error is unknown (0). */
static void set_range(json_t *row, const char *name, double value, double error) {
  const double ends[] = {value * (1 - error), value * (1 + error)};
  char key[40];
  json_object_set_new(row, name, json_real(value));
  for (int i = 0; i < 2; i++) {
    snprintf(key, sizeof key, "%s%s", name, i == 0 ? "_low" : "_high");
    json_object_set_new(row, key, error > 0 ? json_real(ends[i]) : json_null());
  }
}

/* Adds the time and the price of a whole training run to a row. */
static void add_rent(struct pz_call *call, const struct chip_comparison *comparison,
                     const struct compared_chip *compared, const struct pz_found_plan *found,
                     json_t *row) {
  const struct pz_rent_options *rent = comparison->rent;
  struct pz_run_cost_options options = pz_run_cost_options_default();
  struct pz_training_run run = {.plan = found->plan, .p = found->p};
  struct pz_run_cost cost;
  double error = compared->known.error;
  options.tokens = rent->tokens;
  options.price = compared->price;
  pz_must(call, pz_run_cost(&run, &compared->chip, &options, &cost, pz_call_error(call)));
  json_object_set_new(row, "devices", json_integer(found->plan.devices));
  set_range(row, "days", cost.seconds / DAY_S, error);
  json_object_set_new(row, "device_hours", json_real(cost.device_hours));
  if (compared->price > 0) {
    json_object_set_new(row, "dollars_per_device_hour", json_real(compared->price));
    set_range(row, "run_dollars", cost.dollars, error);
    json_object_set_new(row, "tokens_per_dollar", json_real(rent->tokens / cost.dollars));
  }
  if (rent->deadline_s > 0) {
    const char *deadline = "met";
    if (cost.seconds * (1 + error) > rent->deadline_s) deadline = "uncertain";
    if (cost.seconds > rent->deadline_s) deadline = "missed";
    json_object_set_new(row, "deadline", json_string(deadline));
  }
}

/* Marks the cheapest row of each model that does not miss the deadline.  Rows of one model are
 * n_models apart, because all models of a chip follow each other. */
static void mark_cheapest(const struct chip_comparison *comparison, json_t *rows) {
  uint32_t n_models = comparison->study->options.n_models;
  for (size_t model_index = 0; model_index < n_models; model_index++) {
    json_t *best = NULL;
    double least = 0;
    for (size_t i = model_index; i < json_array_size(rows); i += n_models) {
      json_t *row = json_array_get(rows, i), *dollars = json_object_get(row, "run_dollars");
      const char *deadline = json_string_value(json_object_get(row, "deadline"));
      if (!dollars) continue;
      json_object_set_new(row, "cheapest", json_false());
      if (deadline && strcmp(deadline, "missed") == 0) continue;
      if (best && json_real_value(dollars) >= least) continue;
      best = row;
      least = json_real_value(dollars);
    }
    if (best) json_object_set_new(best, "cheapest", json_true());
  }
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* Returns a new row with the data of a chip and its best plan, if `found` is not NULL. */
static json_t *comparison_row(const struct chip_comparison *comparison,
                              const struct compared_chip *compared, uint32_t model,
                              const struct pz_found_plan *found,
                              const struct pz_step_energy *energy) {
  char plan[PZ_PLAN_TEXT_MOST];
  double error = compared->known.error, tdp_watts = compared->tdp_watts;
  json_t *row = json_pack(
      "{s:s,s:s,s:s,s:o,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:o,s:b}", "chip", compared->chip.name, "model",
      comparison->study->options.models[model], "known", compared->known.name, "expected_error",
      error > 0 ? json_real(error) : json_null(), "cluster", compared->net.name, "tech",
      pz_tech_at(compared->chip.tech)->name, "clock_hz", compared->chip.clock_hz,
      "tensor_flop_per_s", pz_chip_tensor_flop_per_s(&compared->chip), "area_mm2",
      compared->taken.mm2, "peak_watts", compared->taken.watts, "dollars", compared->taken.dollars,
      "tdp_watts", tdp_watts > 0 ? json_real(tdp_watts) : json_null(), "fits", found != NULL);
  if (!row || !found) return row;
  const struct pz_prediction *prediction = &found->p;
  double ratio = comparison->first_s[model] / prediction->step_s; /* 0 if the first has no plan */
  json_t *plan_json = json_pack(
      "{s:f,s:f,s:f,s:f,s:o,s:f,s:f,s:f,s:s}", "step_s", prediction->step_s, "mfu", prediction->mfu,
      "mfu_conventional", prediction->mfu_conventional, "samples_per_s", prediction->samples_per_s,
      "ratio", ratio > 0 ? json_real(ratio) : json_null(), "watts", energy->watts,
      "joules_per_sample", energy->joules_per_sample, "samples_per_s_per_dollar",
      prediction->samples_per_s / ((double)found->plan.devices * compared->taken.dollars), "plan",
      pz_plan_text(&found->plan, plan, sizeof plan));
  if (plan_json) json_object_update(row, plan_json);
  json_decref(plan_json);
  return row;
}

/* Finds the best plan of a model on a chip and appends its row. */
static void append_comparison(struct pz_call *call, struct chip_comparison *comparison,
                              const struct compared_chip *compared, uint32_t model,
                              unsigned threads, json_t *rows) {
  struct pz_plan_question question =
      pz_training_ask(call, &comparison->study->training, model, &compared->chip, &compared->net);
  struct pz_step_energy energy = {0};
  question.threads = threads;
  /* With a deadline, the search may choose fewer devices than given, unless several numbers are. */
  bool fewest_devices =
      comparison->rent && comparison->rent->deadline_s > 0 && comparison->rent->devices.n < 2;
  if (fewest_devices) { /* the cheapest run that meets the deadline */
    question.all_devices = false;
    question.objective = PZ_PLAN_COST;
    question.tokens = comparison->rent->tokens;
    question.deadline_s = comparison->rent->deadline_s;
  }
  const struct pz_found_plans *found = pz_find_plans(call, &question);
  const struct pz_found_plan *best = found->n ? &found->list[0] : NULL;
  if (best) energy = pz_step_energy(call, &question.job, &best->plan, &best->p);
  bool first_chip = json_array_size(rows) == model; /* its rows are the first n_models ones */
  if (first_chip) comparison->first_s[model] = best ? best->p.step_s : 0;
  json_t *row = comparison_row(comparison, compared, model, best, &energy);
  if (json_array_append_new(rows, row) != 0) pz_raise_memory(call, "the comparison");
  if (comparison->rent)
    json_object_set_new(row, "devices", json_integer(comparison->study->options.devices));
  if (comparison->rent && best) add_rent(call, comparison, compared, best, row);
}

/* Appends the rows of a chip: one for every model, with each number of devices of the rent options
 * or else with that of the study. */
static void compare_chip(struct pz_call *call, struct chip_comparison *comparison,
                         struct compared_chip *compared, unsigned threads, json_t *rows) {
  const struct pz_choices given = {.v = {comparison->study->options.devices}, .n = 1};
  const struct pz_choices *numbers =
      comparison->rent && comparison->rent->devices.n ? &comparison->rent->devices : &given;
  for (int i = 0; i < numbers->n; i++) {
    comparison->study->options.devices = numbers->v[i];
    comparison->study->training.devices = numbers->v[i];
    set_network(call, comparison, compared);
    for (uint32_t model = 0; model < comparison->study->options.n_models; model++)
      append_comparison(call, comparison, compared, model, threads, rows);
  }
}

struct chips_question {
  const struct pz_study_options *study;
  const char *chips;
  bool cold;
  const struct pz_rent_options *rent;
  const struct pz_run_options *run;
  char **text;
};

/* Checks the options, reads the chips, and compares them with every model. */
static void compare_given_chips(struct pz_call *call, void *ctx) {
  struct chips_question *request = ctx;
  struct pz_study_options study_options = pz_study_options_default();
  struct pz_run_options run = pz_run_options_default();
  struct pz_rent_options rent = pz_rent_options_default();
  struct pz_study *study = pz_alloc(call, 1, sizeof *study);
  pz_require(call, request->chips, "chips");
  pz_require(call, request->text, "text");
  pz_require_options(call, &study_options, sizeof study_options, request->study,
                     "pz_study_options_default");
  if (request->run)
    pz_require_options(call, &run, sizeof run, request->run, "pz_run_options_default");
  if (request->rent) {
    pz_require_options(call, &rent, sizeof rent, request->rent, "pz_rent_options_default");
    bool deadline_in_range = rent.deadline_s >= 0 && rent.deadline_s <= 1e30; /* false for NaN */
    if (rent.price > 0 && rent.prices)
      pz_raise(call, PZ_BAD_USE, "a price and a table of prices; accepted: one of them");
    if (!deadline_in_range)
      pz_raise(call, PZ_BAD_USE, "deadline_s %g; accepted: 0 (none) to 1e30", rent.deadline_s);
    pz_require_range(call, "number of devices", rent.devices.n, 0, PZ_CHOICES_MOST);
  }
  struct chip_comparison comparison = {
      study, study_options.cluster, request->cold, request->rent ? &rent : NULL, NULL, 0, {0}};
  study_options.evaluator = PZ_EVALUATOR_TRAINING;
  study_options.cluster = pz_study_options_default().cluster;
  pz_study_open(call, study, &study_options, 1);
  const char *text = request->chips;
  char *rest = pz_copy_text(call, text);
  comparison.chips = pz_alloc(call, MOST_CHIPS, sizeof *comparison.chips);
  while (rest) {
    char *word = rest, *comma = strchr(rest, ',');
    rest = comma ? comma + 1 : NULL;
    if (comma) *comma = '\0';
    if (!*word)
      pz_raise(call, PZ_BAD_USE, "--chips '%s'; accepted: chips separated by commas", text);
    load_chip(call, &comparison, word);
  }
  if (comparison.rent) set_prices(call, &comparison, request->chips);

  atomic_bool *stop = pz_alloc(call, 1, sizeof *stop);
  struct pz_progress *progress = run.progress ? pz_alloc(call, 1, sizeof *progress) : NULL;
  struct pz_ending ending = {.progress = progress}; /* no time limit; ends if the user cancels */
  json_t *root = pz_json_built(call, json_pack("{s:[]}", "chips"));
  json_t *rows = json_object_get(root, "chips");
  /* The loop below notices a cancellation only between chips, and one chip may need long searches
   * for its best plans.  These searches check `ending`, so that they can be cancelled, too. */
  study->training.ending = &ending;
  if (progress) pz_progress_start_call(progress, run.progress, run.ctx, stop);
  pz_study_phase_begin(call, progress, "plans", "chips", comparison.n);
  for (uint32_t i = 0; i < comparison.n; i++) {
    compare_chip(call, &comparison, &comparison.chips[i], run.threads, rows);
    pz_progress_add(progress, 1);
    if (atomic_load(stop)) pz_raise(call, PZ_STOPPED, "the comparison was stopped");
  }
  pz_study_phase_end(call, progress);
  if (comparison.rent) mark_cheapest(&comparison, rows);
  *request->text = pz_json_take(call, root);
}

enum pz_status pz_chips_rent(const struct pz_study_options *study, const char *chips, bool cold,
                             const struct pz_rent_options *rent, const struct pz_run_options *run,
                             char **text, struct pz_error *err) {
  struct chips_question request = {study, chips, cold, rent, run, text};
  return pz_border(compare_given_chips, &request, err);
}

enum pz_status pz_chips_compare(const struct pz_study_options *study, const char *chips, bool cold,
                                const struct pz_run_options *run, char **text,
                                struct pz_error *err) {
  return pz_chips_rent(study, chips, cold, NULL, run, text, err);
}
