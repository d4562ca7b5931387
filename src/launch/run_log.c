#include "launch/run_log.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/vec.h"
#include "launch/megatron_args.h"

static const char megatron_step[] = "elapsed time per iteration (ms):", torchtitan_step[] = "tps:";

/* ---- steps -------------------------------------------------------------------------------------- */

static const char *find(const char *at, const char *end, const char *word) {
  size_t n = strlen(word);
  for (; (size_t)(end - at) >= n; at++) {
    at = memchr(at, *word, (size_t)(end - at) - n + 1);
    if (!at) return NULL;
    if (memcmp(at, word, n) == 0) return at;
  }
  return NULL;
}

/* The arguments of the last run that a log shows: it may have been started again.  NULL: none. */
static const char *last_run(const char *text, const char *end) {
  static const char head[] = "- arguments -";
  const char *last = NULL;
  for (const char *at = text; (at = find(at, end, head)); at += sizeof head - 1) last = at;
  return last;
}

/* A number with or without commas behind `at`, with colours of a terminal before it; 0: there is none. */
static double number_at(const char *at, const char *end) {
  char text[32];
  size_t n = 0;
  while (at < end && (*at == ' ' || *at == '\x1b'))
    if (*at++ == '\x1b')
      while (at < end && *at++ != 'm') continue;
  for (; at < end && n + 1 < sizeof text && (isdigit((unsigned char)*at) || strchr(".,eE+-", *at));
       at++)
    if (*at != ',') text[n++] = *at;
  text[n] = '\0';
  return strtod(text, NULL);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median of the numbers behind a word, without the first tenth; 0: there are none. */
static enum pz_status median(const char *name, const char *text, size_t bytes, const char *word,
                             double *out, struct pz_error *err) {
  const char *end = text + bytes;
  struct pz_arena arena;
  struct pz_vec all;
  enum pz_status status = PZ_OK;
  *out = 0;
  pz_arena_init(&arena, NULL);
  pz_vec_init(&all, &arena, sizeof(double));
  for (const char *at = text; (at = find(at, end, word)) && status == PZ_OK;) {
    at += strlen(word);
    double v = number_at(at, end);
    if (v > 0 && v < 1e15 && !pz_vec_push(&all, &v))
      status = pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  }
  uint32_t skip = all.n > 1 ? (all.n + 9) / 10 : 0, n = all.n - skip;
  if (status == PZ_OK && n) {
    double *v = pz_vec_at(&all, double, skip);
    qsort(v, n, sizeof *v, by_value);
    *out = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
  }
  pz_arena_release(&arena);
  return status;
}

bool pz_run_log_is(const char *text, size_t bytes) {
  const char *end = text + bytes;
  return find(text, end, megatron_step) || last_run(text, end) ||
         (find(text, end, torchtitan_step) && find(text, end, "loss:"));
}

enum pz_status pz_run_log_step(const char *name, const char *text, size_t bytes,
                               struct pz_logged_step *out, struct pz_error *err) {
  double ms;
  const char *run = last_run(text, text + bytes);
  if (run) bytes -= (size_t)(run - text);
  if (run) text = run;
  enum pz_status status = median(name, text, bytes, megatron_step, &ms, err);
  if (status == PZ_OK)
    status = median(name, text, bytes, torchtitan_step, &out->tokens_per_s_per_device, err);
  out->step_s = ms / 1e3;
  if (status == PZ_OK && !(ms > 0) && !(out->tokens_per_s_per_device > 0))
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s: no iteration; accepted: a log of Megatron-LM with '%s', or of torchtitan "
                   "with '%s'",
                   name, megatron_step, torchtitan_step);
  return status;
}

/* ---- arguments ---------------------------------------------------------------------------------- */

/* "  tensor_model_parallel_size ...................... 8" */
struct shown {
  char name[80], value[400];
  uint32_t line;
};

static bool read_shown(const char *line, const char *end, struct shown *out) {
  while (line < end && *line == ' ') line++;
  const char *rank = line; /* "0: " of srun -l, "[default0]:" of torchrun */
  while (rank < end && (isalnum((unsigned char)*rank) || strchr("[]_", *rank))) rank++;
  if (rank > line && rank < end && *rank == ':') line = rank + 1;
  while (line < end && *line == ' ') line++;
  size_t n = 0, dots = 0;
  while (line + n < end && (isalnum((unsigned char)line[n]) || line[n] == '_')) n++;
  if (!n || n >= sizeof out->name) return false;
  for (size_t i = 0; i < n; i++) out->name[i] = line[i] == '_' ? '-' : line[i];
  out->name[n] = '\0';
  line += n;
  while (line < end && *line == ' ') line++;
  while (line + dots < end && line[dots] == '.') dots++;
  line += dots;
  while (line < end && *line == ' ') line++;
  while (end > line && isspace((unsigned char)end[-1])) end--;
  n = (size_t)(end - line);
  if (!dots || n >= sizeof out->value) return false;
  memcpy(out->value, line, n);
  out->value[n] = '\0';
  return true;
}

/* Arguments that do nothing while another is off: Megatron-LM shows their defaults all the same.  A star: all that begin
 * so. */
static const struct {
  const char *name, *needs;
} conditions[] = {{"num-query-groups", "group-query-attention"},
                  {"q-lora-rank", "multi-latent-attention"},
                  {"kv-lora-rank", "multi-latent-attention"},
                  {"qk-head-dim", "multi-latent-attention"},
                  {"qk-pos-emb-head-dim", "multi-latent-attention"},
                  {"v-head-dim", "multi-latent-attention"},
                  {"moe-*", "num-experts"},
                  {"fp8-recipe", "fp8"},
                  {"fp4-recipe", "fp4"},
                  {"num-layers-at-start-in-bf16", "first-last-layers-bf16"},
                  {"num-layers-at-end-in-bf16", "first-last-layers-bf16"},
                  {"exp-avg-dtype", "use-precision-aware-optimizer"},
                  {"exp-avg-sq-dtype", "use-precision-aware-optimizer"},
                  {"data-parallel-sharding-strategy", "use-megatron-fsdp"},
                  {"cross-entropy-fusion-impl", "cross-entropy-loss-fusion"}};

/* What Megatron-LM keeps under another name than the argument's, or the other way round. */
static const struct {
  const char *shown, *value, *argument; /* value NULL: any, which the argument has */
} renamed[] = {{"fp8", NULL, "fp8-format"},
               {"fp4", NULL, "fp4-format"},
               {"add-bias-linear", "False", "disable-bias-linear"},
               {"overlap-p2p-comm", "False", "no-overlap-p2p-communication"}};

static bool is_off(const char *value) {
  return strcmp(value, "None") == 0 || strcmp(value, "False") == 0 || strcmp(value, "none") == 0 ||
         strcmp(value, "[]") == 0 || !*value;
}

static bool matches(const char *pattern, const char *name) {
  size_t n = strlen(pattern);
  return pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0 : strcmp(pattern, name) == 0;
}

static const char *value_of(const struct pz_vec *all, const char *name) {
  for (uint32_t i = 0; i < all->n; i++) {
    const struct shown *s = pz_vec_at(all, struct shown, i);
    if (strcmp(s->name, name) == 0) return s->value;
  }
  return "None";
}

static bool has_effect(const struct pz_vec *all, const char *name) {
  for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
    if (matches(conditions[i].name, name) && is_off(value_of(all, conditions[i].needs)))
      return false;
  return true;
}

/* "['core_attn', 'mlp']" as words, "AttnBackend.flash" as flash, "torch.bfloat16" as bf16. */
static void put_value(struct pz_buffer *b, const char *value) {
  static const char *const types[][2] = {
      {"torch.float32", "fp32"}, {"torch.bfloat16", "bf16"}, {"torch.float16", "fp16"}};
  char words[sizeof((struct shown *)0)->value];
  size_t n = 0;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(value, types[i][0]) == 0) value = types[i][1];
  const char *dot = strchr(value, '.');
  if (dot && isalpha((unsigned char)*value) && isalpha((unsigned char)dot[1])) value = dot + 1;
  for (; *value; value++) /* nothing that a shell would read */
    if (isalnum((unsigned char)*value) || strchr("._+-/:|*", *value))
      words[n++] = *value;
    else if (*value == ' ')
      words[n++] = ' ';
  pz_buffer_append(b, " ", 1);
  pz_buffer_append(b, words, n);
}

/* On the line that it has in the log, for messages. */
static void go_to_line(struct pz_buffer *b, uint32_t *line, uint32_t to) {
  for (; *line < to; ++*line) pz_buffer_append(b, "\n", 1);
}

static void put_argument(struct pz_buffer *b, const char *name, const char *value) {
  pz_buffer_append(b, "--", 2);
  pz_buffer_append(b, name, strlen(name));
  if (strcmp(value, "True") != 0) put_value(b, value);
}

static void put_shown(struct pz_buffer *b, const struct pz_vec *all, const struct shown *s) {
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
    if (strcmp(renamed[i].shown, s->name) != 0) continue;
    if (renamed[i].value && strcmp(renamed[i].value, s->value) == 0)
      put_argument(b, renamed[i].argument, "True");
    else if (!renamed[i].value && !is_off(s->value))
      put_argument(b, renamed[i].argument, s->value);
    return;
  }
  if (pz_megatron_reads(s->name) && !is_off(s->value) && has_effect(all, s->name))
    put_argument(b, s->name, s->value);
}

/* Between "--- arguments ---" and "--- end of arguments ---"; ranks and times may stand before them. */
static enum pz_status list_shown(const char *name, const char *text, size_t bytes,
                                 struct pz_vec *all, struct pz_error *err) {
  const char *end = text + bytes, *begin = last_run(text, end);
  const char *last = begin ? find(begin, end, "- end of arguments -") : NULL;
  if (!begin) return PZ_OK;
  if (!last) last = end;
  uint32_t at = 1;
  for (const char *c = text; (c = memchr(c, '\n', (size_t)(begin - c))); c++) at++;
  for (const char *line = begin; line < last; at++) {
    const char *next = memchr(line, '\n', (size_t)(last - line));
    struct shown s;
    if (!next) next = last;
    s.line = at;
    if (all->n < 4096 && read_shown(line, next, &s) && !pz_vec_push(all, &s))
      return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
    line = next + 1;
  }
  return PZ_OK;
}

/* Devices of the run; 0: the log does not say. */
static enum pz_status shown_devices(const char *name, const struct pz_vec *all, int64_t *out,
                                    struct pz_error *err) {
  static const long MOST = 1 << 24;
  *out = 0;
  for (uint32_t i = 0; i < all->n; i++) {
    const struct shown *s = pz_vec_at(all, struct shown, i);
    char *end;
    if (strcmp(s->name, "world-size") != 0 || is_off(s->value)) continue;
    long n = strtol(s->value, &end, 10);
    if (*end || n < 1 || n > MOST)
      return pz_fail(err, PZ_BAD_INPUT, "%s:%u: world_size '%.40s'; accepted: 1 to %ld", name,
                     s->line, s->value, MOST);
    return *out = n, PZ_OK;
  }
  return PZ_OK;
}

enum pz_status pz_run_log_arguments(const char *name, const char *text, size_t bytes,
                                    struct pz_arena *arena, const char **arguments,
                                    int64_t *devices, struct pz_error *err) {
  struct pz_vec all;
  struct pz_buffer b = {.failed = false};
  pz_vec_init(&all, arena, sizeof(struct shown));
  enum pz_status status = list_shown(name, text, bytes, &all, err);
  *arguments = NULL;
  *devices = 0;
  if (status == PZ_OK) status = shown_devices(name, &all, devices, err);
  if (status != PZ_OK || !all.n) return status;
  /* behind so many lines of earlier runs that they alone fill a script, lines are those from its arguments on */
  enum { MOST_LINES = 1 << 19 };
  uint32_t first = pz_vec_at(&all, struct shown, 0)->line, line = first < MOST_LINES ? 1 : first;
  for (uint32_t i = 0; i < all.n; i++) {
    const struct shown *s = pz_vec_at(&all, struct shown, i);
    go_to_line(&b, &line, s->line);
    put_shown(&b, &all, s);
  }
  go_to_line(&b, &line, line + 1);
  /* " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)" */
  const char *padded = find(text, text + bytes, "(new size: ");
  if (padded && is_off(value_of(&all, "padded-vocab-size"))) {
    char number[24];
    snprintf(number, sizeof number, "%.0f", number_at(padded + 11, text + bytes));
    put_argument(&b, "padded-vocab-size", number);
  }
  *arguments = b.failed ? NULL : pz_arena_strdup(arena, b.text ? b.text : "");
  pz_free(b.text);
  return *arguments ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
}
