/* phaze predict: its settings, and the parts of the command that stand in files of their own. */
#ifndef PZ_CLI_PREDICT_OPTIONS_H
#define PZ_CLI_PREDICT_OPTIONS_H

#include "cli/machine_options.h"
#include "core/arena.h"

enum { PZ_TUNE_MOST_SETS = 32 }; /* --set and --ignore of commands that read launch scripts */

struct pz_predict_settings {
  struct pz_common common;
  const char *runs, *csv;
  bool no_network;
  int64_t threads;
  struct pz_machine_options machine; /* from here on: of one plan */
  struct pz_plan plan;               /* unset: not given */
  bool explain;
  const char *trace, *report;
  int emit;           /* of pz_launch_names */
  const char *tokens; /* NULL: the cost of a run is not asked for */
  double price, mtbf_hours, checkpoint_s, restart_s;
};

/* A prediction and what it is of. */
struct pz_predicted {
  const struct pz_predict_settings *s;
  const char *model;
  struct pz_machine machine;
  struct pz_training_run *run;
  struct pz_run_cost cost; /* with s->tokens */
};

/* The prediction as tables. */
PZ_NODISCARD enum pz_status pz_predict_print(const struct pz_predicted *x, struct pz_error *err);
void pz_predict_print_misfit(const struct pz_predicted *x); /* of a plan that does not fit */
/* What the allocator reserves, at most, and what the device offers: a line without its beginning. */
void pz_predict_print_reserved(const struct pz_training_run *r);

/* Parts of them, which other commands print too: rates and MFU, the expected error, the parts of a
 * step, memory by stage. */
int pz_predict_decimals(double step_s); /* behind the point, so that the step has four digits */
void pz_predict_print_rates(const struct pz_training_run *r);
void pz_predict_print_expected(const struct pz_expectation *e, double step_s);
PZ_NODISCARD enum pz_status pz_predict_print_parts(const struct pz_prediction *p,
                                                   struct pz_arena *arena);
PZ_NODISCARD enum pz_status pz_predict_print_memory(const struct pz_training_run *r,
                                                    struct pz_arena *arena);

/* For a plan that does not fit: what would, as JSON; a new reference. */
PZ_NODISCARD enum pz_status pz_predict_changes_json(const struct pz_predicted *x, json_t **out,
                                                    struct pz_error *err);

/* "15T" as 15e12; "30d" or "36h" as seconds. */
PZ_NODISCARD enum pz_status pz_read_tokens(const char *text, double *out, struct pz_error *err);
PZ_NODISCARD enum pz_status pz_read_deadline(const char *text, double *out, struct pz_error *err);

/* What a run over the tokens costs, and that as a table. */
PZ_NODISCARD enum pz_status pz_predict_cost(const struct pz_predicted *x, struct pz_run_cost *out,
                                            struct pz_error *err);
PZ_NODISCARD enum pz_status pz_predict_print_cost(const struct pz_predicted *x,
                                                  const struct pz_run_cost *c,
                                                  struct pz_arena *arena);

/* Where every field of the plan comes from, and the constants that count; as tables and as JSON, a new reference. */
PZ_NODISCARD enum pz_status pz_predict_explain(const struct pz_predicted *x,
                                               const struct pz_explanation *e);
json_t *pz_predict_explain_json(const struct pz_explanation *e);

/* The pipeline of a run as a file, and plans as a page. */
PZ_NODISCARD enum pz_status pz_predict_write_trace(const struct pz_training_run *r,
                                                   const char *model, const char *path,
                                                   struct pz_error *err);
PZ_NODISCARD enum pz_status pz_predict_write_page(const char *path, const char *model,
                                                  const struct pz_machine *m,
                                                  const struct pz_scaling *s, struct pz_error *err);

/* Every run of a table. */
PZ_NODISCARD enum pz_status pz_predict_runs(const struct pz_predict_settings *s,
                                            struct pz_error *err);

#endif
