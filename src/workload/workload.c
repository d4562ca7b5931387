#include "workload/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/num.h"
#include "core/text.h"
#include "workload/assemble.h"
#include "workload/family.h"
#include "workload/parts.h"

/* Longest default sequence: beyond this nobody trains from the start. */
enum { LONGEST_DEFAULT_SEQ = 8192 };

static const char *family_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_family_at(i) ? pz_family_at(i)->model_type : NULL;
}

static const struct pz_family *find_family(struct pz_fields *c) {
  char names[600], accepted[680];
  const char *type = pz_fields_text_or(c, "model_type", ""), *key = NULL;
  const struct pz_family *f = pz_family_find(type);
  if (f) return f;
  const char *lacks = pz_family_lacks(c, type, &key);
  if (lacks)
    snprintf(accepted, sizeof accepted,
             "models without %s%s%s%s, for which there are no operators; any model can be given as "
             "an ONNX file",
             lacks, key ? " (field '" : "", key ? key : "", key ? "')" : "");
  else
    snprintf(accepted, sizeof accepted,
             "one of %s; a model of any other type can be given as an ONNX file",
             pz_text_join(names, sizeof names, family_name, NULL));
  pz_fields_refuse(c, "model_type", accepted);
  return NULL;
}

static const struct pz_family *read_config(const char *name, const char *text, size_t bytes,
                                           struct pz_arch *a, struct pz_error *err) {
  json_t *root = NULL;
  if (pz_json_parse(name, text, bytes, &root, err) != PZ_OK) return NULL;
  struct pz_fields c = {.name = name, .root = pz_config_text(root), .err = err};
  const struct pz_family *f = find_family(&c);
  if (f) pz_family_read(f, &c, a);
  if (a->mixed && a->layers > PZ_MOST_MIXED_LAYERS)
    pz_fields_refuse(&c, "num_hidden_layers", "at most 1024 layers of different kinds");
  if (!a->embed_dim) a->embed_dim = a->hidden;
  a->default_seq = a->positions < LONGEST_DEFAULT_SEQ ? a->positions : LONGEST_DEFAULT_SEQ;
  json_decref(root);
  return c.status == PZ_OK ? f : NULL;
}

/* ---- options -------------------------------------------------------------------------------- */

bool pz_heads_divide(int64_t heads, int64_t kv_heads, int64_t tp) {
  int64_t kv = kv_heads ? kv_heads : heads;
  return heads % tp == 0 && (kv % tp == 0 || tp % kv == 0);
}

/* A size that a degree must divide. */
struct divided {
  const char *what;
  int64_t n; /* 0: the model has none */
};

enum { DIVIDED = 7 };

static bool on_grid(const struct pz_workload_options *o) { return o->ep > 1 || o->etp != o->tp; }

/* What t devices of tensor parallelism divide.  Experts on a grid of their own are not among it, nor heads that devices
 * share. */
static void divided_sizes(const struct pz_arch *a, bool grid, int64_t t,
                          struct divided out[DIVIDED]) {
  bool shared = pz_attention_shares(a, t);
  const struct divided all[DIVIDED] = {{"attention heads", a->heads},
                                       {"key/value heads", shared ? 0 : a->kv_heads},
                                       {"feed-forward width", grid ? 0 : a->ffn},
                                       {"width of dense layers", a->mixed ? a->dense_ffn : 0},
                                       {"shared expert's width", a->shared_ffn},
                                       {"heads of recurrent layers", a->recurrence.heads},
                                       {"groups of recurrent layers", a->recurrence.groups}};
  memcpy(out, all, sizeof all);
}

static bool divides(const struct pz_arch *a, bool grid, int64_t t) {
  struct divided sizes[DIVIDED];
  divided_sizes(a, grid, t, sizes);
  for (int i = 0; i < DIVIDED; i++)
    if (sizes[i].n % t) return false;
  return true;
}

/* "1, 2, 4": the tensor-parallel degrees that divide everything. */
static void accepted_degrees(const struct pz_arch *a, bool grid, char *buf, size_t size) {
  size_t used = 0;
  buf[0] = '\0';
  for (int64_t t = 1; t <= a->heads && used + 24 < size; t++)
    if (divides(a, grid, t))
      used += (size_t)snprintf(buf + used, size - used, "%s%" PRId64, t > 1 ? ", " : "", t);
}

static enum pz_status check_degree(const char *name, const struct pz_arch *a,
                                   const struct pz_workload_options *o, struct pz_error *err) {
  struct divided sizes[DIVIDED];
  char accepted[160];
  divided_sizes(a, on_grid(o), o->tp, sizes);
  for (int i = 0; i < DIVIDED; i++) {
    if (sizes[i].n % o->tp == 0) continue;
    accepted_degrees(a, on_grid(o), accepted, sizeof accepted);
    return pz_fail(err, PZ_BAD_USE,
                   "tensor-parallel degree %" PRId64 " does not divide the %s of %s (%" PRId64
                   "); accepted: %s",
                   o->tp, sizes[i].what, name, sizes[i].n, accepted);
  }
  return PZ_OK;
}

/* The experts' own grid. */
static enum pz_status check_experts(const char *name, const struct pz_arch *a,
                                    const struct pz_workload_options *o, struct pz_error *err) {
  if (!on_grid(o)) return PZ_OK;
  if (!a->experts)
    return pz_fail(err, PZ_BAD_USE, "%s has no experts; accepted: expert-parallel degree 1", name);
  if (a->experts % o->ep)
    return pz_fail(err, PZ_BAD_USE,
                   "expert-parallel degree %" PRId64 " does not divide the %" PRId64
                   " experts of %s; accepted: a divisor",
                   o->ep, a->experts, name);
  if (a->ffn % o->etp)
    return pz_fail(err, PZ_BAD_USE,
                   "expert-tensor-parallel degree %" PRId64
                   " does not divide the width of the experts of %s (%" PRId64
                   "); accepted: a divisor",
                   o->etp, name, a->ffn);
  if (o->tp > 1 && !o->sequence_parallel)
    return pz_fail(err, PZ_BAD_USE,
                   "expert parallelism beside tensor-parallel degree %" PRId64
                   " needs sequence parallelism: each device routes tokens of its own",
                   o->tp);
  return PZ_OK;
}

/* Tables that are divided by rows need a row for every device. */
static enum pz_status check_tables(const char *name, const struct pz_arch *a, int64_t t,
                                   struct pz_error *err) {
  if (t > a->vocab)
    return pz_fail(err, PZ_BAD_USE,
                   "tensor-parallel degree %" PRId64 " is above the vocabulary of %s (%" PRId64 ")",
                   t, name, a->vocab);
  if (a->embed_dim % t)
    return pz_fail(err, PZ_BAD_USE,
                   "tensor-parallel degree %" PRId64 " does not divide the embedding width of %s "
                   "(%" PRId64 ")",
                   t, name, a->embed_dim);
  return PZ_OK;
}

static enum pz_status check_options(const char *name, const struct pz_arch *a,
                                    const struct pz_workload_options *o, struct pz_error *err) {
  enum pz_status s = pz_workload_options_check(o, 1, err);
  if (s == PZ_OK) s = check_degree(name, a, o, err);
  if (s == PZ_OK) s = check_experts(name, a, o, err);
  if (s == PZ_OK) s = pz_context_check(name, a, o, err);
  if (s == PZ_OK) s = pz_recurrence_check(name, a, o, err);
  if (s == PZ_OK) s = check_tables(name, a, o->tp, err);
  if (s == PZ_OK && o->mtp && !a->predict_layers)
    s = pz_fail(err, PZ_BAD_USE, "%s has no multi-token-prediction layers", name);
  if (s == PZ_OK && !(o->dropout < 1))
    s = pz_fail(err, PZ_BAD_USE,
                "dropout %g; accepted: 0 <= p < 1, or negative for the model's own", o->dropout);
  if (s == PZ_OK && o->sequence_parallel && o->seq / o->cp % o->tp)
    s = pz_fail(err, PZ_BAD_USE,
                "sequence parallelism needs a sequence length (%" PRId64
                "%s) that the tensor-parallel degree (%" PRId64 ") divides",
                o->seq / o->cp, o->cp > 1 ? " in each part of the context" : "", o->tp);
  return s;
}

/* A device gets a token of any of the ep devices once for each of its experts that the token chose, at most for all of them. */
static double expert_load(const struct pz_arch *a, const struct pz_workload_options *o) {
  if (!a->experts) return 1;
  double most = pz_fmin((double)o->ep, (double)a->experts / (double)a->experts_per_token);
  return pz_fmax(1, pz_fmin(o->imbalance, most));
}

static void fill_options(const struct pz_arch *a, struct pz_workload_options *o) {
  if (o->seq == 0) o->seq = a->default_seq;
  if (o->num_layers == 0) o->num_layers = a->layers;
  if (o->tp == 1) o->sequence_parallel = false;
  if (o->ep == 0) o->ep = 1;
  if (o->etp == 0) o->etp = o->tp;
  if (o->cp == 0) o->cp = 1;
  o->imbalance = expert_load(a, o);
}

/* Frameworks pad the table of the vocabulary, so that its parts are alike and its GEMMs run fast. */
static void pad_vocab(struct pz_arch *a, int64_t multiple) {
  if (multiple <= 1) return;
  int64_t padded = (a->vocab + multiple - 1) / multiple * multiple;
  a->vocab_padding = padded - a->vocab;
  a->vocab = padded;
}

/* ---- the whole model ------------------------------------------------------------------------ */

static void describe_model(struct pz_owned *o, const char *name, const struct pz_family *f,
                           const struct pz_arch *a) {
  struct pz_workload *w = &o->w;
  w->model = pz_text_plain(pz_arena_strdup(&o->arena, name));
  w->family = f->model_type;
  w->hidden = a->hidden;
  w->heads = a->heads;
  w->head_dim = a->head_dim;
  w->causal = !a->bidirectional;
  w->kv_heads = a->kv_heads;
  w->ffn = a->ffn;
  w->vocab = a->vocab - a->vocab_padding;
  w->positions = a->positions;
  w->experts = a->experts;
  w->experts_per_token = a->experts_per_token;
  w->expert_groups = a->expert_groups;
  if (a->learned_positions && w->options.seq > a->positions)
    w->warning = pz_arena_printf(&o->arena,
                                 "%s has %" PRId64 " learned positions; a sequence of %" PRId64
                                 " would need more, and their parameters are not counted",
                                 name, a->positions, w->options.seq);
}

enum { MOST_LAYERS = PZ_MOST_KINDS + 6 };

/* The layers of a model as plans: embedding, an encoder if there is one, the kinds of blocks, what
 * predicts further tokens, head. */
struct stack {
  struct pz_arch arch[MOST_LAYERS];
  struct pz_layer_plan plan[MOST_LAYERS];
  uint32_t n;
};

static void build_part(struct pz_builder *b, void *arch) { pz_part_layer(b, arch); }

static struct pz_layer_plan *add_plan(struct stack *s, const char *name, int64_t count,
                                      const struct pz_arch *a, enum pz_part part) {
  uint32_t i = s->n++;
  s->arch[i] = *a;
  s->arch[i].part = part;
  s->plan[i] = (struct pz_layer_plan){
      .name = name,
      .count = count,
      .repeated = part == PZ_PART_BLOCK || part == PZ_PART_ENCODER || part == PZ_PART_PREDICT,
      .build = build_part,
      .ctx = &s->arch[i]};
  return &s->plan[i];
}

/* Where blocks alternate, their order; without, layers stand as they are listed. */
static enum pz_status set_order(struct pz_owned *o, const struct stack *s, uint32_t *of_layer,
                                int kinds) {
  uint32_t n = (uint32_t)o->w.options.num_layers;
  if (kinds < 2) return PZ_OK;
  uint32_t most = n + MOST_LAYERS + (uint32_t)s->plan[s->n - 2].count, at = 1;
  uint32_t *all = pz_arena_alloc(&o->arena, most, sizeof *all);
  if (!all) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) all[at++] = 1 + of_layer[i];
  for (uint32_t i = 1 + (uint32_t)kinds; i < s->n; i++)
    for (int64_t k = 0; k < s->plan[i].count; k++) all[at++] = i;
  return pz_order_set(&o->w, all, at, &o->arena);
}

static enum pz_status build_all(struct pz_owned *o, const struct pz_arch *a) {
  const struct pz_workload_options *opt = &o->w.options;
  struct stack *s = pz_arena_alloc(&o->arena, 1, sizeof *s);
  uint32_t *of_layer = pz_arena_alloc(&o->arena, (size_t)opt->num_layers, sizeof *of_layer);
  struct pz_kind kinds[PZ_MOST_KINDS];
  if (!o->w.model || !s || !of_layer) return PZ_NO_MEMORY;
  int n = pz_mixed_kinds(a, opt->num_layers, &o->arena, kinds, of_layer);
  if (!n) return PZ_NO_MEMORY;
  add_plan(s, "embedding", 1, a, PZ_PART_EMBEDDING);
  if (a->encoder_layers) {
    int64_t own = opt->num_layers == a->layers ? a->encoder_layers : opt->num_layers;
    add_plan(s, "encoder", own, a, PZ_PART_ENCODER);
    add_plan(s, "bridge", 1, a, PZ_PART_BRIDGE);
    kinds[0].name = "decoder";
  }
  bool mask = a->causal_mask_buffer && opt->kernels == PZ_KERNELS_EAGER;
  for (int i = 0; i < n; i++)
    add_plan(s, kinds[i].name, kinds[i].count, &kinds[i].arch, PZ_PART_BLOCK)->buffer_bytes =
        mask ? a->positions * a->positions : 0;
  if (opt->mtp && a->predict_layers) {
    struct pz_arch own = pz_mixed_arch(a, a->predict_kind & ~(unsigned)PZ_PREDICT_OWN);
    if (!(a->predict_kind & PZ_PREDICT_OWN)) own = kinds[n - 1].arch;
    add_plan(s, "predict", a->predict_repeats ? 1 : a->predict_layers, &own, PZ_PART_PREDICT);
    own.repeats_weights = true;
    if (a->predict_repeats && a->predict_layers > 1)
      add_plan(s, "predict_again", a->predict_layers - 1, &own, PZ_PART_PREDICT);
  }
  add_plan(s, "head", 1, a, PZ_PART_HEAD);
  enum pz_status status = set_order(o, s, of_layer, n);
  return status == PZ_OK ? pz_assemble(o, s->plan, s->n) : status;
}

enum pz_status pz_workload_build(const char *name, const char *text, size_t bytes,
                                 const struct pz_workload_options *options,
                                 const struct pz_mem *mem, struct pz_workload **out,
                                 struct pz_error *err) {
  struct pz_arch a = {0};
  struct pz_error local = {0};
  if (!err) err = &local;
  const struct pz_family *f = read_config(name, text, bytes, &a, err);
  if (!f) return err->status;
  struct pz_workload_options opt = *options;
  fill_options(&a, &opt);
  pad_vocab(&a, opt.vocab_multiple);
  enum pz_status status = check_options(name, &a, &opt, err);
  if (status != PZ_OK) return status;
  struct pz_owned *o = pz_owned_new(mem);
  if (!o) return pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", name);
  o->w.options = opt;
  describe_model(o, name, f, &a);
  status = build_all(o, &a);
  if (status != PZ_OK)
    status = pz_assemble_fail(name, status, err);
  else
    status = pz_lora_check(name, &opt.lora, o->adaptable, err);
  if (status == PZ_OK)
    *out = &o->w;
  else
    pz_workload_free(&o->w);
  return status;
}

enum pz_status pz_workload_parse(const char *name, const char *text, size_t bytes,
                                 const struct pz_workload_options *options,
                                 struct pz_workload **out, struct pz_error *err) {
  struct pz_workload_options o;
  enum pz_status status = pz_need_each(err, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_workload_options_take(options, &o, err);
  return status == PZ_OK ? pz_workload_build(name, text, bytes, &o, NULL, out, err) : status;
}

enum pz_status pz_workload_load_config(const char *path, const struct pz_workload_options *options,
                                       struct pz_workload **out, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_file_read(path, PZ_CONFIG_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_workload_parse(path, text, bytes, options, out, err);
  pz_free(text);
  return status;
}

/* ---- presets ------------------------------------------------------------------------------------ */

static const struct pz_preset table[] = {
#define MODEL(name, hub, ...) {name, hub, #__VA_ARGS__},
#include "workload/presets.def"
};

const char *pz_preset_name(size_t i) {
  return i < sizeof table / sizeof *table ? table[i].name : NULL;
}

const char *pz_preset_hub_name(size_t i) {
  return i < sizeof table / sizeof *table ? table[i].hub : NULL;
}

const struct pz_preset *pz_preset_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (pz_text_same(table[i].name, name) || (table[i].hub && pz_text_same(table[i].hub, name)))
      return strchr(name, '/') && (pz_file_is_regular(name) || pz_file_is_directory(name))
                 ? NULL
                 : &table[i];
  return NULL;
}

bool pz_preset_hub_like(const char *word) {
  const char *slash = strchr(word, '/');
  return slash && slash != word && word[0] != '.' && !strchr(slash + 1, '/') &&
         !strstr(slash, ".json") && !strstr(slash, ".onnx") && !pz_file_is_regular(word) &&
         !pz_file_is_directory(word);
}

const char *pz_preset_named(const char *word) {
  const struct pz_preset *p = word ? pz_preset_find(word) : NULL;
  return p ? p->name : NULL;
}
