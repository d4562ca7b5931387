/* Rehearsals: the script that measures single ranks of a plan, and its results compared with the prediction.  The results
 * correct the chip's factors of compute by the fit of step/correction, each rank being a step without network. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/csv.h"
#include "core/held.h"
#include "core/map.h"
#include "core/num.h"
#include "core/text.h"
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

/* ---- the plan ----------------------------------------------------------------------------------- */

struct rehearsed {
  struct pz_run_plan r;
  struct pz_job job;
  struct pz_cluster wide;
  struct pz_training_run own; /* the prediction of the plan */
  char digest[17];
  struct pz_arena *arena;
  struct pz_error *err;

  const char *name; /* of the results */
  struct pz_csv csv;
  struct pz_vec steps, notes;
  struct pz_rehearsal *out;
};

static enum pz_status rehearsal_no_memory(const struct rehearsed *x) {
  return pz_fail(x->err, PZ_NO_MEMORY, "out of memory for the rehearsal");
}

/* Identifies what a launch script runs: the size of the model and the fields that any version of this program states, not
 * what the prediction assumes about kernels. */
static void find_digest(struct rehearsed *x) {
  /* clang-format off */
  static const enum pz_plan_field fields[] = {
      PZ_PLAN_FRAMEWORK, PZ_PLAN_DEVICES, PZ_PLAN_SEQ, PZ_PLAN_BATCH, PZ_PLAN_MBS, PZ_PLAN_TP, PZ_PLAN_SP, PZ_PLAN_CP,
      PZ_PLAN_EP, PZ_PLAN_ETP, PZ_PLAN_MTP, PZ_PLAN_PP, PZ_PLAN_VPP, PZ_PLAN_PIPELINE, PZ_PLAN_FIRST_LAYERS,
      PZ_PLAN_LAST_LAYERS, PZ_PLAN_ZERO, PZ_PLAN_SHARD, PZ_PLAN_RECOMPUTE, PZ_PLAN_RECOMPUTE_LAYERS,
      PZ_PLAN_RECOMPUTE_MODULES, PZ_PLAN_EXECUTION, PZ_PLAN_PRECISION, PZ_PLAN_PEFT, PZ_PLAN_OFFLOAD};
  /* clang-format on */
  char text[4096];
  int n = snprintf(text, sizeof text, "%" PRId64 " %.0f %.0f", x->own.layers, x->own.p.params,
                   x->own.p.active_params);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    char value[PZ_FIELD_TEXT_MOST];
    pz_plan_field_text(&x->own.plan, fields[i], value, sizeof value);
    if ((size_t)n < sizeof text - 300)
      n += snprintf(text + n, sizeof text - (size_t)n, " %s", value);
  }
  snprintf(x->digest, sizeof x->digest, "%016" PRIx64, pz_hash(text, (size_t)n));
}

static enum pz_status predict_side(const struct pz_diff_side *given, struct rehearsed *x) {
  struct pz_diff_side o = {.size = sizeof o};
  struct pz_plan filled;
  x->r = pz_run_plan_default();
  enum pz_status status = pz_sized_take(&o, sizeof o, given, "struct pz_diff_side", x->err);
  if (status == PZ_OK) status = pz_need_each(x->err, {o.run, "run"}, {o.chip, "chip"});
  if (status == PZ_OK)
    status = pz_sized_take(&x->r, sizeof x->r, o.run, "pz_run_plan_default", x->err);
  if (status != PZ_OK) return status;
  x->job =
      (struct pz_job){.model = x->r.model, .config = x->r.config, .chip = o.chip, .net = o.net};
  status = pz_training_question(&x->job, &x->r.plan, x, &filled, &x->wide, x->err);
  if (status == PZ_OK) status = pz_rehearsal_check(filled.framework, x->err);
  if (status == PZ_OK)
    status = pz_training_run_make(&x->job, &filled, false, x->arena, &x->own, x->err);
  if (status == PZ_OK) find_digest(x);
  return status;
}

/* ---- the script --------------------------------------------------------------------------------- */

enum { MOST_STAGES = 3, FIRST = 1, LAST = 2, FULLEST = 4 };
static const char *const stage_reasons[] = {
    [FIRST] = "the first stage",
    [LAST] = "the last stage",
    [FIRST | LAST] = "the only stage",
    [FULLEST] = "the stage with the most memory by the prediction",
    [FIRST | FULLEST] = "the first stage, which has the most memory by the prediction",
    [LAST | FULLEST] = "the last stage, which has the most memory by the prediction",
    [FIRST | LAST | FULLEST] = "the only stage"};

/* The stages that decide, in order; returns their number. */
static int critical_stages(const struct pz_training_run *r, int64_t stages[MOST_STAGES],
                           const char *reasons[MOST_STAGES]) {
  int64_t last = r->plan.pp - 1, fullest = r->p.peak_stage;
  int n = 0;
  for (int64_t k = 0; k <= last; k++) {
    int why = (k == 0 ? FIRST : 0) | (k == last ? LAST : 0) | (k == fullest ? FULLEST : 0);
    if (!why) continue;
    stages[n] = k;
    reasons[n++] = stage_reasons[why];
  }
  return n;
}

enum pz_status pz_rehearsal_script(const struct pz_diff_side *side, const char *launch,
                                   const char *const *set, char **text, struct pz_error *err) {
  struct pz_arena arena;
  struct rehearsed x = {.arena = &arena, .err = err};
  int64_t stages[MOST_STAGES];
  const char *reasons[MOST_STAGES];
  char *emitted = NULL;
  bool json = launch && launch[strspn(launch, " \t\r\n")] == '{';
  bool own = launch && !json && strstr(launch, "torchrun");
  enum pz_status status = pz_need_each(err, {side, "side"}, {text, "text"});
  if (status != PZ_OK) return status;
  pz_arena_init(&arena, NULL);
  status = predict_side(side, &x);
  if (status == PZ_OK && !own && x.r.config)
    status = pz_fail(err, PZ_BAD_USE,
                     "the run does not name its model; accepted: a launch script that starts "
                     "torchrun, or a plan of a model that has a name or a path");
  if (status == PZ_OK && !own)
    status = pz_launch_text(x.r.model, x.job.chip, x.job.net, &x.own.plan, &emitted, err);
  struct pz_model_shape shape = {.vocab = 0};
  if (status == PZ_OK && own && x.r.config)
    status = pz_model_shape_parse(x.r.model, x.r.config, strlen(x.r.config), &shape, err);
  if (status == PZ_OK) {
    struct pz_rehearsal_job job = {.model = x.r.model,
                                   .plan = &x.own.plan,
                                   .digest = x.digest,
                                   .launch = own ? launch : emitted,
                                   .emitted = !own,
                                   .vocab = shape.vocab,
                                   .set = own ? set : NULL,
                                   .stages = stages,
                                   .reasons = reasons,
                                   .n_stages = critical_stages(&x.own, stages, reasons)};
    status = pz_rehearsal_write(&job, text, err);
  }
  pz_text_free(emitted);
  pz_arena_release(&arena);
  return status;
}

/* ---- results: what was left out ----------------------------------------------------------------- */

/* Packages and features that a machine may lack, and the effect on the figures; NULL: a stub replaces it without effect. */
static const struct {
  const char *name, *effect;
} leavable[] = {
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

static bool leaves_out(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; *at; at += strcspn(at, ";"), at += *at == ';')
    if (strcspn(at, ";") == n && strncmp(at, name, n) == 0) return true;
  return false;
}

/* Returns the plan that ran: the rehearsed plan without what the machine lacks. */
static struct pz_plan plan_run(const struct pz_plan *p, const char *left_out) {
  struct pz_plan run = *p;
  if (leaves_out(left_out, "sequence_parallel")) run.sp = 0;
  if (leaves_out(left_out, "use_precision_aware_optimizer")) {
    run.moment_bytes = 4;
    run.main_params = PZ_MAIN_FP32;
  }
  return run;
}

static enum pz_status add_note(struct rehearsed *x, const char *text) {
  for (uint32_t i = 0; text && i < x->notes.n; i++)
    if (strcmp(*pz_vec_at(&x->notes, const char *, i), text) == 0) return PZ_OK;
  return text && pz_vec_push(&x->notes, &text) ? PZ_OK : rehearsal_no_memory(x);
}

static enum pz_status note_left_out(struct rehearsed *x, const char *list) {
  const char *stubs = "";
  enum pz_status status = PZ_OK;
  for (const char *at = list; *at && status == PZ_OK && stubs; at += *at == ';') {
    int n = (int)strcspn(at, ";");
    const char *effect = "what this does to the figures is not known";
    for (size_t i = 0; i < sizeof leavable / sizeof *leavable; i++)
      if (strlen(leavable[i].name) == (size_t)n && strncmp(leavable[i].name, at, (size_t)n) == 0)
        effect = leavable[i].effect;
    if (n && effect)
      status = add_note(x, pz_arena_printf(x->arena, "%.*s was left out: %s", n, at, effect));
    else if (n)
      stubs = pz_arena_printf(x->arena, "%s%s%.*s", stubs, *stubs ? ", " : "", n, at);
    at += n;
  }
  if (status == PZ_OK && stubs && *stubs)
    stubs = pz_arena_printf(x->arena, "stubs took the place of %s, without effect on the figures",
                            stubs);
  return status == PZ_OK && (!stubs || *stubs) ? add_note(x, stubs) : status;
}

/* ---- results: a row ----------------------------------------------------------------------------- */

/* clang-format off */
enum { /* columns */
  PLAN, FRAMEWORK, VERSION, TORCH, DEVICE, RANK, STAGE, STATUS, STEP_S, PEAK_BYTES, RESERVED_BYTES, STATIC_BYTES, DEVICE_BYTES,
  MICROBATCHES, LEFT_OUT, MESSAGE
};
/* clang-format on */
enum { MOST_ROWS = 4096 };

static const double MOST_BYTES = 1e15, MOST_S = 1e6;

static enum pz_status row_refuse(const struct rehearsed *x, uint32_t r, uint32_t column,
                                 const char *accepted) {
  return pz_fail(x->err, PZ_BAD_INPUT, "%s:%u: %s is '%.60s'; accepted: %s", x->name,
                 x->csv.lines[r], x->csv.cells[column], pz_csv_cell(&x->csv, r, column), accepted);
}

static enum pz_status row_integer(const struct rehearsed *x, uint32_t r, uint32_t column,
                                  int64_t most, int64_t *out) {
  double v = 0;
  enum pz_status status = pz_csv_number(x->name, &x->csv, r, column, (double)most, &v, x->err);
  if (status == PZ_OK && v != floor(v)) status = row_refuse(x, r, column, "a whole number");
  if (status == PZ_OK) *out = (int64_t)v;
  return status;
}

/* Reads the rank and the stage of a row, and refuses results of another plan or framework. */
static enum pz_status read_place(const struct rehearsed *x, uint32_t r,
                                 struct pz_rehearsed_rank *out) {
  const struct pz_plan *p = &x->own.plan;
  const char *framework = pz_csv_cell(&x->csv, r, FRAMEWORK);
  const char *status_word = pz_csv_cell(&x->csv, r, STATUS),
             *digest = pz_csv_cell(&x->csv, r, PLAN);
  if (strcmp(digest, x->digest) != 0)
    return pz_fail(x->err, PZ_BAD_INPUT,
                   "%s:%u: results of the plan '%.20s', but this plan is %s; accepted: what the "
                   "script of 'phaze rehearse' for this plan printed",
                   x->name, x->csv.lines[r], digest, x->digest);
  int k = 0;
  while (pz_rank_status_names[k] && strcmp(pz_rank_status_names[k], status_word) != 0) k++;
  if (!pz_rank_status_names[k]) return row_refuse(x, r, STATUS, "ok, oom, failed");
  out->status = (enum pz_rank_status)k;
  bool none = out->status == PZ_RANK_FAILED && !*framework;
  if (!none && pz_framework_find(framework) != p->framework)
    return row_refuse(x, r, FRAMEWORK, pz_framework_names[p->framework]);
  enum pz_status status = row_integer(x, r, RANK, p->devices - 1, &out->rank);
  if (status == PZ_OK) status = row_integer(x, r, STAGE, p->pp - 1, &out->stage);
  if (status == PZ_OK && out->rank / (p->devices / p->pp) != out->stage)
    status = row_refuse(x, r, STAGE, "the stage of the rank");
  return status;
}

static enum pz_status read_figures(const struct rehearsed *x, uint32_t r,
                                   struct pz_rehearsed_rank *out, double *device_bytes) {
  static const uint32_t columns[PZ_REHEARSAL_MEASURES] = {STEP_S, STATIC_BYTES, PEAK_BYTES,
                                                          RESERVED_BYTES};
  double *m = out->measured;
  enum pz_status status = PZ_OK;
  for (int i = 0; i < PZ_REHEARSAL_MEASURES && status == PZ_OK; i++)
    status = pz_csv_number(x->name, &x->csv, r, columns[i], i ? MOST_BYTES : MOST_S, &m[i], x->err);
  if (status == PZ_OK)
    status = pz_csv_number(x->name, &x->csv, r, DEVICE_BYTES, MOST_BYTES, device_bytes, x->err);
  if (status == PZ_OK) status = row_integer(x, r, MICROBATCHES, 1 << 24, &out->microbatches);
  if (status != PZ_OK || out->status != PZ_RANK_OK) return status;
  for (int i = 0; i < PZ_REHEARSAL_MEASURES; i++)
    if (!(m[i] > 0)) return row_refuse(x, r, columns[i], "a number above 0 where status is ok");
  if (!out->microbatches) return row_refuse(x, r, MICROBATCHES, "1 or more where status is ok");
  if (m[PZ_REHEARSAL_STATIC] > m[PZ_REHEARSAL_PEAK])
    return row_refuse(x, r, STATIC_BYTES, "at most peak_bytes");
  if (m[PZ_REHEARSAL_PEAK] > m[PZ_REHEARSAL_RESERVED])
    return row_refuse(x, r, PEAK_BYTES, "at most reserved_bytes");
  if (!(*device_bytes >= m[PZ_REHEARSAL_RESERVED]))
    return row_refuse(x, r, DEVICE_BYTES, "at least reserved_bytes");
  return PZ_OK;
}

/* ---- results: a rank against its prediction ----------------------------------------------------- */

static enum pz_status note_rank(struct rehearsed *x, const struct pz_rehearsed_rank *k,
                                int64_t microbatches, double device_bytes) {
  static const double ALIKE = 0.05; /* of two statements of a device's memory */
  double hbm = (double)pz_chip_hbm_bytes(x->job.chip);
  enum pz_status status = note_left_out(x, k->left_out);
  if (status == PZ_OK && k->status != PZ_RANK_OK)
    status = add_note(
        x, pz_arena_printf(x->arena, "rank %" PRId64 " %s: %s", k->rank,
                           k->status == PZ_RANK_OOM ? "ran out of memory" : "was not measured",
                           *k->message ? k->message : "there is no message"));
  if (status == PZ_OK && k->status == PZ_RANK_OK && k->microbatches != microbatches)
    status = add_note(x, pz_arena_printf(x->arena,
                                         "rank %" PRId64 " ran %" PRId64 " microbatches of %" PRId64
                                         ": with more in flight it can hold more",
                                         k->rank, k->microbatches, microbatches));
  if (status == PZ_OK && device_bytes > 0 && fabs(device_bytes / hbm - 1) > ALIKE)
    status = add_note(x, pz_arena_printf(x->arena,
                                         "the device has %.1f GB and %s %.1f GB; the rehearsal is "
                                         "meant for a device of the same kind",
                                         device_bytes / 1e9, x->job.chip->name, hbm / 1e9));
  return status;
}

/* Finds the bytes that the plan itself needs: what was left out is taken to change measured and predicted bytes by the same
 * ratio.  The device of the rehearsal and the chip of the plan both limit the usable bytes. */
static void find_need(const struct rehearsed *x, struct pz_rehearsed_rank *k, double device_bytes) {
  double hbm = (double)pz_chip_hbm_bytes(x->job.chip),
         reserved = k->measured[PZ_REHEARSAL_RESERVED];
  double device = device_bytes > 0 ? pz_fmin(device_bytes, hbm) : hbm;
  double predicted = x->own.reserved_bytes[k->stage];
  k->usable_bytes = device - pz_reserved_bytes(x->job.chip, &pz_constants_default);
  if (k->status == PZ_RANK_OK)
    k->needed_bytes = reserved * predicted / k->predicted[PZ_REHEARSAL_RESERVED];
}

static enum pz_status add_measured(struct rehearsed *x, uint32_t r, struct pz_rehearsed_rank *k,
                                   const struct pz_plan *run) {
  static const double FACTOR = 10; /* what a chip file accepts */
  double measured_s = k->measured[PZ_REHEARSAL_COMPUTE];
  double ratio = measured_s / k->predicted[PZ_REHEARSAL_COMPUTE];
  if (!(ratio >= 1 / FACTOR && ratio <= FACTOR))
    return pz_fail(x->err, PZ_BAD_INPUT,
                   "%s:%u: step_s is %.4g where %.4g s are predicted; accepted: seconds of a step "
                   "within a factor of %g",
                   x->name, x->csv.lines[r], measured_s, k->predicted[PZ_REHEARSAL_COMPUTE],
                   FACTOR);
  struct pz_plan *own = pz_arena_alloc(x->arena, 1, sizeof *own);
  struct pz_measured_step m = {.id = pz_arena_printf(x->arena, "rank %" PRId64, k->rank),
                               .job = &x->job,
                               .plan = own,
                               .measured_s = measured_s,
                               .microbatches = k->microbatches,
                               .stage = k->stage};
  if (!own || !m.id || !pz_vec_push(&x->steps, &m)) return rehearsal_no_memory(x);
  *own = *run;
  return PZ_OK;
}

static enum pz_status read_row(struct rehearsed *x, uint32_t r) {
  struct pz_rehearsed_rank *k = &x->out->ranks[r];
  struct pz_rank_alone alone;
  double device_bytes = 0;
  k->left_out = pz_csv_cell(&x->csv, r, LEFT_OUT);
  k->message = pz_csv_cell(&x->csv, r, MESSAGE);
  enum pz_status status = read_place(x, r, k);
  if (status == PZ_OK) status = read_figures(x, r, k, &device_bytes);
  if (status != PZ_OK) return status;
  struct pz_plan run = plan_run(&x->own.plan, k->left_out);
  int64_t n = k->status == PZ_RANK_OK ? k->microbatches : x->own.p.microbatches;
  status = pz_rank_alone(&x->job, &run, k->stage, n, &alone, x->err);
  if (status != PZ_OK) return status;
  k->predicted[PZ_REHEARSAL_COMPUTE] = alone.compute_s;
  k->predicted[PZ_REHEARSAL_STATIC] = alone.static_bytes;
  k->predicted[PZ_REHEARSAL_PEAK] = alone.peak_bytes;
  k->predicted[PZ_REHEARSAL_RESERVED] = alone.reserved_bytes;
  find_need(x, k, device_bytes);
  status = note_rank(x, k, alone.microbatches, device_bytes);
  return status == PZ_OK && k->status == PZ_RANK_OK ? add_measured(x, r, k, &run) : status;
}

/* ---- results: the whole ------------------------------------------------------------------------- */

static enum pz_status read_table(struct rehearsed *x, const char *text, size_t bytes) {
  static const char head[] = PZ_REHEARSAL_COLUMNS;
  if (bytes > PZ_REHEARSAL_MOST_BYTES)
    return pz_fail(x->err, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", x->name, bytes,
                   PZ_REHEARSAL_MOST_BYTES);
  size_t n = sizeof head - 1;
  if (bytes <= n || memcmp(text, head, n) != 0 || (text[n] != '\n' && text[n] != '\r'))
    return pz_fail(x->err, PZ_BAD_INPUT,
                   "%s:1: no results of a rehearsal; accepted: what the script of 'phaze rehearse' "
                   "printed, which begins with " PZ_REHEARSAL_COLUMNS,
                   x->name);
  if (text[bytes - 1] != '\n')
    return pz_fail(x->err, PZ_BAD_INPUT,
                   "%s: the last line is not complete; accepted: all that the rehearsal printed",
                   x->name);
  enum pz_status status = pz_csv_parse(x->name, text, bytes, x->arena, &x->csv, x->err);
  if (status == PZ_OK && !x->csv.rows)
    status = pz_fail(x->err, PZ_BAD_INPUT, "%s: no rank; accepted: a row for each", x->name);
  if (status == PZ_OK && x->csv.rows > MOST_ROWS)
    status = pz_fail(x->err, PZ_LIMIT, "%s: %u rows; accepted: at most %d", x->name, x->csv.rows,
                     MOST_ROWS);
  return status;
}

/* Describes what ran and where, and notes the critical stages without a rank. */
static enum pz_status describe(struct rehearsed *x) {
  struct pz_rehearsal *out = x->out;
  int64_t stages[MOST_STAGES];
  const char *reasons[MOST_STAGES];
  enum pz_status status = PZ_OK;
  uint32_t first = 0;
  while (first + 1 < out->n_ranks && out->ranks[first].status == PZ_RANK_FAILED) first++;
  memcpy(out->plan, x->digest, sizeof out->plan);
  out->framework = pz_framework_names[x->own.plan.framework];
  out->version = pz_csv_cell(&x->csv, first, VERSION);
  out->torch = pz_csv_cell(&x->csv, first, TORCH);
  out->device = pz_csv_cell(&x->csv, first, DEVICE);
  out->p = x->own.p;
  out->complete = true;
  int n = critical_stages(&x->own, stages, reasons);
  for (int i = 0; i < n && status == PZ_OK; i++) {
    bool found = false, ran = false;
    for (uint32_t k = 0; k < out->n_ranks; k++) {
      bool here = out->ranks[k].stage == stages[i];
      found = found || here;
      ran = ran || (here && out->ranks[k].status != PZ_RANK_FAILED);
    }
    out->complete = out->complete && ran;
    if (!found)
      status = add_note(x, pz_arena_printf(x->arena, "no rank of stage %" PRId64 " was run: %s",
                                           stages[i] + 1, reasons[i]));
  }
  return status;
}

/* Does the plan fit? */
static enum pz_status judge_memory(struct rehearsed *x) {
  struct pz_rehearsal *out = x->out;
  uint32_t ran = 0;
  out->fits = true;
  out->spare_bytes = HUGE_VAL;
  for (uint32_t i = 0; i < out->n_ranks; i++) {
    const struct pz_rehearsed_rank *k = &out->ranks[i];
    if (k->status == PZ_RANK_FAILED) continue;
    ran++;
    if (k->status == PZ_RANK_OK)
      out->spare_bytes = pz_fmin(out->spare_bytes, k->usable_bytes - k->needed_bytes);
    if (k->status == PZ_RANK_OOM || k->needed_bytes > k->usable_bytes) out->fits = false;
  }
  if (out->spare_bytes == HUGE_VAL) out->spare_bytes = 0;
  if (ran) return PZ_OK;
  const char *why = out->ranks[0].message;
  return pz_fail(x->err, PZ_NO_ANSWER, "%s: no rank ran; rank %" PRId64 ": %.300s", x->name,
                 out->ranks[0].rank, *why ? why : "it failed without a message");
}

/* Reserved bytes over those predicted, of the rank with the largest ratio, within what a chip file accepts. */
static double measured_memory(const struct pz_rehearsal *r) {
  double most = 0;
  for (uint32_t i = 0; i < r->n_ranks; i++)
    if (r->ranks[i].status == PZ_RANK_OK)
      most = pz_fmax(most, r->ranks[i].measured[PZ_REHEARSAL_RESERVED] /
                               r->ranks[i].predicted[PZ_REHEARSAL_RESERVED]);
  return pz_fmin(pz_fmax(most, 0.5), 2);
}

/* The chip with factors of compute by the measured ranks, and their memory.  Nothing is learnt of collectives. */
static enum pz_status correct(struct rehearsed *x) {
  enum { COMPUTE_FACTORS = 4 };
  const struct pz_measured_step *steps = x->steps.items;
  struct pz_rehearsal *out = x->out;
  uint32_t n = x->steps.n, at = 0;
  if (!n) return PZ_OK;
  struct pz_step_sensitivity *s = pz_arena_alloc(x->arena, n, sizeof *s);
  struct pz_step_factor *factors = pz_arena_alloc(x->arena, COMPUTE_FACTORS, sizeof *factors);
  struct pz_chip *chip = pz_arena_alloc(x->arena, 1, sizeof *chip);
  double *corrected_s = pz_arena_alloc(x->arena, n, sizeof *corrected_s);
  if (!s || !factors || !chip || !corrected_s) return rehearsal_no_memory(x);
  enum pz_status status = pz_step_sensitivities(steps, n, 1, s, x->err);
  if (status != PZ_OK) return status;
  struct pz_correction c = pz_correction_fit(steps, s, n, n);
  *chip = *x->job.chip;
  c.collectives = chip->correction.collectives;
  c.memory = measured_memory(out);
  c.steps = n;
  c.kinds = pz_correction_kind(x->own.p.active_params < x->own.p.params, x->own.plan.precision);
  pz_correction_tell(&c, s, n, factors, COMPUTE_FACTORS);
  pz_chip_name_calibrated(chip, x->name);
  chip->correction = c;
  struct pz_job job = x->job;
  job.chip = chip;
  status = pz_steps_corrected(steps, n, &c, 1, corrected_s, x->err);
  if (status == PZ_OK) status = pz_predict(&job, &x->own.plan, &out->corrected, NULL, x->err);
  for (uint32_t i = 0; i < out->n_ranks && status == PZ_OK; i++)
    if (out->ranks[i].status == PZ_RANK_OK) out->ranks[i].corrected_s = corrected_s[at++];
  out->chip = chip;
  out->factors = factors;
  out->n_factors = COMPUTE_FACTORS;
  return status;
}

enum pz_status pz_rehearsal_read(const struct pz_diff_side *side, const char *name,
                                 const char *text, size_t bytes, struct pz_rehearsal **out,
                                 struct pz_error *err) {
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status =
      pz_need_each(err, {side, "side"}, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the rehearsal", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct rehearsed own = {.arena = arena, .err = err, .name = name, .out = made}, *x = &own;
  pz_vec_init(&x->steps, arena, sizeof(struct pz_measured_step));
  pz_vec_init(&x->notes, arena, sizeof(const char *));
  status = predict_side(side, x);
  if (status == PZ_OK) status = read_table(x, text, bytes);
  if (status == PZ_OK) {
    x->out->n_ranks = x->csv.rows;
    x->out->ranks = pz_arena_alloc(arena, x->csv.rows, sizeof *x->out->ranks);
    if (!x->out->ranks) status = rehearsal_no_memory(x);
  }
  for (uint32_t r = 0; status == PZ_OK && r < x->csv.rows; r++) status = read_row(x, r);
  if (status == PZ_OK) status = describe(x);
  if (status == PZ_OK) status = judge_memory(x);
  if (status == PZ_OK) status = correct(x);
  x->out->notes = x->notes.items;
  x->out->n_notes = x->notes.n;
  return pz_held_give(status, made, out);
}

void pz_rehearsal_free(struct pz_rehearsal *r) { pz_held_free(r); }
