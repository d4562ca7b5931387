/* Runs that people have: launch scripts and configurations of frameworks, logs, plan files; a plan's fields, adapters
 * and lists as arguments; changes of a plan by words.  What was read is the same when it is written as a plan file and read again. */
#include <string.h>

#include "../unit/core_borders.h"
#include "../unit/search_borders.h"
#include "core/alloc.h"
#include "core/options.h"
#include "fuzz.h"
#include "launch/megatron_args.h"
#include "launch/run_log.h"
#include "launch/run_readers.h"
#include "plan/plan_fill.h"
#include "space/limits.h"
#include "unit/plan_borders.h"

static void write_and_read(const struct pz_run_plan *r, struct pz_arena *arena) {
  struct pz_run_plan back, filled = *r;
  struct pz_error err = {0};
  char *text = NULL, a[PZ_FIELD_TEXT_MOST], b[PZ_FIELD_TEXT_MOST];
  require(r->model);
  json_t *j = pz_run_plan_json(r);
  require(j && pz_json_text(j, &text, &err) == PZ_OK);
  require(try_read_plan_file("fuzz", text, strlen(text), arena, &back, &err) == PZ_OK);
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    require(!pz_plan_field_is_relevant(&r->plan, (enum pz_plan_field)f) ||
            strcmp(pz_plan_field_text(&r->plan, (enum pz_plan_field)f, a, sizeof a),
                   pz_plan_field_text(&back.plan, (enum pz_plan_field)f, b, sizeof b)) == 0);
  require(!r->chip == !back.chip && !r->cluster == !back.cluster);
  (void)was_read(try_fill_plan(&filled.plan, NULL, &err), &err);
  json_decref(j);
  pz_free(text);
}

typedef void run_reader(struct pz_call *call, const char *name, const char *text, size_t bytes,
                        const struct pz_run_plan_options *o, struct pz_run_plan *out);

struct reading {
  run_reader *reader;
  const char *text;
  size_t bytes;
  struct pz_arena *arena;
  struct pz_run_plan run;
};

static void read_run(struct pz_call *call, void *ctx) {
  static const char *const set[] = {"N=8", NULL};
  struct reading *x = ctx;
  struct pz_call results = pz_call_in(call, x->arena);
  struct pz_run_plan_options o = pz_run_plan_options_default();
  o.set = set;
  o.devices = x->bytes % 2 ? 64 : 0;
  x->reader(&results, "fuzz", x->text, x->bytes, &o, &x->run);
}

static void read_with(run_reader *reader, const char *text, size_t bytes) {
  struct pz_arena arena;
  struct reading x = {.reader = reader, .text = text, .bytes = bytes, .arena = &arena};
  struct pz_error err = {0};
  if (bytes > 1 << 16) return;
  pz_arena_init(&arena);
  if (was_read(pz_border(read_run, &x, &err), &err)) write_and_read(&x.run, &arena);
  pz_arena_release(&arena);
}

void fuzz_megatron(const char *text, size_t bytes) { read_with(pz_megatron_read, text, bytes); }
void fuzz_torchtitan(const char *text, size_t bytes) { read_with(pz_torchtitan_read, text, bytes); }
void fuzz_bridge(const char *text, size_t bytes) { read_with(pz_bridge_read, text, bytes); }

static void read_plan(struct pz_call *call, const char *name, const char *text, size_t bytes,
                      const struct pz_run_plan_options *o, struct pz_run_plan *out) {
  (void)o;
  pz_read_plan_file(call, name, text, bytes, out);
}
void fuzz_plan(const char *text, size_t bytes) { read_with(read_plan, text, bytes); }

/* As the run of its arguments, and beside a plan file. */
void fuzz_log(const char *text, size_t bytes) {
  static const char plan[] = "{\"model\": \"gpt2\", \"plan\": {\"devices\": 8, \"batch\": 64}}";
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_run_plan *r = NULL;
  struct pz_error err[2] = {{0}};
  char *log = bytes < 1 << 16 ? pz_malloc(bytes + 1) : NULL;
  if (!log) return;
  memcpy(log, text, bytes);
  log[bytes] = '\0';
  o.log = log;
  if (was_read(pz_run_plan_read("plan", plan, sizeof plan - 1, &o, &r, &err[0]), &err[0]))
    require(r->measured_s > 0);
  pz_run_plan_free(r);
  r = NULL;
  if (pz_run_log_is(text, bytes) &&
      was_read(pz_run_plan_read("log", text, bytes, NULL, &r, &err[1]), &err[1]))
    require(r->measured_s > 0 && r->plan.devices > 0);
  pz_run_plan_free(r);
  pz_free(log);
}

/* A letter, and a word as a field of a plan, as adapters, a list of numbers or a budget. */
void fuzz_arguments(const char *text, size_t bytes) {
  static struct pz_space space;
  struct pz_plan p = pz_plan_default(), again = p;
  struct pz_lora lora;
  struct pz_choices list;
  struct pz_limits limits = {0};
  struct pz_error err[5] = {{0}};
  char word[200], a[PZ_FIELD_TEXT_MOST], b[PZ_FIELD_TEXT_MOST];
  if (bytes < 1 || bytes > sizeof word) return;
  enum pz_plan_field f = (enum pz_plan_field)((unsigned char)text[0] % PZ_PLAN_FIELDS);
  memcpy(word, text + 1, bytes - 1);
  word[bytes - 1] = '\0';
  if (was_read(try_read_plan_field(&p, f, word, &err[0]), &err[0])) {
    require(try_check_plan_ranges(&p, &err[1]) == PZ_OK);
    pz_plan_field_text(&p, f, a, sizeof a);
    if (pz_plan_field(f)->kind != PZ_PLAN_KIND_REAL && !pz_plan_is_unset(&p, f))
      require(try_read_plan_field(&again, f, a, &err[1]) == PZ_OK &&
              strcmp(a, pz_plan_field_text(&again, f, b, sizeof b)) == 0);
  }
  if (was_read(pz_lora_parse(word, &lora, &err[2]), &err[2]))
    require(lora.rank >= 0 && lora.dropout >= 0 && lora.dropout < 1);
  if (was_read(pz_choices_parse(word, "n", 1 << 20, &list, &err[3]), &err[3]))
    require(pz_choices_check("n", &list, 1, &err[3]) == PZ_OK);
  if (was_read(pz_limits_complete(&space, word, NULL, &limits, &err[4]), &err[4]))
    require(limits.mm2 > 0);
}

/* Changes of a plan by words: what was read is the same when every field is written as its name and value. */
void fuzz_words(const char *text, size_t bytes) {
  struct pz_run_plan none = pz_run_plan_default(), *run = NULL, *again = NULL;
  struct pz_error err = {0};
  char a[PZ_FIELD_TEXT_MOST], b[PZ_FIELD_TEXT_MOST], words[4096];
  if (bytes >= sizeof words) return;
  memcpy(words, text, bytes);
  words[bytes] = '\0';
  if (!was_read(pz_run_plan_with(&none, words, &run, &err), &err)) return;
  require(try_check_plan_ranges(&run->plan, &err) == PZ_OK);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    enum pz_plan_kind kind = pz_plan_field(f)->kind;
    if (pz_plan_is_unset(&run->plan, f)) continue;
    if (kind == PZ_PLAN_KIND_TEXT || kind == PZ_PLAN_KIND_REAL) continue;
    pz_plan_field_text(&run->plan, f, a, sizeof a);
    snprintf(words, sizeof words, "%s %s", pz_plan_field_name(f), a);
    require(pz_run_plan_with(&none, words, &again, &err) == PZ_OK);
    require(strcmp(a, pz_plan_field_text(&again->plan, f, b, sizeof b)) == 0);
    pz_run_plan_free(again);
  }
  pz_run_plan_free(run);
}
