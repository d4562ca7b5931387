/* Options of the commands that search: the design space and its limits, the workload, the objective, and for each of the two
 * evaluators what only it knows. */
#ifndef PZ_CLI_STUDY_OPTIONS_H
#define PZ_CLI_STUDY_OPTIONS_H

#include "cli/command.h"
#include "cli/workload_options.h"

struct pz_study_settings {
  const char *space, *node, *budget;
  double limit_mm2, limit_watts, limit_dollars;
  int evaluator;
  int semantics, per;   /* older names of evaluator and objective; -1 if they are not given */
  const char *weights;  /* a list, or NULL for the default */
  const char *devices;  /* a number, or a list if several_devices is set */
  bool several_devices; /* set by the command, not by an option */
  int64_t batch, seq, threads, rounds, seconds;
  struct pz_workload_options import; /* options of ONNX files only */
  int objective;
  bool each_model, exhaustive, pareto;
  double pareto_tolerance; /* percent */
  const char *dir;         /* folder of the saved run, or NULL */
  bool fresh, no_report;
  struct { /* options of the evaluator training */
    const char *gap;
    int64_t scale_up;
    double outer_gb_per_s;
    int serial;
    const char *memory_margin;
  } training;
  struct {                                /* options of the evaluator original */
    const char *cluster, *mbs, *hbm, *tp; /* the last three are lists; NULL is the default */
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
/* Each ends with NULL. */
extern const char *const pz_optimizer_names[],
    *const pz_semantics_names[], *const pz_per_names[], *const pz_rules_names[],
                                                            *const pz_study_execution_names[];

/* clang-format off */
/* T is the type of the settings, F their member of type struct pz_study_settings. */
#define PZ_STUDY_OPTIONS(T, F)                                                                           \
  {.name = "space", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.space), .arg = "SPACE",              \
   .help = "Design space: a name listed by 'phaze spaces', or a space.json file (default: paper)"},      \
  {.name = "node", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.node), .arg = "NODE",                 \
   .help = "Technology of the chips (default: every one of the space)"},                                 \
  {.name = "budget", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.budget), .arg = "CHIP|MM2",         \
   .help = "Limits that are not given: a chip's area, peak watts and dollars, or an area in mm2 "        \
           "(default: the area of the space's base chip)"},                                              \
  {.name = "limit-mm2", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.limit_mm2), .arg = "MM2",        \
   .min = 0, .max = 1e9, .help = "Area of a chip's dies at most (0: any)"},                              \
  {.name = "limit-watts", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.limit_watts), .arg = "W",      \
   .min = 0, .max = 1e9, .help = "Sustained power of a chip at most (0: any)"},                          \
  {.name = "limit-dollars", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.limit_dollars), .arg = "D",  \
   .min = 0, .max = 1e9, .help = "Dies, HBM and package of a chip at most (0: any)"},                    \
  {.name = "evaluator", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.evaluator),                    \
   .choices = pz_evaluator_names,                                                                        \
   .help = "How a chip is judged. training: by the best plans of 'phaze place'; original: layers are "   \
           "scheduled on the chip's cores and divided into stages, as the original system does "         \
           "(default: original in the space paper, else training)"},                                     \
  {.name = "semantics", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.semantics),                    \
   .choices = pz_semantics_names, .help = "The same in older words: corrected is the evaluator original"}, \
  {.name = "rules", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.original.rules),                   \
   .choices = pz_rules_names,                                                                            \
   .help = "Evaluator original: corrected, or with the assumptions of the original system's code"},      \
  {.name = "cluster", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.original.cluster), .arg = "NET",   \
   .help = "Evaluator original: a cluster listed by 'phaze chips', or a cluster.json file (default: paper)"}, \
  {.name = "scale-up", .type = PZ_OPTION_INT, .offset = offsetof(T, F.training.scale_up), .arg = "N",    \
   .min = 1, .max = 1 << 20, .help = "Evaluator training: devices joined by the chip's own links"},      \
  {.name = "outer-rate", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.training.outer_gb_per_s),       \
   .arg = "GBS", .min = 1e-3, .max = 1e6,                                                                \
   .help = "Evaluator training: GB/s of a device to those outside of its scale-up group"},               \
  {.name = "execution", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.training.serial),              \
   .choices = pz_study_execution_names,                                                                  \
   .help = "Evaluator training: operators of a layer scheduled beside each other on the chip's cores and " \
           "links, or one after another"},                                                               \
  {.name = "memory-margin", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.training.memory_margin), .arg = "PERCENT", \
   .help = "Evaluator training: as for 'phaze place'"},                                                  \
  {.name = "devices", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.devices), .arg = "N",              \
   .help = "Number of devices (chips); of 'compare' with tokens also a comma-separated list (default: 1024)"}, \
  {.name = "batch", .type = PZ_OPTION_INT, .offset = offsetof(T, F.batch), .arg = "B", .min = 1,         \
   .max = 1 << 30, .help = "Global batch size (samples)"},                                               \
  {.name = "seq", .type = PZ_OPTION_INT, .offset = offsetof(T, F.seq), .arg = "S", .min = 1,             \
   .max = 1 << 24, .help = "Sequence length, tokens per sample (default: each model's, at most 8192)"},  \
  {.name = "mbs", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.original.mbs), .arg = "LIST",          \
   .help = "Evaluator original: microbatch sizes to search (samples), comma-separated (default: 1,2,4,8,16,32)"}, \
  {.name = "hbm", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.original.hbm), .arg = "LIST",          \
   .help = "Evaluator original: HBM capacities per chip to search (GiB), comma-separated (default: 32,64,80)"}, \
  {.name = "tp", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.original.tp), .arg = "LIST",            \
   .help = "Evaluator original: tensor-parallel degrees to search, comma-separated (default: 1,2,4,8)"}, \
  {.name = "objective", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.objective),                    \
   .choices = pz_objective_names, .help = "What to maximise, see above"},                                \
  {.name = "per", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.per), .choices = pz_per_names,       \
   .help = "The same in older words: throughput per chip, dollar of its bill, watt, dollar of ownership, or joule"}, \
  {.name = "weights", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.weights), .arg = "LIST",           \
   .help = "With --objective weighted: one weight above 0 per model, comma-separated"},                  \
  {.name = "each-model", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.each_model),                    \
   .help = "Also find the best chip of each model alone (the evaluator original always does)"},          \
  {.name = "gap", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.training.gap), .arg = "GAP",           \
   .help = "Evaluator training: stop when no chip can be better by more (default: 1%)"},                 \
  {.name = "rounds", .type = PZ_OPTION_INT, .offset = offsetof(T, F.rounds), .arg = "N", .min = 0,       \
   .max = 1e15, .help = "Effort limit of an objective run, in rounds of 64 boxes (0: none)"},            \
  {.name = "seconds", .type = PZ_OPTION_INT, .offset = offsetof(T, F.seconds), .arg = "S", .min = 0,     \
   .max = 1e9, .help = "End an objective run after so many seconds, with what it has (0: none)"},            \
  {.name = "optimizer", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.original.optimizer),           \
   .choices = pz_optimizer_names,                                                                        \
   .help = "Evaluator original: weights, gradients and optimizer state take 3 times (adam) or 2 times "  \
           "(sgd) the bytes of the weights"},                                                            \
  {.name = "steps", .type = PZ_OPTION_INT, .offset = offsetof(T, F.original.steps), .arg = "N",          \
   .min = 1, .max = 1e15, .help = "Evaluator original: effort limit per layer schedule, in solver steps"}, \
  {.name = "threads", .type = PZ_OPTION_INT, .offset = offsetof(T, F.threads), .arg = "T", .min = 0,     \
   .max = 1024, .help = "Number of threads (default: 0, one per processor)"},                            \
  PZ_IMPORT_OPTIONS(T, F.import),                                                                        \
  {.name = "exhaustive", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.exhaustive),                    \
   .help = "Evaluate every chip instead of excluding chips by bounds: same result, much slower"},        \
  {.name = "pareto", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.pareto),                            \
   .help = "Also report the Pareto front of throughput, area and peak watts, of a space that can be listed"}, \
  {.name = "pareto-tolerance", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.pareto_tolerance),        \
   .arg = "PERCENT", .min = 0, .max = 100,                                                               \
   .help = "With --pareto: omit chips within this tolerance of one that is shown; 0 shows the whole "    \
           "front (default 1)"},                                                                         \
  {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.dir), .arg = "DIR",  \
   .help = "Save the run in DIR; resumes an interrupted run, prints a finished one without searching"},  \
  {.name = "fresh", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.fresh),                              \
   .help = "With --output: start over; an earlier run is renamed to DIR/run-N.sqlite"},                  \
  {.name = "no-report", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.no_report),                      \
   .help = "With --output: do not write DIR/report.html"}
/* clang-format on */

/* Returns an error message if options of one evaluator were given to the other one, or if options cannot be combined;
 * otherwise NULL.  `s` is a member of the command's settings. */
const char *pz_study_misuse(struct pz_call *call, const struct pz_command *c, const void *settings,
                            const struct pz_study_settings *s);

/* Returns the options of a study of these models. */
struct pz_study_options pz_study_options_of(struct pz_call *call, const struct pz_study_settings *s,
                                            char **models, int n_models);

#endif
