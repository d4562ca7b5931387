/* phaze search: the best chip of a design space for given models, with their training plans. */
#include "cli/search_boxes.h"
#include "cli/study_run.h"
#include "core/alloc.h"
#include "report/result_table.h"
#include "study/result_json.h"

struct settings {
  struct pz_common common;
  int semantics;
  struct pz_study_settings study;
  struct pz_box_settings box;
};

enum { NOT_GIVEN = -1, CORRECTED, TRAINING }; /* --semantics */
static const char *const semantics_names[] = {"corrected", "training", NULL};

static const struct settings defaults = {
    .semantics = NOT_GIVEN, .study = PZ_STUDY_SETTINGS_DEFAULT, .box = PZ_BOX_SETTINGS_DEFAULT};

static const struct pz_option options[] = {PZ_COMMON_OPTIONS(struct settings),
                                           PZ_STUDY_OPTIONS(struct settings, study),
                                           {.name = "semantics",
                                            .type = PZ_OPTION_CHOICE,
                                            .offset = offsetof(struct settings, semantics),
                                            .choices = semantics_names,
                                            .help = "How chips are judged. corrected: layers are "
                                                    "scheduled on the chip's cores and placed "
                                                    "(default in a space of listed chips); "
                                                    "training: by the training plans of 'phaze "
                                                    "place', as in a space of ranges, whose "
                                                    "options then apply (default there)"},
                                           {.name = "boxes",
                                            .type = PZ_OPTION_FLAG,
                                            .offset = offsetof(struct settings, study.boxes),
                                            .help = "Bound boxes of chips, and single chips only "
                                                    "where those do not exclude them: same result; "
                                                    "spaces of ranges are always searched so"},
                                           PZ_BOX_OPTIONS(struct settings, box)};

static json_t *timing_json(const struct pz_study_run *r) {
  const struct pz_run_times t = pz_run_times(r->run);
  json_t *timing = pz_run_reused(r->run) ? json_pack("{s:b}", "reused", true)
                                         : json_pack("{s:f,s:f,s:f,s:I}", "bounds_s", t.bounds_s,
                                                     "search_s", t.search_s, "result_s", t.result_s,
                                                     "evaluations", (json_int_t)t.n_variants);
  json_object_set_new(timing, "total_s", json_real(pz_clock_s() - r->start_s));
  json_object_set_new(timing, "threads", json_integer(pz_run_threads(r->run)));
  return timing;
}

static enum pz_status tell(struct pz_study_run *r) {
  struct pz_arena arena;
  if (r->common->json) {
    json_t *result = pz_result_json(pz_run_result(r->run));
    if (!result || json_object_set_new(result, "timing", timing_json(r)) != 0) {
      json_decref(result);
      return pz_fail(r->err, PZ_NO_MEMORY, "out of memory for the result");
    }
    return pz_command_json(result, r->err);
  }
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_result_print(pz_run_result(r->run), &arena, stdout);
  pz_arena_release(&arena);
  return status;
}

/* ---- a space of ranges ---------------------------------------------------------------------- */

/* Settings of which only those differ from the defaults that a space of ranges knows. */
static struct settings box_part(const struct settings *s) {
  struct settings x = defaults;
  x.study.space = s->study.space;
  x.study.budget = s->study.budget;
  x.study.no_report = s->study.no_report;
  x.study.devices = s->study.devices;
  x.study.batch = s->study.batch;
  x.study.seq = s->study.seq;
  x.study.threads = s->study.threads;
  x.study.dir = s->study.dir;
  x.study.boxes = s->study.boxes;
  x.box = s->box;
  return x;
}

static enum pz_exit search_boxes(const struct settings *s, char **models, int n_models,
                                 struct pz_range_space *space) {
  char text[160];
  struct settings known = box_part(s);
  const struct pz_option *other =
      pz_command_changed(&pz_cmd_search, offsetof(struct settings, study), s, &known);
  if (other) {
    snprintf(text, sizeof text, "--%s does not apply to training plans of chips of the space %.48s",
             other->name, space->name);
    return pz_command_misuse(&pz_cmd_search, text);
  }
  struct pz_box_call call = {.common = &s->common,
                             .box = &s->box,
                             .models = models,
                             .n_models = n_models,
                             .devices = s->study.devices,
                             .batch = s->study.batch,
                             .seq = s->study.seq,
                             .threads = s->study.threads,
                             .budget = s->study.budget,
                             .dir = s->study.dir,
                             .report = !s->study.no_report};
  return pz_search_boxes(&call, space);
}

/* A space of listed chips as one of ranges: all of its grid.  Without a limit their area is at most the base chip's, by the bill. */
static enum pz_status range_of_listed(struct settings *s, struct pz_range_space *out,
                                      struct pz_error *err) {
  const struct pz_box_settings *b = &s->box;
  struct pz_space listed;
  enum pz_status status = pz_space_load(s->study.space, &listed, err);
  if (status == PZ_OK) status = pz_range_from_space(&listed, out, err);
  bool limited = b->limit_mm2 > 0 || b->limit_watts > 0 || b->limit_dollars > 0;
  if (status == PZ_OK && !s->study.budget && !limited)
    s->box.limit_mm2 = pz_chip_bill(&listed.base, PZ_BILL_LIKELY).area_mm2;
  return status;
}

/* True: the chips are judged by training plans, or the space could not be read; *code is the exit status. */
static bool is_range_search(struct settings *s, char **models, int n_models, enum pz_exit *code) {
  struct pz_error err = {0};
  bool is = false;
  struct pz_range_space *space = pz_calloc(1, sizeof *space);
  enum pz_status status = space ? pz_range_load(s->study.space, space, &is, &err)
                                : pz_fail(&err, PZ_NO_MEMORY, "out of memory for the space");
  bool ranges = is;
  if (status == PZ_OK && !is && s->semantics == TRAINING) {
    status = range_of_listed(s, space, &err);
    is = true;
  }
  if (status != PZ_OK)
    *code = pz_command_fail(&err);
  else if (ranges && s->semantics == CORRECTED)
    *code = pz_command_misuse(&pz_cmd_search,
                              "--semantics corrected requires a space of listed chips, as paper");
  else if (is)
    *code = search_boxes(s, models, n_models, space);
  pz_free(space);
  return status != PZ_OK || is;
}

static const char *box_misuse(const struct settings *s, char *text, size_t size) {
  struct settings x = *s;
  x.box = defaults.box;
  const struct pz_option *o =
      pz_command_changed(&pz_cmd_search, offsetof(struct settings, box), s, &x);
  if (o)
    snprintf(text, size,
             "--%s requires a space of ranges, as --space modern, or --semantics training",
             o->name);
  return o ? text : NULL;
}

static enum pz_exit run(int argc, char **argv) {
  char text[120];
  struct settings s = defaults;
  struct pz_error err = {0};
  struct pz_study_run r = {.common = &s.common, .s = &s.study, .err = &err};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_search, argc, argv, &s, &n_args, &code)) return code;
  const char *wrong = pz_study_run_misuse(&s.study, n_args);
  if (!wrong && is_range_search(&s, argv + 1, n_args, &code)) return code;
  if (!wrong) wrong = box_misuse(&s, text, sizeof text);
  if (wrong) return pz_command_misuse(&pz_cmd_search, wrong);
  enum pz_status status = pz_study_run_begin(&r, argv + 1, n_args);
  if (status == PZ_OK) status = pz_study_run_search(&r);
  if (status == PZ_OK) status = tell(&r);
  if (status == PZ_OK) status = pz_study_run_report(&r);
  return pz_study_run_end(&r, status);
}

const struct pz_command pz_cmd_search = {
    .name = "search",
    .synopsis = "MODEL... [--space SPACE] [--budget CHIP|MM2] [-o DIR] [options]",
    .summary = "Find the best chip of a design space for models, with proof of optimality",
    .detail = "Finds one chip for all models and the best chip for each model alone, each with\n"
              "training plans. Every chip of the space is evaluated (layer schedules, then\n"
              "placement) or excluded by an upper bound on its throughput. Objectives:\n"
              "  throughput  geometric mean of throughput relative to tpuv4 with expert plans\n"
              "  mean        arithmetic mean of samples/s\n"
              "  weighted    geometric mean with --weights\n"
              "  regret      lowest throughput relative to that of the model's own best chip\n"
              "  per-watt    geometric mean per peak watt, relative to the reference chip's\n"
              "  per-mm2     geometric mean per chip area, relative to the reference chip's\n"
              "\n"
              "Examples:\n"
              "  phaze search gpt2-xl llama2-7b -o run\n"
              "  phaze search llama3-8b --budget 400 --devices 256 --batch 1024\n"
              "  phaze search bert-large --space ./space.json --objective per-watt\n"
              "\n"
              "A space of ranges, as modern, is too large to list. Its chips are judged by the\n"
              "fastest training plan of 'phaze place', on a cluster whose scale-up groups have\n"
              "the chip's link rate, relative to the description of an H100. Boxes of chips are\n"
              "closed by limits and bounds; -o DIR keeps them for 'phaze verify'. --budget CHIP\n"
              "sets the limits that are not given to the chip's area, peak watts and dollars:\n"
              "  phaze search llama3-70b --space modern --node 5nm --limit-mm2 814\n"
              "    --limit-watts 700 --batch 2048 -o run\n"
              "  phaze search llama3-70b --space modern --node 5nm --budget h100\n"
              "\n"
              "Where 'phaze --version' names an MPI, 'mpirun -n R phaze search ...' divides the\n"
              "work among R processes, with the same result; doc/scaling.md.\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .ranks = true,
    .run = run,
};
