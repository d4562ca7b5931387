#include "workload/workload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"
#include "workload/assemble.h"
#include "workload/family.h"
#include "workload/options.h"

/* Longest default sequence: beyond this nobody trains from the start. */
enum { LONGEST_DEFAULT_SEQ = 8192 };

static const char *family_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_family_at(i) ? pz_family_at(i)->model_type : NULL;
}

static const struct pz_family *find_family(struct pz_fields *c) {
  char names[200], accepted[240];
  const char *type = pz_fields_text_or(c, "model_type", "");
  const struct pz_family *f = pz_family_find(type);
  snprintf(accepted, sizeof accepted, "one of %s",
           pz_text_join(names, sizeof names, family_name, NULL));
  if (!f) pz_fields_refuse(c, "model_type", accepted);
  return f;
}

static const struct pz_family *read_config(const char *name, const char *text, size_t bytes,
                                           struct pz_arch *a, struct pz_error *err) {
  json_t *root = NULL;
  if (pz_json_parse(name, text, bytes, &root, err) != PZ_OK) return NULL;
  struct pz_fields c = {.name = name, .root = root, .err = err};
  const struct pz_family *f = find_family(&c);
  if (f) f->read(&c, a);
  if (!a->embed_dim) a->embed_dim = a->hidden;
  a->default_seq = a->positions < LONGEST_DEFAULT_SEQ ? a->positions : LONGEST_DEFAULT_SEQ;
  json_decref(root);
  return c.status == PZ_OK ? f : NULL;
}

/* ---- options -------------------------------------------------------------------------------- */

static bool divides(const struct pz_arch *a, int64_t t) {
  return a->heads % t == 0 && a->kv_heads % t == 0 && a->ffn % t == 0;
}

/* "1, 2, 4": the tensor-parallel degrees that divide everything. */
static void accepted_degrees(const struct pz_arch *a, char *buf, size_t size) {
  size_t used = 0;
  buf[0] = '\0';
  for (int64_t t = 1; t <= a->kv_heads && used + 24 < size; t++)
    if (divides(a, t))
      used += (size_t)snprintf(buf + used, size - used, "%s%" PRId64, t > 1 ? ", " : "", t);
}

static enum pz_status check_degree(const char *name, const struct pz_arch *a, int64_t t,
                                   struct pz_error *err) {
  static const char *const what[] = {"attention heads", "key/value heads", "feed-forward width"};
  const int64_t n[] = {a->heads, a->kv_heads, a->ffn};
  char accepted[160];
  for (int i = 0; i < 3; i++) {
    if (n[i] % t == 0) continue;
    accepted_degrees(a, accepted, sizeof accepted);
    return pz_fail(err, PZ_BAD_USE,
                   "tensor-parallel degree %" PRId64 " does not divide the %s of %s (%" PRId64
                   "); accepted: %s",
                   t, what[i], name, n[i], accepted);
  }
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
  if (s == PZ_OK) s = check_degree(name, a, o->tp, err);
  if (s == PZ_OK) s = check_tables(name, a, o->tp, err);
  if (s == PZ_OK && !(o->dropout < 1))
    s = pz_fail(err, PZ_BAD_USE,
                "dropout %g; accepted: 0 <= p < 1, or negative for the model's own", o->dropout);
  if (s == PZ_OK && o->sequence_parallel && o->seq % o->tp)
    s = pz_fail(err, PZ_BAD_USE,
                "sequence parallelism needs a sequence length (%" PRId64
                ") that the tensor-parallel degree (%" PRId64 ") divides",
                o->seq, o->tp);
  return s;
}

static void fill_options(const struct pz_arch *a, struct pz_workload_options *o) {
  if (o->seq == 0) o->seq = a->default_seq;
  if (o->num_layers == 0) o->num_layers = a->layers;
  if (o->tp == 1) o->sequence_parallel = false;
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
  w->vocab = a->vocab;
  w->positions = a->positions;
  if (a->learned_positions && w->options.seq > a->positions)
    w->warning = pz_arena_printf(&o->arena,
                                 "%s has %" PRId64 " learned positions; a sequence of %" PRId64
                                 " would need more, and their parameters are not counted",
                                 name, a->positions, w->options.seq);
}

/* A family's layer, for the plan. */
struct family_layer {
  void (*build)(struct pz_builder *b, const struct pz_arch *a);
  const struct pz_arch *arch;
};

static void build_family_layer(struct pz_builder *b, void *ctx) {
  const struct family_layer *l = ctx;
  l->build(b, l->arch);
}

static enum pz_status build_all(struct pz_owned *o, const struct pz_family *f,
                                const struct pz_arch *a) {
  const struct pz_workload_options *opt = &o->w.options;
  struct family_layer layer[] = {{f->embedding, a}, {f->block, a}, {f->head, a}};
  int64_t mask =
      a->causal_mask_buffer && opt->kernels == PZ_KERNELS_EAGER ? a->positions * a->positions : 0;
  struct pz_layer_plan plan[] = {
      {.name = "embedding", .count = 1},
      {.name = "block", .count = opt->num_layers, .repeated = true, .buffer_bytes = mask},
      {.name = "head", .count = 1}};
  for (int i = 0; i < 3; i++) {
    plan[i].build = build_family_layer;
    plan[i].ctx = &layer[i];
  }
  if (!o->w.model) return PZ_NO_MEMORY;
  return pz_assemble(o, plan, sizeof plan / sizeof *plan);
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
  enum pz_status status = check_options(name, &a, &opt, err);
  if (status != PZ_OK) return status;
  struct pz_owned *o = pz_owned_new(mem);
  if (!o) return pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", name);
  o->w.options = opt;
  describe_model(o, name, f, &a);
  status = build_all(o, f, &a);
  if (status == PZ_OK) {
    *out = &o->w;
    return PZ_OK;
  }
  pz_workload_free(&o->w);
  return pz_assemble_fail(name, status, err);
}

enum pz_status pz_workload_parse(const char *name, const char *text, size_t bytes,
                                 const struct pz_workload_options *options,
                                 struct pz_workload **out, struct pz_error *err) {
  struct pz_workload_options o;
  enum pz_status status = pz_need(name, "name", err);
  if (status == PZ_OK) status = pz_need(text, "text", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
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
