/* Options of the commands that search: design space, cluster, choices to search, objective. */
#ifndef PZ_CLI_STUDY_OPTIONS_H
#define PZ_CLI_STUDY_OPTIONS_H

#include "cli/command.h"
#include "cli/workload_options.h"

struct pz_study_settings {
  const char *space, *budget, *cluster;
  const char *mbs, *hbm, *tp, *weights; /* lists; NULL: the default */
  int64_t devices, batch, seq, steps, threads;
  struct pz_workload_options import; /* what concerns ONNX files alone */
  int objective, optimizer;
  bool exhaustive, pareto, boxes;
  double pareto_tolerance; /* percent */
  const char *dir;         /* where the run is kept; NULL: nowhere */
  bool fresh, no_report;
};

enum { PZ_PARETO_TOLERANCE = 1 }; /* percent */
#define PZ_STUDY_SETTINGS_DEFAULT                                                                  \
  {                                                                                                \
    .space = "paper", .cluster = "paper", .devices = 1024, .batch = 4096, .steps = PZ_LAYER_STEPS, \
    .pareto_tolerance = PZ_PARETO_TOLERANCE                                                        \
  }
extern const char *const pz_optimizer_names[]; /* ends with NULL */

/* clang-format off */
/* T: the settings struct; F: its field of type struct pz_study_settings. */
#define PZ_STUDY_OPTIONS(T, F)                                                                           \
  {.name = "space", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.space), .arg = "SPACE",              \
   .help = "Design space: a name listed by 'phaze spaces', or a space.json file (default: paper)"},      \
  {.name = "budget", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.budget), .arg = "CHIP|MM2",         \
   .help = "Area limit: that of a chip of the space's technology, or mm2 (default: the area of the space's base chip)"}, \
  {.name = "cluster", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.cluster), .arg = "NET",            \
   .help = "Network: a cluster listed by 'phaze chips', or a cluster.json file (default: paper)"},       \
  {.name = "devices", .type = PZ_OPTION_INT, .offset = offsetof(T, F.devices), .arg = "N", .min = 1,     \
   .max = 1 << 30, .help = "Number of devices (chips)"},                                                 \
  {.name = "batch", .type = PZ_OPTION_INT, .offset = offsetof(T, F.batch), .arg = "B", .min = 1,         \
   .max = 1 << 30, .help = "Global batch size (samples)"},                                               \
  {.name = "seq", .type = PZ_OPTION_INT, .offset = offsetof(T, F.seq), .arg = "S", .min = 1,             \
   .max = 1 << 24, .help = "Sequence length, tokens per sample (default: each model's, at most 8192)"},  \
  {.name = "mbs", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.mbs), .arg = "LIST",                   \
   .help = "Microbatch sizes to search (samples), comma-separated (default: 1,2,4,8,16,32)"},            \
  {.name = "hbm", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.hbm), .arg = "LIST",                   \
   .help = "HBM capacities per chip to search (GiB), comma-separated (default: 32,64,80)"},              \
  {.name = "tp", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.tp), .arg = "LIST",                     \
   .help = "Tensor-parallel degrees to search, comma-separated (default: 1,2,4,8)"},                     \
  {.name = "objective", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.objective),                    \
   .choices = pz_objective_names, .help = "What to maximise, see above"},                                \
  {.name = "weights", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.weights), .arg = "LIST",           \
   .help = "With --objective weighted: one weight above 0 per model, comma-separated"},                  \
  {.name = "optimizer", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.optimizer),                    \
   .choices = pz_optimizer_names,                                                                        \
   .help = "Optimizer. Weights, gradients and optimizer state take 3 times (adam) or 2 times (sgd) the " \
           "bytes of the weights"},                                                                      \
  {.name = "steps", .type = PZ_OPTION_INT, .offset = offsetof(T, F.steps), .arg = "N", .min = 1,         \
   .max = 1e15, .help = "Effort limit per layer schedule, in solver steps"},                             \
  {.name = "threads", .type = PZ_OPTION_INT, .offset = offsetof(T, F.threads), .arg = "T", .min = 0,     \
   .max = 1024, .help = "Number of threads (default: 0, one per processor)"},                            \
  PZ_IMPORT_OPTIONS(T, F.import),                                                                        \
  {.name = "exhaustive", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.exhaustive),                    \
   .help = "Evaluate every chip instead of excluding chips by bounds: same result, much slower"},        \
  {.name = "pareto", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.pareto),                            \
   .help = "Also report the Pareto front of throughput, area and peak watts"},                           \
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

/* Models and settings into options. */
PZ_NODISCARD enum pz_status pz_study_read(const struct pz_study_settings *s, char **models,
                                          int n_models, struct pz_study_options *out,
                                          struct pz_error *err);

#endif
