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
                    .unset = absent,                                                               \
                    .least = min,                                                                  \
                    .most = max,                                                                   \
                    .help = text,                                                                  \
                    more},
#include "plan/plan_fields.def"
#undef PZ_PLAN_FIELD
};

const struct pz_plan_field_info *pz_plan_field(enum pz_plan_field f) { return &fields[f]; }

const char *pz_plan_field_name(enum pz_plan_field f) {
  return (unsigned)f < PZ_PLAN_FIELDS ? fields[f].name : NULL;
}

enum pz_plan_field pz_plan_field_find(const char *name) {
  int f = 0;
  while (f < PZ_PLAN_FIELDS && strcmp(fields[f].name, name) != 0) f++;
  return (enum pz_plan_field)f;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static double field_number(const struct pz_plan *p, enum pz_plan_field f) {
  const void *at = (const char *)p + fields[f].offset;
  switch (fields[f].kind) {
  case PZ_PLAN_KIND_COUNT:
  case PZ_PLAN_KIND_LENGTH: return (double)*(const int64_t *)at;
  case PZ_PLAN_KIND_REAL: return *(const double *)at;
  case PZ_PLAN_KIND_FLAG: return *(const bool *)at;
  case PZ_PLAN_KIND_TEXT: return *(const char *const *)at != NULL;
  case PZ_PLAN_KIND_LIST: return *(const int64_t *const *)at != NULL;
  default: return *(const int *)at;
  }
}

void pz_plan_field_store(struct pz_plan *p, enum pz_plan_field f, double v) {
  void *at = (char *)p + fields[f].offset;
  switch (fields[f].kind) {
  case PZ_PLAN_KIND_COUNT:
  case PZ_PLAN_KIND_LENGTH: *(int64_t *)at = (int64_t)v; break;
  case PZ_PLAN_KIND_REAL: *(double *)at = v; break;
  case PZ_PLAN_KIND_FLAG: *(bool *)at = v > 0; break;
  case PZ_PLAN_KIND_TEXT: *(const char **)at = NULL; break;
  case PZ_PLAN_KIND_LIST: *(const int64_t **)at = NULL; break;
  default: *(int *)at = (int)pz_fmin(v, 1 << 30);
  }
}

static const char *const *field_as_text(const struct pz_plan *p, enum pz_plan_field f) {
  return (const char *const *)(const void *)((const char *)p + fields[f].offset);
}

static void set_text(struct pz_plan *p, enum pz_plan_field f, const char *text) {
  *(const char **)(void *)((char *)p + fields[f].offset) = text;
}

void pz_plan_field_copy(struct pz_plan *to, const struct pz_plan *from, enum pz_plan_field f) {
  static const size_t bytes[] = {
      [PZ_PLAN_KIND_COUNT] = sizeof(int64_t),        [PZ_PLAN_KIND_NUMBER] = sizeof(int),
      [PZ_PLAN_KIND_CHOICE] = sizeof(int),           [PZ_PLAN_KIND_SET] = sizeof(int),
      [PZ_PLAN_KIND_SWITCH] = sizeof(int),           [PZ_PLAN_KIND_FLAG] = sizeof(bool),
      [PZ_PLAN_KIND_REAL] = sizeof(double),          [PZ_PLAN_KIND_TEXT] = sizeof(const char *),
      [PZ_PLAN_KIND_LIST] = sizeof(const int64_t *), [PZ_PLAN_KIND_LENGTH] = sizeof(int64_t)};
  memcpy((char *)to + fields[f].offset, (const char *)from + fields[f].offset,
         bytes[fields[f].kind]);
}

const char *pz_plan_word(const char *const *names, int i) {
  int n = 0;
  while (n <= i && names[n]) n++;
  return i >= 0 && i < n ? names[i] : "-";
}

static int count_names(const char *const *names) {
  int n = 0;
  while (names[n]) n++;
  return n;
}

struct pz_plan pz_plan_default(void) {
  struct pz_plan p = {.size = sizeof p};
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    pz_plan_field_store(&p, (enum pz_plan_field)f, fields[f].unset);
  return p;
}

bool pz_plan_is_unset(const struct pz_plan *p, enum pz_plan_field f) {
  return field_number(p, f) == fields[f].unset;
}

uint64_t pz_plan_given(const struct pz_plan *p) {
  uint64_t set = 0;
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    if (!pz_plan_is_unset(p, (enum pz_plan_field)f)) set |= UINT64_C(1) << f;
  return set;
}

uint64_t pz_plan_searched(void) {
  uint64_t set = 0;
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    if (fields[f].search) set |= UINT64_C(1) << f;
  return set;
}

static double largest(const struct pz_plan_field_info *x) {
  return x->kind == PZ_PLAN_KIND_CHOICE ? count_names(x->names) - 1 : x->most;
}

enum pz_status pz_plan_check_ranges(const struct pz_plan *p, struct pz_error *err) {
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *x = &fields[f];
    double v = field_number(p, (enum pz_plan_field)f), most = largest(x);
    if (x->kind == PZ_PLAN_KIND_TEXT || x->kind == PZ_PLAN_KIND_LIST || v == x->unset) continue;
    if (!(v >= x->least && v <= most))
      return pz_fail(err, PZ_BAD_USE, "%s %g; accepted: %g to %g", x->name, v, x->least, most);
  }
  return PZ_OK;
}

/* ---- texts ---------------------------------------------------------------------------------- */

char *pz_set_text(const char *const *names, int set, char *buf, size_t size) {
  size_t n = 0;
  snprintf(buf, size, "none");
  for (int i = 0; names[i] && n < size; i++)
    if (set >> i & 1) n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "," : "", names[i]);
  return buf;
}

static int told_set(const struct pz_plan *p, enum pz_plan_field f) {
  if (f == PZ_PLAN_RECOMPUTE_MODULES)
    return p->framework < 0 || p->recompute_modules ? p->recompute_modules : pz_plan_modules(p);
  if (f == PZ_PLAN_OVERLAP) return pz_plan_overlap(p);
  return (int)field_number(p, f);
}

char *pz_plan_field_text(const struct pz_plan *p, enum pz_plan_field f, char *buf, size_t size) {
  if ((unsigned)f >= PZ_PLAN_FIELDS) return pz_text_copy(buf, size, "-");
  const struct pz_plan_field_info *x = &fields[f];
  double v = f == PZ_PLAN_ETP ? (double)pz_plan_etp(p) : field_number(p, f);
  if (x->kind >= PZ_PLAN_KIND_LIST || (v == x->unset && x->unset < 0))
    return pz_text_copy(buf, size, "-");
  switch (x->kind) {
  case PZ_PLAN_KIND_CHOICE: return pz_text_copy(buf, size, pz_plan_word(x->names, (int)v));
  case PZ_PLAN_KIND_SET: return pz_set_text(x->names, told_set(p, f), buf, size);
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG: return pz_text_copy(buf, size, v > 0 ? "on" : "off");
  case PZ_PLAN_KIND_TEXT: {
    const char *text = *field_as_text(p, f);
    return pz_text_plain(pz_text_copy(buf, size, text && *text ? text : "-"));
  }
  default: snprintf(buf, size, "%.10g", v);
  }
  return buf;
}

static const char *name_at(const void *ctx, size_t i) { return ((const char *const *)ctx)[i]; }

static enum pz_status wrong_word(const struct pz_plan_field_info *x, const char *word, size_t n,
                                 struct pz_error *err) {
  char names[400];
  pz_text_join(names, sizeof names, name_at, x->names);
  return pz_fail(err, PZ_BAD_USE, "%s is '%.*s'; accepted: %s%s", x->name, n < 60 ? (int)n : 60,
                 word, x->kind == PZ_PLAN_KIND_SET ? "none, all, or a list of " : "", names);
}

static int word_at(const char *const *names, const char *word, size_t n) {
  for (int i = 0; names[i]; i++)
    if (pz_text_is(word, n, names[i])) return i;
  return -1;
}

static enum pz_status read_set(const struct pz_plan_field_info *x, const char *text, int *out,
                               struct pz_error *err) {
  *out = 0;
  if (strcmp(text, "all") == 0) return *out = (int)x->most, PZ_OK;
  if (strcmp(text, "none") == 0) return PZ_OK;
  for (const char *at = text;; at++) {
    size_t n = strcspn(at, ", ");
    int i = word_at(x->names, at, n);
    if (i < 0) return wrong_word(x, at, n, err);
    *out |= 1 << i;
    at += n;
    if (!*at) return PZ_OK;
  }
}

static enum pz_status read_number(const struct pz_plan_field_info *x, const char *text, double *out,
                                  struct pz_error *err) {
  bool whole = x->kind != PZ_PLAN_KIND_REAL;
  char *end;
  errno = 0;
  *out = strtod(text, &end);
  if (end == text || *end || errno || !(*out >= x->least && *out <= x->most) ||
      (whole && *out != floor(*out)))
    return pz_fail(err, PZ_BAD_USE, "%s is '%.40s'; accepted: %s from %.10g to %.10g", x->name,
                   text, whole ? "an integer" : "a number", x->least, x->most);
  return PZ_OK;
}

enum pz_status pz_plan_field_read(struct pz_plan *p, enum pz_plan_field f, const char *text,
                                  struct pz_error *err) {
  const struct pz_plan_field_info *x = &fields[f];
  static const char *const states[] = {"off", "on", "false", "true", "0", "1", NULL};
  enum pz_status status = PZ_OK;
  double v = x->unset;
  int i = 0;
  if (!*text) return pz_plan_field_store(p, f, v), PZ_OK; /* unset */
  switch (x->kind) {
  case PZ_PLAN_KIND_TEXT: return set_text(p, f, text), PZ_OK;
  case PZ_PLAN_KIND_LIST:
  case PZ_PLAN_KIND_LENGTH:
    return pz_fail(err, PZ_BAD_USE, "%s is '%.40s'; accepted: nothing, it is not read from texts",
                   x->name, text);
  case PZ_PLAN_KIND_CHOICE:
    v = i = word_at(x->names, text, strlen(text));
    if (i < 0) status = wrong_word(x, text, strlen(text), err);
    break;
  case PZ_PLAN_KIND_SET:
    status = read_set(x, text, &i, err);
    v = i;
    break;
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG:
    i = word_at(states, text, strlen(text));
    v = i % 2;
    if (i < 0) status = pz_fail(err, PZ_BAD_USE, "%s is '%.40s'; accepted: on, off", x->name, text);
    break;
  default: status = read_number(x, text, &v, err);
  }
  if (status == PZ_OK) pz_plan_field_store(p, f, v);
  return status;
}

static const char *field_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < PZ_PLAN_FIELDS ? fields[i].name : NULL;
}

enum pz_status pz_plan_set(struct pz_plan *p, const char *name, const char *value,
                           struct pz_error *err) {
  char names[600];
  enum pz_status status = pz_need_each(err, {p, "plan"}, {name, "name"}, {value, "value"});
  if (status != PZ_OK) return status;
  enum pz_plan_field f = pz_plan_field_find(name);
  if (f == PZ_PLAN_FIELDS || fields[f].kind >= PZ_PLAN_KIND_LIST)
    return pz_fail(err, PZ_BAD_USE, "a plan has no field '%.40s'; accepted: %s", name,
                   pz_text_join(names, sizeof names, field_name, NULL));
  return pz_plan_field_read(p, f, value, err);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

bool pz_plan_field_told(const struct pz_plan *p, enum pz_plan_field f) {
  switch (f) {
  case PZ_PLAN_EP:
  case PZ_PLAN_ETP:
  case PZ_PLAN_IMBALANCE:
  case PZ_PLAN_MTP: return p->ep > 1 || p->etp > 0 || p->imbalance > 1 || p->mtp;
  case PZ_PLAN_DISPATCHER: return p->ep > 1;
  case PZ_PLAN_RECOMPUTE_MODULES: return told_set(p, f);
  case PZ_PLAN_STAGE_RECOMPUTE:
  case PZ_PLAN_N_STAGE_RECOMPUTE: return false;
  case PZ_PLAN_CUDA_GRAPHS: return p->cuda_graphs >= 0;
  case PZ_PLAN_FP8_RECIPE: return p->fp8_recipe >= 0;
  case PZ_PLAN_MAIN_PARAMS: return p->main_params >= 0;
  case PZ_PLAN_MEMORY_MARGIN: return p->memory_margin >= 0;
  default: return !fields[f].rare || field_number(p, f) > 0;
  }
}

static json_t *field_json(const struct pz_plan *p, enum pz_plan_field f) {
  const struct pz_plan_field_info *x = &fields[f];
  double v = f == PZ_PLAN_ETP ? (double)pz_plan_etp(p) : field_number(p, f);
  char text[PZ_FIELD_TEXT_MOST];
  if (x->kind == PZ_PLAN_KIND_LIST) {
    json_t *list = json_array();
    for (int64_t i = 0; i < p->n_stage_recompute; i++)
      json_array_append_new(list, json_integer((json_int_t)p->stage_recompute[i]));
    return list;
  }
  if (x->kind == PZ_PLAN_KIND_TEXT)
    return *field_as_text(p, f) ? json_string(*field_as_text(p, f)) : json_null();
  if (v == x->unset && x->unset < 0) return json_null();
  switch (x->kind) {
  case PZ_PLAN_KIND_CHOICE:
  case PZ_PLAN_KIND_SET: return json_string(pz_plan_field_text(p, f, text, sizeof text));
  case PZ_PLAN_KIND_SWITCH:
  case PZ_PLAN_KIND_FLAG: return json_boolean(v > 0);
  case PZ_PLAN_KIND_REAL: return json_real(v);
  default: return json_integer((json_int_t)v);
  }
}

json_t *pz_plan_json(const struct pz_plan *p) {
  json_t *j = json_object();
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    if (pz_plan_field_told(p, (enum pz_plan_field)f) ||
        (f == PZ_PLAN_STAGE_RECOMPUTE && p->stage_recompute))
      json_object_set_new(j, fields[f].name, field_json(p, (enum pz_plan_field)f));
  return j;
}

/* The one list of a plan: a number for each stage. */
static enum pz_status read_list(const struct pz_plan_field_info *x, const json_t *j,
                                struct pz_plan *p, struct pz_arena *arena, struct pz_error *err) {
  size_t n = json_array_size(j);
  int64_t *list = n ? pz_arena_alloc(arena, n, sizeof *list) : NULL;
  char found[80];
  for (size_t i = 0; i < n && list; i++) {
    const json_t *v = json_array_get(j, i);
    list[i] = json_integer_value(v);
    if (!json_is_integer(v) || list[i] < 0 || (double)list[i] > x->most)
      return pz_fail(err, PZ_BAD_INPUT, "%s[%zu] is %s; accepted: an integer from 0 to %.10g",
                     x->name, i, pz_json_brief(v, found, sizeof found), x->most);
  }
  if (!n)
    return pz_fail(err, PZ_BAD_INPUT, "%s is %s; accepted: a list of a number for each stage",
                   x->name, pz_json_brief(j, found, sizeof found));
  p->stage_recompute = list;
  p->n_stage_recompute = (int64_t)n;
  return list ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan");
}

/* Numbers and truths as their texts, which have one reader. */
enum pz_status pz_plan_field_from_json(struct pz_plan *p, enum pz_plan_field f, const json_t *j,
                                       struct pz_arena *arena, struct pz_error *err) {
  enum pz_plan_kind kind = fields[f].kind;
  bool truth = kind == PZ_PLAN_KIND_SWITCH || kind == PZ_PLAN_KIND_FLAG;
  bool word = kind == PZ_PLAN_KIND_CHOICE || kind == PZ_PLAN_KIND_SET || kind == PZ_PLAN_KIND_TEXT;
  char number[40];
  const char *text = number;
  struct pz_error why = {0};
  if (json_is_null(j)) return pz_plan_field_store(p, f, fields[f].unset), PZ_OK;
  if (kind == PZ_PLAN_KIND_LIST) return read_list(&fields[f], j, p, arena, err);
  if (truth ? !json_is_boolean(j) : word ? !json_is_string(j) : !json_is_number(j)) {
    char accepted[400], found[80];
    if (truth || kind == PZ_PLAN_KIND_TEXT)
      pz_text_copy(accepted, sizeof accepted, truth ? "true or false" : "a text");
    else if (word)
      pz_text_join(accepted, sizeof accepted, name_at, fields[f].names);
    else
      snprintf(accepted, sizeof accepted, "a number from %.10g to %.10g", fields[f].least,
               fields[f].most);
    return pz_fail(err, PZ_BAD_INPUT, "%s is %s; accepted: %s", fields[f].name,
                   pz_json_brief(j, found, sizeof found), accepted);
  }
  if (truth)
    text = json_is_true(j) ? "on" : "off";
  else if (word)
    text = pz_arena_strdup(arena, json_string_value(j));
  else
    snprintf(number, sizeof number, "%.17g", json_number_value(j));
  if (!text) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plan");
  if (!word && !truth && json_number_value(j) == fields[f].unset) text = ""; /* as it is written */
  if (kind == PZ_PLAN_KIND_TEXT) return set_text(p, f, text), PZ_OK;
  enum pz_status status = pz_plan_field_read(p, f, text, &why);
  return status == PZ_OK ? PZ_OK : pz_fail(err, PZ_BAD_INPUT, "%s", why.message);
}
