/* The commands that search, 'phaze search' and 'phaze compare': their options (the design space
 * and its limits, the workload, the objective, and the options of each of the two evaluators),
 * one run with progress, signals and warnings, and its HTML report, which 'phaze report' and
 * 'phaze verify' use too. */
#ifndef PZ_CLI_STUDY_H
#define PZ_CLI_STUDY_H

#include "cli/command.h"
#include "cli/workload_options.h"
#include "core/progress.h"

struct pz_study_settings {
  const char *space, *node, *budget;
  double limit_mm2, limit_watts, limit_dollars;
  int evaluator;
  int semantics, per;   /* older names of evaluator and objective; -1 if they are not given */
  const char *weights;  /* a list, or NULL for the default */
  const char *devices;  /* a number, or a list if several_devices is set */
  bool several_devices; /* set by the subcommand, not by an option */
  int64_t batch, seq, threads, rounds, seconds;
  struct pz_workload_options import; /* options of ONNX files only */
  int objective;
  bool each_model, exhaustive, pareto;
  double pareto_tolerance; /* percent */
  const char *dir;         /* folder of the saved run, or NULL */
  bool fresh, no_report;
  struct { /* options of the training evaluator */
    const char *gap;
    int64_t scale_up;
    double outer_gb_per_s;
    int serial;
    const char *memory_margin;
  } training;
  struct { /* options of the original evaluator */
    const char *cluster;
    const char *mbs, *hbm, *tp; /* lists, or NULL for the default */
    int64_t steps;
    int optimizer, rules;
  } original;
};

enum { PZ_PARETO_TOLERANCE = 1 }; /* percent */
#define PZ_STUDY_SETTINGS_DEFAULT                                                                  \
  {                                                                                                \
    .space = "paper", .semantics = -1, .per = -1, .devices = "1024", .batch = 4096,                \
    .pareto_tolerance = PZ_PARETO_TOLERANCE, .training = {.scale_up = 8, .outer_gb_per_s = 50},    \
    .original = {                                                                                  \
      .steps = PZ_LAYER_STEPS                                                                      \
    }                                                                                              \
  }
/* Names of choices; each list ends with NULL. */
extern const char *const pz_optimizer_names[];
extern const char *const pz_semantics_names[];
extern const char *const pz_per_names[];
extern const char *const pz_rules_names[];
extern const char *const pz_study_execution_names[];

/* clang-format off */
/* T is the type of the settings, F their member of type struct pz_study_settings. */
#define PZ_STUDY_OPTIONS(T, F) \
  PZ_TEXT_OPTION("space", offsetof(T, F.space), "SPACE", "Design space: a name listed by 'phaze spaces', or a space.json file (default: paper)"), \
  PZ_TEXT_OPTION("node", offsetof(T, F.node), "NODE", "Technology of the chips (default: every one of the space)"), \
  PZ_TEXT_OPTION("budget", offsetof(T, F.budget), "CHIP|MM2", "Limits that are not given: a chip's area, peak watts and dollars, or an area in mm2 (default: the area of the space's base chip)"), \
  PZ_REAL_OPTION("limit-mm2", offsetof(T, F.limit_mm2), "MM2", 0, 1e9, "Area of a chip's dies at most (0: any)"), \
  PZ_REAL_OPTION("limit-watts", offsetof(T, F.limit_watts), "W", 0, 1e9, "Sustained power of a chip at most (0: any)"), \
  PZ_REAL_OPTION("limit-dollars", offsetof(T, F.limit_dollars), "D", 0, 1e9, "Dies, HBM and package of a chip at most (0: any)"), \
  PZ_CHOICE_OPTION("evaluator", offsetof(T, F.evaluator), pz_evaluator_names, "How a chip is judged. training: by the best plans of 'phaze place'; original: layers are scheduled on the chip's cores and divided into stages, as the original system does (default: original in the space paper, else training)"), \
  PZ_CHOICE_OPTION("semantics", offsetof(T, F.semantics), pz_semantics_names, "The same in older words: corrected is the evaluator original"), \
  PZ_CHOICE_OPTION("rules", offsetof(T, F.original.rules), pz_rules_names, "Evaluator original: corrected, or with the assumptions of the original system's code"), \
  PZ_TEXT_OPTION("cluster", offsetof(T, F.original.cluster), "NET", "Evaluator original: a cluster listed by 'phaze chips', or a cluster.json file (default: paper)"), \
  PZ_INT_OPTION("scale-up", offsetof(T, F.training.scale_up), "N", 1, 1 << 20, "Evaluator training: devices joined by the chip's own links"), \
  PZ_REAL_OPTION("outer-rate", offsetof(T, F.training.outer_gb_per_s), "GBS", 1e-3, 1e6, "Evaluator training: GB/s of a device to those outside of its scale-up group"), \
  PZ_CHOICE_OPTION("execution", offsetof(T, F.training.serial), pz_study_execution_names, "Evaluator training: operators of a layer scheduled beside each other on the chip's cores and links, or one after another"), \
  PZ_TEXT_OPTION("memory-margin", offsetof(T, F.training.memory_margin), "PERCENT", "Evaluator training: as for 'phaze place'"), \
  PZ_TEXT_OPTION("devices", offsetof(T, F.devices), "N", "Number of devices (chips); of 'compare' with tokens also a comma-separated list (default: 1024)"), \
  PZ_INT_OPTION("batch", offsetof(T, F.batch), "B", 1, 1 << 30, "Global batch size (samples)"), \
  PZ_INT_OPTION("seq", offsetof(T, F.seq), "S", 1, 1 << 24, "Sequence length, tokens per sample (default: each model's, at most 8192)"), \
  PZ_TEXT_OPTION("mbs", offsetof(T, F.original.mbs), "LIST", "Evaluator original: microbatch sizes to search (samples), comma-separated (default: 1,2,4,8,16,32)"), \
  PZ_TEXT_OPTION("hbm", offsetof(T, F.original.hbm), "LIST", "Evaluator original: HBM capacities per chip to search (GiB), comma-separated (default: 32,64,80)"), \
  PZ_TEXT_OPTION("tp", offsetof(T, F.original.tp), "LIST", "Evaluator original: tensor-parallel degrees to search, comma-separated (default: 1,2,4,8)"), \
  PZ_CHOICE_OPTION("objective", offsetof(T, F.objective), pz_objective_names, "What to maximise, see above"), \
  PZ_CHOICE_OPTION("per", offsetof(T, F.per), pz_per_names, "The same in older words: throughput per chip, dollar of its bill, watt, dollar of ownership, or joule"), \
  PZ_TEXT_OPTION("weights", offsetof(T, F.weights), "LIST", "With --objective weighted: one weight above 0 per model, comma-separated"), \
  PZ_FLAG_OPTION("each-model", offsetof(T, F.each_model), "Also find the best chip of each model alone (the evaluator original always does)"), \
  PZ_TEXT_OPTION("gap", offsetof(T, F.training.gap), "GAP", "Evaluator training: stop when no chip can be better by more (default: 1%)"), \
  PZ_INT_OPTION("rounds", offsetof(T, F.rounds), "N", 0, 1e15, "Effort limit of an objective run, in rounds of 64 boxes (0: none)"), \
  PZ_INT_OPTION("seconds", offsetof(T, F.seconds), "S", 0, 1e9, "End an objective run after so many seconds, with what it has (0: none)"), \
  PZ_CHOICE_OPTION("optimizer", offsetof(T, F.original.optimizer), pz_optimizer_names, "Evaluator original: weights, gradients and optimizer state take 3 times (adam) or 2 times (sgd) the bytes of the weights"), \
  PZ_INT_OPTION("steps", offsetof(T, F.original.steps), "N", 1, 1e15, "Evaluator original: effort limit per layer schedule, in solver steps"), \
  PZ_INT_OPTION("threads", offsetof(T, F.threads), "T", 0, 1024, "Number of threads (default: 0, one per processor)"), \
  PZ_IMPORT_OPTIONS(T, F.import), \
  PZ_FLAG_OPTION("exhaustive", offsetof(T, F.exhaustive), "Evaluate every chip instead of excluding chips by bounds: same result, much slower"), \
  PZ_FLAG_OPTION("pareto", offsetof(T, F.pareto), "Also report the Pareto front of throughput, area and peak watts, of a space that can be listed"), \
  PZ_REAL_OPTION("pareto-tolerance", offsetof(T, F.pareto_tolerance), "PERCENT", 0, 100, "With --pareto: omit chips within this tolerance of one that is shown; 0 shows the whole front (default 1)"), \
  PZ_TEXT_OPTION("output", offsetof(T, F.dir), "DIR", "Save the run in DIR; resumes an interrupted run, prints a finished one without searching", .letter = 'o'), \
  PZ_FLAG_OPTION("fresh", offsetof(T, F.fresh), "With --output: start over; an earlier run is renamed to DIR/run-N.sqlite"), \
  PZ_FLAG_OPTION("no-report", offsetof(T, F.no_report), "With --output: do not write DIR/report.html")
/* clang-format on */

/* ---- one run -------------------------------------------------------------------------------- */

struct pz_study_run {
  const struct pz_common *common;
  const struct pz_study_settings *settings;
  struct pz_study_options study;
  struct pz_run_options options;
  struct pz_run *run; /* NULL until it is opened */
  double start_s;
  struct pz_progress progress;
};

/* Returns an error message if the arguments are inconsistent, otherwise NULL. */
const char *pz_study_run_misuse(const struct pz_study_settings *study, int n_models);

/* Returns an error message if options of one evaluator were given to the other one, or if
 * options cannot be combined; otherwise NULL.  `study` is a member of the command's settings. */
const char *pz_study_misuse(struct pz_call *call, const struct pz_command *command,
                            const void *settings, const struct pz_study_settings *study);

/* Runs the work of a subcommand.  If a signal interrupts it, a message on stderr says how to
 * resume, and the exit status is PZ_EXIT_STOPPED. */
void pz_study_run_work(struct pz_call *call, struct pz_invocation *invocation,
                       const struct pz_study_settings *study, pz_call_fn *work, void *ctx);

/* Reads the settings and starts the progress. */
void pz_study_run_begin(struct pz_call *call, struct pz_study_run *run, char **models,
                        int n_models);

/* Opens the run, which the call closes, and reads its inputs; nothing is searched yet. */
void pz_study_run_open(struct pz_call *call, struct pz_study_run *run);

/* Loads the finished result from the folder of the run, or else searches. */
void pz_study_run_search(struct pz_call *call, struct pz_study_run *run);

/* Writes DIR/report.html, unless it exists with the same contents or no report is wanted. */
void pz_study_run_report(struct pz_call *call, struct pz_study_run *run);

/* Closes a struct pz_run, for pz_defer(). */
void pz_study_run_close(void *run);

/* ---- the report of a run -------------------------------------------------------------------- */

/* Returns DIR/report.html. */
const char *pz_report_path(struct pz_call *call, const char *dir);

/* Computes what a report needs and the run does not have yet: its details and, with the
 * evaluator original, the baselines. */
void pz_report_complete(struct pz_call *call, struct pz_run *run);

/* The HTML page of a result, which belongs to the call that made it. */
struct pz_report_page {
  char *text;
  size_t bytes;
};

/* Returns the page of a complete result. */
struct pz_report_page pz_report_page(struct pz_call *call, const struct pz_result *result);

/* Returns whether the file at `path` is the page, byte for byte.  *exists says whether there is such
 * a file.  Raises PZ_IO if it is not a regular file. */
bool pz_report_matches(struct pz_call *call, const struct pz_report_page *page, const char *path,
                       bool *exists);

#endif
