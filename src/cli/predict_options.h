/* phaze predict: its settings, and the functions of its files predict_*.c, some of which `phaze
 * place`, `tune` and `diff` use too: printing a prediction, the cost of a whole run, the trace
 * of a pipeline and the page of a plan. */
#ifndef PZ_CLI_PREDICT_OPTIONS_H
#define PZ_CLI_PREDICT_OPTIONS_H

#include "cli/machine_options.h"
#include "core/arena.h"

struct pz_predict_settings {
  struct pz_common common;
  const char *runs, *csv;
  bool no_network;
  int64_t threads;
  struct pz_machine_options machine; /* the options from here on do not apply to --runs */
  struct pz_plan plan;               /* fields that are not given are unset */
  bool explain;
  const char *trace, *report;
  int emit;           /* index into pz_launch_names */
  const char *tokens; /* NULL if the cost of a run is not asked for */
  double price, mtbf_hours, checkpoint_s, restart_s;
};

/* The prediction of one plan, and what it was made for. */
struct pz_predicted {
  const struct pz_predict_settings *settings;
  const char *model;
  const struct pz_machine *machine;
  const struct pz_training_run *run;
  struct pz_run_cost cost; /* cost of a whole run, if settings->tokens is set */
};

/* ---- the prediction as text (predict_print.c) ----------------------------------------------- */

void pz_predict_print(struct pz_call *call, const struct pz_predicted *predicted);

/* Prints whether the memory of the device or that of the host is too small for the plan. */
void pz_predict_print_misfit(const struct pz_training_run *run);

/* Prints reserved memory, its upper limit and the memory of the device, and ends the line. */
void pz_predict_print_reserved(const struct pz_training_run *run);

/* Returns how many decimals a step time needs to have four digits. */
int pz_predict_decimals(double step_s);

void pz_predict_print_batch(const struct pz_training_run *run);
void pz_predict_print_rates(const struct pz_training_run *run);

/* Prints the expected range of a measured step, and the fields beyond all validated runs. */
void pz_predict_print_expected(const struct pz_expectation *expected, double step_s);

void pz_predict_print_parts(struct pz_call *call, const struct pz_prediction *prediction);

/* Prints a row for each pipeline stage; successive stages with the same memory share a row. */
void pz_predict_print_memory(struct pz_call *call, const struct pz_training_run *run);

/* Searches for changes of a plan that make it fit in memory.  The result belongs to the call. */
const struct pz_plan_changes *pz_predict_changes(struct pz_call *call,
                                                 const struct pz_predicted *predicted);

/* ---- the cost of a whole training run (predict_print.c) ------------------------------------- */

/* Parse a number of tokens, as "15T" for 15e12, and a deadline, as "36h", in seconds. */
double pz_parse_tokens(struct pz_call *call, const char *text);
double pz_parse_deadline(struct pz_call *call, const char *text);

/* Returns the cost of a run over settings->tokens tokens. */
struct pz_run_cost pz_predict_cost(struct pz_call *call, const struct pz_predict_settings *settings,
                                   const struct pz_machine *machine,
                                   const struct pz_training_run *run);

/* Prints time, device-hours, dollars and energy, without failures and with them. */
void pz_predict_print_cost(struct pz_call *call, const struct pz_predict_settings *settings,
                           const struct pz_training_run *run, const struct pz_run_cost *cost);

/* ---- files and tables of runs --------------------------------------------------------------- */

/* Writes the plans of a scaling as an HTML page, which links to explore.html in the same folder if
 * that is a page of `phaze explore`. */
void pz_predict_write_page(struct pz_call *call, const char *path, const char *model,
                           const struct pz_machine *machine, const struct pz_scaling *scaling);

/* Predicts every run of the table settings->runs. */
void pz_predict_runs(struct pz_call *call, const struct pz_predict_settings *settings);

#endif
