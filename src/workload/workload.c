/* Models from configurations: pz_workload_build() converts a config.json to a workload.  Presets
 * are configurations with a name.
 *
 * The family of the model reads the configuration (read_config), options are completed and checked
 * (check_options), and the layers are listed (build_layers) and assembled
 * (workload/assemble.h). parts.c and the files of the families define the contents of the
 * layers. */
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

/* ---- the configuration ----------------------------------------------------------------------- */

/* Longest default sequence in tokens: pre-training does not begin with longer ones. */
enum { LONGEST_DEFAULT_SEQ = 8192 };

/* Returns the model_type of family i, or NULL after the last one (a callback of pz_text_join). */
static const char *family_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_families[i].model_type;
}

/* Returns the family of the configuration's model_type, or refuses the type and returns NULL. */
static const struct pz_family *find_family(struct pz_fields *config) {
  char names[600], accepted[680];
  const char *type = pz_fields_text_or(config, "model_type", ""), *key = NULL;
  const struct pz_family *family = pz_family_find(type);
  if (family) return family;
  const char *feature = pz_family_unsupported_feature(config, type, &key);
  if (feature)
    snprintf(accepted, sizeof accepted,
             "models without %s%s%s%s, for which there are no operators; any model can be given as "
             "an ONNX file",
             feature, key ? " (field '" : "", key ? key : "", key ? "')" : "");
  else
    snprintf(accepted, sizeof accepted,
             "one of %s; a model of any other type can be given as an ONNX file",
             pz_text_join(names, sizeof names, family_name, NULL));
  pz_fields_refuse(config, "model_type", accepted);
  return NULL;
}

/* Reads a configuration into *arch and returns its family.  Unknown fields are ignored. */
static const struct pz_family *read_config(struct pz_call *call, const char *name, const char *text,
                                           size_t bytes, struct pz_arch *arch) {
  json_t *root = pz_json_read(call, name, text, bytes);
  struct pz_fields config = pz_fields_of(call, name, pz_config_text(root));
  const struct pz_family *family = find_family(&config);
  if (family) pz_family_read(family, &config, arch);
  if (arch->has_mixed_layers && arch->layers > PZ_MOST_MIXED_LAYERS)
    pz_fields_refuse(&config, "num_hidden_layers", "at most 1024 layers of different kinds");
  pz_must(call, config.status);
  if (!arch->embed_dim) arch->embed_dim = arch->hidden;
  arch->default_seq = pz_min(arch->positions, LONGEST_DEFAULT_SEQ);
  return family;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Returns whether tp devices divide the attention heads, where they may share key/value heads. */
bool pz_heads_divide(int64_t heads, int64_t kv_heads, int64_t tp) {
  if (!kv_heads) kv_heads = heads;
  return heads % tp == 0 && (kv_heads % tp == 0 || tp % kv_heads == 0);
}

/* A size of a model that the tensor-parallel degree must divide, or 0 if the model has no such
 * size. */
struct divided_size {
  const char *name;
  int64_t size;
};

/* Returns the first size of the model that the tensor-parallel degree does not divide, or one with
 * the name NULL if there is none.  It need not divide experts on a device grid of their own, nor
 * key/value heads that devices share. */
static struct divided_size find_undivided(const struct pz_arch *arch, bool expert_grid,
                                          int64_t tp) {
  bool shares_heads = pz_attention_shares(arch, tp);
  const struct divided_size sizes[] = {
      {"attention heads", arch->heads},
      {"key/value heads", shares_heads ? 0 : arch->kv_heads},
      {"feed-forward width", expert_grid ? 0 : arch->ffn},
      {"width of dense layers", arch->has_mixed_layers ? arch->dense_ffn : 0},
      {"shared expert's width", arch->shared_ffn},
      {"heads of recurrent layers", arch->recurrence.heads},
      {"groups of recurrent layers", arch->recurrence.groups}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].size % tp) return sizes[i];
  return (struct divided_size){NULL, 0};
}

/* Raises an error if the tensor-parallel degree does not divide a size of the model. */
static void check_tp(struct pz_call *call, const char *name, const struct pz_arch *arch,
                     const struct pz_workload_options *options) {
  bool expert_grid = pz_has_expert_grid(options);
  struct divided_size undivided = find_undivided(arch, expert_grid, options->tp);
  char accepted[160] = "";
  size_t used = 0;
  if (!undivided.name) return;
  enum { LONGEST_NUMBER = 24 }; /* with the comma before it */
  for (int64_t tp = 1; tp <= arch->heads && used + LONGEST_NUMBER < sizeof accepted; tp++)
    if (!find_undivided(arch, expert_grid, tp).name)
      used += (size_t)snprintf(accepted + used, sizeof accepted - used, "%s%" PRId64,
                               tp > 1 ? ", " : "", tp);
  pz_raise(call, PZ_BAD_USE,
           "tensor-parallel degree %" PRId64 " does not divide the %s of %s (%" PRId64
           "); accepted: %s",
           options->tp, undivided.name, name, undivided.size, accepted);
}

/* Checks the options against the model, after zeros were replaced by defaults. */
static void check_options(struct pz_call *call, const char *name, const struct pz_arch *arch,
                          const struct pz_workload_options *options) {
  pz_check_workload_options(call, options, 1);
  check_tp(call, name, arch, options);
  if (pz_has_expert_grid(options)) {
    if (!arch->experts)
      pz_raise(call, PZ_BAD_USE, "%s has no experts; accepted: expert-parallel degree 1", name);
    if (arch->experts % options->ep)
      pz_raise(call, PZ_BAD_USE,
               "expert-parallel degree %" PRId64 " does not divide the %" PRId64
               " experts of %s; accepted: a divisor",
               options->ep, arch->experts, name);
    if (arch->ffn % options->etp)
      pz_raise(call, PZ_BAD_USE,
               "expert-tensor-parallel degree %" PRId64
               " does not divide the width of the experts of %s (%" PRId64 "); accepted: a divisor",
               options->etp, name, arch->ffn);
    if (options->tp > 1 && !options->sequence_parallel)
      pz_raise(call, PZ_BAD_USE,
               "expert parallelism beside tensor-parallel degree %" PRId64
               " needs sequence parallelism: each device routes tokens of its own",
               options->tp);
  }
  pz_check_context(call, name, arch, options);
  pz_check_recurrence(call, name, arch, options);
  /* Every device needs a row of the vocabulary's table, which is divided by rows. */
  if (options->tp > arch->vocab)
    pz_raise(call, PZ_BAD_USE,
             "tensor-parallel degree %" PRId64 " is above the vocabulary of %s (%" PRId64 ")",
             options->tp, name, arch->vocab);
  if (arch->embed_dim % options->tp)
    pz_raise(call, PZ_BAD_USE,
             "tensor-parallel degree %" PRId64 " does not divide the embedding width of %s "
             "(%" PRId64 ")",
             options->tp, name, arch->embed_dim);
  if (options->mtp && !arch->predict_layers)
    pz_raise(call, PZ_BAD_USE, "%s has no multi-token-prediction layers", name);
  if (!(options->dropout < 1))
    pz_raise(call, PZ_BAD_USE, "dropout %g; accepted: 0 <= p < 1, or negative for the model's own",
             options->dropout);
  if (options->sequence_parallel && options->seq / options->cp % options->tp)
    pz_raise(call, PZ_BAD_USE,
             "sequence parallelism needs a sequence length (%" PRId64
             "%s) that the tensor-parallel degree (%" PRId64 ") divides",
             options->seq / options->cp, options->cp > 1 ? " in each part of the context" : "",
             options->tp);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Sets the sizes of the model that results show, and a warning about learned positions. */
static void describe_model(struct pz_call *workload_call, struct pz_workload *workload,
                           const char *name, const struct pz_family *family,
                           const struct pz_arch *arch) {
  workload->model = pz_text_plain(pz_copy_text(workload_call, name));
  workload->family = family->model_type;
  workload->hidden = arch->hidden;
  workload->heads = arch->heads;
  workload->head_dim = arch->head_dim;
  workload->causal = !arch->bidirectional;
  workload->kv_heads = arch->kv_heads;
  workload->ffn = arch->ffn;
  workload->vocab = arch->vocab - arch->vocab_padding;
  workload->positions = arch->positions;
  workload->experts = arch->experts;
  workload->experts_per_token = arch->experts_per_token;
  workload->expert_groups = arch->expert_groups;
  if (arch->learned_positions && workload->options.seq > arch->positions)
    workload->warning = pz_format(workload_call,
                                  "%s has %" PRId64 " learned positions; a sequence of %" PRId64
                                  " would need more, and their parameters are not counted",
                                  name, arch->positions, workload->options.seq);
}

/* The most entries of the list of layers: kinds of blocks, embedding, encoder, bridge, two entries
 * of prediction layers, and head. */
enum { MOST_LAYERS = PZ_MOST_KINDS + 6 };

/* The different layers of a model: embedding, an encoder if there is one, the kinds of blocks,
 * prediction layers, and the head. */
struct layer_list {
  struct pz_arch arch[MOST_LAYERS];
  struct pz_layer_plan plan[MOST_LAYERS];
  uint32_t n;
};

/* Appends `count` equal layers with the shape `arch` to the list, and returns their plan. */
static struct pz_layer_plan *add_layer(struct layer_list *list, const char *name, int64_t count,
                                       const struct pz_arch *arch, enum pz_part part) {
  uint32_t i = list->n++;
  list->arch[i] = *arch;
  list->arch[i].part = part;
  list->plan[i] = (struct pz_layer_plan){
      .name = name,
      .count = count,
      .repeated = part == PZ_PART_BLOCK || part == PZ_PART_ENCODER || part == PZ_PART_PREDICT,
      .build = pz_part_layer,
      .ctx = &list->arch[i]};
  return &list->plan[i];
}

/* Appends the layers that predict further tokens.  They have weights of their own or share those
 * of the first one. */
static void add_prediction_layers(struct layer_list *list, const struct pz_arch *arch,
                                  const struct pz_arch *last_block) {
  bool own_kind = arch->predict_kind & PZ_PREDICT_OWN;
  struct pz_arch predict = *last_block;
  if (own_kind) predict = pz_mixed_layer_arch(arch, arch->predict_kind & ~(unsigned)PZ_PREDICT_OWN);
  int64_t count = arch->predict_repeats ? 1 : arch->predict_layers;
  add_layer(list, "predict", count, &predict, PZ_PART_PREDICT);
  predict.repeats_weights = true;
  if (arch->predict_repeats && arch->predict_layers > 1)
    add_layer(list, "predict_again", arch->predict_layers - 1, &predict, PZ_PART_PREDICT);
}

/* Lists the layers of the model, with one entry for each kind of block, and builds them. */
static void build_layers(struct pz_call *workload_call, struct pz_owned_workload *owned,
                         const struct pz_arch *arch) {
  const struct pz_workload_options *options = &owned->workload.options;
  struct layer_list *list = pz_alloc(workload_call, 1, sizeof *list);
  uint32_t *kind_of_layer =
      pz_alloc(workload_call, (size_t)options->num_layers, sizeof *kind_of_layer);
  struct pz_kind kinds[PZ_MOST_KINDS];
  int n_kinds = pz_mixed_kinds(workload_call, arch, options->num_layers, kinds, kind_of_layer);
  add_layer(list, "embedding", 1, arch, PZ_PART_EMBEDDING);
  if (arch->encoder_layers) {
    bool as_configured = options->num_layers == arch->layers;
    int64_t count = as_configured ? arch->encoder_layers : options->num_layers;
    add_layer(list, "encoder", count, arch, PZ_PART_ENCODER);
    add_layer(list, "bridge", 1, arch, PZ_PART_BRIDGE);
    kinds[0].name = "decoder";
  }
  bool mask_buffer = arch->causal_mask_buffer && options->kernels == PZ_KERNELS_EAGER;
  for (int i = 0; i < n_kinds; i++) {
    struct pz_layer_plan *plan =
        add_layer(list, kinds[i].name, kinds[i].count, &kinds[i].arch, PZ_PART_BLOCK);
    plan->buffer_bytes = mask_buffer ? arch->positions * arch->positions : 0;
  }
  if (options->mtp && arch->predict_layers)
    add_prediction_layers(list, arch, &kinds[n_kinds - 1].arch);
  add_layer(list, "head", 1, arch, PZ_PART_HEAD);
  if (n_kinds > 1) {
    /* sequence[i] is the list entry of the layer that runs at position i: the embedding (entry 0),
     * the blocks, whose kinds alternate, and the other entries in list order.  Of these, only the
     * one before the head can run more than once. */
    uint32_t n_blocks = (uint32_t)options->num_layers, n_sequence = 1;
    uint32_t before_head = list->n - 2;
    uint32_t capacity = n_blocks + MOST_LAYERS + (uint32_t)list->plan[before_head].count;
    uint32_t *sequence = pz_alloc(workload_call, capacity, sizeof *sequence);
    for (uint32_t i = 0; i < n_blocks; i++) sequence[n_sequence++] = 1 + kind_of_layer[i];
    for (uint32_t i = 1 + (uint32_t)n_kinds; i < list->n; i++)
      for (int64_t k = 0; k < list->plan[i].count; k++) sequence[n_sequence++] = i;
    pz_describe_order(workload_call, &owned->workload, sequence, n_sequence);
  }
  pz_assemble(workload_call, owned, list->plan, list->n);
}

/* Reads the configuration, completes and checks the options, and builds the layers. */
struct pz_workload *pz_workload_build(struct pz_call *call, const char *name, const char *text,
                                      size_t bytes, const struct pz_workload_options *given) {
  struct pz_arch arch = {0};
  struct pz_workload_options options;
  pz_copy_workload_options(call, &options, given);
  const struct pz_family *family = read_config(call, name, text, bytes, &arch);
  /* Zeros stand for the defaults of the model. */
  if (options.seq == 0) options.seq = arch.default_seq;
  if (options.num_layers == 0) options.num_layers = arch.layers;
  if (options.tp == 1) options.sequence_parallel = false;
  if (options.ep == 0) options.ep = 1;
  if (options.etp == 0) options.etp = options.tp;
  if (options.cp == 0) options.cp = 1;
  /* The imbalance is the ratio of the rows that the fullest device receives to those that a device
   * sends, experts_per_token for each token.  From each of the ep devices it receives at most all
   * these rows, and at most one row of each token for each of the experts / ep that it holds. */
  double most_imbalance = 1;
  if (arch.experts)
    most_imbalance =
        pz_fmin((double)options.ep, (double)arch.experts / (double)arch.experts_per_token);
  options.imbalance = arch.experts ? pz_fmax(1, pz_fmin(options.imbalance, most_imbalance)) : 1;
  /* Frameworks pad the vocabulary so that its shares are equal and its GEMMs are fast. */
  int64_t multiple = pz_max(options.vocab_multiple, 1);
  arch.vocab_padding = (arch.vocab + multiple - 1) / multiple * multiple - arch.vocab;
  arch.vocab += arch.vocab_padding;
  check_options(call, name, &arch, &options);
  struct pz_call workload_call;
  struct pz_owned_workload *owned = pz_workload_new(call, &workload_call);
  owned->workload.options = options;
  describe_model(&workload_call, &owned->workload, name, family, &arch);
  build_layers(&workload_call, owned, &arch);
  pz_check_adapters(call, name, &options.lora, owned->adaptable);
  pz_undefer(call, owned);
  return &owned->workload;
}

struct parse_arguments {
  const char *name, *text;
  size_t bytes;
  const struct pz_workload_options *options;
  struct pz_workload **out;
};

/* Builds a workload inside of a protected call (a callback of pz_border). */
static void parse_model(struct pz_call *call, void *ctx) {
  const struct parse_arguments *args = ctx;
  pz_require(call, args->name, "name");
  pz_require(call, args->text, "text");
  pz_require(call, args->out, "out");
  *args->out = pz_workload_build(call, args->name, args->text, args->bytes, args->options);
}

enum pz_status pz_workload_parse(const char *name, const char *text, size_t bytes,
                                 const struct pz_workload_options *options,
                                 struct pz_workload **out, struct pz_error *err) {
  struct parse_arguments args = {name, text, bytes, options, out};
  return pz_border(parse_model, &args, err);
}

/* ---- presets --------------------------------------------------------------------------------- */

static const struct pz_preset presets[] = {
#define MODEL(name, hub, ...) {name, hub, #__VA_ARGS__},
#include "workload/presets.def"
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

const char *pz_preset_name(size_t i) { return i < N_PRESETS ? presets[i].name : NULL; }

const char *pz_preset_hub_name(size_t i) { return i < N_PRESETS ? presets[i].hub : NULL; }

/* Returns a preset by its name, or by its name on Hugging Face unless a path has that name. */
const struct pz_preset *pz_preset_find(const char *name) {
  for (size_t i = 0; i < N_PRESETS; i++) {
    const struct pz_preset *preset = &presets[i];
    bool named =
        pz_text_same(preset->name, name) || (preset->hub && pz_text_same(preset->hub, name));
    if (!named) continue;
    bool is_path = strchr(name, '/') && (pz_file_is_regular(name) || pz_file_is_directory(name));
    return is_path ? NULL : preset;
  }
  return NULL;
}

/* Returns whether a word looks like a name on Hugging Face: it has one slash and no file extension,
 * and is not the path of a file. */
bool pz_preset_hub_like(const char *word) {
  const char *slash = strchr(word, '/');
  if (!slash || slash == word || word[0] == '.' || strchr(slash + 1, '/')) return false;
  if (strstr(slash, ".json") || strstr(slash, ".onnx")) return false;
  return !pz_file_is_regular(word) && !pz_file_is_directory(word);
}

const char *pz_preset_named(const char *word) {
  const struct pz_preset *preset = word ? pz_preset_find(word) : NULL;
  return preset ? preset->name : NULL;
}
