/* A program for NeMo's Megatron Bridge, as far as `--emit nemo` writes it: fields of the model, of precision and optimizer
 * ("model.hidden_size = 8192"), and keywords of DistributedDataParallelConfig and TrainingConfig.  They set what
 * arguments of Megatron-LM do, so each is read as the argument it stands for, in its line. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/status.h"
#include "launch/megatron_args.h"
#include "launch/run_readers.h"
#include "plan/plan.h"

enum { MOST_BYTES = 1 << 20 };

/* Fields that are called otherwise than their argument; of those that turn off, the argument that they leave out.
 * NULL: nothing that a plan says. */
static const struct renamed {
  const char *field, *argument;
  bool off;
} renamed[] = {
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
    {"fp8_param_gather", NULL, false},
    {"reuse_grad_buf_for_mxfp8_param_ag", NULL, false},
    {"pipeline_dtype", NULL, false},
    {"cpu_offloading_weights", NULL, false},
    {"activation_func", NULL, false},
    {"batch_p2p_comm", NULL, false},
    {"apply_rope_fusion", NULL, false},
    {"bias_activation_fusion", NULL, false},
    {"bias_dropout_fusion", NULL, false},
    {"moe_permute_fusion", NULL, false},
    {"moe_router_fusion", NULL, false},
    {"moe_shared_expert_overlap", NULL, false},
    {"transformer_layer_spec", NULL, false},
    {"layernorm_zero_centered_gamma", NULL, false},
    {"hetereogenous_dist_checkpoint", NULL, false},
    {"should_pad_vocab", NULL, false},
    {"is_hybrid_model", NULL, false},
    {"calculate_per_token_loss", NULL, false},
    {"rope_scaling", "use-rope-scaling", false},
    {"use_te_rng_tracker", NULL, false},
};

static bool is_word(const char *word, size_t n, const char *text) {
  return strlen(text) == n && memcmp(word, text, n) == 0;
}

/* A value of Python's as words: strings and lists without their signs, a type or member by its last name. */
static void put_value(const char *value, size_t n, FILE *out) {
  bool list = n && *value == '[', text = n && (*value == '"' || *value == '\'');
  fputs(list ? " " : " '", out);
  if (!list && !text && memchr(value, '.', n) && isalpha((unsigned char)*value)) {
    const char *dot = memchr(value, '.', n);
    n -= (size_t)(dot + 1 - value);
    value = dot + 1;
  }
  if (is_word(value, n, "bfloat16")) value = "bf16", n = 4;
  if (is_word(value, n, "uint8")) value = "fp8", n = 3;
  if (is_word(value, n, "float16")) value = "fp16", n = 4;
  for (size_t i = 0; i < n; i++)
    if (list && strchr("[],\"'", value[i]))
      fputc(' ', out);
    else if (!strchr("\"'\\$`", value[i])) /* nothing of it is a shell's */
      fputc(value[i], out);
  if (!list) fputc('\'', out);
}

/* NAME=VALUE of a field or keyword: a truth is an argument or none. */
static void put_field(const char *field, size_t n, const char *value, size_t length, FILE *out) {
  bool yes = is_word(value, length, "True"), no = is_word(value, length, "False");
  bool off = false, same = true;
  const char *name = NULL;
  if (is_word(value, length, "None")) return;
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed && same; i++) {
    if (!is_word(field, n, renamed[i].field)) continue;
    same = false;
    off = renamed[i].off;
    name = renamed[i].argument;
  }
  for (int f = 0; f < PZ_PLAN_FIELDS && same; f++) {
    const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)f);
    const char *own = x->in[PZ_LAUNCH_BRIDGE], *megatron = x->in[PZ_LAUNCH_MEGATRON];
    if (!own || !megatron || !is_word(field, n, own)) continue;
    same = false;
    name = megatron + 2;
  }
  if ((!same && !name) || ((yes || no) && yes == off)) return;
  fprintf(out, " --%s", same ? "" : name);
  for (size_t i = 0; i < n && same; i++) fputc(field[i] == '_' ? '-' : field[i], out);
  if (!yes && !no) put_value(value, length, out);
}

/* What of a program's calls is read. */
static bool is_read_call(const char *line, size_t n) {
  static const char *const calls[] = {"DistributedDataParallelConfig(", "TrainingConfig("};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    size_t length = strlen(calls[i]);
    if (n >= length && memcmp(line + n - length, calls[i], length) == 0) return true;
  }
  return false;
}

static const char *find_text(const char *line, size_t n, const char *text) {
  size_t length = strlen(text);
  for (size_t i = 0; i + length <= n; i++)
    if (memcmp(line + i, text, length) == 0) return line + i;
  return NULL;
}

/* A line of the program as arguments; `inside`: it stands in a call that is read. */
static void put_line(const char *line, size_t n, bool *inside, FILE *out) {
  static const char *const objects[] = {"model.", "precision.", "optimizer.", "ddp.", "train."};
  while (n && isspace((unsigned char)line[n - 1])) n--;
  if (*inside && n && *line == ')') *inside = false;
  if (is_read_call(line, n)) *inside = true;
  if (find_text(line, n, "MLAModelProvider()")) fputs(" --multi-latent-attention", out);
  if (find_text(line, n, "activation_func = squared_relu")) fputs(" --squared-relu", out);
  if (find_text(line, n, "\"bf16_mixed\"")) fputs(" --bf16", out);
  if (find_text(line, n, "\"fp16_mixed\"")) fputs(" --fp16", out);
  const char *equals = memchr(line, '=', n);
  if (!equals) return;
  const char *name = line, *last = equals, *value = equals + 1, *end = line + n;
  bool field = false;
  for (size_t i = 0; i < sizeof objects / sizeof *objects && !field; i++) {
    size_t length = strlen(objects[i]);
    field = n > length && memcmp(line, objects[i], length) == 0;
    if (field) name += length;
  }
  if (!field && !(*inside && *line == ' ')) return;
  while (name < last && *name == ' ') name++;
  while (last > name && last[-1] == ' ') last--;
  while (value < end && *value == ' ') value++;
  if (!field && end > value && end[-1] == ',') end--;
  for (const char *c = name; c < last; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') return;
  if (last > name && end > value)
    put_field(name, (size_t)(last - name), value, (size_t)(end - value), out);
}

bool pz_bridge_is(const char *text, size_t bytes) {
  return find_text(text, bytes, "from megatron.bridge.") != NULL;
}

/* The text with the program's lines as arguments, and the others as they are. */
static char *bridge_arguments(const char *text, size_t bytes) {
  struct pz_document d = {text, bytes, 1};
  struct pz_buffer b = {.text = NULL};
  FILE *out = pz_buffer_stream(&b);
  bool inside = false;
  (void)pz_script_document(text, bytes, ".py", &d);
  const char *end = text + bytes;
  for (const char *at = text, *next; out && at < end; at = next + 1) {
    next = memchr(at, '\n', (size_t)(end - at));
    if (!next) next = end;
    if (at >= d.text && at < d.text + d.bytes)
      put_line(at, (size_t)(next - at), &inside, out);
    else
      fwrite(at, 1, (size_t)(next - at), out);
    fputc('\n', out);
  }
  if (out && pz_buffer_close(out)) return b.text;
  pz_free(b.text);
  return NULL;
}

/* ---- adapters ------------------------------------------------------------------------------- */

/* Fields of LoRA (megatron/bridge/peft/lora.py) and what they are without being named; others do not matter here. */
struct adapters {
  char modules[400];
  double rank, dropout;
};

/* The end of a value: the comma or bracket behind it. */
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
      depth += (*at == '[' || *at == '(') - (*at == ']' || *at == ')');
    }
  }
  return at;
}

/* Of what stands there, the rest of its line, for a message. */
static int line_part(const char *at, const char *end) {
  int n = 0;
  while (at + n < end && at[n] != '\n' && n < 60) n++;
  return n;
}

static void take_modules(const char *at, const char *end, struct adapters *out) {
  size_t n = 0;
  for (; at < end && n + 2 < sizeof out->modules; at++)
    if (isalnum((unsigned char)*at) || *at == '_')
      out->modules[n++] = *at;
    else if (*at == ',' && n && memchr(at, '_', (size_t)(end - at))) /* not one behind the last */
      out->modules[n++] = '+';
  out->modules[n] = 0;
}

static bool take_number(const char *at, const char *end, double *out) {
  char number[32], *rest;
  size_t n = (size_t)(end - at);
  if (!n || n >= sizeof number) return false;
  memcpy(number, at, n);
  number[n] = 0;
  *out = strtod(number, &rest);
  return rest != number && !rest[strspn(rest, " \n")] && *out >= 0;
}

/* One keyword of the call, "dim=16"; false: not one that is known, with such a value. */
static bool take_keyword(const char *at, const char *end, struct adapters *out) {
  static const char *const others[] = {"alpha",
                                       "dropout_position",
                                       "lora_A_init_method",
                                       "lora_B_init_method",
                                       "a2a_experimental",
                                       "lora_dtype",
                                       "share_expert_adapters",
                                       "normalize_moe_lora"};
  const char *equals = memchr(at, '=', (size_t)(end - at));
  if (!equals) return false;
  const char *name = at, *last = equals, *value = equals + 1;
  while (last > name && last[-1] == ' ') last--;
  while (value < end && isspace((unsigned char)*value)) value++;
  size_t n = (size_t)(last - name);
  if (is_word(name, n, "dim")) return take_number(value, end, &out->rank) && out->rank >= 1;
  if (is_word(name, n, "dropout")) return take_number(value, end, &out->dropout);
  if (is_word(name, n, "target_modules"))
    return *value == '[' && (take_modules(value, end, out), true);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (is_word(name, n, others[i])) return true;
  return false;
}

/* "peft = LoRA(...)" as a plan has it.  *out NULL: the program has none. */
static enum pz_status bridge_adapters(const char *name, const char *text, size_t bytes,
                                      struct pz_arena *arena, const char **out,
                                      struct pz_error *err) {
  struct adapters a = {"linear_qkv+linear_proj+linear_fc1+linear_fc2", 32, 0};
  const char *end = text + bytes, *at = text;
  size_t line = 1;
  *out = NULL;
  for (const char *next; at < end; at = next + 1, line++) { /* the line that names them */
    next = memchr(at, '\n', (size_t)(end - at));
    if (!next) next = end;
    while (at < next && *at == ' ') at++;
    if (next - at < 5 || memcmp(at, "peft", 4) != 0 || !strchr(" =", at[4])) continue;
    while (at < next && *at != '=') at++;
    break;
  }
  if (at >= end) return PZ_OK;
  for (at++; at < end && *at == ' ';) at++;
  if (end - at >= 4 && memcmp(at, "None", 4) == 0) return PZ_OK;
  bool good = end - at > 5 && memcmp(at, "LoRA(", 5) == 0;
  for (at += good ? 5 : 0; good && at < end;) {
    while (at < end && isspace((unsigned char)*at)) at++;
    if (at < end && *at == ')') break;
    const char *last = value_end(at, end);
    good = take_keyword(at, last, &a);
    if (good) at = last < end && *last == ',' ? last + 1 : last;
  }
  if (!good)
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:%zu: peft '%.*s'; accepted: LoRA(target_modules=[...], dim=..., alpha=..., "
                   "dropout=...) by keywords",
                   name, line, line_part(at, end), at);
  *out = a.dropout > 0 ? pz_arena_printf(arena, "lora:%.0f:%s:%.10g", a.rank, a.modules, a.dropout)
                       : pz_arena_printf(arena, "lora:%.0f:%s", a.rank, a.modules);
  return *out ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
}

enum pz_status pz_bridge_read(const char *name, const char *text, size_t bytes,
                              const struct pz_run_plan_options *o, struct pz_arena *arena,
                              struct pz_run_plan *out, struct pz_error *err) {
  struct pz_run_plan m;
  if (bytes > MOST_BYTES)
    return pz_fail(err, PZ_LIMIT, "%s: %zu bytes; accepted: at most %d", name, bytes, MOST_BYTES);
  char *arguments = bridge_arguments(text, bytes);
  if (!arguments) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  enum pz_status status = pz_megatron_read(name, arguments, strlen(arguments), o, arena, &m, err);
  pz_free(arguments);
  if (status != PZ_OK) return status;
  m.plan.framework = pz_framework_find("nemo");
  m.plan.fused_loss = false; /* its recipes have Transformer Engine's kernel */
  if (m.plan.moment_bytes == 0) m.plan.moment_bytes = 4;
  pz_moments_settle(&m.plan, m.plan.etp > 0);
  m.megatron = false;
  status = bridge_adapters(name, text, bytes, arena, &m.plan.peft, err);
  if (status != PZ_OK) return status;
  if (m.plan.peft) m.from[PZ_PLAN_PEFT] = "LoRA";
  m.from[PZ_PLAN_FRAMEWORK] = "Megatron Bridge's fields";
  *out = m;
  return PZ_OK;
}
