/* phaze predict: its settings, and the functions of its files predict_*.c, some of which `phaze place`, `tune` and `diff`
 * use too: printing a prediction, what a whole run costs, the trace of a pipeline and the page of a plan. */
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
  struct pz_machine_options machine; /* this field and those below: not with --runs */
  struct pz_plan plan;               /* fields that are not given are unset */
  bool explain;
  const char *trace, *report;
  int emit;           /* index into pz_launch_names */
  const char *tokens; /* NULL: the cost of a run is not asked for */
  double price, mtbf_hours, checkpoint_s, restart_s;
};

/* The prediction of one plan, and what it was made for. */
struct pz_predicted {
  const struct pz_predict_settings *s;
  const char *model;
  const struct pz_machine *machine;
  const struct pz_training_run *run;
  struct pz_run_cost cost; /* with s->tokens */
};

/* ---- the prediction as text (predict_print.c) ----------------------------------------------- */

void pz_predict_print(struct pz_call *call, const struct pz_predicted *predicted);

/* Prints which memory is too small, for a plan that does not fit. */
void pz_predict_print_misfit(const struct pz_predicted *predicted);

/* Prints the memory that the allocator reserves, its upper limit, and the memory of the device, to the end of the line. */
void pz_predict_print_reserved(const struct pz_training_run *r);

/* Returns the number of decimals with which seconds of a step have four digits. */
int pz_predict_decimals(double step_s);

void pz_predict_print_batch(const struct pz_training_run *r);
void pz_predict_print_rates(const struct pz_training_run *r);
void pz_predict_print_expected(const struct pz_expectation *e, double step_s);
void pz_predict_print_parts(struct pz_call *call, const struct pz_prediction *p);
void pz_predict_print_memory(struct pz_call *call, const struct pz_training_run *r);

/* Returns changes with which a plan fits that does not fit as it is, as JSON.  The value belongs to the call. */
json_t *pz_predict_changes_json(struct pz_call *call, const struct pz_predicted *predicted);

/* ---- the cost of a run (predict_cost.c) ----------------------------------------------------- */

/* Parses a number of tokens, "15T" is 15e12, and a deadline in seconds, "30d" or "36h". */
double pz_parse_tokens(struct pz_call *call, const char *text);
double pz_parse_deadline(struct pz_call *call, const char *text);

/* Returns the cost of a run over predicted->s->tokens. */
struct pz_run_cost pz_predict_cost(struct pz_call *call, const struct pz_predicted *predicted);
void pz_predict_print_cost(struct pz_call *call, const struct pz_predicted *predicted,
                           const struct pz_run_cost *c);

/* ---- files and tables of runs ---------------------------------------------------------------- */

/* Writes the pipeline of a run as a trace, and plans as an HTML page. */
void pz_predict_write_trace(struct pz_call *call, const struct pz_training_run *r,
                            const char *model, const char *path);
void pz_predict_write_page(struct pz_call *call, const char *path, const char *model,
                           const struct pz_machine *m, const struct pz_scaling *s);

/* Predicts every run of the table s->runs. */
void pz_predict_runs(struct pz_call *call, const struct pz_predict_settings *s);

#endif
