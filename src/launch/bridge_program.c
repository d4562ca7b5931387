/* Reader of a program for NeMo's Megatron Bridge, in the form that `--emit nemo` writes: fields of
 * the model, precision and optimizer ("model.hidden_size = 8192"), and keywords of
 * DistributedDataParallelConfig and TrainingConfig.
 *
 * Every field sets what an argument of Megatron-LM sets.  pz_bridge_read() therefore rewrites the
 * program as arguments, each on the line of its field, and pz_megatron_read() reads these.  LoRA
 * adapters, which Megatron-LM has no arguments for, are read by read_adapters(). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "launch/megatron_args.h"
#include "launch/run_readers.h"
#include "plan/plan.h"

enum { MOST_PROGRAM_BYTES = 1 << 20 };

/* Fields of Megatron Bridge whose argument of Megatron-LM has another name. */
static const struct renamed_field {
  const char *field, *argument;
  bool is_negated; /* the argument turns off what the field turns on */
} renamed_fields[] = {
    {"num_moe_experts", "num-experts", false},
    {"layernorm_epsilon", "norm-epsilon", false},
    {"gated_linear_unit", "swiglu", false},
    {"fp8", "fp8-format", false},
    {"fp4", "fp4-format", false},
    {"num_query_groups", "group-query-attention --num-query-groups", false},
    {"add_bias_linear", "disable-bias-linear", true},
    {"share_embeddings_and_output_weights", "untie-embeddings-and-output-weights", true},
    {"overlap_p2p_comm", "no-overlap-p2p-communication", true},
    {"grad_reduce_in_fp32", "grad-reduce-in-bf16", true},
    {"rope_scaling", "use-rope-scaling", false}};

/* clang-format off */
/* Fields that a plan does not depend on. */
static const char *const neutral_fields[] = {
    "fp8_param_gather", "reuse_grad_buf_for_mxfp8_param_ag", "pipeline_dtype", "cpu_offloading_weights",
    "activation_func", "batch_p2p_comm", "apply_rope_fusion", "bias_activation_fusion", "bias_dropout_fusion",
    "moe_permute_fusion", "moe_router_fusion", "moe_shared_expert_overlap", "transformer_layer_spec",
    "layernorm_zero_centered_gamma", "hetereogenous_dist_checkpoint", "should_pad_vocab", "is_hybrid_model",
    "calculate_per_token_loss", "use_te_rng_tracker"};
/* clang-format on */

/* A substring of the program, which does not end with a NUL. */
struct span {
  const char *text;
  size_t n;
};

/* Returns whether a span consists of this text. */
static bool is_span(struct span span, const char *text) {
  return strlen(text) == span.n && memcmp(span.text, text, span.n) == 0;
}

/* Returns a span without the spaces at its beginning and its end. */
static struct span trim_spaces(struct span span) {
  while (span.n && *span.text == ' ') {
    span.text++;
    span.n--;
  }
  while (span.n && span.text[span.n - 1] == ' ') span.n--;
  return span;
}

/* Writes a value of Python as words of a shell: strings and lists without quotes and brackets, and
 * a type or a member of an enumeration by the last part of its name. */
static void write_value(struct span value, FILE *out) {
  static const char *const types[][2] = {
      {"bfloat16", "bf16"}, {"uint8", "fp8"}, {"float16", "fp16"}};
  bool is_list = value.n && *value.text == '[';
  bool is_string = value.n && (*value.text == '"' || *value.text == '\'');
  const char *dot = memchr(value.text, '.', value.n);
  if (!is_list && !is_string && dot && isalpha((unsigned char)*value.text)) {
    value.n -= (size_t)(dot + 1 - value.text);
    value.text = dot + 1;
  }
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (is_span(value, types[i][0])) value = (struct span){types[i][1], strlen(types[i][1])};
  fputs(is_list ? " " : " '", out);
  for (size_t i = 0; i < value.n; i++) {
    char c = value.text[i];
    if (is_list && strchr("[],\"'", c))
      fputc(' ', out);
    else if (!strchr("\"'\\$`", c)) /* no character that a shell interprets */
      fputc(c, out);
  }
  if (!is_list) fputc('\'', out);
}

/* Writes a field or keyword NAME=VALUE as an argument: True without a value, False not at all. */
static void write_field(struct span field, struct span value, FILE *out) {
  bool is_true = is_span(value, "True"), is_false = is_span(value, "False");
  bool is_truth = is_true || is_false, is_negated = false;
  const char *argument = NULL; /* the argument's name, if it is not that of the field */
  if (is_span(value, "None")) return;
  for (size_t i = 0; i < sizeof neutral_fields / sizeof *neutral_fields; i++)
    if (is_span(field, neutral_fields[i])) return;
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    const struct pz_plan_field_info *info = pz_plan_field((enum pz_plan_field)i);
    const char *bridge = info->in[PZ_LAUNCH_BRIDGE], *megatron = info->in[PZ_LAUNCH_MEGATRON];
    if (bridge && megatron && is_span(field, bridge)) argument = megatron + 2;
  }
  for (size_t i = 0; i < sizeof renamed_fields / sizeof *renamed_fields; i++) {
    if (!is_span(field, renamed_fields[i].field)) continue;
    is_negated = renamed_fields[i].is_negated;
    argument = renamed_fields[i].argument;
  }
  bool sets_flag = is_true != is_negated; /* for a truth value: whether the argument is given */
  if (is_truth && !sets_flag) return;
  fputs(" --", out);
  if (argument) fputs(argument, out);
  for (size_t i = 0; i < field.n && !argument; i++)
    fputc(field.text[i] == '_' ? '-' : field.text[i], out);
  if (!is_truth) write_value(value, out);
}

/* Writes a line of the program as arguments: "OBJECT.FIELD = VALUE", or a keyword "NAME=VALUE," in
 * a call of one of `calls`.  *inside, which is kept from line to line, is whether the line is in
 * such a call. */
static void write_line(struct span line, bool *inside, FILE *out) {
  static const char *const calls[] = {"DistributedDataParallelConfig(", "TrainingConfig("};
  static const char *const objects[] = {"model.", "precision.", "optimizer.", "ddp.", "train."};
  /* texts that imply an argument, wherever they occur in a line */
  static const char *const marks[][2] = {{"MLAModelProvider()", " --multi-latent-attention"},
                                         {"activation_func = squared_relu", " --squared-relu"},
                                         {"\"bf16_mixed\"", " --bf16"},
                                         {"\"fp16_mixed\"", " --fp16"}};
  while (line.n && isspace((unsigned char)line.text[line.n - 1])) line.n--;
  if (*inside && line.n && *line.text == ')') *inside = false;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    size_t n = strlen(calls[i]);
    if (line.n >= n && memcmp(line.text + line.n - n, calls[i], n) == 0) *inside = true;
  }
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (pz_find_text(line.text, line.n, marks[i][0])) fputs(marks[i][1], out);
  const char *equals = memchr(line.text, '=', line.n), *end = line.text + line.n;
  if (!equals) return;
  struct span name = {line.text, (size_t)(equals - line.text)};
  struct span value = {equals + 1, (size_t)(end - equals - 1)};
  size_t prefix = 0; /* length of the object's name with its dot */
  for (size_t i = 0; i < sizeof objects / sizeof *objects && !prefix; i++) {
    size_t n = strlen(objects[i]);
    if (line.n > n && memcmp(line.text, objects[i], n) == 0) prefix = n;
  }
  bool is_keyword = !prefix && *inside && *line.text == ' ';
  if (!prefix && !is_keyword) return;
  name = trim_spaces((struct span){name.text + prefix, name.n - prefix});
  value = trim_spaces(value);
  if (is_keyword && value.n && value.text[value.n - 1] == ',') value.n--;
  for (size_t i = 0; i < name.n; i++)
    if (!isalnum((unsigned char)name.text[i]) && name.text[i] != '_') return;
  if (name.n && value.n) write_field(name, value, out);
}

/* ---- adapters ------------------------------------------------------------------------------- */

/* The fields of LoRA (megatron/bridge/peft/lora.py) that a plan states, and their defaults. */
struct adapters {
  char modules[400]; /* names joined by + */
  double rank, dropout;
};
static const struct adapters default_adapters = {"linear_qkv+linear_proj+linear_fc1+linear_fc2", 32,
                                                 0};

/* Returns the end of a value: the comma or bracket after it, outside of its quotes and brackets. */
static const char *value_end(const char *at, const char *end) {
  int depth = 0;
  char quote = 0;
  for (; at < end; at++) {
    if (quote) {
      if (*at == quote) quote = 0;
    } else if (*at == '"' || *at == '\'') {
      quote = *at;
    } else if (depth == 0 && (*at == ',' || *at == ')')) {
      break;
    } else {
      if (*at == '[' || *at == '(') depth++;
      if (*at == ']' || *at == ')') depth--;
    }
  }
  return at;
}

/* Stores the number in a text in *out.  Returns false if the text is no number of at least 0. */
static bool parse_adapter_number(struct span value, double *out) {
  char number[32], *rest;
  if (!value.n || value.n >= sizeof number) return false;
  memcpy(number, value.text, value.n);
  number[value.n] = '\0';
  *out = strtod(number, &rest);
  return rest != number && !rest[strspn(rest, " \n")] && *out >= 0;
}

/* Reads one keyword argument of LoRA(...), such as "dim=16".  Returns false if its name is unknown
 * or its value is not accepted. */
static bool read_keyword_argument(struct span keyword, struct adapters *out) {
  /* keywords that a plan does not depend on */
  static const char *const others[] = {"alpha",
                                       "dropout_position",
                                       "lora_A_init_method",
                                       "lora_B_init_method",
                                       "a2a_experimental",
                                       "lora_dtype",
                                       "share_expert_adapters",
                                       "normalize_moe_lora"};
  const char *equals = memchr(keyword.text, '=', keyword.n);
  if (!equals) return false;
  struct span name = {keyword.text, (size_t)(equals - keyword.text)};
  struct span value = {equals + 1, keyword.n - name.n - 1};
  while (name.n && name.text[name.n - 1] == ' ') name.n--;
  while (value.n && isspace((unsigned char)*value.text)) {
    value.text++;
    value.n--;
  }
  if (is_span(name, "dim")) return parse_adapter_number(value, &out->rank) && out->rank >= 1;
  if (is_span(name, "dropout")) return parse_adapter_number(value, &out->dropout);
  if (is_span(name, "target_modules")) {
    if (!value.n || *value.text != '[') return false;
    const char *end = value.text + value.n;
    size_t n = 0;
    for (const char *at = value.text; at < end && n + 2 < sizeof out->modules; at++) {
      /* all names have underscores, so a comma without a later underscore is after the last name */
      bool separates = *at == ',' && n && memchr(at, '_', (size_t)(end - at));
      if (isalnum((unsigned char)*at) || *at == '_')
        out->modules[n++] = *at;
      else if (separates)
        out->modules[n++] = '+';
    }
    out->modules[n] = '\0';
    return true;
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (is_span(name, others[i])) return true;
  return false;
}

/* Returns the adapters of the line "peft = LoRA(...)" in the notation of a plan, "lora:16:MODULES",
 * or NULL if there are none.  `name` stands for the program in messages. */
static const char *read_adapters(struct pz_call *call, const char *name, const char *text,
                                 size_t bytes) {
  struct adapters adapters = default_adapters;
  const char *end = text + bytes, *at = text;
  size_t line = 1;
  bool is_found = false; /* the line "peft = ..." */
  while (at < end && !is_found) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end) line_end = end;
    while (at < line_end && *at == ' ') at++;
    is_found = line_end - at >= 5 && memcmp(at, "peft", 4) == 0 && strchr(" =", at[4]);
    while (is_found && at < line_end && *at != '=') at++;
    if (!is_found) {
      at = line_end + 1;
      line++;
    }
  }
  if (at >= end) return NULL;
  for (at++; at < end && *at == ' ';) at++;
  if (end - at >= 4 && memcmp(at, "None", 4) == 0) return NULL;
  bool is_read = end - at > 5 && memcmp(at, "LoRA(", 5) == 0;
  if (is_read) at += 5;
  while (is_read && at < end) {
    while (at < end && isspace((unsigned char)*at)) at++;
    if (at < end && *at == ')') break;
    const char *last = value_end(at, end);
    is_read = read_keyword_argument((struct span){at, (size_t)(last - at)}, &adapters);
    if (is_read) at = last < end && *last == ',' ? last + 1 : last;
  }
  if (!is_read) {
    int shown = 0; /* characters of the line's rest in the message */
    while (at + shown < end && at[shown] != '\n' && shown < 60) shown++;
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%zu: peft '%.*s'; accepted: LoRA(target_modules=[...], dim=..., alpha=..., "
             "dropout=...) by keywords",
             name, line, shown, at);
  }
  if (adapters.dropout > 0)
    return pz_format(call, "lora:%.0f:%s:%.10g", adapters.rank, adapters.modules, adapters.dropout);
  return pz_format(call, "lora:%.0f:%s", adapters.rank, adapters.modules);
}

/* Reads a run from a program for Megatron Bridge; `name` stands for it in messages. */
void pz_bridge_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                    const struct pz_run_plan_options *options, struct pz_run_plan *run) {
  if (bytes > MOST_PROGRAM_BYTES)
    pz_raise(call, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes,
             MOST_PROGRAM_BYTES);
  struct pz_buffer *arguments = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, arguments);
  struct pz_document program = {text, bytes, 1};
  bool inside = false;
  (void)pz_script_document(text, bytes, ".py", &program);
  const char *end = text + bytes, *program_end = program.text + program.bytes;
  /* rewrite the lines of the program as arguments; other lines of a script stay as they are */
  for (const char *at = text; at < end;) {
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end) line_end = end;
    struct span line = {at, (size_t)(line_end - at)};
    if (at >= program.text && at < program_end)
      write_line(line, &inside, out);
    else
      fwrite(line.text, 1, line.n, out);
    fputc('\n', out);
    at = line_end + 1;
  }
  pz_buffer_flush(call, out);
  pz_buffer_add(call, arguments, "", 0); /* makes the text of an empty program "" instead of NULL */
  pz_megatron_read(call, name, arguments->text, strlen(arguments->text), options, run);
  struct pz_plan *plan = &run->plan;
  plan->framework = pz_framework_find("nemo");
  plan->fused_loss = false; /* Bridge's recipes use Transformer Engine's kernel */
  if (plan->moment_bytes == 0) plan->moment_bytes = 4; /* fp32 */
  pz_plan_settle_moments(plan, plan->etp > 0);
  run->megatron = false;
  plan->peft = read_adapters(call, name, text, bytes);
  if (plan->peft) run->from[PZ_PLAN_PEFT] = "LoRA";
  run->from[PZ_PLAN_FRAMEWORK] = "Megatron Bridge's fields";
}
