/* phaze place: stages, replicas and tensor width with which a batch takes least time, for a model
 * on a chip or for an instance file of the original program. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/place_model.h"
#include "core/file.h"
#include "core/progress.h"
#include "core/text.h"
#include "place/checker.h"
#include "place/fit.h"
#include "place/fixed.h"
#include "place/solve.h"
#include "report/emit.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  const char *instance;
  int semantics;
  bool compat, check;
  struct pz_place_settings model; /* the last: its options go with a MODEL only */
};

static const struct settings defaults = {.model = {.devices = 1024, .batch = 4096}};
static const char *const semantics_names[] = {"original", "corrected", NULL};
static const char *const recompute_names[] = {"auto", "on", "off", NULL};
static const char *const optimizer_names[] = {"adam", "sgd", NULL};

enum { NOT_GIVEN = -1 }; /* a choice the user left open */

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "instance", .type = PZ_OPTION_TEXT, .offset = AT(instance), .arg = "FILE.json",
     .help = "A problem in the original program's format: nodes and edges for each tensor-parallel width"},
    {.name = "semantics", .type = PZ_OPTION_CHOICE, .offset = AT(semantics), .choices = semantics_names,
     .help = "Gradients are exchanged for the first stage's parameters, or for the largest's (with a MODEL the default)"},
    {.name = "expert-compat", .type = PZ_OPTION_FLAG, .offset = AT(compat),
     .help = "Divide the fixed plan as the original program does, off by one layer"},
    {.name = "check", .type = PZ_OPTION_FLAG, .offset = AT(check),
     .help = "Check the plan with code that shares only the formula of the time with the solver"},
    PZ_MACHINE_OPTIONS(struct settings, model.machine),
    {.name = "devices", .type = PZ_OPTION_INT, .offset = AT(model.devices), .arg = "N", .min = 1, .max = 1 << 30,
     .help = "Chips there are"},
    {.name = "batch", .type = PZ_OPTION_INT, .offset = AT(model.batch), .arg = "B", .min = 1, .max = 1 << 30,
     .help = "Samples of a batch"},
    {.name = "mbs", .type = PZ_OPTION_TEXT, .offset = AT(model.mbs), .arg = "LIST",
     .help = "Samples of a microbatch, several with commas (default: auto, 1, 2, 4 and 8)"},
    {.name = "tp", .type = PZ_OPTION_TEXT, .offset = AT(model.tp), .arg = "LIST",
     .help = "Tensor-parallel widths, several with commas (default: auto, 1, 2, 4 .. 64)"},
    {.name = "seq", .type = PZ_OPTION_INT, .offset = AT(model.seq), .arg = "S", .min = 1, .max = 1 << 24,
     .help = "Tokens per sample (default: the model's, at most 8192)"},
    {.name = "recompute", .type = PZ_OPTION_CHOICE, .offset = AT(model.recompute), .choices = recompute_names,
     .help = "Make activations again instead of keeping them"},
    {.name = "optimizer", .type = PZ_OPTION_CHOICE, .offset = AT(model.optimizer), .choices = optimizer_names,
     .help = "What is held for each parameter: 3 times its bytes, or 2"},
    {.name = "hbm", .type = PZ_OPTION_REAL, .offset = AT(model.hbm_gb), .arg = "GB", .min = 0.001, .max = 1e9,
     .help = "Memory of a device in GiB instead of the chip's"},
    {.name = "emit", .type = PZ_OPTION_CHOICE, .offset = AT(model.emit), .choices = pz_emit_names,
     .help = "Print the plan as flags or configuration of a training framework instead"},
    {.name = "trace", .type = PZ_OPTION_TEXT, .offset = AT(model.trace), .arg = "FILE.json",
     .help = "Write the pipeline over time as a trace for ui.perfetto.dev"},
    PZ_IMPORT_OPTIONS(struct settings, model.import),
};
/* clang-format on */

/* What is known of an instance. */
struct answer {
  struct pz_place_problem p;
  struct pz_fixed fixed;
  struct pz_plan plan;
  double seconds;
  double fixed_s;
  struct pz_error fixed_err; /* why there is no fixed_s */
};

static json_t *stage_json(const struct pz_place_width *w, const struct pz_stage *s) {
  json_t *nodes = json_array();
  for (uint32_t i = 0; i < s->n; i++)
    json_array_append_new(nodes, json_integer(w->layers[s->layers[i]].id));
  return json_pack("{s:o,s:I,s:f,s:f}", "nodes", nodes, "devicesForStage", (json_int_t)s->devices,
                   "load", s->load_s, "memory", s->memory_bytes);
}

static json_t *answer_json(const struct answer *a) {
  const struct pz_place_width *w = &a->p.widths[a->plan.width];
  bool fixed = a->fixed_err.status == PZ_OK;
  json_t *stages = json_array();
  for (uint32_t k = 0; k < a->plan.n_stages; k++)
    json_array_append_new(stages, stage_json(w, &a->plan.stages[k]));
  return json_pack("{s:o,s:I,s:I,s:f,s:o,s:s,s:f}", "stages", stages, "dataParallelDegree",
                   (json_int_t)a->plan.d, "tensorParallelDegree", (json_int_t)w->t,
                   "finalTimePerBatch", a->plan.time_s, "fixedStrategyTimePerBatch",
                   fixed ? json_real(a->fixed_s) : json_null(), "fixedStrategy",
                   fixed ? "evaluated" : a->fixed_err.message, "solve_seconds", a->seconds);
}

/* "-1 .. 7" of the ids in a stage. */
static const char *span(const struct pz_place_width *w, const struct pz_stage *s, char buf[64]) {
  int64_t first = w->layers[s->layers[0]].id, last = w->layers[s->layers[s->n - 1]].id;
  if (s->n == 1)
    snprintf(buf, 64, "%" PRId64, first);
  else
    snprintf(buf, 64, "%" PRId64 " .. %" PRId64, first, last);
  return buf;
}

static enum pz_status print_answer(const struct answer *a, struct pz_arena *arena) {
  static const char *const heads[] = {">stage",  "layers",  ">count", ">devices",
                                      ">load s", ">memory", ">of it", NULL};
  const struct pz_place_width *w = &a->p.widths[a->plan.width];
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t k = 0; k < a->plan.n_stages; k++) {
    const struct pz_stage *s = &a->plan.stages[k];
    char buf[64];
    pz_table_cell(&t, "%u", k + 1);
    pz_table_cell(&t, "%s", span(w, s, buf));
    pz_table_cell(&t, "%u", s->n);
    pz_table_cell(&t, "%" PRId64, s->devices);
    pz_table_cell(&t, "%.6g", s->load_s);
    pz_table_cell(&t, "%s", pz_text_si(buf, sizeof buf, s->memory_bytes, "B"));
    pz_table_cell(&t, "%.0f%%", a->p.hbm_bytes > 0 ? 100 * s->memory_bytes / a->p.hbm_bytes : 0);
  }
  printf("%.9g s for a batch: %u stages, %" PRId64 " replicas, tensor parallel %" PRId64 "\n",
         a->plan.time_s, a->plan.n_stages, a->plan.d, w->t);
  printf("largest load %.6g s, exchange of gradients %.6g s\n", a->plan.maxload_s,
         a->plan.resync_s);
  double times = a->plan.time_s > 0 ? a->fixed_s / a->plan.time_s : HUGE_VAL;
  if (a->fixed_err.status != PZ_OK)
    printf("the fixed plan: %s\n", a->fixed_err.message);
  else if (times < HUGE_VAL)
    printf("the fixed plan takes %.9g s, %.2f times as long\n", a->fixed_s, times);
  else
    printf("the fixed plan takes %.9g s\n", a->fixed_s); /* of no time there is no multiple */
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status read_instance(const char *path, struct pz_arena *arena, struct answer *a,
                                    struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_file_read(path, PZ_PLACE_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_place_parse(path, text, bytes, arena, &a->p, &a->fixed, err);
  free(text);
  return status;
}

static enum pz_status say_what_is_missing(const struct pz_place_problem *p,
                                          enum pz_semantics semantics, struct pz_error *err) {
  struct pz_fit fit = pz_fit_least(p, semantics);
  *err = (struct pz_error){0};
  if (fit.hbm_bytes == DBL_MAX)
    return pz_fail(err, PZ_NO_ANSWER, "no plan fits on %" PRId64 " devices, with any memory",
                   p->devices);
  return pz_fail(err, PZ_NO_ANSWER,
                 "no plan fits in %.6g bytes; %.6g would do: then stage %u of %u, layers %" PRId64
                 " .. %" PRId64 ", takes %.6g",
                 p->hbm_bytes, fit.hbm_bytes, fit.stage + 1, fit.n_stages, fit.first, fit.last,
                 fit.memory_bytes);
}

static enum pz_status place(const struct settings *s, struct pz_arena *arena,
                            struct pz_error *err) {
  struct answer a = {0};
  enum pz_semantics semantics = (enum pz_semantics)s->semantics;
  enum pz_status status = read_instance(s->instance, arena, &a, err);
  double start = pz_clock_s();
  if (status == PZ_OK) status = pz_place_solve(&a.p, semantics, arena, &a.plan, err);
  a.seconds = pz_clock_s() - start;
  if (status == PZ_NO_ANSWER) status = say_what_is_missing(&a.p, semantics, err);
  if (status == PZ_OK && s->check) status = pz_plan_check(&a.p, semantics, &a.plan, err);
  if (status != PZ_OK || !a.p.widths) return status;
  if (pz_fixed_time(&a.p, &a.fixed, s->compat ? PZ_SPLIT_COMPAT : PZ_SPLIT_EVEN, semantics,
                    &a.fixed_s, &a.fixed_err) == PZ_NO_MEMORY)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the fixed plan");
  return s->common.json ? pz_command_json(answer_json(&a), err) : print_answer(&a, arena);
}

/* What is wrong with the use, or NULL. */
static const char *misuse(const struct settings *s, const struct settings *none, int n_args,
                          const char *model, char buf[80]) {
  const struct pz_option *o = pz_command_changed(&pz_cmd_place, AT(model), s, none);
  if (n_args + (s->instance != NULL) != 1) return "wants one of MODEL and --instance";
  if (s->instance && o) {
    snprintf(buf, 80, "--%s goes with a MODEL, not with --instance", o->name);
    return buf;
  }
  if (s->instance) return NULL;
  const char *trace = s->model.trace;
  if (trace && (pz_file_same(trace, model) || pz_machine_reads(&s->model.machine, trace)))
    return "--trace would replace the input";
  if (s->compat) return "--expert-compat goes with --instance";
  if (s->common.json && s->model.emit) return "takes --json or --emit, not both";
  return s->model.machine.chip ? NULL : "wants --chip CHIP";
}

static enum pz_exit run(int argc, char **argv) {
  struct settings none = defaults;
  none.semantics = NOT_GIVEN;
  struct settings s = none;
  struct pz_error err = {0};
  struct pz_arena arena;
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_place, argc, argv, &s, &n_args, &code)) return code;
  char buf[80];
  const char *wrong = misuse(&s, &none, n_args, argv[1], buf);
  if (wrong) return pz_command_misuse(&pz_cmd_place, wrong);
  if (s.semantics == NOT_GIVEN)
    s.semantics = s.instance ? PZ_SEMANTICS_ORIGINAL : PZ_SEMANTICS_CORRECTED;
  s.model.quiet = s.common.quiet;
#ifndef NDEBUG
  s.check = true;
#endif
  pz_arena_init(&arena, NULL);
  enum pz_status status = s.instance
                              ? place(&s, &arena, &err)
                              : pz_place_a_model(&s.model, argv[1], (enum pz_semantics)s.semantics,
                                                 s.check, s.common.json, &err);
  pz_arena_release(&arena);
  return status == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

const struct pz_command pz_cmd_place = {
    .name = "place",
    .synopsis = "MODEL --chip CHIP [--devices N] [--batch B] [--mbs LIST] [--tp LIST] | --instance "
                "FILE.json [--semantics original|corrected] [--json]",
    .summary = "Divide a model into stages and replicas so that a batch takes least time",
    .detail =
        "An instance is {maxMemoryPerDevice, maxDevices, bandwidth, mbsInBatch, "
        "activationRecomputation, optimizerAlgorithm,\n"
        "nodes: {width: [{id, parameterSize, activationSize, optimalLatencyFw, optimalLatencyBw, "
        "isTensorParallelized}]},\n"
        "edges: {width: [{sourceId, destId, communicationCost}]}}, and a plan to compare with: "
        "fixedPP, fixedTMPC, fixedDP,\nnumTransformerLayers.\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
