#include "onnx/import.h"

#include "core/file.h"
#include "core/text.h"
#include "onnx/passes.h"
#include "onnx/plan.h"
#include "workload/assemble.h"
#include "workload/workload.h"

/* Everything that is needed between the file and the layers; freed with the arena. */
struct import {
  struct pz_arena arena;
  struct pz_onnx_graph g;
  struct pz_onnx_plan plan;
  struct pz_onnx_sharding sharding;
  struct pz_onnx_lowering lowering;
  struct pz_onnx_sizes sizes;
  struct pz_workload_options options;
  struct pz_error *err;
};

static enum pz_status check_options(const struct pz_workload_options *o, struct pz_error *err) {
  enum pz_status s = pz_workload_options_check(o, 0, err);
  if (s == PZ_OK && o->sequence_parallel && o->tp > 1)
    s = pz_fail(
        err, PZ_BAD_USE,
        "sequence parallelism is not supported for imported graphs; accepted: --tp without --sp");
  if (s == PZ_OK && o->cp > 1)
    s = pz_fail(err, PZ_BAD_USE, "context parallelism is not supported for imported graphs");
  if (s == PZ_OK && o->lora.rank > 0)
    s = pz_fail(err, PZ_BAD_USE,
                "adapters are not supported for imported graphs; accepted: a model by its name or "
                "its config.json, or peft none");
  return s;
}

/* Shapes at the sizes asked for, patterns, roles; what nothing needs is gone. */
static enum pz_status understand(struct import *im) {
  struct pz_onnx_graph *g = &im->g;
  const struct pz_workload_options *o = &im->options;
  bool eager = o->kernels == PZ_KERNELS_EAGER;
  enum pz_status status = pz_onnx_shapes(g, o);
  if (status == PZ_OK) status = pz_onnx_sizes(g, o, &im->sizes);
  if (status == PZ_OK) pz_onnx_batch_tables(g, im->sizes.batch);
  if (status == PZ_OK) status = pz_onnx_rescale(g, o, &im->sizes);
  if (status == PZ_OK) status = pz_onnx_patterns(g, eager);
  if (status != PZ_OK) return status;
  pz_onnx_live(g);
  status = pz_onnx_graph_users(g);
  if (status != PZ_OK) return status;
  pz_onnx_roles(g, eager);
  if (!eager) {
    pz_onnx_mask_patterns(g);
    if (o->attention == PZ_ATTENTION_FLASH) status = pz_onnx_attention_patterns(g);
  }
  pz_onnx_live(g);
  if (status == PZ_OK) status = pz_onnx_check_shapes(g);
  return status == PZ_OK ? pz_onnx_graph_users(g) : status;
}

static enum pz_status read_model(struct import *im, const void *data, size_t bytes) {
  Onnx__ModelProto *model = NULL;
  enum pz_status status = pz_onnx_read(im->g.file, data, bytes, &im->arena, &model, im->err);
  if (status == PZ_OK)
    status = pz_onnx_graph_make(&im->g, model, im->options.unknown_ops == PZ_UNKNOWN_VECTOR);
  if (status == PZ_OK) status = understand(im);
  if (status == PZ_OK)
    status = pz_onnx_plan_make(&im->plan, &im->g, &im->arena, im->options.layers);
  if (status == PZ_OK) status = pz_onnx_shard(&im->plan, im->options.tp, &im->sharding);
  return status == PZ_OK ? pz_onnx_lowering_init(&im->lowering, &im->plan, &im->sharding) : status;
}

/* A segment, for the plan of layers. */
struct segment_layer {
  struct import *im;
  const struct pz_onnx_segment *segment;
};

static void build_segment(struct pz_builder *b, void *ctx) {
  struct segment_layer *l = ctx;
  pz_onnx_layer_build(&l->im->lowering, b, l->segment);
}

static enum pz_status build_all(struct import *im, struct pz_owned *o) {
  uint32_t n = im->plan.segments.n;
  struct pz_layer_plan *plan = pz_arena_alloc(&im->arena, n, sizeof *plan);
  struct segment_layer *layer = pz_arena_alloc(&im->arena, n, sizeof *layer);
  if (!plan || !layer) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_segment *s = pz_vec_at(&im->plan.segments, struct pz_onnx_segment, i);
    bool repeats = s->count > 1;
    layer[i] = (struct segment_layer){im, s};
    plan[i] = (struct pz_layer_plan){
        .name = pz_arena_strdup(&o->arena, s->name),
        .count = repeats && o->w.options.num_layers ? o->w.options.num_layers : s->count,
        .repeated = i > 0 && i + 1 < n && s->n_in,
        .build = build_segment,
        .ctx = &layer[i],
        .from = s->from,
        .n_from = s->n_from};
    if (!plan[i].name) return PZ_NO_MEMORY;
  }
  return pz_assemble(o, plan, n);
}

static int64_t rows_of(const struct pz_onnx_value *x) {
  int64_t n;
  return pz_onnx_elems(x, &n) && x->dim[x->rank - 1] > 0 ? n / x->dim[x->rank - 1] : 1;
}

/* What is shown of a model: the sizes of its main block. */
static void describe(struct import *im, struct pz_owned *o) {
  struct pz_workload *w = &o->w;
  const struct pz_onnx_segment *main = NULL;
  for (uint32_t i = 0; i < im->plan.segments.n; i++) {
    const struct pz_onnx_segment *s = pz_vec_at(&im->plan.segments, struct pz_onnx_segment, i);
    if (!main || s->count > main->count) main = s;
  }
  w->model = pz_text_plain(pz_arena_strdup(&o->arena, im->g.file));
  w->family = "onnx";
  w->options = im->options;
  if (im->options.tp == 1) w->options.sequence_parallel = false;
  const struct pz_onnx_value *x = main && main->n_in ? pz_onnx_value(&im->g, main->in[0]) : NULL;
  const struct pz_onnx_value *y = pz_onnx_value(&im->g, im->plan.result);
  bool rows = x && x->rank > 0 && x->rank < 4;
  if (rows) w->hidden = x->dim[x->rank - 1];
  if (y && y->rank > 0) w->vocab = y->dim[y->rank - 1];
  /* without token ids: rows per sample of what goes from layer to layer */
  if (!w->options.seq) w->options.seq = im->sizes.seq;
  if (!w->options.seq && rows) w->options.seq = rows_of(x) / im->options.mbs;
  if (w->options.seq < 1) w->options.seq = 1;
}

static enum pz_status import(struct import *im, const void *data, size_t bytes,
                             const struct pz_mem *mem, struct pz_workload **out) {
  enum pz_status status = check_options(&im->options, im->err);
  if (status == PZ_OK) status = read_model(im, data, bytes);
  if (status != PZ_OK) return status;
  struct pz_owned *o = pz_owned_new(mem);
  if (!o) return pz_fail(im->err, PZ_NO_MEMORY, "%s: out of memory", im->g.file);
  describe(im, o);
  status = o->w.model ? build_all(im, o) : PZ_NO_MEMORY;
  if (!o->w.options.num_layers)
    for (uint32_t i = 0; i < o->w.n_layers && status == PZ_OK; i++)
      if (o->w.layers[i].count > o->w.options.num_layers)
        o->w.options.num_layers = o->w.layers[i].count;
  if (status == PZ_OK) {
    *out = &o->w;
    return PZ_OK;
  }
  pz_workload_free(&o->w);
  return pz_assemble_fail(im->g.file, status, im->err);
}

enum pz_status pz_onnx_build(const char *name, const void *data, size_t bytes,
                             const struct pz_workload_options *options, const struct pz_mem *mem,
                             struct pz_workload **out, struct pz_error *err) {
  struct pz_error local = {0};
  struct import im = {.options = *options, .err = err ? err : &local};
  pz_arena_init(&im.arena, mem);
  im.g = (struct pz_onnx_graph){.file = name, .arena = &im.arena, .err = im.err};
  enum pz_status status = import(&im, data, bytes, mem, out);
  pz_arena_release(&im.arena);
  return status;
}

enum pz_status pz_workload_parse_onnx(const char *name, const void *data, size_t bytes,
                                      const struct pz_workload_options *options,
                                      struct pz_workload **out, struct pz_error *err) {
  struct pz_workload_options o;
  enum pz_status status = pz_need_each(err, {name, "name"}, {data, "data"}, {out, "out"});
  if (status == PZ_OK) status = pz_workload_options_take(options, &o, err);
  return status == PZ_OK ? pz_onnx_build(name, data, bytes, &o, NULL, out, err) : status;
}

enum pz_status pz_onnx_load(const char *path, const struct pz_workload_options *options,
                            struct pz_workload **out, struct pz_error *err) {
  struct pz_file_bytes file;
  enum pz_status status = pz_file_map(path, PZ_ONNX_MOST_FILE, &file, err);
  if (status != PZ_OK) return status;
  status = pz_workload_parse_onnx(path, file.data, file.bytes, options, out, err);
  pz_file_unmap(&file);
  return status;
}
