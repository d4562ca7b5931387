#include "cli/search_boxes.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "box/box_details.h"
#include "box/budget.h"
#include "box/certificate.h"
#include "cli/box_report.h"
#include "cli/report_file.h"
#include "core/alloc.h"
#include "core/progress.h"
#include "core/ranks.h"
#include "core/text.h"
#include "ranks/start.h"
#include "report/table.h"

const char *const pz_per_names[] = {"chip", "dollar", "watt", "ownership", "joule", NULL};

static atomic_bool stop;

static void on_signal(int sig) {
  (void)sig;
  atomic_store(&stop, true);
}

static void listen_for_signals(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  pz_ranks_watch(&stop);
}

static bool show_progress(void *ctx, const struct pz_progress_state *s) {
  struct pz_progress *p = ctx;
  pz_progress_set(p, s->done, s->total, s->note);
  if (s->ended) pz_progress_finish(p, NULL);
  return !atomic_load(&stop);
}

/* ---- options -------------------------------------------------------------------------------- */

/* "1%" or "0.01" */
static enum pz_status read_gap(const char *text, double *out, struct pz_error *err) {
  char *end;
  double v = strtod(text, &end);
  if (end != text && strcmp(end, "%") == 0) v /= 100, end++;
  if (end == text || *end || !(v >= 0 && v <= 1))
    return pz_fail(err, PZ_BAD_USE, "--gap %.40s; accepted: 0%% to 100%%", text);
  return *out = v, PZ_OK;
}

static enum pz_status read_options(const struct pz_box_call *c, struct pz_arena *arena,
                                   struct pz_box_options *o, struct pz_error *err) {
  const struct pz_box_settings *s = c->box;
  struct pz_judge_question *q = &o->question;
  for (int i = 0; i < c->n_models; i++) {
    enum pz_status status = pz_judge_add_model(q, c->models[i], arena, err);
    if (status != PZ_OK) return status;
  }
  q->devices = c->devices;
  q->batch = c->batch;
  q->seq = c->seq;
  q->scale_up = s->scale_up;
  q->outer_bytes_per_s = s->outer_gb_per_s * 1e9;
  q->objective = (enum pz_box_objective)s->per;
  o->limits = (struct pz_limits){s->limit_mm2, s->limit_watts, s->limit_dollars};
  o->rounds = s->rounds;
  o->seconds = (double)s->seconds;
  o->threads = (unsigned)c->threads;
  return read_gap(s->gap, &o->gap, err);
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void print_chip(const struct pz_box_chip *x) {
  const struct pz_chip *c = &x->chip;
  const struct pz_taken *t = &x->taken;
  printf("  tensor cores   %lld of %lldx%lld with %lld KiB, %.4g TFLOP/s at %.4g GHz\n",
         (long long)c->tensor.cores, (long long)c->tensor.rows, (long long)c->tensor.cols,
         (long long)(c->tensor.local_bytes >> 10), pz_chip_tensor_flop_per_s(c) / 1e12,
         c->clock_hz / 1e9);
  printf("  vector cores   %lld of %lld lanes\n", (long long)c->vector.cores,
         (long long)c->vector.lanes);
  printf("  global buffer  %lld MiB, %.4g TB/s\n", (long long)(c->glb_bytes >> 20),
         c->glb_bytes_per_s / 1e12);
  printf("  HBM            %lld stack%s, %.4g GiB, %.4g TB/s\n", (long long)c->hbm.stacks,
         pz_text_s((double)c->hbm.stacks), (double)pz_chip_hbm_bytes(c) / 0x1p30,
         pz_chip_hbm_bytes_per_s(c) / 1e12);
  printf("  link           %.4g GB/s\n", c->link_bytes_per_s / 1e9);
  printf("  bill           %.1f mm2, %.0f W, %.0f dollars", t->mm2, t->watts, t->dollars);
  if (t->owner_dollars > t->dollars) printf("; %.0f of ownership", t->owner_dollars);
  printf("\n\n"); /* libraries of 22 nm and above know none */
}

static enum pz_status print_models(const struct pz_judge_question *q, const struct pz_box_result *r,
                                   struct pz_arena *arena) {
  static const char *const heads[] = {"model", ">samples/s", ">reference", ">MFU", "plan", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < q->n_models; i++) {
    const struct pz_plan *p = &r->best.plans[i].plan;
    char number[32], text[PZ_JUDGE_MODEL_TEXT], plan[PZ_PLAN_TEXT_MOST];
    pz_judge_model_text(q, i, text);
    pz_table_cell(&t, "%s", text);
    pz_table_cell(&t, "%s",
                  pz_text_number(number, sizeof number, r->best.plans[i].p.samples_per_s));
    pz_table_cell(&t, "%.2fx", r->reference.steps.step_s[i] / r->best.steps.step_s[i]);
    pz_table_cell(&t, "%.0f%%", 100 * r->best.plans[i].p.mfu);
    pz_table_cell(&t, "%s", pz_plan_text(p, plan, sizeof plan));
  }
  return pz_table_print(&t, 0, stdout);
}

/* The winner beside the H100 under the same model and bill. */
static void print_reference(const struct pz_box_options *o, const struct pz_box_result *r) {
  const struct pz_taken *t = &r->reference.taken;
  printf("\nThe reference is the description of an %s at %.4g GHz: %.1f mm2, %.0f W, %.0f dollars",
         r->reference.chip.name, r->reference.chip.clock_hz / 1e9, t->mm2, t->watts, t->dollars);
  if (r->reference.chip.watts > 0) printf(" (its data sheet: %.0f W)", r->reference.chip.watts);
  if (r->reference_breaks) printf("; it breaks the limit of %s", r->reference_breaks);
  printf(".\n");
  if (r->best.value >= 1) return;
  printf("The best chip does not reach it: %s.\n",
         r->reference_breaks              ? "the reference takes more than the limits allow"
         : r->finished                    ? "the space has no chip that does"
         : r->gap + 1 > 1 / r->best.value ? "the search ended before it was found"
                                          : "the space has no chip that does");
  (void)o;
}

/* The watts of the limit are the bill's: what the operators of the steps take. */
static void print_power(const struct pz_box_options *o, const struct pz_box_result *r) {
  const struct pz_judge_question *q = &o->question;
  const struct pz_step_power *x = &r->best.power, *y = &r->reference.power;
  if (!x->known || !y->known) return;
  double watts = pz_step_power_most_watts(q, x), clock = pz_step_power_least_clock(q, x);
  double own = pz_step_power_least_clock(q, y);
  printf("Its operators take up to %.0f W, those of the reference %.0f W.", watts,
         pz_step_power_most_watts(q, y));
  if (clock < r->best.chip.clock_hz || own < r->reference.chip.clock_hz)
    printf(" Within %.0f W it runs at %.4g GHz, the reference within %.0f W at %.4g GHz: %.3f "
           "times as "
           "fast.",
           x->limit_watts, clock / 1e9, y->limit_watts, own / 1e9, pz_step_power_ratio(q, x, y));
  printf("\n");
}

static int by_change(const void *a, const void *b) {
  const struct pz_box_step *x = a, *y = b;
  if (x->change != y->change) return x->change > y->change ? -1 : 1;
  return strcmp(x->axis, y->axis);
}

static enum pz_status print_result(const struct pz_range_space *s, const struct pz_box_options *o,
                                   const struct pz_box_result *r) {
  char space[32], closed[32], evaluated[32], boxes[32];
  struct pz_arena arena;
  const char *const per[] = {"", " per dollar", " per watt", " per dollar of ownership",
                             " per joule"};
  printf("The best chip of the space %s: %s\n", s->name, r->best.chip.name);
  printf("%.3f times the reference%s", r->best.value, per[o->question.objective]);
  if (o->question.n_models > 1) printf(" (geometric mean over %u models)", o->question.n_models);
  printf("\n\n");
  print_chip(&r->best);
  pz_arena_init(&arena, NULL);
  enum pz_status status = print_models(&o->question, r, &arena);
  pz_arena_release(&arena);
  print_reference(o, r);
  print_power(o, r);
  printf("%s of %s chips are closed in %s boxes, %s of them evaluated one by one: no chip is more "
         "than %.2f%% better.\n",
         pz_text_count(closed, sizeof closed, r->closed),
         pz_text_count(space, sizeof space, r->chips),
         pz_text_count(boxes, sizeof boxes, r->n_boxes),
         pz_text_count(evaluated, sizeof evaluated, r->evaluated), 100 * r->gap);
  if (!r->finished)
    printf("The search ended at its limit before the gap was proved%s.\n",
           o->journal ? "; the same command without the limit goes on" : "");
  return status;
}

/* One step on every axis, the largest changes first. */
static enum pz_status print_steps(struct pz_box_step *steps, uint32_t n) {
  static const char *const heads[] = {"one step", ">from", ">to", ">change", "breaks", NULL};
  enum { SHOWN = 6 };
  struct pz_arena arena;
  struct pz_table t;
  pz_arena_init(&arena, NULL);
  pz_table_init(&t, &arena, heads);
  qsort(steps, n, sizeof *steps, by_change);
  for (uint32_t i = 0; i < n; i++) {
    if (i >= SHOWN / 2 && i + SHOWN / 2 < n) continue;
    pz_table_cell(&t, "%s", steps[i].axis);
    pz_table_cell(&t, "%s", steps[i].from);
    pz_table_cell(&t, "%s", steps[i].to);
    pz_table_cell(&t, "%+.2f%%", 100 * steps[i].change);
    pz_table_cell(&t, "%s", steps[i].breaks ? steps[i].breaks : "");
  }
  printf("\nWhat limits it: one step on an axis, the largest gains and losses.\n\n");
  enum pz_status status = n ? pz_table_print(&t, 0, stdout) : PZ_OK;
  pz_arena_release(&arena);
  return status;
}

static enum pz_status tell(const struct pz_box_call *c, const struct pz_range_space *s,
                           const struct pz_box_options *o, const struct pz_box_result *r,
                           struct pz_error *err) {
  struct pz_box_step steps[PZ_BOX_MOST_STEPS];
  uint32_t n = 0;
  enum pz_status status = pz_box_steps(s, o, &r->best_box, steps, &n, err);
  if (status != PZ_OK) return status;
  if (c->common->json) {
    json_t *result = pz_box_result_json(s, o, r);
    if (result) json_object_set_new(result, "sensitivity", pz_box_steps_json(steps, n));
    return pz_command_json(result, err);
  }
  status = print_result(s, o, r);
  return status == PZ_OK ? print_steps(steps, n) : status;
}

/* DIR/report.html, by what was saved. */
static enum pz_status write_report(const struct pz_box_call *c, struct pz_error *err) {
  char path[4096];
  json_t *data = NULL;
  enum pz_status status = pz_report_path(c->dir, path, sizeof path, err);
  pz_ranks_alone(true);
  if (status == PZ_OK) status = pz_box_report_data(c->dir, (unsigned)c->threads, &data, err);
  pz_ranks_alone(false);
  if (status == PZ_OK) status = pz_box_report_write(data, path, NULL, err);
  json_decref(data);
  if (status == PZ_OK && !c->common->quiet) pz_command_say("report: %s", path);
  return status;
}

/* ---- the folder ----------------------------------------------------------------------------- */

/* Where the journal of a search stands until it has finished. */
static enum pz_status begin_folder(const char *dir, char *path, size_t size, struct pz_error *err) {
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    return pz_fail(err, PZ_IO, "cannot make the folder %s: %s", dir, strerror(errno));
  int n = snprintf(path, size, "%s/rounds.journal", dir);
  return n > 0 && (size_t)n < size
             ? PZ_OK
             : pz_fail(err, PZ_BAD_USE, "the path of the folder %.100s is too long", dir);
}

static enum pz_status save(const struct pz_box_call *c, const struct pz_range_space *s,
                           const struct pz_box_options *o, const struct pz_box_result *r,
                           struct pz_error *err) {
  enum pz_status status = pz_box_save(c->dir, s, o, r, err);
  if (status == PZ_OK && r->finished) (void)remove(o->journal);
  return status;
}

static enum pz_exit stopped(const struct pz_box_call *c) {
  pz_command_say(c->dir ? "Interrupted; run the same command to resume"
                        : "Interrupted; nothing was saved (-o DIR keeps what was found)");
  return PZ_EXIT_STOPPED;
}

enum pz_exit pz_search_boxes(const struct pz_box_call *c, struct pz_range_space *s) {
  struct pz_error err = {0};
  struct pz_box_options o = {.gap = 0};
  struct pz_box_result *r = NULL;
  struct pz_progress progress;
  struct pz_arena arena;
  char journal[4096], *inputs = NULL;
  pz_arena_init(&arena, NULL);
  pz_progress_start(&progress, stderr,
                    c->common->quiet ? PZ_PROGRESS_SILENT : pz_progress_style_of(stderr), "boxes",
                    "chips", 1);
  o.progress = show_progress;
  o.ctx = &progress;
  enum pz_status status = read_options(c, &arena, &o, &err);
  if (status == PZ_OK && c->box->node) status = pz_range_set_node(s, c->box->node, &err);
  if (status == PZ_OK && c->budget)
    status = pz_budget_limits(c->budget, s, c->box->node, &o.limits, &err);
  r = pz_arena_alloc(&arena, 1, sizeof *r);
  if (status == PZ_OK && !r) status = pz_fail(&err, PZ_NO_MEMORY, "out of memory for the result");
  if (status == PZ_OK && c->dir && pz_ranks_first()) {
    status = begin_folder(c->dir, journal, sizeof journal, &err);
    if (status == PZ_OK) status = pz_box_inputs_text(s, &o, &inputs, &err);
    o.journal = journal;
    o.inputs = inputs;
  }
  listen_for_signals();
  if (status == PZ_OK) status = pz_box_search(s, &o, &arena, r, &err);
  if (status == PZ_OK && c->dir && pz_ranks_first()) status = save(c, s, &o, r, &err);
  if (status == PZ_OK && pz_ranks_first()) status = tell(c, s, &o, r, &err);
  if (status == PZ_OK && c->dir && c->report && pz_ranks_first()) status = write_report(c, &err);
  pz_arena_release(&arena);
  pz_free(inputs);
  if (status == PZ_OK) return pz_command_end();
  if (status != PZ_STOPPED) return pz_command_fail(&err);
  return stopped(c);
}
