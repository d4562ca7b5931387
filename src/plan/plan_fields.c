/* Access to the fields of a plan by the table of plan_fields.def (plan_fields.h).
 *
 * fields[] describes each field: kind, position in struct pz_plan, value when unset, and range.
 * Each field can be read and set as a number, as text and as JSON.  What the fields mean is in
 * plan.c. */
#include "plan/plan_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "plan/plan.h"

const char *const pz_recomputation_names[] = {"none",      "selective", "full",
                                              "alternate", "half",      NULL};
const char *const pz_execution_names[] = {"eager", "compile", "graph", "serial", "scheduled", NULL};
const char *const pz_precision_names[] = {"bf16", "fp8", "fp16", "nvfp4", NULL};
const char *const pz_fp8_recipe_names[] = {"delayed", "current", "blockwise", "mxfp8", NULL};
const char *const pz_act_precision_names[] = {"bf16", "fp8", NULL};
const char *const pz_wide_module_names[] = {"attn",      "latent",         "mtp",
                                            "mamba_out", "mamba_out_bf16", NULL};
const char *const pz_dispatcher_names[] = {"alltoall", "deepep", "hybridep", NULL};
const char *const pz_overlap_names[] = {"grad", "param", "tp", "p2p", "ep", NULL};
const char *const pz_module_names[] = {"layernorm", "moe_act",        "mla_up_proj", "mlp",
                                       "moe",       "shared_experts", "core_attn",   NULL};
const char *const pz_graph_module_names[] = {"attn",           "mlp",   "moe_router",
                                             "moe_preprocess", "mamba", NULL};
const char *const pz_main_params_names[] = {"fp32", "fp16", "remainders", "none", NULL};
const char *const pz_offload_names[] = {"activations", "optimizer", NULL};
const char *const pz_offload_module_names[] = {"attn_norm", "qkv_linear",      "core_attn",
                                               "attn_proj", "mlp_norm",        "expert_fc1",
                                               "moe_act",   "fused_group_mlp", NULL};
const char *const pz_pipeline_names[] = {"1f1b", "interleaved", "gpipe",    "zb-h1", "zb-2p",
                                         "zb-v", "dualpipe-v",  "dualpipe", NULL};
const char *const pz_saved_names[] = {"qkv", "context", "out", "mlp_in", "mlp_out", "host", NULL};

#define MEGATRON(x) [PZ_LAUNCH_MEGATRON] = x,
#define BRIDGE(x) [PZ_LAUNCH_BRIDGE] = x,
#define TITAN(x) [PZ_LAUNCH_TITAN] = x,
#define DEEPSPEED(x) [PZ_LAUNCH_DEEPSPEED] = x,
#define ARG(x)
#define NAMES(x) .names = x,
#define COLUMN(x) .column = x,
#define SEARCH(x) .search = true,
#define FOLLOW(x) .search = true,
#define DEFAULT(x)
#define OWN
#define HIDDEN
#define RARE .rare = true,
#define FROM(x) .from = x,
#define IN(...) .in = {__VA_ARGS__},
static const struct pz_plan_field_info fields[PZ_PLAN_FIELDS] = {
#define PZ_PLAN_FIELD(id, type, called, what, absent, min, max, text, more)                        \
  [PZ_PLAN_##id] = {.name = #called,                                                               \
                    .kind = PZ_PLAN_KIND_##what,                                                   \
                    .offset = offsetof(struct pz_plan, called),                                    \
                    .bytes = sizeof(type),                                                         \
                    .unset = absent,                                                               \
                    .least = min,                                                                  \
                    .most = max,                                                                   \
                    .help = text,                                                                  \
                    more},
#include "plan/plan_fields.def"
#undef PZ_PLAN_FIELD
};

const struct pz_plan_field_info *pz_plan_field(enum pz_plan_field field) { return &fields[field]; }

const char *pz_plan_field_at(const void *unused, size_t i) {
  (void)unused;
  return i < PZ_PLAN_FIELDS ? fields[i].name : NULL;
}

const char *pz_plan_field_name(enum pz_plan_field field) {
  return pz_plan_field_at(NULL, (size_t)field);
}

enum pz_plan_field pz_plan_field_find(const char *name) {
  int i = 0;
  while (i < PZ_PLAN_FIELDS && strcmp(fields[i].name, name) != 0) i++;
  return (enum pz_plan_field)i;
}

/* Returns the value of a field as a number, which is 1 for a text or a list that is set. */
static double field_number(const struct pz_plan *plan, enum pz_plan_field field) {
  const void *at = (const char *)plan + fields[field].offset;
  switch (fields[field].kind) {
  case PZ_PLAN_KIND_COUNT:
  case PZ_PLAN_KIND_LENGTH: return (double)*(const int64_t *)at;
  case PZ_PLAN_KIND_REAL: return *(const double *)at;
  case PZ_PLAN_KIND_FLAG: return *(const bool *)at;
  case PZ_PLAN_KIND_TEXT: return *(const char *const *)at != NULL;
  case PZ_PLAN_KIND_LIST: return *(const int64_t *const *)at != NULL;
  default: return *(const int *)at;
  }
}

void pz_plan_field_store(struct pz_plan *plan, enum pz_plan_field field, double value) {
  void *at = (char *)plan + fields[field].offset;
  switch (fields[field].kind) {
  case PZ_PLAN_KIND_COUNT:
  case PZ_PLAN_KIND_LENGTH: *(int64_t *)at = (int64_t)value; break;
  case PZ_PLAN_KIND_REAL: *(double *)at = value; break;
  case PZ_PLAN_KIND_FLAG: *(bool *)at = value > 0; break;
  case PZ_PLAN_KIND_TEXT: *(const char **)at = NULL; break;
  case PZ_PLAN_KIND_LIST: *(const int64_t **)at = NULL; break;
  default: *(int *)at = (int)pz_fmin(value, 1 << 30);
  }
}

void pz_plan_field_copy(struct pz_plan *to, const struct pz_plan *from, enum pz_plan_field field) {
  size_t offset = fields[field].offset;
  memcpy((char *)to + offset, (const char *)from + offset, fields[field].bytes);
}

const char *pz_plan_word(const char *const *names, int i) {
  int n = 0;
  while (n <= i && names[n]) n++;
  return i >= 0 && i < n ? names[i] : "-";
}

struct pz_plan pz_plan_default(void) {
  struct pz_plan plan = {.size = sizeof plan};
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    pz_plan_field_store(&plan, (enum pz_plan_field)i, fields[i].unset);
  return plan;
}

bool pz_plan_is_unset(const struct pz_plan *plan, enum pz_plan_field field) {
  return field_number(plan, field) == fields[field].unset;
}

/* Compares the values of a field in two plans, as strcmp() does: texts by their bytes, the list by its
 * length and then its numbers, all other fields as numbers. */
int pz_plan_field_compare(const struct pz_plan *a, const struct pz_plan *b,
                          enum pz_plan_field field) {
  const char *a_member = (const char *)a + fields[field].offset;
  const char *b_member = (const char *)b + fields[field].offset;
  if (fields[field].kind == PZ_PLAN_KIND_TEXT) {
    const char *a_text = *(const char *const *)(const void *)a_member;
    const char *b_text = *(const char *const *)(const void *)b_member;
    return strcmp(a_text ? a_text : "", b_text ? b_text : "");
  }
  if (fields[field].kind == PZ_PLAN_KIND_LIST) {
    int64_t n = a->n_stage_recompute;
    if (n != b->n_stage_recompute) return n < b->n_stage_recompute ? -1 : 1;
    const int64_t *a_list = *(const int64_t *const *)(const void *)a_member;
    const int64_t *b_list = *(const int64_t *const *)(const void *)b_member;
    for (int64_t i = 0; i < n && a_list && b_list; i++)
      if (a_list[i] != b_list[i]) return a_list[i] < b_list[i] ? -1 : 1;
    return (a_list != NULL) - (b_list != NULL);
  }
  double a_number = field_number(a, field), b_number = field_number(b, field);
  return (a_number > b_number) - (a_number < b_number);
}

uint64_t pz_plan_given(const struct pz_plan *plan) {
  uint64_t set = 0;
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (!pz_plan_is_unset(plan, (enum pz_plan_field)i)) set |= UINT64_C(1) << i;
  return set;
}

uint64_t pz_plan_searched(void) {
  uint64_t set = 0;
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (fields[i].search) set |= UINT64_C(1) << i;
  return set;
}

void pz_require_plan_ranges(struct pz_call *call, const struct pz_plan *plan) {
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    const struct pz_plan_field_info *info = &fields[i];
    bool is_number = info->kind != PZ_PLAN_KIND_TEXT && info->kind != PZ_PLAN_KIND_LIST;
    double value = field_number(plan, (enum pz_plan_field)i), most = info->most;
    if (!is_number || value == info->unset) continue;
    if (info->kind == PZ_PLAN_KIND_CHOICE) {
      int n = 0;
      while (info->names[n]) n++;
      most = n - 1;
    }
    if (!(value >= info->least && value <= most))
      pz_raise(call, PZ_BAD_USE, "%s %g; accepted: %g to %g", info->name, value, info->least, most);
  }
}

char *pz_set_text(const char *const *names, int set, char *buf, size_t size) {
  size_t length = 0;
  snprintf(buf, size, "none");
  for (int bit = 0; names[bit] && length < size; bit++)
    if (set >> bit & 1)
      length +=
          (size_t)snprintf(buf + length, size - length, "%s%s", length ? "," : "", names[bit]);
  return buf;
}

/* Returns the value of a field of the kind SET that takes effect: with the modules that the
 * framework recomputes by default, and without overlaps for which the plan has no communication. */
static int effective_set(const struct pz_plan *plan, enum pz_plan_field field) {
  if (field == PZ_PLAN_OVERLAP) return pz_plan_effective_overlap(plan);
  bool has_framework = plan->framework >= 0;
  if (field == PZ_PLAN_RECOMPUTE_MODULES && has_framework && !plan->recompute_modules)
    return pz_plan_recomputed_modules(plan);
  return (int)field_number(plan, field);
}

/* Writes the value of a field that takes effect into buf, and returns buf: words for choices and sets,
 * "on" or "off", a number, or "-" if the field is unset or a list. */
char *pz_plan_field_text(const struct pz_plan *plan, enum pz_plan_field field, char *buf,
                         size_t size) {
  if ((unsigned)field >= PZ_PLAN_FIELDS) return pz_text_copy(buf, size, "-");
  const struct pz_plan_field_info *info = &fields[field];
  double value = field == PZ_PLAN_ETP ? (double)pz_plan_etp(plan) : field_number(plan, field);
  bool is_unset = value == info->unset && info->unset < 0; /* other unset values are valid ones */
  if (info->kind >= PZ_PLAN_KIND_LIST || is_unset) return pz_text_copy(buf, size, "-");
  switch (info->kind) {
  case PZ_PLAN_KIND_CHOICE: return pz_text_copy(buf, size, pz_plan_word(info->names, (int)value));
  case PZ_PLAN_KIND_SET: return pz_set_text(info->names, effective_set(plan, field), buf, size);
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG: return pz_text_copy(buf, size, value > 0 ? "on" : "off");
  case PZ_PLAN_KIND_TEXT: {
    const char *text;
    memcpy(&text, (const char *)plan + info->offset, sizeof text);
    return pz_text_plain(pz_text_copy(buf, size, text && *text ? text : "-"));
  }
  default: snprintf(buf, size, "%.10g", value);
  }
  return buf;
}

/* Returns the position of a word of n bytes among the names of a choice or a set (`info`).  Raises
 * an error with the given status if it is not among them. */
static int find_word(struct pz_call *call, enum pz_status status,
                     const struct pz_plan_field_info *info, const char *word, size_t n) {
  char names[400];
  for (int i = 0; info->names[i]; i++)
    if (pz_text_is(word, n, info->names[i])) return i;
  pz_text_join(names, sizeof names, pz_name_in_list, info->names);
  pz_raise(call, status, "%s is '%.*s'; accepted: %s%s", info->name, n < 60 ? (int)n : 60, word,
           info->kind == PZ_PLAN_KIND_SET ? "none, all, or a list of " : "", names);
}

/* Reads a set of names as bits: "all", "none", or names separated by commas or spaces.  Errors are
 * raised with the given status. */
static int read_set(struct pz_call *call, enum pz_status status,
                    const struct pz_plan_field_info *info, const char *text) {
  int set = 0;
  if (strcmp(text, "all") == 0) return (int)info->most;
  if (strcmp(text, "none") == 0) return 0;
  for (const char *word = text;; word++) {
    size_t n = strcspn(word, ", ");
    set |= 1 << find_word(call, status, info, word, n);
    word += n;
    if (!*word) return set;
  }
}

/* Reads a field from text, which unsets it if it is empty. */
void pz_read_plan_field(struct pz_call *call, enum pz_status status, struct pz_plan *plan,
                        enum pz_plan_field field, const char *text) {
  static const char *const states[] = {"off", "on", "false", "true", "0", "1", NULL};
  const struct pz_plan_field_info *info = &fields[field];
  if (!*text) {
    pz_plan_field_store(plan, field, info->unset);
    return;
  }
  double value = 0;
  switch (info->kind) {
  case PZ_PLAN_KIND_TEXT: *(const char **)(void *)((char *)plan + info->offset) = text; return;
  case PZ_PLAN_KIND_LIST:
  case PZ_PLAN_KIND_LENGTH:
    pz_raise(call, status, "%s is '%.40s'; accepted: nothing, it is not read from texts",
             info->name, text);
  case PZ_PLAN_KIND_CHOICE: value = find_word(call, status, info, text, strlen(text)); break;
  case PZ_PLAN_KIND_SET: value = read_set(call, status, info, text); break;
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG: {
    int state = 0;
    while (states[state] && !pz_text_same(states[state], text)) state++;
    if (!states[state])
      pz_raise(call, status, "%s is '%.40s'; accepted: on, off", info->name, text);
    value = state % 2; /* states[] alternates between off and on */
    break;
  }
  default: {
    bool is_integer = info->kind != PZ_PLAN_KIND_REAL;
    char *end;
    errno = 0;
    value = strtod(text, &end);
    bool is_number = end != text && !*end && !errno;
    bool in_range = value >= info->least && value <= info->most;
    if (!is_number || !in_range || (is_integer && value != floor(value)))
      pz_raise(call, status, "%s is '%.40s'; accepted: %s from %.10g to %.10g", info->name, text,
               is_integer ? "an integer" : "a number", info->least, info->most);
  }
  }
  pz_plan_field_store(plan, field, value);
}

/* Arguments of pz_try_plan_field(), which states the field, and pz_plan_set(), which names it. */
struct field_request {
  struct pz_plan *plan;
  enum pz_plan_field field; /* PZ_PLAN_FIELDS if the field is named */
  const char *name, *text;
};

/* Sets the stated or the named field from text, within a border. */
static void set_plan_field(struct pz_call *call, void *ctx) {
  const struct field_request *request = ctx;
  enum pz_plan_field field = request->field;
  char names[600];
  if (field == PZ_PLAN_FIELDS) { /* the arguments of pz_plan_set() are checked first */
    pz_require(call, request->plan, "plan");
    pz_require(call, request->name, "name");
    pz_require(call, request->text, "value");
    field = pz_plan_field_find(request->name);
    if (field == PZ_PLAN_FIELDS || fields[field].kind >= PZ_PLAN_KIND_LIST)
      pz_raise(call, PZ_BAD_USE, "a plan has no field '%.40s'; accepted: %s", request->name,
               pz_text_join(names, sizeof names, pz_plan_field_at, NULL));
  }
  pz_read_plan_field(call, PZ_BAD_USE, request->plan, field, request->text);
}

bool pz_try_plan_field(struct pz_plan *plan, enum pz_plan_field field, const char *text,
                       struct pz_error *why) {
  struct field_request args = {plan, field, NULL, text};
  return pz_border(set_plan_field, &args, why) == PZ_OK;
}

enum pz_status pz_plan_set(struct pz_plan *plan, const char *name, const char *value,
                           struct pz_error *err) {
  struct field_request args = {plan, PZ_PLAN_FIELDS, name, value};
  return pz_border(set_plan_field, &args, err);
}

bool pz_plan_field_is_relevant(const struct pz_plan *plan, enum pz_plan_field field) {
  switch (field) {
  case PZ_PLAN_EP:
  case PZ_PLAN_ETP:
  case PZ_PLAN_IMBALANCE:
  case PZ_PLAN_MTP: return plan->ep > 1 || plan->etp > 0 || plan->imbalance > 1 || plan->mtp;
  case PZ_PLAN_DISPATCHER: return plan->ep > 1;
  case PZ_PLAN_RECOMPUTE_MODULES: return effective_set(plan, field);
  case PZ_PLAN_STAGE_RECOMPUTE:
  case PZ_PLAN_N_STAGE_RECOMPUTE: return false;
  case PZ_PLAN_CUDA_GRAPHS: return plan->cuda_graphs >= 0;
  case PZ_PLAN_FP8_RECIPE: return plan->fp8_recipe >= 0;
  case PZ_PLAN_MAIN_PARAMS: return plan->main_params >= 0;
  case PZ_PLAN_MEMORY_MARGIN: return plan->memory_margin >= 0;
  default: return !fields[field].rare || field_number(plan, field) > 0;
  }
}

/* Returns a new reference to the value of a field as JSON: a choice or a set as a string, and an
 * unset field as null. */
static json_t *field_json(const struct pz_plan *plan, enum pz_plan_field field) {
  const struct pz_plan_field_info *info = &fields[field];
  double value = field == PZ_PLAN_ETP ? (double)pz_plan_etp(plan) : field_number(plan, field);
  char text[PZ_FIELD_TEXT_MOST];
  if (info->kind == PZ_PLAN_KIND_LIST) {
    json_t *list = json_array();
    for (int64_t i = 0; i < plan->n_stage_recompute; i++)
      json_array_append_new(list, json_integer((json_int_t)plan->stage_recompute[i]));
    return list;
  }
  if (info->kind == PZ_PLAN_KIND_TEXT) {
    const char *word;
    memcpy(&word, (const char *)plan + info->offset, sizeof word);
    return word ? json_string(word) : json_null();
  }
  if (value == info->unset && info->unset < 0) return json_null();
  switch (info->kind) {
  case PZ_PLAN_KIND_CHOICE:
  case PZ_PLAN_KIND_SET: return json_string(pz_plan_field_text(plan, field, text, sizeof text));
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG: return json_boolean(value > 0);
  case PZ_PLAN_KIND_REAL: return json_real(value);
  default: return json_integer((json_int_t)value);
  }
}

json_t *pz_plan_json(const struct pz_plan *plan) {
  json_t *object = json_object();
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field field = (enum pz_plan_field)i;
    bool is_list = field == PZ_PLAN_STAGE_RECOMPUTE && plan->stage_recompute;
    if (is_list || pz_plan_field_is_relevant(plan, field))
      json_object_set_new(object, fields[i].name, field_json(plan, field));
  }
  return object;
}

/* Reads stage_recompute, the only list of a plan, from JSON: the number of recomputed layers of
 * each stage. */
static void read_stage_list(struct pz_call *call, const struct pz_plan_field_info *info,
                            const json_t *json, struct pz_plan *plan) {
  size_t n = json_array_size(json);
  int64_t *list = pz_alloc(call, n, sizeof *list);
  char found[80];
  for (size_t i = 0; i < n; i++) {
    const json_t *value = json_array_get(json, i);
    list[i] = json_integer_value(value);
    if (!json_is_integer(value) || list[i] < 0 || (double)list[i] > info->most)
      pz_raise(call, PZ_BAD_INPUT, "%s[%zu] is %s; accepted: an integer from 0 to %.10g",
               info->name, i, pz_json_brief(value, found, sizeof found), info->most);
  }
  if (!n)
    pz_raise(call, PZ_BAD_INPUT, "%s is %s; accepted: a list of a number for each stage",
             info->name, pz_json_brief(json, found, sizeof found));
  plan->stage_recompute = list;
  plan->n_stage_recompute = (int64_t)n;
}

/* Raises the error that a JSON value has the wrong type for a field. */
static _Noreturn void reject_json_type(struct pz_call *call, const struct pz_plan_field_info *info,
                                       const json_t *json) {
  char accepted[400], found[80];
  switch (info->kind) {
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG: pz_text_copy(accepted, sizeof accepted, "true or false"); break;
  case PZ_PLAN_KIND_TEXT: pz_text_copy(accepted, sizeof accepted, "a text"); break;
  case PZ_PLAN_KIND_CHOICE:
  case PZ_PLAN_KIND_SET:
    pz_text_join(accepted, sizeof accepted, pz_name_in_list, info->names);
    break;
  default:
    snprintf(accepted, sizeof accepted, "a number from %.10g to %.10g", info->least, info->most);
  }
  pz_raise(call, PZ_BAD_INPUT, "%s is %s; accepted: %s", info->name,
           pz_json_brief(json, found, sizeof found), accepted);
}

/* Sets a field of the plan from JSON.  Raises an error if the value has another type or is out of
 * range.  Numbers and booleans are converted to text, so that one function checks all values. */
void pz_read_plan_json_field(struct pz_call *call, struct pz_plan *plan, enum pz_plan_field field,
                             const json_t *json) {
  const struct pz_plan_field_info *info = &fields[field];
  const char *text = "";
  char number[40];
  if (json_is_null(json)) {
    pz_plan_field_store(plan, field, info->unset);
    return;
  }
  switch (info->kind) {
  case PZ_PLAN_KIND_LIST: read_stage_list(call, info, json, plan); return;
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG:
    if (!json_is_boolean(json)) reject_json_type(call, info, json);
    text = json_is_true(json) ? "on" : "off";
    break;
  case PZ_PLAN_KIND_CHOICE:
  case PZ_PLAN_KIND_SET:
  case PZ_PLAN_KIND_TEXT:
    if (!json_is_string(json)) reject_json_type(call, info, json);
    text = pz_copy_text(call, json_string_value(json));
    break;
  default:
    if (!json_is_number(json)) reject_json_type(call, info, json);
    snprintf(number, sizeof number, "%.17g", json_number_value(json));
    if (json_number_value(json) != info->unset) text = number; /* "" unsets the field */
  }
  if (info->kind == PZ_PLAN_KIND_TEXT)
    *(const char **)(void *)((char *)plan + info->offset) = text; /* even an empty one */
  else
    pz_read_plan_field(call, PZ_BAD_INPUT, plan, field, text);
}
