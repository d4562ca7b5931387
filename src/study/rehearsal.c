/* Rehearsals: single ranks of a plan are run alone, each on one GPU, and compared with the
 * prediction. pz_rehearsal_script() writes the script that measures the ranks of the critical
 * stages (launch/rehearsal.h has the harness). pz_rehearsal_read() reads what it printed:
 * read_rank() compares each row with the prediction of that rank alone (step/rank_alone.h),
 * judge_memory() says whether the plan fits, and correct_chip() fits the chip's factors of compute
 * by step/correction.h.  Nothing is learnt about collectives. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/map.h"
#include "core/num.h"
#include "cost/constants.h"
#include "launch/rehearsal.h"
#include "plan/model_shape.h"
#include "plan/plan_fields.h"
#include "step/correction.h"
#include "step/prediction.h"
#include "step/rank_alone.h"
#include "step/training_memory.h"

const char *const pz_rehearsal_measure_names[] = {"compute_s", "static_bytes", "peak_bytes",
                                                  "reserved_bytes", NULL};
const char *const pz_rank_status_names[] = {"ok", "oom", "failed", NULL};

/* ---- the plan ------------------------------------------------------------------------------- */

struct rehearsed_plan {
  struct pz_run_plan given;
  struct pz_job job;
  struct pz_cluster wide; /* network of the job, if it was widened for the plan */
  struct pz_training_run predicted;
  char digest[17];
};

/* Predicts the plan to rehearse.  Its digest identifies what a launch script runs, so it has the
 * size of the model and the fields that every version states, but no assumptions of the
 * prediction. */
static struct rehearsed_plan *predict_rehearsed_plan(struct pz_call *call,
                                                     const struct pz_diff_side *given) {
  /* clang-format off */
  static const enum pz_plan_field fields[] = {
      PZ_PLAN_FRAMEWORK, PZ_PLAN_DEVICES, PZ_PLAN_SEQ, PZ_PLAN_BATCH, PZ_PLAN_MBS, PZ_PLAN_TP, PZ_PLAN_SP, PZ_PLAN_CP,
      PZ_PLAN_EP, PZ_PLAN_ETP, PZ_PLAN_MTP, PZ_PLAN_PP, PZ_PLAN_VPP, PZ_PLAN_PIPELINE, PZ_PLAN_FIRST_LAYERS,
      PZ_PLAN_LAST_LAYERS, PZ_PLAN_ZERO, PZ_PLAN_SHARD, PZ_PLAN_RECOMPUTE, PZ_PLAN_RECOMPUTE_LAYERS,
      PZ_PLAN_RECOMPUTE_MODULES, PZ_PLAN_EXECUTION, PZ_PLAN_PRECISION, PZ_PLAN_PEFT, PZ_PLAN_OFFLOAD};
  /* clang-format on */
  struct rehearsed_plan *plan = pz_alloc(call, 1, sizeof *plan);
  struct pz_diff_side side = {.size = sizeof side};
  struct pz_plan filled;
  pz_require_options(call, &side, sizeof side, given, "struct pz_diff_side");
  pz_require(call, side.run, "run");
  pz_require(call, side.chip, "chip");
  plan->given = pz_run_plan_default();
  pz_require_options(call, &plan->given, sizeof plan->given, side.run, "pz_run_plan_default");
  plan->job = (struct pz_job){
      .model = plan->given.model, .config = plan->given.config, .chip = side.chip, .net = side.net};
  pz_training_question(call, &plan->job, &plan->given.plan, &filled, &plan->wide);
  pz_require_rehearsable(call, filled.framework);
  plan->predicted = pz_training_run_make(call, &plan->job, &filled, false);
  const struct pz_training_run *run = &plan->predicted;
  char text[4096];
  int n = snprintf(text, sizeof text, "%" PRId64 " %.0f %.0f", run->layers, run->p.params,
                   run->p.active_params);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    char value[PZ_FIELD_TEXT_MOST];
    pz_plan_field_text(&run->plan, fields[i], value, sizeof value);
    if ((size_t)n < sizeof text - 300)
      n += snprintf(text + n, sizeof text - (size_t)n, " %s", value);
  }
  snprintf(plan->digest, sizeof plan->digest, "%016" PRIx64, pz_hash(text, (size_t)n));
  return plan;
}

/* ---- the script ----------------------------------------------------------------------------- */

enum { MOST_CRITICAL = 3, FIRST = 1, LAST = 2, FULLEST = 4 };
static const char *const critical_reasons[] = {
    [FIRST] = "the first stage",
    [LAST] = "the last stage",
    [FIRST | LAST] = "the only stage",
    [FULLEST] = "the stage with the most memory by the prediction",
    [FIRST | FULLEST] = "the first stage, which has the most memory by the prediction",
    [LAST | FULLEST] = "the last stage, which has the most memory by the prediction",
    [FIRST | LAST | FULLEST] = "the only stage"};

/* The stages that decide whether the plan fits and how fast it is, in order. */
struct critical_stages {
  int64_t stage[MOST_CRITICAL];
  const char *reason[MOST_CRITICAL];
  int n;
};

/* Returns the first and last stage and the one with the most memory, each only once. */
static struct critical_stages critical_stages_of(const struct pz_training_run *run) {
  struct critical_stages critical = {.n = 0};
  for (int64_t k = 0; k < run->plan.pp; k++) {
    int roles = 0;
    if (k == 0) roles |= FIRST;
    if (k == run->plan.pp - 1) roles |= LAST;
    if (k == run->p.peak_stage) roles |= FULLEST;
    if (!roles) continue;
    critical.stage[critical.n] = k;
    critical.reason[critical.n] = critical_reasons[roles];
    critical.n++;
  }
  return critical;
}

struct script_args {
  const struct pz_diff_side *side;
  const char *launch;
  const char *const *set;
  char **text;
};

/* Writes the rehearsal script.  It runs a launch script of the user as it is if that starts
 * torchrun, and otherwise a script that this program emits for the plan. */
static void write_script(struct pz_call *call, void *ctx) {
  const struct script_args *args = ctx;
  pz_require(call, args->side, "side");
  pz_require(call, args->text, "text");
  const struct rehearsed_plan *plan = predict_rehearsed_plan(call, args->side);
  const struct critical_stages critical = critical_stages_of(&plan->predicted);
  const char *launch = args->launch;
  bool is_json = launch && launch[strspn(launch, " \t\r\n")] == '{';
  bool runs_as_given = launch && !is_json && strstr(launch, "torchrun");
  struct pz_rehearsal_job job = {.model = plan->given.model,
                                 .plan = &plan->predicted.plan,
                                 .digest = plan->digest,
                                 .emitted = !runs_as_given,
                                 .stages = critical.stage,
                                 .reasons = critical.reason,
                                 .n_stages = critical.n};
  if (runs_as_given) {
    struct pz_model_shape shape = {.vocab = 0};
    const char *config = plan->given.config;
    if (config) pz_parse_model_shape(call, job.model, config, strlen(config), &shape);
    job.launch = launch;
    job.vocab = shape.vocab;
    job.set = args->set;
  } else {
    char *emitted = NULL;
    if (plan->given.config)
      pz_raise(call, PZ_BAD_USE,
               "the run does not name its model; accepted: a launch script that starts torchrun, "
               "or a plan of a model that has a name or a path");
    pz_must(call, pz_launch_text(job.model, plan->job.chip, plan->job.net, job.plan, &emitted,
                                 pz_call_error(call)));
    pz_defer(call, pz_free, emitted);
    job.launch = emitted;
  }
  *args->text = pz_buffer_take(call, pz_write_rehearsal(call, &job));
}

enum pz_status pz_rehearsal_script(const struct pz_diff_side *side, const char *launch,
                                   const char *const *set, char **text, struct pz_error *err) {
  struct script_args args = {side, launch, set, text};
  return pz_border(write_script, &args, err);
}

/* ---- results: what the machine lacked ------------------------------------------------------- */

/* Packages and features that a machine may lack, and the effect of leaving them out on the
 * figures.  The effect is NULL if a stub replaces the package and the figures are the same. */
static const struct {
  const char *name, *effect;
} omissible[] = {
    {"transformer_engine",
     "PyTorch's kernels take the place of Transformer Engine's: GEMMs are the same, norms and "
     "other element-wise kernels are slower, and memory differs by what the layers save"},
    {"sequence_parallel",
     "each rank holds the activations between GEMMs whole: the prediction beside it is without "
     "sequence parallelism too, and the plan itself needs less"},
    {"moe_grouped_gemm", "the experts' GEMMs run one by one: experts are slower than in the plan"},
    {"use_precision_aware_optimizer",
     "optimizer state is in fp32, in the prediction beside it too, and the plan itself needs less"},
    {"tyro", NULL},
    {"torchdata", NULL},
    {"datasets", NULL},
    {"tokenizers", NULL}};

/* Splits the first item off a list that ";" separates; returns its text and length. */
static const char *next_omission(const char **rest, size_t *length) {
  const char *item = *rest;
  *length = strcspn(item, ";");
  *rest = item + *length;
  if (**rest == ';') ++*rest;
  return item;
}

/* Returns whether a list that ";" separates contains a name. */
static bool is_left_out(const char *list, const char *name) {
  const char *rest = list;
  while (*rest) {
    size_t length;
    const char *item = next_omission(&rest, &length);
    if (length == strlen(name) && strncmp(item, name, length) == 0) return true;
  }
  return false;
}

/* The results of a rehearsal, and what is collected from their rows. */
struct rehearsal_results {
  const char *name;
  const struct pz_csv *csv;
  const struct rehearsed_plan *plan;
  struct pz_vec steps; /* struct pz_measured_step: the ranks that were measured */
  struct pz_vec notes; /* const char *, without repetitions */
  struct pz_rehearsal *out;
};

/* Adds a note, unless the results have it already. */
static void add_note(struct pz_call *call, struct rehearsal_results *results, const char *text) {
  for (uint32_t i = 0; i < results->notes.n; i++)
    if (strcmp(*pz_vec_at(&results->notes, const char *, i), text) == 0) return;
  pz_append(call, &results->notes, &text);
}

/* Adds a note about every package or feature of the list that the machine lacked. */
static void note_omissions(struct pz_call *call, struct rehearsal_results *results,
                           const char *list) {
  const char *stubs = "", *rest = list;
  while (*rest) {
    size_t length;
    const char *item = next_omission(&rest, &length);
    const char *effect = "what this does to the figures is not known";
    for (size_t i = 0; i < sizeof omissible / sizeof *omissible; i++)
      if (strlen(omissible[i].name) == length && strncmp(omissible[i].name, item, length) == 0)
        effect = omissible[i].effect;
    if (length == 0) continue;
    if (effect)
      add_note(call, results, pz_format(call, "%.*s was left out: %s", (int)length, item, effect));
    else
      stubs = pz_format(call, "%s%s%.*s", stubs, *stubs ? ", " : "", (int)length, item);
  }
  if (*stubs)
    add_note(call, results,
             pz_format(call, "stubs took the place of %s, without effect on the figures", stubs));
}

/* ---- results: the figures of a row ---------------------------------------------------------- */

/* clang-format off */
enum { /* columns */
  PLAN, FRAMEWORK, VERSION, TORCH, DEVICE, RANK, STAGE, STATUS, STEP_S, PEAK_BYTES, RESERVED_BYTES, STATIC_BYTES, DEVICE_BYTES,
  MICROBATCHES, LEFT_OUT, MESSAGE
};
/* clang-format on */
enum { MOST_ROWS = 4096 }; /* measured ranks of one rehearsal */

static const double MOST_BYTES = 1e15, MOST_S = 1e6; /* larger figures are refused as errors */

/* Raises an error that names the line, the column and its value, and what is accepted. */
_Noreturn static void refuse_cell(struct pz_call *call, const struct rehearsal_results *results,
                                  uint32_t row, uint32_t column, const char *accepted) {
  pz_raise(call, PZ_BAD_INPUT, "%s:%u: %s is '%.60s'; accepted: %s", results->name,
           results->csv->lines[row], results->csv->cells[column],
           pz_csv_cell(results->csv, row, column), accepted);
}

/* Returns the whole number from 0 to `most` in a cell. */
static int64_t integer_cell(struct pz_call *call, const struct rehearsal_results *results,
                            uint32_t row, uint32_t column, int64_t most) {
  double value = pz_csv_real(call, results->name, results->csv, row, column, (double)most);
  if (value != floor(value)) refuse_cell(call, results, row, column, "a whole number");
  return (int64_t)value;
}

/* Reads status, rank and stage of a row, and refuses results of another plan or framework. */
static void read_identity(struct pz_call *call, const struct rehearsal_results *results,
                          uint32_t row, struct pz_rehearsed_rank *rank) {
  const struct pz_plan *plan = &results->plan->predicted.plan;
  const char *digest = pz_csv_cell(results->csv, row, PLAN);
  if (strcmp(digest, results->plan->digest) != 0)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: results of the plan '%.20s', but this plan is %s; accepted: what the script "
             "of 'phaze rehearse' for this plan printed",
             results->name, results->csv->lines[row], digest, results->plan->digest);
  const char *status = pz_csv_cell(results->csv, row, STATUS);
  int k = 0;
  while (pz_rank_status_names[k] && strcmp(pz_rank_status_names[k], status) != 0) k++;
  if (!pz_rank_status_names[k]) refuse_cell(call, results, row, STATUS, "ok, oom, failed");
  rank->status = (enum pz_rank_status)k;
  const char *framework = pz_csv_cell(results->csv, row, FRAMEWORK);
  bool failed_before_start = rank->status == PZ_RANK_FAILED && !*framework;
  if (!failed_before_start && pz_framework_find(framework) != plan->framework)
    refuse_cell(call, results, row, FRAMEWORK, pz_framework_names[plan->framework]);
  rank->rank = integer_cell(call, results, row, RANK, plan->devices - 1);
  rank->stage = integer_cell(call, results, row, STAGE, plan->pp - 1);
  if (rank->rank / (plan->devices / plan->pp) != rank->stage)
    refuse_cell(call, results, row, STAGE, "the stage of the rank");
}

/* Reads the measured figures and returns the memory of the device in bytes. */
static double read_figures(struct pz_call *call, const struct rehearsal_results *results,
                           uint32_t row, struct pz_rehearsed_rank *rank) {
  static const uint32_t columns[PZ_REHEARSAL_MEASURES] = {STEP_S, STATIC_BYTES, PEAK_BYTES,
                                                          RESERVED_BYTES};
  double *measured = rank->measured;
  for (int i = 0; i < PZ_REHEARSAL_MEASURES; i++) {
    double most = columns[i] == STEP_S ? MOST_S : MOST_BYTES;
    measured[i] = pz_csv_real(call, results->name, results->csv, row, columns[i], most);
  }
  double device_bytes =
      pz_csv_real(call, results->name, results->csv, row, DEVICE_BYTES, MOST_BYTES);
  rank->microbatches = integer_cell(call, results, row, MICROBATCHES, 1 << 24);
  if (rank->status != PZ_RANK_OK) return device_bytes;
  for (int i = 0; i < PZ_REHEARSAL_MEASURES; i++)
    if (!(measured[i] > 0))
      refuse_cell(call, results, row, columns[i], "a number above 0 where status is ok");
  if (!rank->microbatches)
    refuse_cell(call, results, row, MICROBATCHES, "1 or more where status is ok");
  if (measured[PZ_REHEARSAL_STATIC] > measured[PZ_REHEARSAL_PEAK])
    refuse_cell(call, results, row, STATIC_BYTES, "at most peak_bytes");
  if (measured[PZ_REHEARSAL_PEAK] > measured[PZ_REHEARSAL_RESERVED])
    refuse_cell(call, results, row, PEAK_BYTES, "at most reserved_bytes");
  if (!(device_bytes >= measured[PZ_REHEARSAL_RESERVED]))
    refuse_cell(call, results, row, DEVICE_BYTES, "at least reserved_bytes");
  return device_bytes;
}

/* ---- results: a rank against its prediction ------------------------------------------------- */

/* Adds notes about what makes the figures of a rank differ from those of the plan. */
static void note_rank(struct pz_call *call, struct rehearsal_results *results,
                      const struct pz_rehearsed_rank *rank, int64_t microbatches,
                      double device_bytes) {
  static const double MOST_DIFFERENCE = 0.05; /* relative, of two figures for a device */
  const struct pz_chip *chip = results->plan->job.chip;
  double hbm_bytes = (double)pz_chip_hbm_bytes(chip);
  note_omissions(call, results, rank->left_out);
  if (rank->status != PZ_RANK_OK)
    add_note(call, results,
             pz_format(call, "rank %" PRId64 " %s: %s", rank->rank,
                       rank->status == PZ_RANK_OOM ? "ran out of memory" : "was not measured",
                       *rank->message ? rank->message : "there is no message"));
  if (rank->status == PZ_RANK_OK && rank->microbatches != microbatches)
    add_note(call, results,
             pz_format(call,
                       "rank %" PRId64 " ran %" PRId64 " microbatches of %" PRId64
                       ": with more in flight it can hold more",
                       rank->rank, rank->microbatches, microbatches));
  if (device_bytes > 0 && fabs(device_bytes / hbm_bytes - 1) > MOST_DIFFERENCE)
    add_note(call, results,
             pz_format(call,
                       "the device has %.1f GB and %s %.1f GB; the rehearsal is meant for a device "
                       "of the same kind",
                       device_bytes / 1e9, chip->name, hbm_bytes / 1e9));
}

/* Reads a row and predicts the rank as it ran, without the features that the machine lacked.  The
 * memory that the plan itself needs is scaled by the ratio of measured to predicted bytes. */
static void read_rank(struct pz_call *call, struct rehearsal_results *results, uint32_t row) {
  struct pz_rehearsed_rank *rank = &results->out->ranks[row];
  const struct pz_training_run *predicted = &results->plan->predicted;
  const struct pz_job *job = &results->plan->job;
  rank->left_out = pz_csv_cell(results->csv, row, LEFT_OUT);
  rank->message = pz_csv_cell(results->csv, row, MESSAGE);
  read_identity(call, results, row, rank);
  double device_bytes = read_figures(call, results, row, rank);

  struct pz_plan plan_as_run = predicted->plan;
  if (is_left_out(rank->left_out, "sequence_parallel")) plan_as_run.sp = 0;
  if (is_left_out(rank->left_out, "use_precision_aware_optimizer")) {
    plan_as_run.moment_bytes = 4;
    plan_as_run.main_params = PZ_MAIN_FP32;
  }
  bool measured = rank->status == PZ_RANK_OK;
  int64_t microbatches = measured ? rank->microbatches : predicted->p.microbatches;
  struct pz_rank_alone alone = pz_rank_alone(call, job, &plan_as_run, rank->stage, microbatches);
  rank->predicted[PZ_REHEARSAL_COMPUTE] = alone.compute_s;
  rank->predicted[PZ_REHEARSAL_STATIC] = alone.static_bytes;
  rank->predicted[PZ_REHEARSAL_PEAK] = alone.peak_bytes;
  rank->predicted[PZ_REHEARSAL_RESERVED] = alone.reserved_bytes;

  double hbm_bytes = (double)pz_chip_hbm_bytes(job->chip);
  double smaller_bytes = device_bytes > 0 ? pz_fmin(device_bytes, hbm_bytes) : hbm_bytes;
  rank->usable_bytes = smaller_bytes - pz_reserved_bytes(job->chip, &pz_constants_default);
  if (measured)
    rank->needed_bytes = rank->measured[PZ_REHEARSAL_RESERVED] *
                         predicted->reserved_bytes[rank->stage] / alone.reserved_bytes;
  note_rank(call, results, rank, alone.microbatches, device_bytes);
  if (!measured) return;
  /* Adds the rank as a measured step of the plan as it ran. */
  static const double MOST_FACTOR = 10; /* largest factor of a correction in a chip file */
  double measured_s = rank->measured[PZ_REHEARSAL_COMPUTE], ratio = measured_s / alone.compute_s;
  if (!(ratio >= 1 / MOST_FACTOR && ratio <= MOST_FACTOR))
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: step_s is %.4g where %.4g s are predicted; accepted: seconds of a step within "
             "a factor of %g",
             results->name, results->csv->lines[row], measured_s, alone.compute_s, MOST_FACTOR);
  struct pz_measured_step step = {.id = pz_format(call, "rank %" PRId64, rank->rank),
                                  .job = job,
                                  .plan = pz_copy(call, &plan_as_run, 1, sizeof plan_as_run),
                                  .measured_s = measured_s,
                                  .microbatches = rank->microbatches,
                                  .stage = rank->stage};
  pz_append(call, &results->steps, &step);
}

/* ---- results: all ranks --------------------------------------------------------------------- */

/* Stores which versions ran on which device, and notes the critical stages without a rank. */
static void describe_rehearsal(struct pz_call *call, struct rehearsal_results *results) {
  struct pz_rehearsal *out = results->out;
  uint32_t first = 0; /* index of the first rank that ran */
  while (first + 1 < out->n_ranks && out->ranks[first].status == PZ_RANK_FAILED) first++;
  memcpy(out->plan, results->plan->digest, sizeof out->plan);
  out->framework = pz_framework_names[results->plan->predicted.plan.framework];
  out->version = pz_csv_cell(results->csv, first, VERSION);
  out->torch = pz_csv_cell(results->csv, first, TORCH);
  out->device = pz_csv_cell(results->csv, first, DEVICE);
  out->p = results->plan->predicted.p;
  out->complete = true;
  struct critical_stages critical = critical_stages_of(&results->plan->predicted);
  for (int i = 0; i < critical.n; i++) {
    bool has_rank = false, has_run = false;
    for (uint32_t k = 0; k < out->n_ranks; k++) {
      if (out->ranks[k].stage != critical.stage[i]) continue;
      has_rank = true;
      if (out->ranks[k].status != PZ_RANK_FAILED) has_run = true;
    }
    if (!has_run) out->complete = false;
    if (!has_rank)
      add_note(call, results,
               pz_format(call, "no rank of stage %" PRId64 " was run: %s", critical.stage[i] + 1,
                         critical.reason[i]));
  }
}

/* Decides whether the plan fits in memory, and finds the least spare memory of a rank. */
static void judge_memory(struct pz_call *call, struct rehearsal_results *results) {
  struct pz_rehearsal *out = results->out;
  uint32_t n_ran = 0;
  out->fits = true;
  out->spare_bytes = HUGE_VAL;
  for (uint32_t i = 0; i < out->n_ranks; i++) {
    const struct pz_rehearsed_rank *rank = &out->ranks[i];
    if (rank->status == PZ_RANK_FAILED) continue;
    n_ran++;
    if (rank->status == PZ_RANK_OK)
      out->spare_bytes = pz_fmin(out->spare_bytes, rank->usable_bytes - rank->needed_bytes);
    if (rank->status == PZ_RANK_OOM || rank->needed_bytes > rank->usable_bytes) out->fits = false;
  }
  if (out->spare_bytes == HUGE_VAL) out->spare_bytes = 0;
  const char *why = out->ranks[0].message;
  if (n_ran == 0)
    pz_raise(call, PZ_NO_ANSWER, "%s: no rank ran; rank %" PRId64 ": %.300s", results->name,
             out->ranks[0].rank, *why ? why : "it failed without a message");
}

/* Fits the chip's factors of compute and memory to the ranks, and predicts the plan again. */
static void correct_chip(struct pz_call *call, struct rehearsal_results *results) {
  enum { COMPUTE_FACTORS = 4 };
  const struct pz_measured_step *steps = results->steps.items;
  const struct pz_training_run *predicted = &results->plan->predicted;
  struct pz_rehearsal *out = results->out;
  uint32_t n = results->steps.n;
  if (n == 0) return;
  struct pz_step_factor *factors = pz_alloc(call, COMPUTE_FACTORS, sizeof *factors);
  double *corrected_s = pz_alloc(call, n, sizeof *corrected_s);
  struct pz_step_sensitivity *sensitivities = pz_step_sensitivities(call, steps, n, 1);
  struct pz_chip *chip = pz_copy(call, results->plan->job.chip, 1, sizeof *chip);
  struct pz_correction correction = pz_correction_fit(steps, sensitivities, n, n);
  correction.collectives = chip->correction.collectives;
  /* The largest ratio of measured to predicted reserved bytes, in the range of chip files. */
  double memory_ratio = 0;
  for (uint32_t i = 0; i < out->n_ranks; i++) {
    const struct pz_rehearsed_rank *rank = &out->ranks[i];
    if (rank->status == PZ_RANK_OK)
      memory_ratio = pz_fmax(memory_ratio, rank->measured[PZ_REHEARSAL_RESERVED] /
                                               rank->predicted[PZ_REHEARSAL_RESERVED]);
  }
  correction.memory = pz_fmin(pz_fmax(memory_ratio, 0.5), 2);
  correction.steps = n;
  bool has_experts = predicted->p.active_params < predicted->p.params;
  correction.kinds = pz_correction_kind(has_experts, predicted->plan.precision);
  pz_correction_tell(&correction, sensitivities, n, factors, COMPUTE_FACTORS);
  pz_chip_name_calibrated(chip, results->name);
  chip->correction = correction;
  struct pz_job job = results->plan->job;
  job.chip = chip;
  pz_steps_corrected(call, steps, n, &correction, 1, corrected_s);
  out->corrected = pz_predict(call, &job, &predicted->plan, NULL);
  uint32_t step = 0;
  for (uint32_t i = 0; i < out->n_ranks; i++) {
    if (out->ranks[i].status != PZ_RANK_OK) continue;
    out->ranks[i].corrected_s = corrected_s[step];
    step++;
  }
  out->chip = chip;
  out->factors = factors;
  out->n_factors = COMPUTE_FACTORS;
}

struct read_args {
  const struct pz_diff_side *side;
  const char *name, *text;
  size_t bytes;
  struct pz_rehearsal **out;
};

/* Reads the table that a rehearsal printed, judges the memory, and corrects the chip. */
static void read_results(struct pz_call *call, void *ctx) {
  const struct read_args *args = ctx;
  pz_require(call, args->side, "side");
  pz_require(call, args->name, "name");
  pz_require(call, args->text, "text");
  pz_require(call, args->out, "out");
  static const char head[] = PZ_REHEARSAL_COLUMNS;
  const size_t n = sizeof head - 1, bytes = args->bytes;
  const char *name = args->name, *text = args->text;
  struct pz_call object_call;
  struct pz_rehearsal *out = pz_object_new(call, sizeof *out, &object_call);
  struct rehearsal_results results = {.name = name, .out = out};
  pz_vec_init(&results.steps, object_call.arena, sizeof(struct pz_measured_step));
  pz_vec_init(&results.notes, object_call.arena, sizeof(const char *));
  results.plan = predict_rehearsed_plan(&object_call, args->side);
  if (bytes > PZ_REHEARSAL_MOST_BYTES)
    pz_raise(call, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
             PZ_REHEARSAL_MOST_BYTES);
  if (bytes <= n || memcmp(text, head, n) != 0 || (text[n] != '\n' && text[n] != '\r'))
    pz_raise(call, PZ_BAD_INPUT,
             "%s:1: no results of a rehearsal; accepted: what the script of 'phaze rehearse' "
             "printed, which begins with " PZ_REHEARSAL_COLUMNS,
             name);
  if (text[bytes - 1] != '\n')
    pz_raise(call, PZ_BAD_INPUT,
             "%s: the last line is not complete; accepted: all that the rehearsal printed", name);
  results.csv = pz_csv_read(&object_call, name, text, bytes);
  if (!results.csv->rows)
    pz_raise(call, PZ_BAD_INPUT, "%s: no rank; accepted: a row for each", name);
  if (results.csv->rows > MOST_ROWS)
    pz_raise(call, PZ_LIMIT, "%s: %u rows; accepted: at most %d", name, results.csv->rows,
             MOST_ROWS);
  out->n_ranks = results.csv->rows;
  out->ranks = pz_alloc(&object_call, results.csv->rows, sizeof *out->ranks);
  for (uint32_t row = 0; row < results.csv->rows; row++) read_rank(&object_call, &results, row);
  describe_rehearsal(&object_call, &results);
  judge_memory(&object_call, &results);
  correct_chip(&object_call, &results);
  out->notes = results.notes.items;
  out->n_notes = results.notes.n;
  *args->out = pz_object_keep(call, out);
}

enum pz_status pz_rehearsal_read(const struct pz_diff_side *side, const char *name,
                                 const char *text, size_t bytes, struct pz_rehearsal **out,
                                 struct pz_error *err) {
  struct read_args args = {side, name, text, bytes, out};
  return pz_border(read_results, &args, err);
}

void pz_rehearsal_free(struct pz_rehearsal *rehearsal) { pz_object_free(rehearsal); }
