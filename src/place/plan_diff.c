/* Compares two training runs (pz_plan_diff): the fields in which they differ, a path of plans from
 * one to the other on which each change is priced, and a verdict.
 *
 * read_side() predicts a run, and find_differences() lists the fields that differ.  price_path()
 * changes one field at a time, in the order of plan_fields.def with model, chip and cluster first.
 * If no single change gives a plan that can run, it makes up to MAX_TOGETHER changes at once, as
 * few as possible, or else all that are left.  A field that follows from others (replicas, pipeline
 * order etc.) is not a change of its own.  Prices are those of pz_predict(). */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/call.h"
#include "core/num.h"
#include "core/text.h"
#include "core/vec.h"
#include "place/neighbours.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/prediction.h"

/* Items that a path changes: plan fields, and MACHINE, which is model, chip and cluster together.
 * At most MAX_TOGETHER of them are changed at once. */
enum { MACHINE = PZ_PLAN_FIELDS, ITEMS, MAX_TOGETHER = 3 };

/* One of the two runs that are compared. */
struct diff_side {
  struct pz_run_plan run;
  struct pz_job job;
  struct pz_cluster wide;
  /* The filled plan, in which fields with several equivalent values have a standard one. */
  struct pz_plan canonical;
  struct pz_plan chosen; /* the canonical plan with the fields that follow from others unset */
  struct pz_model_shape model;
  bool can_run; /* whether the framework can run the plan */
};

/* The state of the walk from the plan of run a to that of run b. */
struct diff_walk {
  struct diff_side a, b;
  struct pz_plan plan;      /* the chosen plan of run a with the changes made so far */
  const struct pz_job *job; /* the job of run a or of run b */
  int items[ITEMS];         /* the items that are left to change */
  int n_items;
  struct pz_vec path; /* the changes so far: struct pz_diff_change */
  struct pz_plan_diff *diff;
};

/* Returns the plan of a run in a standard form, without values that have no effect: first and last
 * layers as in the even division, and moments and a fused loss that are the framework's own. */
static struct pz_plan canonical_plan(const struct pz_training_run *run, bool experts) {
  struct pz_plan plan = run->plan, even = run->plan;
  bool is_even = true;
  even.first_layers = even.last_layers = 0;
  for (int64_t chunk = 0; chunk < plan.pp * plan.vpp && is_even; chunk++)
    is_even = pz_plan_chunk_layers(&plan, run->layers, chunk) ==
              pz_plan_chunk_layers(&even, run->layers, chunk);
  if (is_even) plan = even;
  plan.fused_loss = plan.fused_loss && pz_plan_framework(&plan)->loss != PZ_LOSS_IN_PLACE;
  struct pz_plan default_moments = plan;
  default_moments.moment_bytes = 0;
  bool same_moments =
      pz_plan_moment_bytes(&default_moments, experts) == pz_plan_moment_bytes(&plan, experts);
  return same_moments ? default_moments : plan;
}

/* Reads the run of one side, predicts it in the memory of the result, and determines which fields
 * of its plan were chosen. */
static void read_side(struct pz_call *call, const struct pz_diff_side *given,
                      struct diff_side *side, struct pz_call *result, struct pz_training_run *run) {
  struct pz_diff_side options = {.size = sizeof options};
  struct pz_error why = {0};
  struct pz_plan filled;
  pz_require_options(call, &options, sizeof options, given, "struct pz_diff_side");
  side->run = pz_run_plan_default();
  pz_require_options(call, &side->run, sizeof side->run, options.run, "pz_run_plan_default");
  side->job = (struct pz_job){.model = side->run.model,
                              .config = side->run.config,
                              .chip = options.chip,
                              .net = options.net};
  pz_training_question(call, &side->job, &side->run.plan, &filled, &side->wide);
  const bool events = false;
  *run = pz_training_run_make(result, &side->job, &filled, events);
  side->model = pz_neighbourhood_make(call, &side->job, &run->plan).model;
  side->canonical = canonical_plan(run, side->model.experts > 0);
  /* unset the fields whose values follow from other fields */
  const struct pz_plan *plan = &side->canonical;
  struct pz_plan *chosen = &side->chosen;
  bool is_usual_order =
      plan->pipeline == (plan->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B);
  *chosen = *plan;
  chosen->dp = chosen->etp = 0;
  if (plan->sp || plan->tp == 1) chosen->sp = PZ_AS_FRAMEWORK;
  if (pz_plan_etp(plan) != pz_plan_etp(chosen)) chosen->etp = plan->etp;
  if (!pz_plan_is_hybrid_sharded(plan)) chosen->shard = 0;
  if (is_usual_order) chosen->pipeline = PZ_AS_FRAMEWORK;
  side->can_run = pz_framework_can_run(&run->plan, &side->model, &why);
  pz_text_copy(run->refusal, sizeof run->refusal, why.message);
}

/* ---- differences ---------------------------------------------------------------------------- */

/* Returns whether two JSON values are equal, and releases both. */
static bool same_json(json_t *first, json_t *second) {
  bool same = first && second && json_equal(first, second);
  json_decref(first);
  json_decref(second);
  return same;
}

/* Returns whether two texts, which may be NULL, are equal. */
static bool same_text(const char *first, const char *second) {
  return first == second || (first && second && strcmp(first, second) == 0);
}

/* Returns whether two plans differ in a field that matters in at least one of them. */
static bool differs_visibly(const struct pz_plan *first, const struct pz_plan *second,
                            enum pz_plan_field field) {
  char first_text[PZ_FIELD_TEXT_MOST], second_text[PZ_FIELD_TEXT_MOST];
  if (field == PZ_PLAN_STAGE_RECOMPUTE) {
    const int64_t *first_layers = first->stage_recompute, *second_layers = second->stage_recompute;
    if (!first_layers || !second_layers) return first_layers != second_layers;
    return first->pp != second->pp ||
           memcmp(first_layers, second_layers, (size_t)first->pp * sizeof *first_layers) != 0;
  }
  if (!pz_plan_field_is_relevant(first, field) && !pz_plan_field_is_relevant(second, field))
    return false;
  return strcmp(pz_plan_field_text(first, field, first_text, sizeof first_text),
                pz_plan_field_text(second, field, second_text, sizeof second_text)) != 0;
}

/* Returns whether two plans have the same values of all fields that matter in them. */
static bool same_plan(const struct pz_plan *first, const struct pz_plan *second) {
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (differs_visibly(first, second, (enum pz_plan_field)i)) return false;
  return true;
}

/* Appends a field that differs, with its values in both runs, or "-" for NULL. */
static void add_difference(struct pz_call *result, struct pz_plan_diff *diff, const char *name,
                           const char *value_a, const char *value_b) {
  struct pz_field_difference *difference = &diff->fields[diff->n_fields++];
  difference->name = name;
  difference->a = pz_copy_text(result, value_a ? value_a : "-");
  difference->b = pz_copy_text(result, value_b ? value_b : "-");
}

/* Lists the fields that differ, and the items that the path has to change: model, chip and cluster
 * as one item, and the fields that at least one run has chosen. */
static void find_differences(struct pz_call *result, struct diff_walk *walk) {
  const struct pz_job *job_a = &walk->a.job, *job_b = &walk->b.job;
  const struct pz_plan *plan_a = &walk->a.canonical, *plan_b = &walk->b.canonical;
  struct pz_plan_diff *diff = walk->diff;
  bool model = !same_text(job_a->model, job_b->model) || !same_text(job_a->config, job_b->config);
  bool chip = job_a->chip != job_b->chip &&
              !same_json(pz_chip_json(job_a->chip), pz_chip_json(job_b->chip));
  bool net = job_a->net != job_b->net;
  if (job_a->net && job_b->net) { /* the number of devices is a field of the plan */
    struct pz_cluster scaled_a = *job_a->net, scaled_b = *job_b->net;
    scaled_a.devices = scaled_b.devices = pz_max(scaled_a.devices, scaled_b.devices);
    scaled_a.stated_devices = scaled_b.stated_devices = 1;
    net = !same_json(pz_cluster_json(&scaled_a), pz_cluster_json(&scaled_b));
  }
  diff->fields = pz_alloc(result, PZ_RUN_FIELDS, sizeof *diff->fields);
  if (model || chip || net) walk->items[walk->n_items++] = MACHINE;
  if (model) add_difference(result, diff, "model", job_a->model, job_b->model);
  if (chip) add_difference(result, diff, "chip", job_a->chip->name, job_b->chip->name);
  if (net)
    add_difference(result, diff, "cluster", job_a->net ? job_a->net->name : NULL,
                   job_b->net ? job_b->net->name : NULL);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field field = (enum pz_plan_field)i;
    char text_a[PZ_FIELD_TEXT_MOST], text_b[PZ_FIELD_TEXT_MOST];
    if (!differs_visibly(plan_a, plan_b, field)) continue;
    bool follows =
        pz_plan_is_unset(&walk->a.chosen, field) && pz_plan_is_unset(&walk->b.chosen, field);
    if (!follows) walk->items[walk->n_items++] = i;
    if (field == PZ_PLAN_STAGE_RECOMPUTE)
      add_difference(result, diff, pz_plan_field_name(field), diff->a.recompute_text,
                     diff->b.recompute_text);
    else
      add_difference(result, diff, pz_plan_field_name(field),
                     pz_plan_field_text(plan_a, field, text_a, sizeof text_a),
                     pz_plan_field_text(plan_b, field, text_b, sizeof text_b));
  }
}

/* ---- the path ------------------------------------------------------------------------------- */

/* A subset of the items that are left, by their positions in ascending order. */
struct item_choice {
  int position[ITEMS];
  int n;
};

/* Sets an item of the plan or of the job to its value in run b. */
static void set_item(const struct diff_walk *walk, int item, struct pz_plan *plan,
                     const struct pz_job **job) {
  if (item == MACHINE)
    *job = &walk->b.job;
  else
    pz_plan_field_copy(plan, &walk->b.chosen, (enum pz_plan_field)item);
}

/* The arguments and the result of a prediction within a border. */
struct priced_plan {
  const struct pz_job *job;
  const struct pz_plan *plan;
  struct pz_prediction *prediction;
};

/* Predicts a plan within a border, because the prediction of an invalid plan raises an error. */
static void price_plan(struct pz_call *call, void *ctx) {
  struct priced_plan *priced_plan = ctx;
  *priced_plan->prediction = pz_predict(call, priced_plan->job, priced_plan->plan, NULL);
}

/* Prices the plan of the walk after the chosen items are changed to their values in run b.  With
 * all items that are left, this is run b itself.  Returns false if the result is not a valid plan,
 * or if the framework can run a and b but not this plan. */
static bool try_items(struct pz_call *call, const struct diff_walk *walk,
                      const struct item_choice *choice, struct pz_diff_change *change) {
  struct pz_plan plan = walk->plan;
  const struct pz_job *job = walk->job;
  struct pz_error why = {0};
  if (choice->n == walk->n_items) {
    change->plan = walk->b.canonical;
    change->p = walk->diff->b.p;
    return true;
  }
  for (int i = 0; i < choice->n; i++) set_item(walk, walk->items[choice->position[i]], &plan, &job);
  const struct pz_model_shape *model = job == &walk->b.job ? &walk->b.model : &walk->a.model;
  if (!pz_try_fill_plan(&plan, job->chip, &why)) return false;
  if (walk->a.can_run && walk->b.can_run) {
    plan.overlap = pz_framework_overlap(&plan, model);
    if (!pz_framework_can_run(&plan, model, NULL)) return false;
  }
  change->plan = plan;
  enum pz_status status =
      pz_border(price_plan, &(struct priced_plan){job, &plan, &change->p}, &why);
  pz_raise_if_memory(call, &why);
  return status == PZ_OK && isfinite(change->p.step_s) && isfinite(change->p.peak_bytes);
}

/* Adds `size` items, from position `from` on, to the choice, so that the plan with the changed
 * items can run, and sets *change to its price.  Tries all such choices recursively, the first
 * items first.  Returns false if there is none. */
static bool find_runnable_items(struct pz_call *call, const struct diff_walk *walk, int size,
                                int from, struct item_choice *choice,
                                struct pz_diff_change *change) {
  if (!size) return try_items(call, walk, choice, change);
  for (int i = from; i + size <= walk->n_items; i++) {
    choice->position[choice->n++] = i;
    if (find_runnable_items(call, walk, size - 1, i + 1, choice, change)) return true;
    choice->n--;
  }
  return false;
}

/* Returns a description of the chosen items, "tp 8 -> 4, pp 4 -> 2".  Appends their new values to
 * *values, "tp 4, pp 2". */
static const char *describe_items(struct pz_call *result, const struct diff_walk *walk,
                                  const struct item_choice *choice, const char **values) {
  static const char *const machine[] = {"model", "chip", "cluster"};
  const char *text = "";
  for (int i = 0; i < choice->n; i++) {
    int item = walk->items[choice->position[i]];
    int names = item == MACHINE ? 3 : 1;
    for (int k = 0; k < names; k++) {
      const char *name =
          item == MACHINE ? machine[k] : pz_plan_field_name((enum pz_plan_field)item);
      const struct pz_field_difference *difference = walk->diff->fields;
      const struct pz_field_difference *end = difference + walk->diff->n_fields;
      while (difference < end && strcmp(difference->name, name) != 0) difference++;
      if (difference == end) continue; /* the runs agree in this field */
      text = pz_format(result, "%s%s%s %s -> %s", text, *text ? ", " : "", name, difference->a,
                       difference->b);
      *values = pz_format(result, "%s%s%s %s", *values, **values ? ", " : "", name, difference->b);
    }
  }
  return text;
}

/* Changes the plan of run a into that of run b, a few fields at a time, and appends each change to
 * diff->path with the predicted time and memory of the plan after it. */
static void price_path(struct pz_call *call, struct pz_call *result, struct diff_walk *walk) {
  struct pz_plan_diff *diff = walk->diff;
  struct pz_prediction before = diff->a.p;
  struct pz_plan plan = walk->a.canonical;
  while (walk->n_items) {
    /* find the fewest items whose change gives a plan that can run */
    const struct pz_job *job = walk->job;
    struct pz_diff_change change = {.plan = walk->plan};
    struct item_choice choice = {.n = 0};
    bool found = false;
    for (int size = 1; size <= MAX_TOGETHER && size <= walk->n_items && !found; size++)
      found = find_runnable_items(call, walk, size, 0, &choice, &change);
    if (!found) { /* choose all that are left, which gives run b itself */
      for (choice.n = 0; choice.n < walk->n_items; choice.n++) choice.position[choice.n] = choice.n;
      (void)try_items(call, walk, &choice, &change);
    }
    const char *values = diff->changes;
    change.fields = (uint32_t)choice.n;
    change.change = describe_items(result, walk, &choice, &values);
    /* change the chosen items, and remove them from the items that are left */
    int n_left = 0, chosen = 0;
    bool machine_is_left = false;
    for (int i = 0; i < walk->n_items; i++) {
      if (chosen < choice.n && choice.position[chosen] == i) {
        set_item(walk, walk->items[i], &walk->plan, &walk->job);
        chosen++;
      } else {
        machine_is_left |= walk->items[i] == MACHINE;
        walk->items[n_left++] = walk->items[i];
      }
    }
    walk->n_items = n_left;
    /* the plan may already be that of run b, if all items that are left follow from others */
    if (n_left && !machine_is_left && same_plan(&change.plan, &walk->b.canonical)) {
      change.p = diff->b.p;
      walk->n_items = 0;
    }
    change.step_s = change.p.step_s - before.step_s;
    change.peak_bytes = change.p.peak_bytes - before.peak_bytes;
    bool changed = job != walk->job || !same_plan(&plan, &change.plan);
    if (changed) {
      pz_append(call, &walk->path, &change);
      diff->changes = values;
    }
    before = change.p;
    plan = change.plan;
  }
  diff->path = walk->path.items;
  diff->n_path = walk->path.n;
}

/* ---- the verdict ---------------------------------------------------------------------------- */

/* Returns a text with the three parts of the step that differ most, by at least a thousandth of it:
 * ": +0.9 s tensor-parallel collectives, -0.1 s GEMMs, +0.01 s others". */
static const char *describe_parts(struct pz_call *result, const struct pz_prediction *a,
                                  const struct pz_prediction *b) {
  enum { MAX_PARTS = 3 };
  /* the parts of run b, where parts that are listed already are set to those of run a */
  struct pz_training_parts remaining = b->parts;
  const struct pz_part_info *part;
  const char *text = "";
  double others_s = b->step_s - a->step_s;
  for (int n = 0; n < MAX_PARTS; n++) {
    const struct pz_part_info *largest = NULL;
    double largest_s = 0;
    for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
      double difference_s = pz_time_part(&remaining, part) - pz_time_part(&a->parts, part);
      if (fabs(difference_s) < fmax(fabs(largest_s), 1e-3 * a->step_s)) continue;
      largest_s = difference_s;
      largest = part;
    }
    if (!largest) break; /* the parts that are left differ too little */
    text = pz_format(result, "%s%s %+.2g s %s", text, *text ? "," : ":", largest_s,
                     pz_time_part_label(b->scan_layers > 0 ? b : a, largest));
    *(double *)(void *)((char *)&remaining + largest->offset) = pz_time_part(&a->parts, largest);
    others_s -= largest_s;
  }
  bool has_others = *text && fabs(others_s) >= 1e-3 * a->step_s;
  return has_others ? pz_format(result, "%s, %+.2g s others", text, others_s) : text;
}

/* Describes why a plan does not fit: the missing memory, and the largest part of the memory. */
static const char *describe_misfit(struct pz_call *result, const struct pz_prediction *prediction) {
  const struct pz_part_info *part, *largest = pz_memory_part_at(0);
  if (prediction->needed_bytes <= prediction->usable_bytes)
    return pz_format(result,
                     "does not fit: needs %.1f GB of the host's memory for a device, %.1f GB more "
                     "than usable",
                     prediction->host_bytes / 1e9,
                     (prediction->host_bytes - prediction->usable_host_bytes) / 1e9);
  for (size_t i = 1; (part = pz_memory_part_at(i)); i++)
    if (pz_memory_part(&prediction->peak, part) > pz_memory_part(&prediction->peak, largest))
      largest = part;
  return pz_format(result,
                   "does not fit: needs %.1f GB a device, %.1f GB more than usable; the largest "
                   "part is %s, %.1f GB",
                   prediction->needed_bytes / 1e9,
                   (prediction->needed_bytes - prediction->usable_bytes) / 1e9, largest->label,
                   pz_memory_part(&prediction->peak, largest) / 1e9);
}

/* Describes how run b compares with run a: by the parts of their steps if tokens per step and
 * devices are the same, otherwise by tokens per second and device. */
static const char *describe_verdict(struct pz_call *result, const struct pz_plan_diff *diff) {
  const struct pz_prediction *a = &diff->a.p, *b = &diff->b.p;
  bool same_work = a->tokens == b->tokens && diff->a.plan.devices == diff->b.plan.devices;
  double time_ratio = a->tokens_per_s_per_device / b->tokens_per_s_per_device;
  double percent = 100 * fabs(time_ratio - 1);
  const char *fits = pz_prediction_fits(a) ? "" : "fits in memory, unlike the other, and ";
  if (diff->b.refusal[0]) return pz_format(result, "is refused: %s", diff->b.refusal);
  if (!pz_prediction_fits(b)) return describe_misfit(result, b);
  const char *why = same_work ? describe_parts(result, a, b) : " by tokens a second and device";
  if (time_ratio >= 2)
    return pz_format(result, "%stakes %.3g times as long%s", fits, time_ratio, why);
  if (percent < 0.05) return pz_format(result, "%sis as fast%s", fits, why);
  return pz_format(result, "%sis %.1f%% %s%s", fits, percent, time_ratio > 1 ? "slower" : "faster",
                   why);
}

/* The arguments of pz_plan_diff(). */
struct diff_args {
  const struct pz_diff_side *a, *b;
  struct pz_plan_diff **out;
};

/* Checks the arguments of pz_plan_diff() and compares runs a and b, the two sides: predicts both,
 * lists the fields in which they differ, changes the plan of a step by step into that of b
 * (price_path), and describes how b compares with a. */
static void compare_runs(struct pz_call *call, void *ctx) {
  struct diff_args *args = ctx;
  struct pz_call result;
  pz_require(call, args->a, "a");
  pz_require(call, args->b, "b");
  pz_require(call, args->out, "out");
  struct pz_plan_diff *diff = pz_object_new(call, sizeof *diff, &result);
  /* The walk is the state of the way from a to b, with both sides.  Predictions may point into the
   * sides, which are therefore in the memory of the result. */
  struct diff_walk *walk = pz_alloc(&result, 1, sizeof *walk);
  walk->diff = diff;
  pz_vec_init(&walk->path, result.arena, sizeof(struct pz_diff_change));
  read_side(call, args->a, &walk->a, &result, &diff->a);
  read_side(call, args->b, &walk->b, &result, &diff->b);
  diff->changes = "";
  walk->plan = walk->a.chosen; /* the way begins at run a */
  walk->job = &walk->a.job;
  find_differences(&result, walk);
  price_path(call, &result, walk);
  diff->verdict = describe_verdict(&result, diff);
  *args->out = pz_object_keep(call, diff);
}

/* Compares two runs: the fields that differ, the path from one to the other, and a verdict. */
enum pz_status pz_plan_diff(const struct pz_diff_side *a, const struct pz_diff_side *b,
                            struct pz_plan_diff **out, struct pz_error *err) {
  struct diff_args args = {a, b, out};
  return pz_border(compare_runs, &args, err);
}

void pz_plan_diff_free(struct pz_plan_diff *diff) { pz_object_free(diff); }
