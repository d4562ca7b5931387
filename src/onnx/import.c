/* Importing an ONNX model as a workload.
 *
 * import_model() unpacks the file (file.c), converts it to a graph (reader.c), and analyses the
 * graph: shapes at the requested sizes (shape.c, axes.c), patterns (pattern.c), roles and live
 * values (role.c).  Then the operators are divided into layers (order.c, block.c) and over
 * tensor-parallel devices (sharding.c), and are built like those of the model families (layer.c,
 * workload/assemble.h). */
#include "onnx/import.h"

#include "core/file.h"
#include "core/text.h"
#include "onnx/layering.h"
#include "onnx/passes.h"
#include "workload/assemble.h"
#include "workload/workload.h"

/* Sets the properties of a model that the user sees.  The main block, the segment that repeats
 * most often, determines its sizes. */
static void describe_model(struct pz_workload *workload, const struct pz_onnx_layering *layering,
                           const struct pz_workload_options *options,
                           const struct pz_onnx_sizes *exported) {
  const struct pz_onnx_segment *main_block =
      pz_vec_at(&layering->segments, struct pz_onnx_segment, 0);
  for (uint32_t i = 1; i < layering->segments.n; i++)
    if (pz_vec_at(&layering->segments, struct pz_onnx_segment, i)->count > main_block->count)
      main_block = pz_vec_at(&layering->segments, struct pz_onnx_segment, i);
  workload->family = "onnx";
  workload->options = *options;
  if (options->tp == 1) workload->options.sequence_parallel = false;
  const struct pz_onnx_value *result = pz_onnx_value(layering->graph, layering->result);
  const struct pz_onnx_value *block_input = NULL;
  if (main_block->n_in) block_input = pz_onnx_value(layering->graph, main_block->in[0]);
  bool has_rows = block_input && block_input->rank > 0 && block_input->rank < 4;
  if (has_rows) workload->hidden = block_input->dim[block_input->rank - 1];
  if (result->rank > 0) workload->vocab = result->dim[result->rank - 1];
  if (!workload->options.seq) workload->options.seq = exported->seq;
  if (!workload->options.seq && has_rows) { /* without token ids, the rows of a sample count */
    int64_t n, rows = 1;
    if (pz_onnx_count_elements(block_input, &n) && workload->hidden > 0)
      rows = n / workload->hidden;
    workload->options.seq = rows / options->mbs;
  }
  if (workload->options.seq < 1) workload->options.seq = 1;
}

/* Builds a layer for each segment and assembles the layers to the workload.  `workload_call`
 * allocates what lives as long as the workload. */
static void build_layers(struct pz_call *call, struct pz_call *workload_call,
                         struct pz_owned_workload *owned, const struct pz_onnx_layering *layering,
                         const struct pz_onnx_sharding *sharding) {
  struct pz_workload *workload = &owned->workload;
  uint32_t n = layering->segments.n, n_values = layering->graph->values.n;
  struct pz_layer_plan *plan = pz_alloc(call, n, sizeof *plan);
  struct pz_onnx_layer_task *task = pz_alloc(call, n, sizeof *task);
  struct pz_onnx_lowering lowering = {.layering = layering, .sharding = sharding};
  lowering.tensor = pz_alloc(call, n_values, sizeof *lowering.tensor);
  lowering.built_in = pz_alloc(call, n_values, sizeof *lowering.built_in);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_onnx_segment *segment =
        pz_vec_at(&layering->segments, struct pz_onnx_segment, i);
    bool is_resized = segment->count > 1 && workload->options.num_layers;
    task[i] = (struct pz_onnx_layer_task){call, &lowering, segment};
    plan[i] = (struct pz_layer_plan){.name = pz_copy_text(workload_call, segment->name),
                                     .count = segment->count,
                                     .repeated = i > 0 && i + 1 < n && segment->n_in,
                                     .build = pz_onnx_build_layer,
                                     .ctx = &task[i],
                                     .from = segment->from,
                                     .n_from = segment->n_from};
    if (is_resized) plan[i].count = workload->options.num_layers;
  }
  pz_assemble(workload_call, owned, plan, n);
  if (workload->options.num_layers) return;
  for (uint32_t i = 0; i < workload->n_layers; i++)
    if (workload->layers[i].count > workload->options.num_layers)
      workload->options.num_layers = workload->layers[i].count;
}

/* Imports a model as a workload, which the caller of the public function owns.  `name` stands for
 * the file in messages. */
static struct pz_workload *import_model(struct pz_call *call, const char *name, const void *data,
                                        size_t bytes, const struct pz_workload_options *options) {
  struct pz_onnx_graph *graph = pz_alloc(call, 1, sizeof *graph);
  struct pz_onnx_layering *layering = pz_alloc(call, 1, sizeof *layering);
  struct pz_onnx_sharding *sharding = pz_alloc(call, 1, sizeof *sharding);
  pz_check_workload_options(call, options, 0);
  if (options->sequence_parallel && options->tp > 1)
    pz_raise(
        call, PZ_BAD_USE,
        "sequence parallelism is not supported for imported graphs; accepted: --tp without --sp");
  if (options->cp > 1)
    pz_raise(call, PZ_BAD_USE, "context parallelism is not supported for imported graphs");
  if (options->lora.rank > 0)
    pz_raise(call, PZ_BAD_USE,
             "adapters are not supported for imported graphs; accepted: a model by its name or "
             "its config.json, or peft none");
  const Onnx__ModelProto *model = pz_onnx_unpack(call, name, data, bytes);
  pz_onnx_graph_make(call, graph, name, model, options->unknown_ops == PZ_UNKNOWN_VECTOR);
  bool eager = options->kernels == PZ_KERNELS_EAGER;
  pz_onnx_infer_shapes(call, graph, options);
  struct pz_onnx_sizes exported = pz_onnx_exported_sizes(call, graph, options);
  pz_onnx_find_batch_constants(graph, exported.batch);
  pz_onnx_rescale(call, graph, options, &exported);
  pz_onnx_fuse_patterns(call, graph, eager);
  pz_onnx_find_live(graph);
  pz_onnx_link_consumers(call, graph);
  pz_onnx_assign_roles(graph, eager);
  if (!eager) pz_onnx_fuse_masks(graph);
  if (!eager && options->attention == PZ_ATTENTION_FLASH) pz_onnx_fuse_attention(call, graph);
  pz_onnx_find_live(graph);
  pz_onnx_check_shapes(call, graph);
  pz_onnx_link_consumers(call, graph);
  pz_onnx_layering_make(call, layering, graph, options->layers);
  pz_onnx_shard(call, layering, options->tp, sharding);
  struct pz_call workload_call;
  struct pz_owned_workload *owned = pz_workload_new(call, &workload_call);
  owned->workload.model = pz_text_plain(pz_copy_text(&workload_call, name));
  describe_model(&owned->workload, layering, options, &exported);
  build_layers(call, &workload_call, owned, layering, sharding);
  pz_undefer(call, owned);
  return &owned->workload;
}

/* Arguments of pz_workload_parse_onnx(). */
struct parse_arguments {
  const char *name;
  const void *data;
  size_t bytes;
  const struct pz_workload_options *options;
  struct pz_workload **out;
};

/* Imports a model inside of a protected call (a callback of pz_border). */
static void parse_model(struct pz_call *call, void *ctx) {
  const struct parse_arguments *arguments = ctx;
  struct pz_workload_options options;
  pz_require(call, arguments->name, "name");
  pz_require(call, arguments->data, "data");
  pz_require(call, arguments->out, "out");
  pz_copy_workload_options(call, &options, arguments->options);
  *arguments->out =
      import_model(call, arguments->name, arguments->data, arguments->bytes, &options);
}

/* Builds the workload of an ONNX model in memory, for the public header. */
enum pz_status pz_workload_parse_onnx(const char *name, const void *data, size_t bytes,
                                      const struct pz_workload_options *options,
                                      struct pz_workload **out, struct pz_error *err) {
  struct parse_arguments arguments = {name, data, bytes, options, out};
  return pz_border(parse_model, &arguments, err);
}

/* Returns the workload of the ONNX file at `path`, which the caller frees. */
struct pz_workload *pz_onnx_load(struct pz_call *call, const char *path,
                                 const struct pz_workload_options *given) {
  struct pz_workload_options options;
  const struct pz_file_bytes *file = pz_file_open(call, path, PZ_ONNX_MOST_FILE);
  pz_copy_workload_options(call, &options, given);
  return import_model(call, path, file->data, file->bytes, &options);
}
