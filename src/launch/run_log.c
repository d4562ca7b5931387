/* Reader of the logs of Megatron-LM and torchtitan.
 *
 * pz_run_log_step() searches the log for the times of iterations and returns their median.
 * pz_run_log_arguments() reads the table of arguments that Megatron-LM prints
 * (list_logged_arguments) and writes it as command-line arguments (write_argument), which
 * megatron_args.c reads.  If a log contains several starts of a run, the last one counts. */
#include "launch/run_log.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/vec.h"
#include "launch/megatron_args.h"
#include "launch/run_readers.h"

static const char megatron_step[] = "elapsed time per iteration (ms):", torchtitan_step[] = "tps:";

/* ---- steps ---------------------------------------------------------------------------------- */

/* Returns where the table of arguments of the last run in the log begins, or NULL. */
static const char *find_last_run(const char *text, size_t bytes) {
  static const char head[] = "- arguments -";
  const char *last = NULL, *end = text + bytes;
  const char *at = pz_find_text(text, bytes, head);
  while (at) {
    last = at;
    at += sizeof head - 1;
    at = pz_find_text(at, (size_t)(end - at), head);
  }
  return last;
}

/* Returns the number that begins at `at`, or 0 if there is none.  The number may have commas
 * between its digits and may follow blanks and the colour codes of a terminal. */
static double parse_logged_number(const char *at, const char *end) {
  char text[32];
  size_t n = 0;
  while (at < end && (*at == ' ' || *at == '\x1b')) {
    bool is_colour = *at == '\x1b';
    at++;
    if (!is_colour) continue;
    while (at < end && *at != 'm') at++;
    if (at < end) at++;
  }
  for (; at < end && n + 1 < sizeof text; at++) {
    if (!isdigit((unsigned char)*at) && !strchr(".,eE+-", *at)) break;
    if (*at != ',') text[n++] = *at;
  }
  text[n] = '\0';
  return strtod(text, NULL);
}

/* Compares two doubles for qsort(), in ascending order. */
static int compare_reals(const void *left, const void *right) {
  double first = *(const double *)left, second = *(const double *)right;
  return (first > second) - (first < second);
}

/* Returns the median of the numbers that follow occurrences of a word in the text, without the
 * first tenth, because training warms up; or 0 if there are none. */
static double median_after(struct pz_call *call, const char *text, size_t bytes, const char *word) {
  struct pz_call scratch = pz_scratch(call);
  const char *end = text + bytes;
  struct pz_vec numbers;
  double median = 0;
  pz_vec_init(&numbers, scratch.arena, sizeof(double));
  const char *at = pz_find_text(text, bytes, word);
  while (at) {
    at += strlen(word);
    double value = parse_logged_number(at, end);
    if (value > 0 && value < 1e15) pz_append(&scratch, &numbers, &value);
    at = pz_find_text(at, (size_t)(end - at), word);
  }
  uint32_t tenth = (numbers.n + 9) / 10; /* rounded up */
  uint32_t skip = numbers.n > 1 ? tenth : 0, n = numbers.n - skip;
  if (n) {
    double *values = pz_vec_at(&numbers, double, skip);
    qsort(values, n, sizeof *values, compare_reals);
    median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  }
  pz_scratch_end(&scratch);
  return median;
}

/* Returns whether a text is a log of Megatron-LM or torchtitan. */
bool pz_run_log_is(const char *text, size_t bytes) {
  if (pz_find_text(text, bytes, megatron_step) || find_last_run(text, bytes)) return true;
  return pz_find_text(text, bytes, torchtitan_step) && pz_find_text(text, bytes, "loss:");
}

/* Returns the median speed of the last run in a log. */
struct pz_logged_step pz_run_log_step(struct pz_call *call, const char *name, const char *text,
                                      size_t bytes) {
  const char *run = find_last_run(text, bytes);
  if (run) {
    bytes -= (size_t)(run - text);
    text = run;
  }
  struct pz_logged_step logged = {.step_s = median_after(call, text, bytes, megatron_step) / 1e3,
                                  .tokens_per_s_per_device =
                                      median_after(call, text, bytes, torchtitan_step)};
  if (!(logged.step_s > 0) && !(logged.tokens_per_s_per_device > 0))
    pz_raise(call, PZ_BAD_INPUT,
             "%s: no iteration; accepted: a log of Megatron-LM with '%s', or of torchtitan "
             "with '%s'",
             name, megatron_step, torchtitan_step);
  return logged;
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* An argument as Megatron-LM logs it: "  tensor_model_parallel_size ...................... 8". */
struct logged_argument {
  char name[80], value[400];
  uint32_t line;
};

enum { MOST_LOGGED_ARGUMENTS = 4096 };

/* Returns the first place from `at` on that is no space. */
static const char *skip_spaces(const char *at, const char *end) {
  while (at < end && *at == ' ') at++;
  return at;
}

/* Reads a line of the log: a name, whose underscores become dashes, dots, and a value.  Returns
 * false if the line has another form. */
static bool read_logged_argument(const char *line, const char *end, struct logged_argument *out) {
  line = skip_spaces(line, end);
  const char *rank = line; /* end of a prefix: "0:" of srun -l, "[default0]:" of torchrun */
  while (rank < end && (isalnum((unsigned char)*rank) || strchr("[]_", *rank))) rank++;
  if (rank > line && rank < end && *rank == ':') line = skip_spaces(rank + 1, end);
  size_t n = 0, dots = 0;
  while (line + n < end && (isalnum((unsigned char)line[n]) || line[n] == '_')) n++;
  if (!n || n >= sizeof out->name) return false;
  for (size_t i = 0; i < n; i++) out->name[i] = line[i] == '_' ? '-' : line[i];
  out->name[n] = '\0';
  line = skip_spaces(line + n, end);
  while (line + dots < end && line[dots] == '.') dots++;
  line = skip_spaces(line + dots, end);
  while (end > line && isspace((unsigned char)end[-1])) end--;
  n = (size_t)(end - line);
  if (!dots || n >= sizeof out->value) return false;
  memcpy(out->value, line, n);
  out->value[n] = '\0';
  return true;
}

/* Returns the arguments of the last run in the log, which are between "--- arguments ---" and
 * "--- end of arguments ---", as a vector of struct logged_argument. */
static struct pz_vec list_logged_arguments(struct pz_call *call, const char *text, size_t bytes) {
  struct pz_vec arguments;
  const char *end = text + bytes, *begin = find_last_run(text, bytes);
  pz_vec_init(&arguments, call->arena, sizeof(struct logged_argument));
  if (!begin) return arguments;
  const char *last = pz_find_text(begin, (size_t)(end - begin), "- end of arguments -");
  if (!last) last = end;
  uint32_t line_number = 1;
  for (const char *c = text; c < begin; c++) line_number += *c == '\n';
  for (const char *line = begin; line < last && arguments.n < MOST_LOGGED_ARGUMENTS;
       line_number++) {
    struct logged_argument argument = {.line = line_number};
    const char *next = memchr(line, '\n', (size_t)(last - line));
    if (!next) next = last;
    if (read_logged_argument(line, next, &argument)) pz_append(call, &arguments, &argument);
    line = next + 1;
  }
  return arguments;
}

/* Returns whether a logged value means that its argument was not given. */
static bool is_off(const char *value) {
  return strcmp(value, "None") == 0 || strcmp(value, "False") == 0 || strcmp(value, "none") == 0 ||
         strcmp(value, "[]") == 0 || !*value;
}

/* Returns the value of a logged argument, or "None" if it is not logged. */
static const char *logged_value(const struct pz_vec *arguments, const char *name) {
  for (uint32_t i = 0; i < arguments->n; i++) {
    const struct logged_argument *argument = pz_vec_at(arguments, struct logged_argument, i);
    if (strcmp(argument->name, name) == 0) return argument->value;
  }
  return "None";
}

/* Returns whether a logged argument has an effect.  It has none if it depends on another argument
 * (`needs`) that is off; Megatron-LM logs the defaults of such arguments too. */
static bool has_effect(const struct pz_vec *arguments, const char *name) {
  static const struct {
    const char *name; /* a star at the end stands for any rest */
    const char *needs;
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
  for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++) {
    const char *pattern = conditions[i].name;
    size_t n = strcspn(pattern, "*");
    bool matches = strncmp(pattern, name, n) == 0 && (pattern[n] == '*' || !name[n]);
    if (matches && is_off(logged_value(arguments, conditions[i].needs))) return false;
  }
  return true;
}

/* Writes "--name value".  Values in Python's notation become words: "['core_attn', 'mlp']" a list
 * of words, "AttnBackend.flash" flash, and "torch.bfloat16" bf16.  Characters that a shell would
 * interpret are left out. */
static void write_argument(struct pz_call *call, struct pz_buffer *out, const char *name,
                           const char *value) {
  static const char *const types[][2] = {
      {"torch.float32", "fp32"}, {"torch.bfloat16", "bf16"}, {"torch.float16", "fp16"}};
  pz_buffer_print(call, out, "--%s", name);
  if (strcmp(value, "True") == 0) return;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(value, types[i][0]) == 0) value = types[i][1];
  const char *dot = strchr(value, '.');
  if (dot && isalpha((unsigned char)*value) && isalpha((unsigned char)dot[1])) value = dot + 1;
  pz_buffer_add(call, out, " ", 1);
  for (; *value; value++)
    if (isalnum((unsigned char)*value) || strchr("._+-/:|* ", *value))
      pz_buffer_add(call, out, value, 1);
}

/* Writes a logged argument if it has an effect and megatron_args.c reads it. */
static void write_logged_argument(struct pz_call *call, struct pz_buffer *out,
                                  const struct pz_vec *arguments,
                                  const struct logged_argument *argument) {
  /* arguments whose logged name differs, and the logged value for which they are written, or NULL
   * if they are written with any value that is not off */
  static const struct {
    const char *logged, *value, *argument;
  } renamed[] = {{"fp8", NULL, "fp8-format"},
                 {"fp4", NULL, "fp4-format"},
                 {"add-bias-linear", "False", "disable-bias-linear"},
                 {"overlap-p2p-comm", "False", "no-overlap-p2p-communication"}};
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
    if (strcmp(renamed[i].logged, argument->name) != 0) continue;
    if (renamed[i].value && strcmp(renamed[i].value, argument->value) == 0)
      write_argument(call, out, renamed[i].argument, "True");
    else if (!renamed[i].value && !is_off(argument->value))
      write_argument(call, out, renamed[i].argument, argument->value);
    return;
  }
  if (pz_megatron_reads(argument->name) && !is_off(argument->value) &&
      has_effect(arguments, argument->name))
    write_argument(call, out, argument->name, argument->value);
}

/* Returns the arguments of the last run in a log, for pz_megatron_read(), and its devices. */
struct pz_logged_run pz_run_log_arguments(struct pz_call *call, const char *name, const char *text,
                                          size_t bytes) {
  /* Arguments are written on the lines that they have in the log, for messages.  If these lines
   * alone would exceed the length of a script, lines count from the first argument. */
  enum { MOST_LINES = 1 << 19, MOST_DEVICES = 1 << 24 };
  struct pz_logged_run run = {.arguments = NULL};
  struct pz_call scratch = pz_scratch(call);
  struct pz_buffer *out = pz_buffer_new(call);
  struct pz_vec arguments = list_logged_arguments(&scratch, text, bytes);
  for (uint32_t i = 0; i < arguments.n && !run.devices; i++) {
    const struct logged_argument *argument = pz_vec_at(&arguments, struct logged_argument, i);
    if (strcmp(argument->name, "world-size") != 0 || is_off(argument->value)) continue;
    char *end;
    run.devices = strtol(argument->value, &end, 10);
    if (*end || run.devices < 1 || run.devices > MOST_DEVICES)
      pz_raise(call, PZ_BAD_INPUT, "%s:%u: world_size '%.40s'; accepted: 1 to %d", name,
               argument->line, argument->value, MOST_DEVICES);
  }
  if (!arguments.n) return run;
  uint32_t first = pz_vec_at(&arguments, struct logged_argument, 0)->line;
  uint32_t line = first < MOST_LINES ? 1 : first;
  for (uint32_t i = 0; i < arguments.n; i++) {
    const struct logged_argument *argument = pz_vec_at(&arguments, struct logged_argument, i);
    for (; line < argument->line; line++) pz_buffer_add(call, out, "\n", 1);
    write_logged_argument(call, out, &arguments, argument);
  }
  pz_buffer_add(call, out, "\n", 1);
  /* logged as " > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)" */
  static const char padded_size[] = "(new size: ";
  const char *padded = pz_find_text(text, bytes, padded_size);
  if (padded && is_off(logged_value(&arguments, "padded-vocab-size"))) {
    char number[24];
    double size = parse_logged_number(padded + sizeof padded_size - 1, text + bytes);
    snprintf(number, sizeof number, "%.0f", size);
    write_argument(call, out, "padded-vocab-size", number);
  }
  run.arguments = out->text;
  pz_scratch_end(&scratch);
  return run;
}
