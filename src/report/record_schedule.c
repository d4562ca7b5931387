/* Records of `phaze schedule`: the schedule of one pass of a layer or of an instance, and the
 * schedules of a model or of a training plan. */
#include "report/records.h"

#include "plan/plan_fields.h"
#include "report/schedule_table.h"

static const char *const stop_names[] = {"proved", "steps", "time", NULL};
static const char *const direction_names[] = {"forward", "backward", NULL};

/* ---- operators ------------------------------------------------------------------------------ */

#define OPERATOR struct pz_scheduled_operator
static json_t *write_class(const void *member) {
  return json_string(pz_op_class_name(*(const enum pz_op_class *)member));
}
PZ_CODEC(class, "text", NULL);
static const struct pz_field core_fields[] = {
    PZ_ROW_AS(OPERATOR, tensor_held, PZ_FIELD_INT, "tensor", NULL, "Tensor cores"),
    PZ_ROW_AS(OPERATOR, vector_held, PZ_FIELD_INT, "vector", NULL, "Vector cores"),
};
static const struct pz_record core_record = PZ_RECORD(core_fields, OPERATOR);
static const struct pz_field operator_fields[] = {
    PZ_ROW(OPERATOR, id, PZ_FIELD_INT, NULL, "Number of the operator in its layer or file"),
    PZ_ROW(OPERATOR, name, PZ_FIELD_TEXT, NULL, "Operator"),
    PZ_ROW_BY(OPERATOR, op_class, "class", &class_codec, "Units that run it"),
    PZ_ROW(OPERATOR, mode, PZ_FIELD_TEXT, NULL, "Number of cores, or single, intra, link, none"),
    PZ_ROW_AS(OPERATOR, start_s, PZ_FIELD_REAL, "start", "s", "Start"),
    PZ_ROW_AS(OPERATOR, end_s, PZ_FIELD_REAL, "end", "s", "End"),
    PZ_ROW_PART("cores", &core_record, "Cores that it occupies, idle ones included"),
};
static const struct pz_record operator_record = PZ_RECORD(operator_fields, OPERATOR);

/* ---- techniques of the solver --------------------------------------------------------------- */

#define TECHNIQUE struct pz_technique_count
static const struct pz_field technique_fields[] = {
    PZ_ROW(TECHNIQUE, calls, PZ_FIELD_INT, NULL, "Calls"),
    PZ_ROW(TECHNIQUE, steps, PZ_FIELD_INT, NULL, "Steps of the solver"),
    PZ_ROW(TECHNIQUE, prunes, PZ_FIELD_INT, NULL, "Nodes, starts or modes that it excluded"),
    PZ_ROW(TECHNIQUE, incumbents, PZ_FIELD_INT, NULL, "Best schedules that it found"),
    PZ_ROW_AS(TECHNIQUE, raised, PZ_FIELD_REAL, "bound_raised", "s",
              "Sum by which it raised the lower bound"),
};
static const struct pz_record technique_record = PZ_RECORD(technique_fields, TECHNIQUE);

/* ---- one schedule --------------------------------------------------------------------------- */

#define SCHEDULE struct pz_layer_schedule
#define SOLVED struct pz_solved_schedule

/* The fields of a schedule that only layers of a model have, not problem files (--instance). */
static const struct pz_field layer_fields[] = {
    PZ_ROW(SCHEDULE, layer, PZ_FIELD_TEXT, NULL, "Layer"),
    PZ_ROW(SCHEDULE, count, PZ_FIELD_INT, NULL, "Times that the model has it"),
    PZ_ROW_NAMED(SCHEDULE, direction, "direction", direction_names, "forward or backward"),
};
static const struct pz_record layer_record = PZ_RECORD(layer_fields, SCHEDULE);

/* Returns an object with the utilisation of every resource, null if the problem does not use it. */
static json_t *write_use(const void *member) {
  static const char *const keys[PZ_RESOURCES] = {"tensor", "vector", "link", "hbm", "glb", "power"};
  const SCHEDULE *schedule = member;
  json_t *object = json_object();
  for (int i = 0; i < PZ_RESOURCES; i++)
    json_object_set_new(object, keys[i],
                        schedule->limits[i] ? json_real(schedule->use[i]) : json_null());
  return object;
}

/* Returns an object with the counters of every technique of the solver that did anything. */
static json_t *write_statistics(const void *member) {
  const SCHEDULE *schedule = member;
  json_t *object = json_object();
  for (uint32_t i = 0; i < schedule->n_techniques; i++) {
    const TECHNIQUE *count = &schedule->techniques[i];
    bool any =
        count->calls || count->steps || count->prunes || count->incumbents || count->raised > 0;
    if (any) json_object_set_new(object, count->name, pz_record_json(&technique_record, count));
  }
  return object;
}
PZ_CODEC(use, "object, resource to number", NULL);
PZ_CODEC(statistics, "object, technique to object", &technique_record);

#define OF_SCHEDULE(f, t, key, unit, ...)                                                          \
  PZ_ROW_VIA(SOLVED, schedule, SCHEDULE, f, t, key, unit, __VA_ARGS__)
/* Row for a value that the codec `c` writes from the schedule. */
#define MADE(name, c, ...)                                                                         \
  {                                                                                                \
    .key = (name), .type = PZ_FIELD_CUSTOM, .via = true, .via_offset = offsetof(SOLVED, schedule), \
    .codec = (c), .meaning = __VA_ARGS__                                                           \
  }
static const struct pz_field solved_fields[] = {
    PZ_ROW_FLAT(SOLVED, layer, &layer_record),
    OF_SCHEDULE(makespan_s, PZ_FIELD_REAL, "makespan", "s", "Makespan, in the unit of an instance"),
    OF_SCHEDULE(lower_bound_s, PZ_FIELD_REAL, "lower_bound", "s", "Proven lower bound of it"),
    PZ_ROW(SOLVED, gap, PZ_FIELD_REAL, "ratio", "(makespan - lower_bound) / makespan"),
    PZ_ROW(SOLVED, outcome, PZ_FIELD_TEXT, NULL, "optimal or feasible"),
    OF_SCHEDULE(stop, PZ_FIELD_ENUM, "stop", NULL, "Why the solver stopped: proved, steps or time",
                .names = stop_names),
    OF_SCHEDULE(steps, PZ_FIELD_INT, "steps", NULL, "Steps of the solver"),
    PZ_ROW_AS(SOLVED, solving_s, PZ_FIELD_REAL_OR_NULL, "seconds", "s",
              "Time of the solver; null: not measured"),
    OF_SCHEDULE(serial_s, PZ_FIELD_REAL, "serial", "s", "Operators one after another"),
    MADE("utilisation", &use_codec, "Share of the makespan in which each resource is busy"),
    MADE("statistics", &statistics_codec, "Techniques of the solver"),
    OF_SCHEDULE(operators, PZ_FIELD_LIST, "ops", NULL, "Operators", .record = &operator_record,
                .count_offset = offsetof(SCHEDULE, n_operators)),
};
const struct pz_record pz_solved_schedule_record = PZ_RECORD(solved_fields, SOLVED);

/* ---- the schedules of a model --------------------------------------------------------------- */

#define ANSWER struct pz_schedule_answer
static json_t *write_plan(const void *member) { return pz_plan_json(member); }
PZ_CODEC(plan, "object, plan", NULL);

#define PLAN struct pz_scheduled_plan
#define OF_PASSES(f, t, ...)                                                                       \
  PZ_ROW_VIA(PLAN, passes, struct pz_plan_schedules, f, t, #f, NULL, __VA_ARGS__)
static const struct pz_field plan_fields[] = {
    PZ_ROW(PLAN, cluster, PZ_FIELD_TEXT_OR_NULL, NULL, "Network; null: the chip's own link"),
    OF_PASSES(plan, PZ_FIELD_CUSTOM, "Fields of the plan", .codec = &plan_codec),
    OF_PASSES(microbatches, PZ_FIELD_INT, "Runs of each pass in a step"),
};
static const struct pz_record plan_record = PZ_RECORD(plan_fields, PLAN);

#define TOTALS struct pz_schedule_totals
static const struct pz_field total_fields[] = {
    PZ_ROW(TOTALS, forward_s, PZ_FIELD_REAL, "s", "Forward passes"),
    PZ_ROW(TOTALS, backward_s, PZ_FIELD_REAL, "s", "Backward passes"),
};
static const struct pz_record total_record = PZ_RECORD(total_fields, TOTALS);

static const struct pz_field answer_fields[] = {
    PZ_ROW(ANSWER, model, PZ_FIELD_TEXT, NULL, "Model"),
    PZ_ROW(ANSWER, chip, PZ_FIELD_TEXT, NULL, "Chip"),
    PZ_ROW_FLAT(ANSWER, plan, &plan_record),
    PZ_ROW(ANSWER, modes, PZ_FIELD_TEXT_OR_NULL, NULL, "Modes of operators (--modes)",
           .omitted = PZ_OMITTED_IF_NULL),
    PZ_ROW(ANSWER, exclusive, PZ_FIELD_TEXT_OR_NULL, NULL,
           "What an operator on all cores excludes (--exclusive)", .omitted = PZ_OMITTED_IF_NULL),
    PZ_ROW_MANY(ANSWER, layers, n_layers, PZ_FIELD_LIST, "layers", &pz_solved_schedule_record,
                "Schedules of the layers"),
    PZ_ROW_IN(ANSWER, totals, PZ_FIELD_OPTIONAL, "totals", &total_record,
              "Sums over all layers of the model", .omitted = PZ_OMITTED_IF_NULL),
};
const struct pz_record pz_schedule_answer_record = PZ_RECORD(answer_fields, ANSWER);
