/* A finished search as a plain struct: what was asked, the best chips with their plans and
 * certificates, and where asked for the other ways to choose, and the details that a report shows.
 * Tables, JSON, pages and run files are made from it; nothing in it depends on the clock except
 * `seconds`.  All memory is the result's own. */
#ifndef PZ_STUDY_RESULT_H
#define PZ_STUDY_RESULT_H

#include "chip/chip.h"
#include "place/plan.h"
#include "schedule/problem.h"
#include "store/run_file.h"
#include "study/study.h"

/* ---- what was asked ------------------------------------------------------------------------- */

struct pz_result_input_model {
  const char *name;
  int64_t seq;        /* tokens per sample */
  const char *digest; /* of the graphs that were built */
};

struct pz_result_inputs {
  struct pz_study_options options; /* texts are the result's */
  struct pz_result_input_model models[PZ_SEARCH_MOST_MODELS];
  const char *space_name, *space_about, *cluster_name, *cluster_about;
  double budget_um2, base_um2; /* area budget; area of the space's base chip */
  const char *json;            /* all of it, as run files keep it */
};

/* ---- the best chips ------------------------------------------------------------------------- */

/* Throughputs over the reference's in few numbers: a mean may rest on one model. */
struct pz_ratios {
  uint32_t n_models; /* that have a reference; below 2 there are no ratios */
  double geometric_mean, median;
  const char *least_model, *most_model; /* of equals the first */
  double least, most;
};

/* A model on the best chip. */
struct pz_answer_model {
  const char *model;
  double samples_per_s;
  double ratio; /* to the reference's throughput; NaN: there is none */
  struct pz_model_plan plan;
};

/* Why no chip of the space is better. */
struct pz_certificate {
  uint32_t n_chips, n_evaluated, n_excluded;
  uint32_t n_excluded_by_schedules; /* of those: after some models had been scheduled */
  uint32_t n_open;                  /* schedules not proven optimal ... */
  double gap; /* ... so that another chip may be better by this part at most */
};

/* The best chip by one objective: of a model alone, or of all models. */
struct pz_answer {
  const char *name; /* the model's, or "common" */
  struct pz_chip chip;
  uint32_t chip_id;                                /* in the space's full grid */
  double hbm_gib, area_mm2, area_part, peak_watts; /* part: of the area budget */
  double objective;
  struct pz_answer_model *models;
  uint32_t n_models;
  struct pz_ratios ratios;
  struct pz_certificate certificate;
  const struct pz_chip_status *status; /* by chip of the result; NULL: not read */
};

/* A plan in few words. */
struct pz_reference_plan {
  int64_t n_stages, data_parallel, tensor_parallel, microbatch;
  bool recompute;
};

/* What a model does on the reference chip. */
struct pz_result_reference {
  const char *model;
  double samples_per_s, hbm_gib;        /* 0: nothing fits */
  bool expert;                          /* by an expert's plan; else the best one */
  const struct pz_reference_plan *plan; /* the expert's; else NULL */
};

struct pz_result_chip_summary {
  const char *name;
  double area_mm2, peak_watts;
};

/* One step from the best chip on one axis. */
struct pz_result_step {
  const char *parameter;
  int64_t from, to;
  double objective, change, change_at_most; /* changes are parts of the best chip's objective */
  double area_mm2;
  bool within_budget, over_budget;
};

struct pz_result_front_chip {
  const char *chip;
  double objective, area_mm2, peak_watts;
  bool knee;
};

struct pz_result_front {
  struct pz_result_front_chip *points; /* by area */
  uint32_t n_points;
  double tolerance;       /* each chip of the front is within this part of one shown */
  uint32_t n_front_chips; /* of the whole front */
  uint32_t n_evaluated;
};

/* ---- other ways to choose ------------------------------------------------------------------- */

struct pz_method_model {
  const char *model;
  double samples_per_s;
  double ratio; /* NaN: there is no reference */
  bool expert_plan;
};

/* The method that is the search itself. */
#define PZ_METHOD_SEARCH "search"

/* What one way of choosing a chip came to. */
struct pz_method_result {
  const char *name, *about;
  const char *chip; /* NULL: it has no answer */
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
  double hbm_gib, area_mm2, area_part, objective;
  struct pz_ratios ratios;
  struct pz_method_model *models;
  uint32_t n_models;
  uint32_t n_evaluated; /* chips it looked at */
  double seconds;       /* it took; 0: not measured, as when it was read from a run */
};

/* All of them for one objective; the last is the search. */
struct pz_comparison_run {
  const char *name; /* as the answer's */
  struct pz_method_result *methods;
  uint32_t n_methods;
};

struct pz_comparison {
  uint64_t seed;
  struct pz_comparison_run *runs;
  uint32_t n_runs;
};

/* ---- details, for reports ------------------------------------------------------------------- */

/* An evaluated chip and a model, what its step is made of, and how busy the chip's parts are while
 * the repeated layer runs. */
struct pz_chip_plan {
  uint32_t chip_id, model;
  double samples_per_s;
  int64_t n_stages, data_parallel, tensor_parallel, microbatch;
  bool recompute;
  struct pz_step_parts parts;
  double use[PZ_RESOURCES];
};

struct pz_result_operator {
  const char *name;
  enum pz_op_class op_class;
  int64_t tensor_cores, vector_cores;
  double start_s, end_s;
};

/* A layer of a model on the common chip. */
struct pz_result_schedule {
  const char *model, *layer;
  int64_t count; /* how often the layer occurs */
  enum pz_direction direction;
  double makespan_s, lower_bound_s;
  bool optimal;
  double use[PZ_RESOURCES];
  struct pz_result_operator *operators;
  uint32_t n_operators;
};

/* An evaluated chip of an objective run, or one of the front that was asked for. */
struct pz_shown_chip {
  uint32_t answer; /* index */
  uint32_t chip_id;
  double value, bound; /* of the objective */
  bool evaluated;      /* in the objective run; else only for the front */
};

enum { PZ_MOST_SHOWN = 250 };

struct pz_result_detail {
  struct pz_shown_chip *shown; /* of each answer, the best first, at most PZ_MOST_SHOWN */
  uint32_t n_shown;
  struct pz_chip_plan *plans; /* of evaluated chips, by chip and model */
  uint32_t n_plans;
  struct pz_result_schedule *schedules;
  uint32_t n_schedules;
};

/* ---- all of it ------------------------------------------------------------------------------ */

struct pz_result {
  struct pz_result_inputs inputs;
  struct pz_answer *answers; /* one a model, then the common one; one alone for one model */
  uint32_t n_answers;
  struct pz_result_reference *references; /* one a model */
  uint32_t n_references;
  struct pz_result_chip_summary reference_chip;
  struct pz_result_step *sensitivity;
  uint32_t n_sensitivity;
  struct pz_result_front *front;      /* NULL: not asked for */
  struct pz_comparison *comparison;   /* NULL: not made */
  struct pz_result_detail *detail;    /* NULL: not made */
  const struct pz_result_chip *chips; /* with the detail: of the space, by id */
  uint32_t n_chips;
  struct pz_arena arena;
};

/* The chip of the space with this id, or NULL. */
const struct pz_result_chip *pz_result_chip(const struct pz_result *r, uint32_t id);

/* Zeroed, with an arena of its own. */
void pz_result_init(struct pz_result *r);
/* Accepts a zeroed one. */
void pz_result_release(struct pz_result *r);

/* The last answer: of all models, or of the one. */
static inline const struct pz_answer *pz_result_best(const struct pz_result *r) {
  return &r->answers[r->n_answers - 1];
}

/* What was asked, from the JSON that run files keep. */
PZ_NODISCARD enum pz_status pz_result_set_inputs(struct pz_result *r, const char *json,
                                                 struct pz_error *err);

/* The result of a study whose objective runs are done: sensitivity and front are computed, every
 * plan is made again and checked.  The result is initialised and empty. */
PZ_NODISCARD enum pz_status pz_result_make(struct pz_result *r, struct pz_study *s,
                                           struct pz_error *err);

/* The summary of throughput ratios; those that are not above 0 do not count. */
struct pz_ratios pz_ratios_of(const double *ratios, const char *const *models, uint32_t n);

#endif
