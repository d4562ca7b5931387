/* phaze schedule: the best order and modes of operators on a chip's cores, for an instance file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "core/file.h"
#include "core/progress.h"
#include "report/table.h"
#include "schedule/instance.h"
#include "schedule/solve.h"

struct settings {
  struct pz_common common;
  const char *instance;
  int exclusive;
  int64_t steps;
};

static const struct settings defaults;
static const char *const exclusive_names[] = {"all", "class", NULL};
static const char *const outcome_names[] = {"optimal", "feasible"};
static const char *const stop_names[] = {"proved", "steps"};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "instance", .type = PZ_OPTION_TEXT, .offset = AT(instance), .arg = "FILE.json",
     .help = "The problem: num_tc, num_vc, ops with latency and intra_op_latency, edges"},
    {.name = "exclusive", .type = PZ_OPTION_CHOICE, .offset = AT(exclusive), .choices = exclusive_names,
     .help = "What an operator on all cores of its class excludes: everything, or its class"},
    {.name = "steps", .type = PZ_OPTION_INT, .offset = AT(steps), .arg = "N", .min = 1, .max = 1e15,
     .help = "Limit of effort; the same number gives the same answer (default: 20 million)"},
};
/* clang-format on */

static double gap(const struct pz_schedule *s) {
  return s->makespan > 0 ? (s->makespan - s->lower_bound) / s->makespan : 0;
}

static json_t *op_json(const struct pz_task *t, const struct pz_slot *slot) {
  const struct pz_mode *m = &t->modes[slot->mode];
  char buf[16];
  return json_pack("{s:I,s:s,s:f,s:f,s:{s:i,s:i}}", "id", (json_int_t)t->id, "mode",
                   pz_mode_name(m, buf), "start", slot->start, "end", slot->end, "cores",
                   "tensor", (int)m->use[PZ_TENSOR_CORES], "vector", (int)m->use[PZ_VECTOR_CORES]);
}

static json_t *schedule_json(const struct pz_problem *p, const struct pz_schedule *s,
                             double seconds) {
  json_t *ops = json_array();
  for (uint32_t i = 0; i < p->n; i++)
    json_array_append_new(ops, op_json(&p->tasks[i], &s->slots[i]));
  return json_pack("{s:f,s:f,s:f,s:s,s:s,s:I,s:f,s:o}", "makespan", s->makespan, "lower_bound",
                   s->lower_bound, "gap", gap(s), "outcome", outcome_names[s->outcome], "stop",
                   stop_names[s->stop], "steps", (json_int_t)s->steps, "seconds", seconds, "ops",
                   ops);
}

/* A bar for each operator, by start. */
static const char *bar(const struct pz_slot *slot, double makespan, char *buf) {
  enum { WIDTH = 60 };
  int from = makespan > 0 ? (int)(slot->start / makespan * WIDTH) : 0;
  int to = makespan > 0 ? (int)(slot->end / makespan * WIDTH + 0.5) : 0;
  memset(buf, ' ', WIDTH);
  buf[to > from + 1 ? to : from + 1] = '\0';
  memset(buf + from, slot->end > slot->start ? '=' : '|', (size_t)(to > from ? to - from : 1));
  return buf;
}

static enum pz_status print_schedule(const struct pz_problem *p, const struct pz_schedule *s,
                                     struct pz_arena *arena) {
  static const char *const heads[] = {">op", "mode", ">start", ">end", "", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_slot *slot = &s->slots[i];
    char buf[64], name[16];
    pz_table_cell(&t, "%s", p->tasks[i].name);
    pz_table_cell(&t, "%s", pz_mode_name(&p->tasks[i].modes[slot->mode], name));
    pz_table_cell(&t, "%.9g", slot->start);
    pz_table_cell(&t, "%.9g", slot->end);
    pz_table_cell(&t, "%s", bar(slot, s->makespan, buf));
  }
  printf("makespan %.9g, %s", s->makespan, outcome_names[s->outcome]);
  if (s->outcome != PZ_OUTCOME_OPTIMAL)
    printf(": at most %.2f%% from the best (bound %.9g)", 100 * gap(s), s->lower_bound);
  printf("; %" PRId64 " steps\n\n", s->steps);
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status solve(const struct settings *s, struct pz_arena *arena,
                            struct pz_error *err) {
  struct pz_problem p;
  struct pz_schedule schedule;
  struct pz_solve_options o = {.steps = s->steps};
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_file_read(s->instance, PZ_INSTANCE_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK)
    status = pz_instance_parse(s->instance, text, bytes, (enum pz_exclusive)s->exclusive, arena, &p,
                               err);
  free(text);
  double start = pz_clock_s();
  if (status == PZ_OK) status = pz_schedule_solve(&p, &o, arena, &schedule, err);
  if (status != PZ_OK) return status;
  if (s->common.json)
    return pz_command_json(schedule_json(&p, &schedule, pz_clock_s() - start), err);
  return print_schedule(&p, &schedule, arena);
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_error err = {0};
  struct pz_arena arena;
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_schedule, argc, argv, &s, &n_args, &code)) return code;
  if (n_args || !s.instance)
    return pz_command_misuse(&pz_cmd_schedule, "wants --instance FILE.json");
  pz_arena_init(&arena, NULL);
  enum pz_status status = solve(&s, &arena, &err);
  pz_arena_release(&arena);
  return status == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

const struct pz_command pz_cmd_schedule = {
    .name = "schedule",
    .synopsis = "--instance FILE.json [--exclusive all|class] [--steps N] [--json]",
    .summary = "Find the shortest schedule of operators on a chip's cores, and prove it",
    .detail = "An instance is {num_tc, num_vc, ops: [{id, type: TC|VC|TCandVC|Nop, latency, "
              "intra_op_latency}],\n"
              "edges: [[before, after]]}: every operator runs on one core of its type, or on all "
              "of them.\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
