/* Options of the commands that search: the space, the machines, what is to be chosen. */
#ifndef PZ_CLI_STUDY_OPTIONS_H
#define PZ_CLI_STUDY_OPTIONS_H

#include "cli/command.h"
#include "cli/workload_options.h"
#include "search/study.h"

struct pz_study_settings {
  const char *space, *budget, *cluster;
  const char *mbs, *hbm, *tp, *weights; /* lists; NULL: the default */
  int64_t devices, batch, seq, steps, threads;
  struct pz_workload_options import; /* what concerns ONNX files alone */
  int objective, optimizer;
  bool exhaustive, pareto;
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
   .help = "A name that 'phaze spaces' lists, or a space.json"},                                         \
  {.name = "budget", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.budget), .arg = "CHIP|MM2",         \
   .help = "Area that a chip may have: that of a chip, or mm2 (default: the space's base chip)"},        \
  {.name = "cluster", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.cluster), .arg = "NET",            \
   .help = "Network: paper, tpuv4-pod, dgx-..., or a cluster.json"},                                     \
  {.name = "devices", .type = PZ_OPTION_INT, .offset = offsetof(T, F.devices), .arg = "N", .min = 1,     \
   .max = 1 << 30, .help = "Chips there are"},                                                           \
  {.name = "batch", .type = PZ_OPTION_INT, .offset = offsetof(T, F.batch), .arg = "B", .min = 1,         \
   .max = 1 << 30, .help = "Samples of a batch"},                                                        \
  {.name = "seq", .type = PZ_OPTION_INT, .offset = offsetof(T, F.seq), .arg = "S", .min = 1,             \
   .max = 1 << 24, .help = "Tokens per sample (default: each model's, at most 8192)"},                   \
  {.name = "mbs", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.mbs), .arg = "LIST",                   \
   .help = "Samples of a microbatch to choose from (default: 1,2,4,8,16,32)"},                           \
  {.name = "hbm", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.hbm), .arg = "LIST",                   \
   .help = "Memory of a chip to choose from, GiB (default: 32,64,80)"},                                  \
  {.name = "tp", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.tp), .arg = "LIST",                     \
   .help = "Tensor-parallel widths to choose from (default: 1,2,4,8)"},                                  \
  {.name = "objective", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.objective),                    \
   .choices = pz_objective_names, .help = "What is best; see below"},                                    \
  {.name = "weights", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.weights), .arg = "LIST",           \
   .help = "With --objective weighted: one number for each model, with commas"},                         \
  {.name = "optimizer", .type = PZ_OPTION_CHOICE, .offset = offsetof(T, F.optimizer),                    \
   .choices = pz_optimizer_names, .help = "What is held for each parameter: 3 times its bytes, or 2"},   \
  {.name = "steps", .type = PZ_OPTION_INT, .offset = offsetof(T, F.steps), .arg = "N", .min = 1,         \
   .max = 1e15, .help = "Effort for a schedule that decides"},                                           \
  {.name = "threads", .type = PZ_OPTION_INT, .offset = offsetof(T, F.threads), .arg = "T", .min = 0,     \
   .max = 1024, .help = "Threads; 0: as many as there are processors"},                                  \
  PZ_IMPORT_OPTIONS(T, F.import),                                                                        \
  {.name = "exhaustive", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.exhaustive),                    \
   .help = "Evaluate every chip instead of excluding by bounds: the same answer, much later"},           \
  {.name = "pareto", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.pareto),                            \
   .help = "Also the front of throughput against area and watts"},                                       \
  {.name = "pareto-tolerance", .type = PZ_OPTION_REAL, .offset = offsetof(T, F.pareto_tolerance),        \
   .arg = "PERCENT", .min = 0, .max = 100,                                                               \
   .help = "With --pareto: leave out chips within this of one shown; 0: none (default 1)"},              \
  {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.dir), .arg = "DIR",  \
   .help = "Keep the run there: go on with one that was interrupted, answer from one that has finished"},\
  {.name = "fresh", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.fresh),                              \
   .help = "With --output: begin anew; an earlier run is moved aside"},                                  \
  {.name = "no-report", .type = PZ_OPTION_FLAG, .offset = offsetof(T, F.no_report),                      \
   .help = "With --output: do not write DIR/report.html, the run as a page to look at"}
/* clang-format on */

/* Models and settings into options. */
PZ_NODISCARD enum pz_status pz_study_read(const struct pz_study_settings *s, char **models,
                                          int n_models, struct pz_study_options *out,
                                          struct pz_error *err);

#endif
