/* Launch scripts: each is read back as its framework would read it, and must say what the plan says,
 * for random plans over models of every family; what cannot be expressed is refused by a message
 * that says what is accepted. */
#include "unit/testing.h"

#include "unit/launch_options.h"

#include <ctype.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/json.h"
#include "launch/launch.h"
#include "launch/megatron_args.h"
#include "plan/plan_fill.h"
#include "step/predict.h"
#include "step_borders.h"
#include "unit/plan_borders.h"

enum { MEGATRON = 1, TORCHTITAN, NEMO, DEEPSPEED, FRAMEWORKS };

static const char qwen3[] =
    "{\"model_type\":\"qwen3\",\"num_hidden_layers\":36,\"hidden_size\":4096,"
    "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":128,"
    "\"intermediate_size\":12288,\"vocab_size\":151936,\"max_position_embeddings\":40960,"
    "\"rms_norm_eps\":1e-6,\"rope_theta\":1000000}";
static const char qwen3_moe[] =
    "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":48,\"hidden_size\":2048,"
    "\"num_attention_heads\":32,\"num_key_value_heads\":4,\"head_dim\":128,"
    "\"intermediate_size\":6144,\"moe_intermediate_size\":768,\"num_experts\":128,"
    "\"num_experts_per_tok\":8,\"vocab_size\":151936,\"max_position_embeddings\":40960,"
    "\"rope_theta\":1000000}";
static const char deepseek[] =
    "{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":61,\"hidden_size\":7168,"
    "\"num_attention_heads\":128,\"num_key_value_heads\":128,\"intermediate_size\":18432,"
    "\"moe_intermediate_size\":2048,\"n_routed_experts\":256,\"n_shared_experts\":1,"
    "\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"n_group\":8,\"topk_group\":4,"
    "\"routed_scaling_factor\":2.5,\"q_lora_rank\":1536,\"kv_lora_rank\":512,"
    "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":129280,"
    "\"max_position_embeddings\":163840,\"rope_theta\":10000,\"num_nextn_predict_layers\":1}";

static const struct model {
  const char *name, *config; /* config NULL: a preset */
} models[] = {{"gpt2-xl", NULL},       {"gpt3-175b", NULL},          {"llama2-7b", NULL},
              {"llama3-70b", NULL},    {"llama3-405b", NULL},        {"mixtral-8x7b", NULL},
              {"qwen3-8b", qwen3},     {"qwen3-30b", qwen3_moe},     {"deepseek-v3", deepseek},
              {"llama3.1-8b", NULL},   {"qwen2.5-7b", NULL},         {"mistral-7b", NULL},
              {"phi4", NULL},          {"nemotron-3-nano", NULL},    {"nemotron-3-super", NULL},
              {"nemotron-h-8b", NULL}, {"qwen3-next-80b-a3b", NULL}, {"qwen3.5-27b", NULL}};

/* Like pz_launch_script(), with a status; *text is freed with pz_text_free(). */
struct script_request {
  int framework;
  const struct pz_launch *launch;
  char **text;
};

static void write_script(struct pz_call *call, void *ctx) {
  const struct script_request *x = ctx;
  *x->text = pz_buffer_take(call, pz_launch_script(call, x->framework, x->launch));
}

static enum pz_status launch_script(int framework, const struct pz_launch *launch, char **text,
                                    struct pz_error *err) {
  struct script_request x = {framework, launch, text};
  return pz_border(write_script, &x, err);
}

/* Like pz_launch_fill(), with a status. */
struct fill_request {
  const char *model;
  const struct pz_plan *plan;
  const struct pz_cluster *net;
  struct pz_launch *launch;
};

static void fill_launch(struct pz_call *call, void *ctx) {
  const struct fill_request *x = ctx;
  *x->launch = pz_launch_fill(call, x->model, x->plan, x->net);
}

static enum pz_status launch_fill(const char *model, const struct pz_plan *plan,
                                  const struct pz_cluster *net, struct pz_launch *launch,
                                  struct pz_error *err) {
  struct fill_request x = {model, plan, net, launch};
  return pz_border(fill_launch, &x, err);
}

static bool is_hybrid(const struct pz_model_shape *s) { return s->recurrence.heads > 0; }

static struct pz_model_shape shape_of(const struct model *m) {
  struct pz_model_shape s;
  struct pz_error err = {0};
  enum pz_status status =
      m->config ? try_parse_model_shape(m->name, m->config, strlen(m->config), &s, &err)
                : try_load_model_shape(m->name, &s, &err);
  if (status != PZ_OK) fail_msg("%s", err.message);
  return s;
}

/* ---- what a script says --------------------------------------------------------------------- */

enum { MOST_ENTRIES = 400, LONGEST = 4096 };

/* Names and values, in the order of the script; a flag without a value has "". */
struct entries {
  int n;
  struct {
    char name[72], value[LONGEST];
  } * at;
};

static void add(struct entries *e, const char *name, const char *value) {
  assert_true(e->n < MOST_ENTRIES && strlen(name) < sizeof e->at->name && strlen(value) < LONGEST);
  strcpy(e->at[e->n].name, name);
  strcpy(e->at[e->n++].value, value);
}

static const char *find(const struct entries *e, const char *name) {
  for (int i = 0; i < e->n; i++)
    if (strcmp(e->at[i].name, name) == 0) return e->at[i].value;
  return NULL;
}

static bool has(const struct entries *e, const char *name) { return find(e, name) != NULL; }

static int64_t number(const struct entries *e, const char *name, int64_t absent) {
  const char *value = find(e, name);
  return value ? strtoll(value, NULL, 10) : absent;
}

static void same(const struct entries *e, const char *name, int64_t value) {
  if (!has(e, name)) fail_msg("no %s", name);
  if (number(e, name, -1) != value)
    fail_msg("%s is %s, not %lld", name, find(e, name), (long long)value);
}

static void same_text(const struct entries *e, const char *name, const char *value) {
  if (!has(e, name) || strcmp(find(e, name), value) != 0)
    fail_msg("%s is '%s', not '%s'", name, find(e, name) ? find(e, name) : "absent", value);
}

static void same_real(const struct entries *e, const char *name, double value) {
  const char *text = find(e, name);
  double v = text ? strtod(text, NULL) : -1;
  if (!(v > value * 0.999999 - 1e-30 && v < value * 1.000001 + 1e-30))
    fail_msg("%s is '%s', not %g", name, text ? text : "absent", value);
}

/* The next word of a shell command, without its quotes; NULL at the end. */
static const char *shell_word(const char *at, const char *end, char *word) {
  size_t n = 0;
  while (at < end && (isspace((unsigned char)*at) || *at == '\\')) at++;
  if (at >= end) return NULL;
  for (char quote = 0; at < end && (quote || !isspace((unsigned char)*at)); at++) {
    if (quote ? *at == quote : *at == '\'' || *at == '"') {
      quote = quote ? 0 : *at;
      continue;
    }
    assert_true(n < LONGEST - 1);
    word[n++] = *at;
  }
  word[n] = '\0';
  return at;
}

/* Flags between two places of the script; several words of one with spaces between them. */
static void read_flags(const char *at, const char *end, struct entries *e) {
  char word[LONGEST];
  bool any = false;
  while ((at = shell_word(at, end, word))) {
    if (strncmp(word, "--", 2) == 0) {
      add(e, word, "");
      any = true;
    } else if (any) {
      char *value = e->at[e->n - 1].value;
      size_t n = strlen(value);
      assert_true(n + strlen(word) + 2 < LONGEST);
      snprintf(value + n, LONGEST - n, "%s%s", n ? " " : "", word);
    }
  }
}

static void read_array(const char *text, const char *name, struct entries *e) {
  char head[60];
  snprintf(head, sizeof head, "\n%s=(\n", name);
  const char *at = strstr(text, head);
  assert_non_null(at);
  const char *end = strstr(at, "\n)\n");
  assert_non_null(end);
  read_flags(at + strlen(head), end, e);
}

/* The text between "cat > ... FILE" <<EOF and EOF. */
static char *here_document(const char *text, const char *file) {
  char head[80];
  snprintf(head, sizeof head, "cat > \"$RUN_PATH/%s\" <<", file);
  const char *at = strstr(text, head);
  assert_non_null(at);
  at = strchr(at, '\n') + 1;
  const char *end = strstr(at, "\nEOF\n");
  assert_non_null(end);
  size_t n = (size_t)(end - at) + 1;
  char *out = malloc(n + 1);
  assert_non_null(out);
  memcpy(out, at, n);
  out[n] = '\0';
  return out;
}

/* "name = value" or "name=value," on lines of their own, behind `prefix` of a section.  In TOML a
 * list goes on to the line that closes it. */
static void read_assignments(char *text, struct entries *e) {
  char section[40] = "", name[200], value[LONGEST];
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    while (*line == ' ') line++;
    char *equals = strchr(line, '=');
    size_t n = strlen(line);
    if (*line == '[' && line[n - 1] == ']' && !equals && isalpha((unsigned char)line[1])) {
      snprintf(section, sizeof section, "%.*s.", (int)(n - 2), line + 1);
      continue;
    }
    if (!equals || equals == line) continue;
    char *end = equals;
    while (end > line && end[-1] == ' ') end--;
    snprintf(name, sizeof name, "%s%.*s", section, (int)(end - line), line);
    char *from = equals + 1;
    while (*from == ' ') from++;
    n = strlen(from);
    if (n && from[n - 1] == ',') n--;
    if (n > 1 && from[0] == '"' && from[n - 1] == '"') from++, n -= 2;
    snprintf(value, sizeof value, "%.*s", (int)n, from);
    if (strlen(name) < 72) add(e, name, value);
  }
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Nodes and devices of the torchrun line, and so the replicas. */
static int64_t check_nodes(const struct pz_launch *l, const char *text) {
  const char *at = strstr(text, "\nexec torchrun ");
  struct entries e = {.at = malloc(MOST_ENTRIES * sizeof *e.at)};
  assert_non_null(at);
  read_flags(at, at + strlen(at), &e);
  same(&e, "--nnodes", l->nodes);
  same(&e, "--nproc-per-node", l->gpus_per_node);
  same_text(&e, "--node-rank", "$NODE_RANK");
  same_text(&e, "--master-addr", "$MASTER_ADDR");
  int64_t world = number(&e, "--nnodes", 0) * number(&e, "--nproc-per-node", 0);
  assert_int_equal(world, l->plan.tp * l->plan.cp * l->plan.pp * l->plan.dp);
  free(e.at);
  return world;
}

/* ---- Megatron Core -------------------------------------------------------------------------- */

/* Layers of chunk j from a layout, E t*3 | t t | t,L. */
static int64_t layout_chunk(const char *layout, int64_t j) {
  int64_t layers = 0;
  for (const char *at = layout; *at; at++) {
    if (*at == '|') j--;
    if (*at != 't' || j != 0) continue;
    layers += at[1] == '*' ? strtoll(at + 2, NULL, 10) : 1;
  }
  return layers;
}

/* How Megatron Core would divide the layers, from the names of its fields. */
struct division {
  int64_t layers, pp, vpp, first, last;
  bool ends_count;
  const char *layout;
};

static int64_t core_chunk(const struct division *d, int64_t j) {
  int64_t stage = j % d->pp, n = d->pp * d->vpp;
  if (d->layout) return layout_chunk(d->layout, j);
  if (d->ends_count) {
    assert_int_equal((d->layers + 2) % n, 0);
    return (d->layers + 2) / n - (j == 0) - (j == n - 1);
  }
  int64_t middle = d->pp - (d->first > 0) - (d->last > 0), rest = d->layers - d->first - d->last;
  assert_true(middle > 0 ? rest % (middle * d->vpp) == 0 : rest == 0);
  if (stage == 0 && d->first) return d->first / d->vpp;
  if (stage == d->pp - 1 && d->last) return d->last / d->vpp;
  return rest / (middle * d->vpp);
}

/* Letters of every chunk, and behind them those of every layer that predicts. */
static void check_pattern(const struct pz_launch *l, const char *at) {
  const struct pz_plan *p = &l->plan;
  const char *all = l->shape.pattern;
  for (int64_t j = 0; j < p->pp * p->vpp; j++) {
    size_t n = (size_t)pz_plan_chunk_layers(p, l->shape.layers, j);
    if (j) assert_int_equal(*at++, '|');
    assert_memory_equal(at, all, n);
    at += n;
    all += n;
  }
  for (int64_t i = p->mtp ? l->shape.predict_layers : 0; i > 0; i--) {
    assert_memory_equal(at, "/*E", 3);
    at += 3;
  }
  assert_true(!*all && !*at);
}

static void check_division(const struct pz_launch *l, const struct division *d) {
  int64_t sum = 0;
  if (l->shape.family == PZ_SHAPE_NEMOTRON_H) return; /* in the pattern */
  for (int64_t j = 0; j < d->pp * d->vpp; j++) {
    assert_int_equal(core_chunk(d, j), pz_plan_chunk_layers(&l->plan, l->shape.layers, j));
    sum += core_chunk(d, j);
  }
  assert_int_equal(sum, l->shape.layers);
}

/* The overlap of a plan without what it has nothing of. */
static int real_overlap(const struct pz_plan *p) {
  int set = p->overlap;
  if (p->dp * p->cp == 1 && pz_plan_expert_replicas(p) == 1)
    set &= ~(PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM);
  if (!p->zero) set &= ~PZ_OVERLAP_PARAM;
  if (p->tp == 1) set &= ~PZ_OVERLAP_TP;
  if (p->pp == 1) set &= ~PZ_OVERLAP_P2P;
  if (p->ep == 1) set &= ~PZ_OVERLAP_EP;
  return set;
}

/* Names between other characters, as a set of modules. */
static unsigned modules_of(const char *text) {
  unsigned set = 0;
  for (const char *at = text; at && *at;) {
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
    int i = 0;
    while (n && pz_module_names[i] &&
           (strlen(pz_module_names[i]) != n || strncmp(pz_module_names[i], at, n) != 0))
      i++;
    if (n) {
      assert_non_null(pz_module_names[i]);
      assert_false(set >> i & 1);
      set |= 1U << i;
    }
    at += n ? n : 1;
  }
  return set;
}

static unsigned modules_wanted(const struct pz_plan *p) {
  return (unsigned)(p->recompute_modules ? p->recompute_modules : PZ_MODULE_CORE);
}

/* The experts' grid, and Megatron Core's conditions for hiding their all-to-all. */
static void check_grid(const struct pz_launch *l, int64_t world, int64_t ep, int64_t etp,
                       bool overlap, unsigned modules) {
  const struct pz_plan *p = &l->plan;
  int64_t want = p->etp ? p->etp : p->ep > 1 ? 1 : p->tp;
  assert_int_equal(ep, p->ep);
  assert_int_equal(etp, want);
  assert_int_equal(world % (ep * etp * p->pp), 0);
  assert_int_equal(l->shape.experts % ep, 0);
  if (!overlap) return;
  assert_true(ep > 1 && (p->pp == 1 || p->vpp > 1));
  assert_true(p->recompute != PZ_RECOMPUTATION_FULL && !(modules & PZ_MODULE_EXPERTS));
}

static void check_attention(const struct pz_plan *p, const char *backend) {
  const char *want = p->attention == PZ_ATTENTION_STANDARD        ? "unfused"
                     : !*p->attention_library                     ? "auto"
                     : strcmp(p->attention_library, "cudnn") == 0 ? "fused"
                                                                  : "flash";
  assert_string_equal(backend, want);
}

/* ---- Megatron-LM ---------------------------------------------------------------------------- */

static void check_once(const struct entries *e) {
  for (int i = 0; i < e->n; i++)
    for (int j = 0; j < i; j++) assert_string_not_equal(e->at[i].name, e->at[j].name);
}

static void check_recompute(const struct entries *e, const struct pz_plan *p, bool modules) {
  if (p->recompute == PZ_RECOMPUTATION_NONE) {
    assert_false(has(e, "--recompute-granularity"));
    return;
  }
  same_text(e, "--recompute-granularity", pz_recomputation_names[p->recompute]);
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    unsigned set = modules ? modules_of(find(e, "--recompute-modules")) : PZ_MODULE_CORE;
    assert_int_equal(set, modules_wanted(p));
    assert_false(has(e, "--recompute-method"));
    return;
  }
  same_text(e, "--recompute-method", p->recompute_layers ? "block" : "uniform");
  same(e, "--recompute-num-layers", p->recompute_layers ? p->recompute_layers : 1);
}

static void check_megatron_hybrid(const struct pz_launch *l, const struct entries *e) {
  const struct pz_model_shape *s = &l->shape;
  const struct pz_recurrence *r = &s->recurrence;
  assert_int_equal(has(e, "--squared-relu"), s->squared);
  assert_int_equal(number(e, "--moe-latent-size", 0), s->latent);
  if (r->mixer == PZ_MIXER_DELTA) {
    same_text(e, "--experimental-attention-variant", "gated_delta_net");
    same(e, "--linear-attention-freq", 4);
    same(e, "--linear-num-key-heads", r->groups);
    same(e, "--linear-num-value-heads", r->heads);
    same(e, "--linear-key-head-dim", r->state);
    same(e, "--linear-value-head-dim", r->head_dim);
    same_real(e, "--rotary-percent", 0.25);
    assert_true(has(e, "--attention-output-gate"));
    assert_int_equal(has(e, "--moe-shared-expert-gate"), s->experts > 0);
    return;
  }
  same_text(e, "--position-embedding-type", "none");
  same(e, "--mamba-num-heads", r->heads);
  same(e, "--mamba-head-dim", r->head_dim);
  same(e, "--mamba-state-dim", r->state);
  same(e, "--mamba-num-groups", r->groups);
  check_pattern(l, find(e, "--hybrid-layer-pattern"));
}

static void check_megatron_model(const struct pz_launch *l, const struct entries *e) {
  const struct pz_model_shape *s = &l->shape;
  if (is_hybrid(s)) check_megatron_hybrid(l, e);
  same(e, "--num-layers", s->layers);
  same(e, "--hidden-size", s->hidden);
  same(e, "--ffn-hidden-size", s->ffn);
  same(e, "--num-attention-heads", s->heads);
  if (s->kv_rank) {
    same(e, "--kv-lora-rank", s->kv_rank);
    same(e, "--q-lora-rank", s->q_rank);
    same(e, "--qk-head-dim", s->nope_dim);
    same(e, "--qk-pos-emb-head-dim", s->rope_dim);
    same(e, "--v-head-dim", s->v_dim);
    assert_true(has(e, "--multi-latent-attention"));
  } else {
    same(e, "--kv-channels", s->head_dim);
    assert_int_equal(number(e, "--num-query-groups", s->heads), s->kv_heads);
    assert_int_equal(has(e, "--group-query-attention"), s->kv_heads != s->heads);
  }
  assert_int_equal(has(e, "--swiglu"), s->gated);
  assert_int_equal(has(e, "--untie-embeddings-and-output-weights"), !s->tied);
  assert_int_equal(has(e, "--disable-bias-linear"), !s->bias);
  assert_int_equal(has(e, "--qk-layernorm"), s->qk_norm);
  assert_int_equal(number(e, "--rotary-base", 0), (int64_t)s->rotary_base);
  same_real(e, "--norm-epsilon", s->norm_eps);
  assert_int_equal(has(e, "--add-qkv-bias"), s->qkv_bias && !s->bias);
  double factor = pz_shape_rope_factor(s, l->plan.seq);
  assert_int_equal(has(e, "--use-rope-scaling"), factor > 0);
  if (factor > 0) same_real(e, "--rope-scaling-factor", factor);
  assert_int_equal(number(e, "--moe-router-num-groups", 0), s->groups);
  assert_int_equal(number(e, "--moe-router-group-topk", 0), s->group_topk);
  assert_true(number(e, "--max-position-embeddings", 0) >= l->plan.seq);
  assert_int_equal(number(e, "--num-experts", 0), s->experts);
  assert_int_equal(number(e, "--moe-router-topk", 0), s->topk);
  assert_int_equal(number(e, "--moe-ffn-hidden-size", 0), s->expert_ffn);
  assert_int_equal(number(e, "--moe-shared-expert-intermediate-size", 0), s->shared_ffn);
}

/* Without it Megatron-LM and Megatron Bridge refuse modules on the host. */
static bool exports_offload(const char *text) {
  return strstr(text, "\nexport NVTE_CPU_OFFLOAD_V1=1\n") != NULL;
}

static void check_megatron(const struct pz_launch *l, const char *text) {
  const struct pz_plan *p = &l->plan;
  struct entries e = {.at = malloc(MOST_ENTRIES * sizeof *e.at)};
  int64_t world = check_nodes(l, text);
  read_array(text, "MODEL_ARGS", &e);
  read_array(text, "PARALLEL_ARGS", &e);
  read_array(text, "TRAINING_ARGS", &e);
  check_once(&e);
  check_megatron_model(l, &e);
  same(&e, "--tensor-model-parallel-size", p->tp);
  same(&e, "--pipeline-model-parallel-size", p->pp);
  same(&e, "--micro-batch-size", p->mbs);
  same(&e, "--global-batch-size", p->batch);
  same(&e, "--seq-length", p->seq);
  same(&e, "--context-parallel-size", p->cp);
  int64_t dp = world / (p->tp * p->cp * p->pp);
  assert_int_equal(p->batch, p->mbs * dp * pz_plan_microbatches(&l->plan));
  assert_true(has(&e, "--bf16"));
  assert_int_equal(has(&e, "--fp8-format"), p->precision == PZ_PRECISION_FP8);
  assert_int_equal(has(&e, "--fp4-format"), p->precision == PZ_PRECISION_NVFP4);
  assert_int_equal(exports_offload(text), has(&e, "--fine-grained-activation-offloading"));
  assert_int_equal(has(&e, "--sequence-parallel"), p->sp);
  assert_int_equal(has(&e, "--grad-reduce-in-bf16"), p->grad_bytes == 2);
  bool modules = p->execution != PZ_EXECUTION_GRAPH && p->cuda_graphs > 0;
  assert_int_equal(has(&e, "--enable-cuda-graph"), p->execution == PZ_EXECUTION_GRAPH);
  assert_int_equal(has(&e, "--cuda-graph-impl"), modules);
  assert_int_equal(has(&e, "--cuda-graph-scope"), modules);
  const char *fsdp = find(&e, "--data-parallel-sharding-strategy");
  int zero =
      fsdp ? (strcmp(fsdp, "optim_grads") == 0 ? 2 : 3) : has(&e, "--use-distributed-optimizer");
  assert_int_equal(zero, p->zero);
  if (zero)
    assert_int_equal(dp * p->cp / number(&e, "--num-distributed-optimizer-instances", 1), p->shard);
  assert_int_equal(strstr(text, "export CUDA_DEVICE_MAX_CONNECTIONS=") != NULL, zero < 2);
  assert_int_equal(strstr(text, "MAX_CONNECTIONS:-32}") != NULL,
                   zero < 2 && real_overlap(p) & PZ_OVERLAP_EP);
  int64_t chunks = number(&e, "--num-virtual-stages-per-pipeline-rank", 1);
  if (has(&e, "--pipeline-model-parallel-layout")) chunks = p->vpp;
  assert_int_equal(chunks, p->vpp);
  bool p2p = p->vpp > 1 && !has(&e, "--no-overlap-p2p-communication");
  assert_int_equal(PZ_OVERLAP_GRAD * has(&e, "--overlap-grad-reduce") +
                       PZ_OVERLAP_PARAM * has(&e, "--overlap-param-gather") +
                       PZ_OVERLAP_TP * has(&e, "--tp-comm-overlap") + PZ_OVERLAP_P2P * p2p +
                       PZ_OVERLAP_EP * has(&e, "--overlap-moe-expert-parallel-comm"),
                   real_overlap(p));
  assert_int_equal(number(&e, "--mtp-num-layers", 0), p->mtp ? l->shape.predict_layers : 0);
  if (l->shape.experts)
    check_grid(l, world, number(&e, "--expert-model-parallel-size", 0),
               number(&e, "--expert-tensor-parallel-size", 0),
               has(&e, "--overlap-moe-expert-parallel-comm"),
               modules_of(find(&e, "--recompute-modules")));
  check_recompute(&e, p, true);
  check_attention(p, find(&e, "--attention-backend"));
  struct division d = {.layers = number(&e, "--num-layers", 0),
                       .pp = p->pp,
                       .vpp = chunks,
                       .first = number(&e, "--decoder-first-pipeline-num-layers", 0),
                       .last = number(&e, "--decoder-last-pipeline-num-layers", 0),
                       .ends_count = has(&e, "--account-for-loss-in-pipeline-split"),
                       .layout = find(&e, "--pipeline-model-parallel-layout")};
  if (d.layout) assert_int_equal(strstr(d.layout, "mL") != NULL, p->mtp);
  check_division(l, &d);
  free(e.at);
}

/* ---- NeMo ----------------------------------------------------------------------------------- */

static void same_truth(const struct entries *e, const char *name, bool value) {
  same_text(e, name, value ? "True" : "False");
}

static void check_nemo_model(const struct pz_launch *l, const struct entries *e) {
  const struct pz_model_shape *s = &l->shape;
  same(e, "model.num_layers", s->layers);
  same(e, "model.hidden_size", s->hidden);
  same(e, "model.ffn_hidden_size", s->ffn);
  same(e, "model.num_attention_heads", s->heads);
  same(e, "model.vocab_size", s->vocab);
  if (s->family == PZ_SHAPE_NEMOTRON_H) check_pattern(l, find(e, "model.hybrid_layer_pattern"));
  if (s->family == PZ_SHAPE_QWEN3_NEXT)
    same(e, "model.linear_num_value_heads", s->recurrence.heads);
  if (s->kv_rank)
    same(e, "model.kv_lora_rank", s->kv_rank);
  else
    same(e, "model.num_query_groups", s->kv_heads);
  same_truth(e, "model.gated_linear_unit", s->gated);
  same_truth(e, "model.add_bias_linear", s->bias);
  same_truth(e, "model.share_embeddings_and_output_weights", s->tied);
  assert_int_equal(number(e, "model.rotary_base", 0), (int64_t)s->rotary_base);
  assert_int_equal(number(e, "model.num_moe_experts", 0), s->experts);
  assert_int_equal(number(e, "model.moe_router_topk", 0), s->topk);
  assert_int_equal(number(e, "model.moe_ffn_hidden_size", 0), s->expert_ffn);
}

/* Kernels that are predicted as fused ones; shared experts in line, as any dispatcher has them. */
static void check_nemo_fusions(const struct entries *e, const struct pz_model_shape *s) {
  assert_int_equal(has(e, "model.bias_activation_fusion"), s->gated || s->bias);
  same_truth(e, "model.bias_dropout_fusion", true);
  if (s->rotary_base > 0) same_truth(e, "model.apply_rope_fusion", !s->kv_rank);
  assert_int_equal(has(e, "model.moe_permute_fusion"), s->experts > 0);
  assert_int_equal(has(e, "model.moe_router_fusion"), s->experts > 0);
  if (s->shared_ffn) same_truth(e, "model.moe_shared_expert_overlap", false);
}

static void check_nemo_recompute(const struct entries *e, const struct pz_plan *p) {
  if (p->recompute == PZ_RECOMPUTATION_NONE) {
    assert_false(has(e, "model.recompute_granularity"));
    return;
  }
  same_text(e, "model.recompute_granularity", pz_recomputation_names[p->recompute]);
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE)
    assert_int_equal(modules_of(find(e, "model.recompute_modules")), modules_wanted(p));
  if (p->recompute == PZ_RECOMPUTATION_FULL)
    same(e, "model.recompute_num_layers", p->recompute_layers ? p->recompute_layers : 1);
}

static void check_nemo(const struct pz_launch *l, const char *text) {
  const struct pz_plan *p = &l->plan;
  struct entries e = {.at = malloc(MOST_ENTRIES * sizeof *e.at)};
  char *program = here_document(text, "train.py");
  int64_t world = check_nodes(l, text);
  read_assignments(program, &e);
  check_nemo_model(l, &e);
  check_nemo_fusions(&e, &l->shape);
  check_nemo_recompute(&e, p);
  same(&e, "model.tensor_model_parallel_size", p->tp);
  same(&e, "model.pipeline_model_parallel_size", p->pp);
  same(&e, "micro_batch_size", p->mbs);
  same(&e, "global_batch_size", p->batch);
  same(&e, "seq_length", p->seq);
  same(&e, "model.seq_length", p->seq);
  same_truth(&e, "model.sequence_parallel", p->sp);
  same(&e, "model.context_parallel_size", p->cp);
  int64_t dp = world / (p->tp * p->cp * p->pp);
  assert_int_equal(p->batch, p->mbs * dp * pz_plan_microbatches(&l->plan));
  assert_int_equal(has(&e, "precision.fp8"), p->precision == PZ_PRECISION_FP8);
  /* 8-bit weights need the distributed optimizer */
  bool weights = p->precision == PZ_PRECISION_FP8 && p->zero && p->fp8_recipe != PZ_FP8_BLOCKWISE;
  assert_int_equal(has(&e, "precision.fp8_param_gather"), weights);
  assert_int_equal(has(&e, "precision.reuse_grad_buf_for_mxfp8_param_ag"),
                   weights && p->fp8_recipe == PZ_FP8_MX);
  assert_int_equal(exports_offload(text), has(&e, "model.fine_grained_activation_offloading"));
  same_truth(&e, "use_distributed_optimizer", p->zero > 0);
  same_truth(&e, "grad_reduce_in_fp32", p->grad_bytes == 4);
  same_truth(&e, "precision.grad_reduce_in_fp32", p->grad_bytes == 4);
  same(&e, "num_distributed_optimizer_instances", p->zero ? p->dp * p->cp / p->shard : 1);
  same_text(&e, "ckpt_format", p->zero > 1 ? "fsdp_dtensor" : "torch_dist");
  if (p->zero > 1)
    same_text(&e, "data_parallel_sharding_strategy",
              p->zero == 2 ? "optim_grads" : "optim_grads_params");
  int overlap = real_overlap(p);
  same_truth(&e, "overlap_grad_reduce", overlap & PZ_OVERLAP_GRAD);
  same_truth(&e, "overlap_param_gather", overlap & PZ_OVERLAP_PARAM);
  same_truth(&e, "model.tp_comm_overlap", overlap & PZ_OVERLAP_TP);
  same_truth(&e, "model.overlap_p2p_comm", overlap & PZ_OVERLAP_P2P);
  assert_int_equal(number(&e, "model.mtp_num_layers", 0), p->mtp ? l->shape.predict_layers : 0);
  if (l->shape.experts) {
    same_truth(&e, "model.overlap_moe_expert_parallel_comm", overlap & PZ_OVERLAP_EP);
    check_grid(l, world, number(&e, "model.expert_model_parallel_size", 0),
               number(&e, "model.expert_tensor_parallel_size", 0), overlap & PZ_OVERLAP_EP,
               modules_of(find(&e, "model.recompute_modules")));
  }
  check_attention(p, find(&e, "model.attention_backend") + strlen("AttnBackend."));
  struct division d = {.layers = number(&e, "model.num_layers", 0),
                       .pp = p->pp,
                       .vpp = number(&e, "model.virtual_pipeline_model_parallel_size", 1),
                       .first = number(&e, "model.num_layers_in_first_pipeline_stage", 0),
                       .last = number(&e, "model.num_layers_in_last_pipeline_stage", 0),
                       .ends_count = has(&e, "model.account_for_loss_in_pipeline_split"),
                       .layout = find(&e, "model.pipeline_model_parallel_layout")};
  assert_int_equal(d.vpp, p->vpp);
  check_division(l, &d);
  free(program);
  free(e.at);
}

/* ---- torchtitan ----------------------------------------------------------------------------- */

static void check_titan_model(const struct pz_launch *l, const char *text) {
  const struct pz_model_shape *s = &l->shape;
  struct entries e = {.at = malloc(MOST_ENTRIES * sizeof *e.at)};
  char *module = here_document(text, "phaze_model.py");
  read_assignments(module, &e);
  same(&e, "dim", s->hidden);
  same(&e, "n_layers", s->layers);
  same(&e, "n_heads", s->heads);
  same(&e, "vocab_size", s->vocab);
  same_real(&e, "rope_theta", s->rotary_base);
  if (s->family == PZ_SHAPE_LLAMA) {
    /* its own arithmetic of the feed-forward width */
    int64_t width = 2 * 4 * s->hidden / 3, multiple = number(&e, "multiple_of", 0);
    if (has(&e, "ffn_dim_multiplier"))
      width = (int64_t)(strtod(find(&e, "ffn_dim_multiplier"), NULL) * (double)width);
    assert_int_equal((width + multiple - 1) / multiple * multiple, s->ffn);
    same(&e, "n_kv_heads", s->kv_heads);
  } else {
    same(&e, s->family == PZ_SHAPE_QWEN3 ? "hidden_dim" : "inter_dim", s->ffn);
  }
  assert_int_equal(number(&e, "num_experts", 0), s->experts);
  assert_int_equal(number(&e, "top_k", 0), s->topk);
  assert_int_equal(number(&e, "moe_inter_dim", 0), s->expert_ffn);
  free(module);
  free(e.at);
}

/* Every chunk has its layers, in order; the first the embedding, the last norm and output. */
static void check_titan_stages(const struct pz_launch *l, const char *config) {
  int64_t n = l->plan.pp * l->plan.vpp, layer = 0;
  const char *at = strstr(config, "module_fqns_per_model_part = [\n");
  if (l->plan.pp == 1) {
    assert_null(at);
    return;
  }
  assert_non_null(at);
  for (int64_t j = 0; j < n; j++) {
    at = strchr(at, '\n') + 1;
    const char *end = strchr(at, '\n');
    int64_t here = 0;
    for (const char *w = at; (w = strstr(w, "\"layers.")) && w < end; w++, here++)
      assert_int_equal(strtoll(w + 8, NULL, 10), layer++);
    assert_int_equal(here, pz_plan_chunk_layers(&l->plan, l->shape.layers, j));
    const char *first = strstr(at, "\"tok_embeddings\""),
               *last = strstr(at, "\"norm\", \"output\"");
    assert_int_equal(first && first < end, j == 0);
    assert_int_equal(last && last < end, j == n - 1);
  }
  assert_int_equal(layer, l->shape.layers);
  assert_int_equal(strncmp(strchr(at, '\n') + 1, "]\n", 2), 0);
}

static void check_titan_recompute(const struct entries *e, const struct pz_plan *p) {
  static const char *const mode[PZ_RECOMPUTATIONS] = {"none", NULL, "full", "selective",
                                                      "selective"};
  assert_non_null(mode[p->recompute]);
  same_text(e, "activation_checkpoint.mode", mode[p->recompute]);
  if (p->recompute >= PZ_RECOMPUTATION_ALTERNATE)
    same_text(e, "activation_checkpoint.selective_ac_option",
              p->recompute == PZ_RECOMPUTATION_ALTERNATE ? "op" : "2");
}

/* What its mesh asserts of the experts' grid: within the shards of one copy of the weights. */
static void check_titan_experts(const struct pz_launch *l, const struct entries *e) {
  const struct pz_plan *p = &l->plan;
  int64_t ep = number(e, "parallelism.expert_parallel_degree", 0),
          etp = number(e, "parallelism.expert_tensor_parallel_degree", p->tp),
          shard = number(e, "parallelism.data_parallel_shard_degree", 0);
  bool dual = p->pp > 1 && p->pipeline == PZ_PIPELINE_DUALPIPE_V,
       overlap = ep > 1 && p->overlap & PZ_OVERLAP_EP;
  assert_int_equal(ep, p->ep);
  assert_false(p->mtp);
  assert_int_equal(has(e, "parallelism.pipeline_parallel_expert_parallel_overlap"), dual);
  if (dual)
    same_text(e, "parallelism.pipeline_parallel_expert_parallel_overlap",
              overlap ? "true" : "false");
  if (overlap) assert_true(dual && p->recompute == PZ_RECOMPUTATION_NONE);
  if (!l->shape.experts) return;
  assert_int_equal(etp, p->etp ? p->etp : p->ep > 1 ? 1 : p->tp);
  if (ep == 1) return;
  assert_true(etp == 1 || etp == p->tp);
  assert_int_equal(shard * p->cp * p->tp % (ep * etp), 0);
}

static void check_torchtitan(const struct pz_launch *l, const char *text) {
  static const char *const order[PZ_PIPELINES] = {"1F1B", "Interleaved1F1B", "GPipe",    NULL,
                                                  NULL,   "ZBVZeroBubble",   "DualPipeV"};
  const struct pz_plan *p = &l->plan;
  struct entries e = {.at = malloc(MOST_ENTRIES * sizeof *e.at)};
  char *config = here_document(text, "plan.toml");
  int64_t world = check_nodes(l, text);
  check_titan_model(l, text);
  check_titan_stages(l, config);
  read_assignments(config, &e);
  same(&e, "parallelism.tensor_parallel_degree", p->tp);
  same(&e, "parallelism.pipeline_parallel_degree", p->pp);
  int64_t replicate = number(&e, "parallelism.data_parallel_replicate_degree", 0),
          shard = number(&e, "parallelism.data_parallel_shard_degree", 0);
  assert_int_equal(replicate * shard, p->dp);
  same(&e, "parallelism.context_parallel_degree", p->cp);
  assert_int_equal(replicate * shard * p->cp * p->tp * p->pp, world);
  assert_true(shard * p->cp > 1 || p->dp == 1 || (p->tp == 1 && p->pp == 1));
  if (p->zero) assert_int_equal(shard * p->cp, p->shard);
  assert_int_equal(has(&e, "model.converters"), p->precision == PZ_PRECISION_FP8);
  same_text(&e, "parallelism.fsdp_reshard_after_forward", p->zero == 3 ? "always" : "never");
  same(&e, "training.global_batch_size", p->batch);
  same(&e, "training.seq_len", p->seq);
  int64_t local = number(&e, "training.local_batch_size", 0);
  if (p->pp > 1) {
    same(&e, "parallelism.pipeline_parallel_microbatch_size", p->mbs);
    assert_non_null(order[p->pipeline]);
    same_text(&e, "parallelism.pipeline_parallel_schedule", order[p->pipeline]);
    assert_int_equal(local / p->mbs, pz_plan_microbatches(&l->plan));
    assert_int_equal(local * p->dp, p->batch);
  } else {
    assert_int_equal(local, p->mbs);
    assert_int_equal(p->batch % (local * p->dp), 0);
  }
  same_text(&e, "compile.enable", p->execution == PZ_EXECUTION_COMPILE ? "true" : "false");
  same_text(&e, "parallelism.enable_async_tensor_parallel",
            p->tp > 1 && p->overlap & PZ_OVERLAP_TP ? "true" : "false");
  check_titan_recompute(&e, p);
  check_titan_experts(l, &e);
  free(config);
  free(e.at);
}

/* ---- DeepSpeed ------------------------------------------------------------------------------ */

static int64_t json_int(const json_t *j, const char *key) {
  return json_integer_value(json_object_get(j, key));
}

static void check_deepspeed_config(const struct pz_launch *l, const char *text) {
  const struct pz_plan *p = &l->plan;
  char *config = here_document(text, "deepspeed.json");
  json_error_t wrong;
  json_t *j = json_loads(config, 0, &wrong);
  if (!j) fail_msg("%s", wrong.text);
  assert_int_equal(json_int(j, "train_batch_size"), p->batch);
  assert_int_equal(json_int(j, "train_micro_batch_size_per_gpu"), p->mbs);
  assert_int_equal(json_int(j, "gradient_accumulation_steps"), pz_plan_microbatches(&l->plan));
  assert_int_equal(json_int(j, "train_batch_size"), json_int(j, "train_micro_batch_size_per_gpu") *
                                                        json_int(j, "gradient_accumulation_steps") *
                                                        p->dp);
  assert_string_equal(json_string_value(json_object_get(j, "communication_data_type")),
                      p->grad_bytes == 2 ? "bf16" : "fp32");
  assert_true(json_is_true(json_object_get(json_object_get(j, "bf16"), "enabled")));
  const json_t *zero = json_object_get(j, "zero_optimization");
  assert_int_equal(json_int(zero, "stage"), p->zero);
  if (p->zero > 1)
    assert_int_equal(json_is_true(json_object_get(zero, "overlap_comm")),
                     (real_overlap(p) & PZ_OVERLAP_GRAD) != 0);
  int64_t live = json_int(zero, "stage3_max_live_parameters");
  if (p->zero == 3)
    assert_int_equal(json_int(zero, "stage3_prefetch_bucket_size"),
                     real_overlap(p) & PZ_OVERLAP_PARAM ? live / 2 : 0);
  assert_int_equal(live > 0, p->zero == 3);
  json_decref(j);
  free(config);
}

static void check_deepspeed(const struct pz_launch *l, const char *text) {
  const struct pz_plan *p = &l->plan;
  const struct pz_model_shape *s = &l->shape;
  struct entries e = {.at = malloc(MOST_ENTRIES * sizeof *e.at)};
  int64_t world = check_nodes(l, text);
  check_deepspeed_config(l, text);
  read_array(text, "MODEL_ARGS", &e);
  read_array(text, "PARALLEL_ARGS", &e);
  read_array(text, "TRAINING_ARGS", &e);
  check_once(&e);
  same(&e, "--num-layers", s->layers);
  same(&e, "--hidden-size", s->hidden);
  same(&e, "--ffn-hidden-size", s->ffn);
  same(&e, "--num-attention-heads", s->heads);
  same(&e, "--num-key-value-heads", s->kv_heads);
  same(&e, "--vocab-size", s->vocab);
  assert_int_equal(number(&e, "--rotary-position-embeddings-theta", 0), (int64_t)s->rotary_base);
  same(&e, "--tensor-model-parallel-size", p->tp);
  same(&e, "--pipeline-model-parallel-size", p->pp);
  assert_int_equal(world / (p->tp * p->pp), p->dp);
  assert_int_equal(s->layers % p->pp, 0);
  assert_int_equal(has(&e, "--no-pipeline-parallel"), p->pp == 1);
  assert_int_equal(has(&e, "--enable-zbh1-pipeline"),
                   p->pp > 1 && p->pipeline == PZ_PIPELINE_ZB_H1);
  assert_int_equal(p->cp, 1);
  same(&e, "--zero-stage", p->zero);
  assert_true(p->pp == 1 || p->zero < 2);
  same(&e, "--micro-batch-size", p->mbs);
  same(&e, "--global-batch-size", p->batch);
  same(&e, "--seq-length", p->seq);
  assert_int_equal(has(&e, "--sequence-parallel"), p->sp);
  assert_int_equal(has(&e, "--use-flash-attn-v1") || has(&e, "--use-flash-attn-v2"),
                   p->attention == PZ_ATTENTION_FLASH);
  check_recompute(&e, p, false);
  assert_true(p->ep == 1 && !p->mtp);
  free(e.at);
}

static void (*const checks[FRAMEWORKS])(const struct pz_launch *l,
                                        const char *text) = {[MEGATRON] = check_megatron,
                                                             [TORCHTITAN] = check_torchtitan,
                                                             [NEMO] = check_nemo,
                                                             [DEEPSPEED] = check_deepspeed};

/* ---- random plans --------------------------------------------------------------------------- */

static int64_t pick(uint64_t *seed, int64_t n) {
  return (int64_t)(pz_random_next(seed) % (uint64_t)n);
}

static int64_t power(uint64_t *seed, int most) { return 1 << pick(seed, most + 1); }

/* A framework's habits in half of the fields, something else in the others. */
static struct pz_plan random_plan(uint64_t *seed, const struct pz_model_shape *s) {
  static const char *const framework[] = {"megatron", "torchtitan", "nemo", "deepspeed"};
  static const char *const library[] = {NULL, "", "fa2", "fa3", "cudnn"};
  struct pz_plan o = pz_plan_default();
  o.framework = pz_framework_find(framework[pick(seed, 4)]);
  do o.tp = power(seed, 3);
  while (s->heads % o.tp || s->kv_heads % o.tp || s->ffn % o.tp);
  o.pp = pick(seed, 2) ? 1 : 1 + pick(seed, s->layers < 12 ? s->layers : 12);
  o.vpp = o.pp > 1 && pick(seed, 2) ? 1 + pick(seed, s->layers / o.pp) : 1;
  if (o.vpp > 6) o.vpp = 2;
  if (o.vpp * o.pp > s->layers) o.vpp = 1;
  o.dp = power(seed, 5);
  o.mbs = power(seed, 2);
  o.batch = o.mbs * o.dp * o.pp * (1 + pick(seed, 6));
  o.seq = 1024 << pick(seed, s->rotary_base > 0 ? 4 : 1);
  o.shard = pick(seed, 3) ? 0 : power(seed, 5);
  if (o.shard > o.dp) o.shard = 0;
  if (pick(seed, 2)) o.zero = (int)pick(seed, 4);
  if (pick(seed, 2)) o.recompute = (int)pick(seed, PZ_RECOMPUTATIONS);
  if (o.recompute == PZ_RECOMPUTATION_FULL && pick(seed, 2)) o.recompute_layers = 1 + pick(seed, 3);
  if (pick(seed, 4) == 0) o.sp = (int)pick(seed, 2);
  if (pick(seed, 2)) o.overlap = (int)pick(seed, PZ_OVERLAP_ALL + 1);
  if (pick(seed, 3) == 0) o.execution = (int)pick(seed, PZ_EXECUTIONS);
  if (pick(seed, 4) == 0) o.attention = (int)pick(seed, 2);
  if (pick(seed, 4) == 0) o.grad_bytes = (double)(2 * (1 + pick(seed, 2)));
  if (o.vpp == 1 && pick(seed, 4) == 0) o.pipeline = (int)(PZ_PIPELINE_GPIPE + pick(seed, 3));
  if (pick(seed, 4) == 0) o.cp = power(seed, 2);
  if (pick(seed, 6) == 0) o.precision = PZ_PRECISION_FP8;
  uint64_t formats = *seed + 2; /* draws of its own */
  if (o.precision == PZ_PRECISION_FP8 && pick(&formats, 3) == 0) o.precision = PZ_PRECISION_NVFP4;
  if (o.precision == PZ_PRECISION_FP8 && pick(&formats, 2))
    o.fp8_recipe = (int)pick(&formats, PZ_FP8_RECIPES);
  if (o.precision > 0 && pick(&formats, 4) == 0) o.bf16_layers = 1 + pick(&formats, s->layers);
  if (o.precision > 0 && pick(&formats, 4) == 0)
    o.bf16_first_layers = 1 + pick(&formats, s->layers);
  if (o.precision > 0 && pick(&formats, 8) == 0)
    o.bf16_modules = (int)pick(&formats, PZ_WIDE_ALL + 1);
  if (pick(&formats, 8) == 0) o.act_precision = 1;
  o.attention_library = library[pick(seed, 5)];
  return o;
}

/* Copies of weights that are not the framework's, and something on the host. */
static void random_offload(uint64_t *seed, struct pz_plan *o) {
  static const int copies[] = {PZ_AS_FRAMEWORK, PZ_MAIN_FP16};
  o->offload = (int)pick(seed, PZ_OFFLOAD_ALL + 1);
  if (o->offload & PZ_OFFLOAD_ACTIVATIONS && pick(seed, 2)) o->offload_layers = 1 + pick(seed, 6);
  if (o->offload & PZ_OFFLOAD_ACTIVATIONS && !o->offload_layers && pick(seed, 2))
    o->offload_modules = 1 << pick(seed, 8) | 1 << pick(seed, 6);
  if (o->offload & PZ_OFFLOAD_OPTIMIZER && pick(seed, 2))
    o->offload_fraction = (double)(1 + pick(seed, 3)) / 4;
  if (!(o->offload & PZ_OFFLOAD_OPTIMIZER)) o->main_params = copies[pick(seed, 2)];
  if (pick(seed, 2))
    o->recompute = o->offload_layers ? PZ_RECOMPUTATION_NONE : PZ_RECOMPUTATION_FULL;
  if (o->recompute != PZ_RECOMPUTATION_FULL) o->recompute_layers = 0;
  if (o->recompute != PZ_RECOMPUTATION_SELECTIVE) o->recompute_modules = 0;
}

/* The experts' grid, modules, and orders in a V. */
static void random_experts(uint64_t *seed, struct pz_plan *o, const struct pz_model_shape *s) {
  int64_t group = o->tp * (o->cp ? o->cp : 1) * o->dp;
  if (s->experts && pick(seed, 4)) {
    do {
      o->ep = power(seed, 5);
      o->etp = pick(seed, 3) ? 0 : pick(seed, 2) ? o->tp : power(seed, 2);
    } while (group % (o->ep * (o->etp ? o->etp : o->ep > 1 ? 1 : o->tp)));
    o->mtp = pick(seed, 6) == 0 && s->predict_layers;
  }
  if (o->recompute == PZ_RECOMPUTATION_SELECTIVE && pick(seed, 2))
    o->recompute_modules = (int)pick(seed, PZ_MODULE_ALL + 1) & (int)pick(seed, 128);
  uint64_t graphs =
      *seed + 1; /* draws of its own: few plans have them, and the others stay as they are */
  if (pick(&graphs, 8) == 0) o->cuda_graphs = (int)pick(&graphs, PZ_GRAPH_ALL + 1);
  if (pick(&graphs, 6) == 0) random_offload(&graphs, o);
  if (o->pp > 1 && pick(seed, 4) == 0 && 2 * o->pp <= s->layers) {
    o->vpp = 2;
    o->pipeline = pick(seed, 2) ? PZ_PIPELINE_ZB_V : PZ_PIPELINE_DUALPIPE_V;
    o->batch *= 2;
  }
}

/* Uneven stages, and layers to recompute by stage, into `again`. */
static void random_stages(uint64_t *seed, struct pz_plan *o, int64_t layers, int64_t *again) {
  int64_t n = o->pp * o->vpp;
  if (n > 1 && pick(seed, 4) == 0) {
    o->first_layers = 1 + pick(seed, n == 2 ? layers - 1 : layers / n);
    o->last_layers = n == 2 ? layers - o->first_layers : 1 + pick(seed, layers / n);
  }
  if (o->recompute != PZ_RECOMPUTATION_FULL || pick(seed, 2)) return;
  int64_t same = pick(seed, 4);
  bool alike = pick(seed, 4);
  for (int64_t k = 0; k < o->pp; k++) again[k] = alike ? same : pick(seed, 4);
  o->stage_recompute = again;
  o->n_stage_recompute = o->pp;
  o->recompute_layers = 0;
}

static struct pz_launch random_launch(uint64_t *seed, int64_t *again) {
  const struct model *m = &models[pick(seed, sizeof models / sizeof *models)];
  struct pz_launch l = {.model = m->name, .shape = shape_of(m)};
  struct pz_error err = {0};
  l.plan = random_plan(seed, &l.shape);
  random_experts(seed, &l.plan, &l.shape);
  random_stages(seed, &l.plan, l.shape.layers, again);
  if (try_fill_plan(&l.plan, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
  l.gpus_per_node = l.plan.devices % 8 ? l.plan.devices : 8;
  l.nodes = l.plan.devices / l.gpus_per_node;
  return l;
}

/* Numbers by stage that scripts were made for: as many in every chunk that has so many. */
static void alike_recompute(struct pz_launch *l) {
  struct pz_plan *p = &l->plan;
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  int64_t most = 0;
  if (!p->stage_recompute) return;
  for (int64_t k = 0; k < p->pp; k++)
    if (p->stage_recompute[k] > most) most = p->stage_recompute[k];
  for (int64_t j = 0; j < p->pp * p->vpp; j++) {
    int64_t layers = pz_plan_chunk_layers(p, l->shape.layers, j);
    int64_t own = p->stage_recompute[pz_pipeline_stage_of(&shape, (uint32_t)j)];
    assert_true(own == most || (own >= layers && most >= layers));
  }
  p->recompute_layers = most;
  p->recompute = most ? PZ_RECOMPUTATION_FULL : PZ_RECOMPUTATION_NONE;
  p->stage_recompute = NULL;
}

/* ---- read back by phaze --------------------------------------------------------------------- */

/* Fields of which such a plan says nothing, or that the framework's script cannot express. */
static bool is_silent(const struct pz_plan *p, int framework, enum pz_plan_field f) {
  switch (f) {
  case PZ_PLAN_ATTENTION_LIBRARY: /* by its family alone */
  case PZ_PLAN_FIRST_LAYERS:      /* chunk by chunk, below */
  case PZ_PLAN_RECOMPUTE_LAYERS:
  case PZ_PLAN_LAST_LAYERS: return true;
  case PZ_PLAN_EXECUTION: return p->execution >= PZ_EXECUTION_SERIAL;  /* of no GPU */
  case PZ_PLAN_CUDA_GRAPHS: return p->execution == PZ_EXECUTION_GRAPH; /* of everything */
  case PZ_PLAN_SHARD: return !p->zero;
  case PZ_PLAN_PIPELINE: return p->pp == 1;
  case PZ_PLAN_CP_FORM: return p->cp == 1;
  case PZ_PLAN_DISPATCHER: return p->ep == 1;
  case PZ_PLAN_FUSED_LOSS: return framework == NEMO;
  case PZ_PLAN_ZERO: return framework == TORCHTITAN && p->dp * p->cp == 1;
  default: return false;
  }
}

/* The script is read as the run that it was written for. */
static void check_read(int framework, const struct pz_launch *l, const char *text) {
  struct pz_run_plan *r = NULL;
  struct pz_error err = {0};
  struct pz_model_shape s;
  if (pz_run_plan_read("script", text, strlen(text), NULL, &r, &err) != PZ_OK ||
      try_fill_plan(&r->plan, NULL, &err) != PZ_OK ||
      (r->config ? try_parse_model_shape(r->model, r->config, strlen(r->config), &s, &err)
                 : try_load_model_shape(r->model, &s, &err)) != PZ_OK)
    fail_msg("%s: %s\n%s", pz_launch_names[framework], err.message, text);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    char a[PZ_FIELD_TEXT_MOST], b[PZ_FIELD_TEXT_MOST];
    if (is_silent(&l->plan, framework, f)) continue;
    pz_plan_field_text(&l->plan, f, a, sizeof a);
    pz_plan_field_text(&r->plan, f, b, sizeof b);
    if (strcmp(a, b) != 0)
      fail_msg("%s: %s is read as %s, not %s\n%.2000s", pz_launch_names[framework],
               pz_plan_field_name(f), b, a, text);
  }
  for (int64_t j = 0; j < l->plan.pp * l->plan.vpp; j++) {
    int64_t n = pz_plan_chunk_layers(&l->plan, l->shape.layers, j);
    assert_int_equal(pz_plan_chunk_layers(&r->plan, s.layers, j), n);
    assert_int_equal(pz_plan_recomputed_layers(&r->plan, 0, n),
                     pz_plan_recomputed_layers(&l->plan, 0, n));
  }
  assert_true(s.layers == l->shape.layers && s.hidden == l->shape.hidden &&
              s.heads == l->shape.heads && s.vocab == l->shape.vocab && s.tied == l->shape.tied);
  assert_true(s.experts == l->shape.experts && s.expert_ffn == l->shape.expert_ffn &&
              s.topk == l->shape.topk && s.shared_ffn == l->shape.shared_ffn &&
              s.dense_layers == l->shape.dense_layers && s.kv_rank == l->shape.kv_rank);
  assert_true(s.kv_rank || (s.kv_heads == l->shape.kv_heads && s.head_dim == l->shape.head_dim));
  if (!s.experts || s.dense_layers) assert_int_equal(s.ffn, l->shape.ffn);
  if (framework == MEGATRON) assert_true(r->megatron && r->n_ignored == 0);
  pz_run_plan_free(r);
}

/* Every option in an emitted script exists in each framework release that the script names. */
static void check_options(const struct options *o, int framework, const char *text) {
  int least = 0, most = 0;
  json_error_t wrong;
  struct entries e = {.at = malloc(MOST_ENTRIES * sizeof *e.at)};
  char *file = NULL;
  if (framework == MEGATRON) {
    find_releases(text, "(core ", &least, &most);
    check_arguments(o, "megatron", text, least, most);
  } else if (framework == NEMO) {
    find_releases(text, "Megatron Bridge (", &least, &most);
    file = here_document(text, "train.py");
    check_program(o, "bridge", file, least, most);
  } else if (framework == TORCHTITAN) {
    file = here_document(text, "phaze_model.py");
    check_program(o, "torchtitan", file, 2, 2);
    free(file);
    file = here_document(text, "plan.toml");
    read_assignments(file, &e);
    for (int i = 0; i < e.n; i++) check_option(o, "torchtitan", e.at[i].name, 2, 2);
  } else {
    find_releases(text, "(DeepSpeed ", &least, &most);
    check_arguments(o, "megatron-deepspeed", text, 0, 0);
    file = here_document(text, "deepspeed.json");
    json_t *j = json_loads(file, 0, &wrong);
    check_json(o, j, "", least, most);
    json_decref(j);
  }
  free(file);
  free(e.at);
}

static void scripts_say_what_the_plan_says(void **state) {
  (void)state;
  uint64_t seed = 20;
  struct options *options = load_options();
  int made[FRAMEWORKS] = {0}, refused[FRAMEWORKS] = {0}, read[FRAMEWORKS] = {0}, experts = 0,
      hidden = 0, modules = 0, titan_v = 0;
  for (int i = pz_test_part(16000); i > 0; i--) {
    int64_t again[12];
    struct pz_launch l = random_launch(&seed, again);
    for (int f = 1; f < FRAMEWORKS; f++) {
      struct pz_error err = {0};
      char *text = NULL;
      enum pz_status status = launch_script(f, &l, &text, &err);
      if (status == PZ_OK) {
        struct pz_launch seen = l;
        made[f]++;
        experts += l.plan.ep > 1;
        hidden += l.plan.ep > 1 && l.plan.overlap & PZ_OVERLAP_EP;
        modules += l.plan.recompute_modules > 0;
        titan_v += f == TORCHTITAN && l.plan.pp > 1 && l.plan.pipeline >= PZ_PIPELINE_ZB_V;
        alike_recompute(&seen);
        checks[f](&seen, text);
        check_options(options, f, text);
        if (seen.plan.framework == pz_framework_find(pz_launch_names[f])) {
          seen.plan.overlap = pz_plan_effective_overlap(&seen.plan);
          if (seen.plan.recompute_modules == PZ_MODULE_CORE) seen.plan.recompute_modules = 0;
          check_read(f, &seen, text);
          read[f]++;
        }
      } else {
        assert_int_equal(status, PZ_BAD_USE);
        refused[f]++;
        if (!strstr(err.message, "; accepted")) fail_msg("%s", err.message);
      }
      pz_free(text);
    }
  }
  free_options(options);
  for (int f = 1; f < FRAMEWORKS; f++) {
    print_message("%s: %d scripts, %d refused, %d read back\n", pz_launch_names[f], made[f],
                  refused[f], read[f]);
    assert_true(made[f] > pz_test_part(200) && refused[f] > 0 && read[f] > pz_test_part(50));
  }
  print_message("%d with ep, %d of them overlapped, %d with modules, %d in a V\n", experts, hidden,
                modules, titan_v);
  assert_true(experts > pz_test_part(200) && hidden > 0 && modules > 0 && titan_v > 0);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* A run with one option of a framework added to it; false: it has no place for such an option. */
static bool with_option(const struct option *x, char *text, size_t size) {
  static const char *const objects[][2] = {{"GPTModelProvider", "model"},
                                           {"MLAModelProvider", "model"},
                                           {"MixedPrecisionConfig", "precision"},
                                           {"OptimizerConfig", "optimizer"},
                                           {"DistributedDataParallelConfig", "ddp"},
                                           {"TrainingConfig", "train"}};
  static const char arguments[] =
      "torchrun --nproc-per-node 8 x.py --num-layers 24 --hidden-size 2048 --num-attention-heads "
      "16 "
      "--seq-length 2048 --vocab-size 50257 --bf16 --micro-batch-size 2 --global-batch-size 64";
  const char *dot = strchr(x->name, '.');
  if (strncmp(x->framework, "megatron", 8) == 0) {
    snprintf(text, size, "%s %s 1\n", arguments, x->name);
    return strncmp(x->name, "--", 2) == 0;
  }
  if (strcmp(x->framework, "torchtitan") == 0) {
    snprintf(text, size, "%s = 1\n[model]\nname = \"llama3\"\nflavor = \"8B\"\n", x->name);
    return islower((unsigned char)*x->name);
  }
  if (strcmp(x->framework, "deepspeed") == 0) {
    bool zero = strncmp(x->name, "zero_optimization.", 18) == 0;
    snprintf(text, size,
             "%s --deepspeed --zero-stage 3\ncat > x.json <<EOF\n{%s\"%s\": 0%s}\nEOF\n", arguments,
             zero ? "\"zero_optimization\": {" : "", x->name + (zero ? 18 : 0), zero ? "}" : "");
    return zero || !dot;
  }
  for (size_t i = 0; dot && i < sizeof objects / sizeof *objects; i++) {
    if (strncmp(objects[i][0], x->name, (size_t)(dot - x->name)) != 0) continue;
    snprintf(text, size, "from megatron.bridge.x import y\n%s%s = 3\nmodel.num_layers = 8\n",
             objects[i][1], dot);
    return true;
  }
  return false;
}

/* No option that a framework has is taken for another that is misspelt, and those of Megatron-LM that are read are known
 * again without one of their letters. */
static void real_options_are_not_misspelt(void **state) {
  (void)state;
  struct options *o = load_options();
  size_t read = 0;
  for (size_t i = 0; i < o->n; i++) {
    struct option x = o->at[i];
    struct pz_run_plan_options options = pz_run_plan_options_default();
    struct pz_run_plan *r = NULL;
    struct pz_error err = {0};
    char text[800];
    options.devices = 8;
    if (!with_option(&x, text, sizeof text)) continue;
    read++;
    bool toml = strcmp(x.framework, "torchtitan") == 0;
    if (pz_run_plan_read(toml ? "x.toml" : "x", text, strlen(text), &options, &r, &err) != PZ_OK &&
        strstr(err.message, "did you mean"))
      fail_msg("%s of %s: %s", x.name, x.framework, err.message);
    pz_run_plan_free(r);
    r = NULL;
    err = (struct pz_error){0};
    if (strncmp(x.framework, "megatron", 8) != 0 || !pz_megatron_reads(x.name + 2)) continue;
    char less[120];
    size_t middle = strlen(x.name) / 2;
    snprintf(less, sizeof less, "%.*s%s", (int)middle, x.name, x.name + middle + 1);
    x.name = less; /* without a letter in the middle */
    assert_true(with_option(&x, text, sizeof text));
    assert_int_equal(pz_run_plan_read("x", text, strlen(text), &options, &r, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, "did you mean --")) fail_msg("%s: %s", less, err.message);
  }
  assert_true(read > 1500);
  free_options(o);
}

/* ---- predicted as the plan ------------------------------------------------------------------ */

/* What random_plan leaves to the framework. */
static void random_rest(uint64_t *seed, struct pz_plan *o, const struct pz_model_shape *s) {
  static const char *const adapters[] = {"lora:16:all", "lora:8:attention", "lora:32:q+k+v:0.1",
                                         "lora:8:linear_qkv+linear_proj"};
  if (o->cp > 1 && pick(seed, 2)) o->cp_form = (int)pick(seed, 2);
  if (pick(seed, 4) == 0) o->moment_bytes = (double)(1 << pick(seed, 3));
  if (pick(seed, 4) == 0) o->fused_loss = pick(seed, 2);
  if (s->experts && pick(seed, 2)) o->dispatcher = (int)pick(seed, 3);
  if (s->experts && pick(seed, 6) == 0) o->imbalance = 1.25;
  if (s->predict_layers && pick(seed, 3) == 0) o->mtp = true;
  if (pick(seed, 8) == 0) o->precision = PZ_PRECISION_FP16, o->fp8_recipe = -1;
  if (o->precision < PZ_PRECISION_FP8) o->bf16_layers = o->bf16_first_layers = o->bf16_modules = 0;
  if (pick(seed, 8) == 0) o->peft = adapters[pick(seed, 4)];
  if (o->execution > PZ_EXECUTION_GRAPH) o->execution = -1; /* of no GPU */
}

/* Chips with nodes of 8. */
static const struct {
  const char *chip, *net;
} machines[] = {{"h100", "dgx-h100"}, {"b200", "dgx-b200"}, {"a100-80", "dgx-a100"}};

enum { MACHINES = sizeof machines / sizeof *machines };

/* Fields of a random plan that are not as by default are added to `varied`.  False: it cannot be run so. */
static bool check_prediction(uint64_t *seed, const struct pz_model_shape *s, int framework,
                             struct pz_chip *const *chips, const struct options *options,
                             uint64_t *varied) {
  struct pz_plan p = random_plan(seed, s), plain = pz_plan_default();
  struct pz_run_plan *r = NULL;
  struct pz_error err = {0};
  struct pz_cluster net;
  struct pz_prediction want, got;
  int64_t again[12];
  char *text = NULL;
  int m = (int)pick(seed, MACHINES);
  const struct pz_chip *chip = chips[m];
  random_experts(seed, &p, s);
  random_stages(seed, &p, s->layers, again);
  random_rest(seed, &p, s);
  p.framework = plain.framework = pz_framework_find(pz_launch_names[framework]);
  assert_int_equal(pz_cluster_load(machines[m].net, &net, &err), PZ_OK);
  struct pz_job job = {.model = s->name, .chip = chip, .net = &net};
  if (try_fill_plan(&p, chip, &err) != PZ_OK ||
      pz_launch_text(s->name, chip, &net, &p, &text, &err) != PZ_OK ||
      try_predict(&job, &p, &want, &err) != PZ_OK)
    return pz_free(text), false;
  check_options(options, framework, text);
  enum pz_status status = pz_run_plan_read("script", text, strlen(text), NULL, &r, &err);
  if (status == PZ_OK) status = try_fill_plan(&r->plan, chip, &err);
  if (status == PZ_OK) job.model = r->model, job.config = r->config;
  if (status == PZ_OK) status = try_predict(&job, &r->plan, &got, &err);
  if (status != PZ_OK) fail_msg("%s\n%s", err.message, text);
  if (got.step_s != want.step_s || got.peak_bytes != want.peak_bytes)
    fail_msg("%.17g s, %.17g bytes; predicted were %.17g, %.17g\n%s", got.step_s, got.peak_bytes,
             want.step_s, want.peak_bytes, text);
  assert_int_equal(try_fill_plan(&plain, chip, &err), PZ_OK);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    char a[PZ_FIELD_TEXT_MOST], b[PZ_FIELD_TEXT_MOST];
    enum pz_plan_field f = (enum pz_plan_field)i;
    if (strcmp(pz_plan_field_text(&p, f, a, sizeof a), pz_plan_field_text(&plain, f, b, sizeof b)))
      *varied |= UINT64_C(1) << i;
  }
  pz_run_plan_free(r);
  pz_free(text);
  return true;
}

/* The run of a plan's script has the plan's step and memory to the last digit, for every model and framework that a script
 * is written for.  PHAZE_SCRIPTS: so many of each. */
static void scripts_are_predicted_as_the_plan(void **state) {
  (void)state;
  const char *count = getenv("PHAZE_SCRIPTS"), *name;
  int most = count ? atoi(count) : 3, all = 0, pairs = 0;
  uint64_t seed = 5, varied = 0;
  struct options *options = load_options();
  struct pz_chip *chips[MACHINES];
  struct pz_error err = {0};
  for (int m = 0; m < MACHINES; m++)
    assert_int_equal(pz_chip_load(machines[m].chip, &chips[m], &err), PZ_OK);
  for (size_t i = 0; (name = pz_preset_name(i)); i++) {
    struct pz_model_shape s;
    if (try_load_model_shape(name, &s, &err) != PZ_OK) continue;
    for (int f = 1; f < FRAMEWORKS; f++) {
      int made = 0;
      if (!pz_framework_trains(pz_framework_find(pz_launch_names[f]), &s, NULL)) continue;
      for (int draws = 0; made < most && draws < 2000 * most; draws++)
        made += check_prediction(&seed, &s, f, chips, options, &varied);
      if (!made) fail_msg("no script of %s for %s", name, pz_launch_names[f]);
      all += made;
      pairs++;
    }
  }
  for (int m = 0; m < MACHINES; m++) pz_chip_free(chips[m]);
  free_options(options);
  print_message("%d scripts of %d pairs predicted as their plans; as by default in all:", all,
                pairs);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (!(varied >> i & 1)) print_message(" %s", pz_plan_field_name((enum pz_plan_field)i));
  print_message("\n");
  assert_true(pairs > 120);
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* A plan that every framework takes but for `change`. */
struct refusal {
  int framework;
  const char *model;
  void (*change)(struct pz_launch *l);
  const char *message; /* part of it */
};

static void nothing(struct pz_launch *l) { (void)l; }
static void gpipe(struct pz_launch *l) { l->plan.pipeline = PZ_PIPELINE_GPIPE; }
static void interleaved(struct pz_launch *l) {
  l->plan.vpp = 2;
  l->plan.pipeline = PZ_PIPELINE_INTERLEAVED;
}
static void half(struct pz_launch *l) { l->plan.recompute = PZ_RECOMPUTATION_HALF; }
static void selective(struct pz_launch *l) { l->plan.recompute = PZ_RECOMPUTATION_SELECTIVE; }
static void no_sp(struct pz_launch *l) { l->plan.sp = 0; }
static void compiled(struct pz_launch *l) { l->plan.execution = PZ_EXECUTION_COMPILE; }
static void graph(struct pz_launch *l) { l->plan.execution = PZ_EXECUTION_GRAPH; }
static void zero0(struct pz_launch *l) { l->plan.zero = 0; }
static void zero1(struct pz_launch *l) { l->plan.zero = 1; }
static void zero3(struct pz_launch *l) { l->plan.zero = 3; }
static void p2p(struct pz_launch *l) { l->plan.overlap |= PZ_OVERLAP_P2P; }
static void tp_overlap(struct pz_launch *l) {
  l->plan.execution = PZ_EXECUTION_EAGER;
  l->plan.overlap |= PZ_OVERLAP_TP;
}
static void no_overlap(struct pz_launch *l) { l->plan.overlap = 0; }
static void layers(struct pz_launch *l) {
  l->plan.recompute = PZ_RECOMPUTATION_FULL;
  l->plan.recompute_layers = 2;
}
static void fp64(struct pz_launch *l) { l->plan.grad_bytes = 8; }
static void few_ends(struct pz_launch *l) { l->plan.first_layers = l->plan.last_layers = 7; }
static void by_stage(struct pz_launch *l) {
  static const int64_t again[] = {3, 1};
  l->plan.recompute = PZ_RECOMPUTATION_FULL;
  l->plan.stage_recompute = again;
  l->plan.n_stage_recompute = 2;
}
static void zero_bubble(struct pz_launch *l) { l->plan.pipeline = PZ_PIPELINE_ZB_2P; }
static void context(struct pz_launch *l) {
  l->plan.cp = 2;
  l->plan.dp = 1;
}

static void ep_overlap(struct pz_launch *l) {
  l->plan.ep = 2;
  l->plan.overlap |= PZ_OVERLAP_EP;
}
static void ep_full(struct pz_launch *l) {
  interleaved(l);
  ep_overlap(l);
  l->plan.overlap |= PZ_OVERLAP_P2P;
  l->plan.recompute = PZ_RECOMPUTATION_FULL;
}
static void odd_ep(struct pz_launch *l) {
  l->plan.ep = 3;
  l->plan.tp = 3;
}
static void ep(struct pz_launch *l) { l->plan.ep = 2; }
static void etp(struct pz_launch *l) { l->plan.etp = 1; }
static void mtp(struct pz_launch *l) { l->plan.mtp = true; }
static void latent_modules(struct pz_launch *l) {
  selective(l);
  l->plan.recompute_modules = PZ_MODULE_UP;
}
static void norm_module(struct pz_launch *l) {
  selective(l);
  l->plan.recompute_modules = PZ_MODULE_NORM;
}
static void zb_v(struct pz_launch *l) {
  l->plan.vpp = 2;
  l->plan.pipeline = PZ_PIPELINE_ZB_V;
}
static void zb_v_compiled(struct pz_launch *l) {
  zb_v(l);
  compiled(l);
}

static void adapters(struct pz_launch *l) { l->plan.peft = "lora:16:all"; }
static void sharded_adapters(struct pz_launch *l) {
  adapters(l), l->plan.pp = 1, l->plan.dp = 4, l->plan.zero = 3;
}
static void query_adapters(struct pz_launch *l) { l->plan.peft = "lora:16:q+v"; }
static void odd_adapters(struct pz_launch *l) { l->plan.peft = "lora:15:all"; }

static void layers_away(struct pz_launch *l) {
  l->plan.pp = 1, l->plan.dp = l->plan.shard = 4;
  l->plan.offload = PZ_OFFLOAD_ACTIVATIONS;
  l->plan.offload_layers = 2;
}

static const struct refusal refusals[] = {
    {NEMO, "nemotron-3-nano", layers_away, "whole layers on the host in models with Mamba layers"},
    {MEGATRON, "llama2-7b", adapters, "no low-rank adapters (LoRA); accepted: peft none"},
    {DEEPSPEED, "llama2-7b", adapters,
     "no low-rank adapters (LoRA); accepted: peft none, or frameworks nemo, torchtitan, "
     "automodel, "},
    {NEMO, "llama2-7b", sharded_adapters, "no adapters with Megatron FSDP"},
    {TORCHTITAN, "llama2-7b", adapters, "accepted: tp 1 and pp 1"},
    {NEMO, "llama2-7b", query_adapters, "accepted: linear_qkv, or q+k+v"},
    {NEMO, "llama2-7b", odd_adapters, "adapters with a rank that is a multiple of tp"},
    {MEGATRON, "mixtral-8x7b", ep_overlap, "in the interleaved order alone; accepted: vpp above 1"},
    {NEMO, "mixtral-8x7b", ep_full, "with no recomputation of whole layers or of moe"},
    {MEGATRON, "mixtral-8x7b", odd_ep, "experts that ep does not divide; accepted: divisors"},
    {MEGATRON, "llama2-7b", ep, "no ep in a model without experts; accepted: ep 1"},
    {MEGATRON, "mixtral-8x7b", mtp, "multi-token prediction in a model without"},
    {MEGATRON, "mixtral-8x7b", latent_modules, "accepted: without mla_up_proj"},
    {MEGATRON, "llama2-7b", zb_v, "megatron cannot run this plan: it has no zero-bubble order"},
    {DEEPSPEED, "llama2-7b", zb_v, "deepspeed cannot run this plan: it has no"},
    {DEEPSPEED, "llama2-7b", norm_module, "no recomputation of other modules than core_attn"},
    {TORCHTITAN, "llama2-7b", zb_v_compiled, "no compiled layers whose gradients"},
    {TORCHTITAN, "deepseek-v3", etp, "accepted: etp 1, or tp without ep"},
    {TORCHTITAN, "deepseek-v3", ep_overlap, "in the dualpipe-v order"},
    {TORCHTITAN, "deepseek-v3", mtp,
     "torchtitan cannot run this plan: it has no multi-token prediction"},
    {MEGATRON, "llama2-7b", gpipe, "megatron cannot run this plan: it has no gpipe order"},
    {MEGATRON, "llama2-7b", p2p, "in the interleaved order alone; accepted: vpp above 1"},
    {MEGATRON, "llama2-7b", interleaved, "two interleaved stages with overlapped transfers alone"},
    {MEGATRON, "llama2-7b", half,
     "megatron cannot run this plan: it has no recomputation of every second layer (half)"},
    {MEGATRON, "llama2-7b", zero3, "accepted: ZeRO stage 0 or 1, or pp 1"},
    {MEGATRON, "llama2-7b", compiled, "layers that are not compiled"},
    {MEGATRON, "llama2-7b", fp64, "gradients of 4 bytes (fp32) or 2 (bf16)"},
    {MEGATRON, "mixtral-8x7b", no_sp, "sequence parallelism, or tp 1"},
    {MEGATRON, "mixtral-8x7b", graph, "no CUDA graphs of whole layers with routed experts"},
    {MEGATRON, "llama2-7b", few_ends, "7 of them in the first and 7 in the last of 2 chunks"},
    {MEGATRON, "llama2-7b", by_stage,
     "megatron cannot run this plan: it has as many recomputed layers in every stage"},
    {TORCHTITAN, "llama2-7b", by_stage, "as many recomputed layers in every stage"},
    {MEGATRON, "llama2-7b", zero_bubble,
     "megatron cannot run this plan: it has no zero-bubble order"},
    {TORCHTITAN, "llama2-7b", zero_bubble,
     "torchtitan cannot run this plan: it has no such order of the pipeline"},
    {DEEPSPEED, "llama2-7b", zero_bubble, "accepted: 1f1b or zb-h1"},
    {DEEPSPEED, "llama2-7b", context, "accepted: cp 1"},
    {NEMO, "mixtral-8x7b", no_sp,
     "nemo cannot run this plan: it has experts with tensor parallelism in sequence parallelism "
     "alone"},
    {TORCHTITAN, "gpt3-175b", nothing, "no model of the shape of gpt3-175b (gpt2)"},
    {TORCHTITAN, "mixtral-8x7b", nothing, "accepted: llama, qwen3, deepseek_v3"},
    {TORCHTITAN, "llama2-7b", zero1, "does not shard the optimizer alone"},
    {TORCHTITAN, "llama2-7b", zero0, "accepted: ZeRO stage 2 or 3"},
    {TORCHTITAN, "llama2-7b", selective, "no recomputation of the attention core alone"},
    {TORCHTITAN, "llama2-7b", layers, "no recomputation of a part of the layers of a stage"},
    {TORCHTITAN, "llama2-7b", graph, "no CUDA graphs"},
    {TORCHTITAN, "llama2-7b", no_sp, "always with sequence parallelism"},
    {TORCHTITAN, "llama2-7b", no_overlap, "gradients that are always overlapped"},
    {TORCHTITAN, "llama2-7b", tp_overlap, "in compiled layers alone"},
    {DEEPSPEED, "llama2-7b", zero3, "ZeRO stages 0 and 1 with a pipeline"},
    {DEEPSPEED, "llama2-7b", interleaved, "no chunks of layers; accepted: vpp 1"},
    {DEEPSPEED, "llama2-7b", layers,
     "part of the layers of a stage; accepted: all of them, or pp 1"},
    {DEEPSPEED, "mixtral-8x7b", nothing, "no model of the shape of mixtral-8x7b"},
};

/* 8 devices: tp 2, pp 2, dp 2. */
static struct pz_launch plain_launch(int framework, const char *model) {
  struct pz_launch l = {.model = model, .nodes = 1, .gpus_per_node = 8};
  struct pz_error err = {0};
  bool titan = framework == TORCHTITAN;
  l.plan = pz_plan_default();
  l.plan.framework = pz_framework_find(titan ? "torchtitan" : "megatron");
  l.plan.tp = l.plan.pp = l.plan.dp = 2;
  l.plan.batch = 64;
  l.plan.seq = 2048;
  l.plan.zero = titan ? 3 : 1;
  if (try_load_model_shape(model, &l.shape, &err) != PZ_OK) fail_msg("%s", err.message);
  if (try_fill_plan(&l.plan, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
  return l;
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const struct refusal *r = &refusals[i];
    struct pz_error err = {0};
    struct pz_launch l = plain_launch(r->framework, r->model);
    char *text = NULL;
    r->change(&l);
    if (launch_script(r->framework, &l, &text, &err) != PZ_BAD_USE)
      fail_msg("%s of %s: not '%s'", pz_launch_names[r->framework], r->model, r->message);
    assert_null(text);
    if (!strstr(err.message, r->message) || !strstr(err.message, "accepted"))
      fail_msg("'%s' has no '%s'", err.message, r->message);
  }
}

/* Programs with adapters, and the plan that is read from them. */
/* The text with `with` in the place of `part`; the caller's to free. */
static char *replaced(const char *text, const char *part, const char *with) {
  const char *at = strstr(text, part);
  if (!at) fail_msg("no '%s' in:\n%s", part, text);
  char *out = malloc(strlen(text) + strlen(with) + 1);
  assert_non_null(out);
  sprintf(out, "%.*s%s%s", (int)(at - text), text, with, at + strlen(part));
  return out;
}

/* Keywords in any order and lines; what is not understood is no full training. */
static void adapters_in_other_words(void **state) {
  (void)state;
  static const char nemo[] =
      "LoRA(target_modules=[\"linear_qkv\", \"linear_proj\"], dim=8, alpha=16, dropout=0)";
  static const struct {
    int framework;
    const char *part, *with, *read; /* read NULL: refused */
  } list[] = {{NEMO, nemo, "LoRA(dim=8, alpha=16, target_modules=['linear_qkv', 'linear_proj',])",
               "lora:8:linear_qkv+linear_proj"},
              {NEMO, nemo,
               "LoRA(\n    target_modules=[\"linear_qkv\"],\n    dim = 8,\n    dropout=0.1,\n)",
               "lora:8:linear_qkv:0.1"},
              {NEMO, nemo, "LoRA()", "lora:32:linear_qkv+linear_proj+linear_fc1+linear_fc2"},
              {NEMO, nemo, "None", ""},
              {NEMO, nemo, "DoRA(dim=8)", NULL},
              {NEMO, nemo, "LoRA([\"linear_qkv\"], 8)", NULL},
              {NEMO, nemo, "LoRA(dim=8, dropout=-1)", NULL},
              {NEMO, nemo, "LoRA(dim=0)", NULL},
              {NEMO, nemo, "LoRA(dim=8", NULL},
              {TORCHTITAN, "[\"lora:8:q+v\"]", "[\"own_adapters\"]", NULL}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    struct pz_launch l = plain_launch(list[i].framework, "llama2-7b");
    struct pz_error err = {0};
    struct pz_run_plan *run = NULL;
    char *text = NULL;
    l.plan.peft = list[i].framework == NEMO ? "lora:8:linear_qkv+linear_proj" : "lora:8:q+v";
    if (list[i].framework == TORCHTITAN) l.plan.tp = l.plan.pp = 1, l.plan.dp = l.plan.shard = 8;
    if (launch_script(list[i].framework, &l, &text, &err) != PZ_OK) fail_msg("%s", err.message);
    char *other = replaced(text, list[i].part, list[i].with);
    enum pz_status status = pz_run_plan_read("a script", other, strlen(other), NULL, &run, &err);
    if (status != (list[i].read ? PZ_OK : PZ_BAD_INPUT))
      fail_msg("%s: %s", list[i].with, err.message);
    if (list[i].read) assert_string_equal(run->plan.peft ? run->plan.peft : "", list[i].read);
    if (!list[i].read && !strstr(err.message, "; accepted: ")) fail_msg("%s", err.message);
    pz_run_plan_free(run);
    pz_text_free(text);
    free(other);
  }
}

static void adapters_are_written_and_read(void **state) {
  (void)state;
  static const struct {
    int framework;
    const char *model, *peft, *written, *read;
  } list[] = {
      {NEMO, "llama2-7b", "lora:16:all",
       "target_modules=[\"linear_qkv\", \"linear_proj\", \"linear_fc1\", \"linear_fc2\"], dim=16",
       "lora:16:linear_qkv+linear_proj+linear_fc1+linear_fc2"},
      {NEMO, "llama2-7b", "lora:8:q+k+v", "target_modules=[\"linear_qkv\"], dim=8",
       "lora:8:linear_qkv"},
      {NEMO, "deepseek-v3", "lora:8:attention",
       "target_modules=[\"linear_proj\", \"linear_q_down_proj\", \"linear_q_up_proj\", "
       "\"linear_kv_down_proj\", \"linear_kv_up_proj\"], dim=8",
       NULL},
      {NEMO, "nemotron-3-nano", "lora:8:all",
       "\"linear_fc1\", \"linear_fc2\", \"in_proj\", \"out_proj\"], dim=8",
       "lora:8:linear_qkv+linear_proj+linear_fc1+linear_fc2+in_proj+out_proj"},
      {NEMO, "qwen3.5-27b", "lora:8:in_proj+out_proj",
       "target_modules=[\"in_proj\", \"out_proj\"], dim=8", "lora:8:in_proj+out_proj"},
      {TORCHTITAN, "llama2-7b", "lora:4:q+v+down", "ADAPTED = {\"wq\", \"wv\", \"w2\"}",
       "lora:4:q+v+down"},
      {NEMO, "llama2-7b", "lora:8:linear_proj:0.05", "dim=8, alpha=16, dropout=0.05)",
       "lora:8:linear_proj:0.05"},
      {TORCHTITAN, "llama2-7b", "lora:4:q:0.1",
       "self.lora_b(self.lora_a(nn.functional.dropout(x, 0.1, self.training)))\n", "lora:4:q:0.1"}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    struct pz_launch l = plain_launch(list[i].framework, list[i].model);
    struct pz_error err = {0};
    struct pz_run_plan *run = NULL;
    char *text = NULL;
    l.plan.peft = list[i].peft;
    if (list[i].framework == TORCHTITAN) l.plan.tp = l.plan.pp = 1, l.plan.dp = l.plan.shard = 8;
    if (launch_script(list[i].framework, &l, &text, &err) != PZ_OK) fail_msg("%s", err.message);
    if (!strstr(text, list[i].written)) fail_msg("no '%s' in:\n%s", list[i].written, text);
    assert_non_null(strstr(text, "PRETRAINED_CHECKPOINT"));
    if (list[i].framework == TORCHTITAN)
      assert_non_null(strstr(text, "if \".lora_\" not in k}\n"
                                   "    load_all(self, state_dict, checkpoint_id, **form)\n\n\n"
                                   "CheckpointManager.dcp_load = load_model\n"));
    if (list[i].read) {
      if (pz_run_plan_read("a script", text, strlen(text), NULL, &run, &err) != PZ_OK)
        fail_msg("%s", err.message);
      assert_string_equal(run->plan.peft, list[i].read);
    }
    pz_run_plan_free(run);
    pz_free(text);
  }
}

/* Adapters come after the converter to 8 bit, and derive from its layers: before it they would be lost. */
static void adapters_of_8_bit_layers(void **state) {
  (void)state;
  static const char *const written[] = {
      "\nconverters = [\"quantize.linear.float8\", \"lora:16:all\"]\n",
      "\nconverters = [\"quantize.linear.mx\", \"lora:16:all\"]\n"};
  for (int mx = 0; mx < 2; mx++) {
    struct pz_launch l = plain_launch(TORCHTITAN, "llama2-7b");
    struct pz_error err = {0};
    struct pz_run_plan *run = NULL;
    char *text = NULL;
    adapters(&l);
    l.plan.tp = l.plan.pp = 1, l.plan.dp = l.plan.shard = 8;
    l.plan.precision = PZ_PRECISION_FP8;
    l.plan.fp8_recipe = mx ? PZ_FP8_MX : PZ_FP8_CURRENT;
    if (launch_script(TORCHTITAN, &l, &text, &err) != PZ_OK) fail_msg("%s", err.message);
    if (!strstr(text, written[mx])) fail_msg("no '%s' in:\n%s", written[mx], text);
    assert_non_null(strstr(text, "module.__class__ = adapted(type(module))\n"));
    assert_null(strstr(text, "(nn.Linear):\n"));
    if (pz_run_plan_read("a script", text, strlen(text), NULL, &run, &err) != PZ_OK)
      fail_msg("%s", err.message);
    assert_string_equal(run->plan.peft, l.plan.peft);
    assert_int_equal(run->plan.precision, l.plan.precision);
    assert_int_equal(run->plan.fp8_recipe, l.plan.fp8_recipe);
    pz_run_plan_free(run);
    pz_free(text);
  }
}

static void unknown_families_are_refused_by_name(void **state) {
  (void)state;
  static const char *const names[] = {"bert-large", "opt-175b", "olmo2-7b", "glm4-9b",
                                      "gpt-neox-20b"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct pz_model_shape s;
    struct pz_error err = {0};
    assert_int_equal(try_load_model_shape(names[i], &s, &err), PZ_BAD_USE);
    assert_non_null(strstr(err.message, names[i]));
    assert_non_null(
        strstr(err.message, "accepted: gpt2, llama, mistral, qwen2, phi3, mixtral, qwen3"));
  }
}

static void nodes_are_whole(void **state) {
  (void)state;
  struct pz_plan o = pz_plan_default();
  struct pz_cluster net;
  struct pz_launch l;
  struct pz_error err = {0};
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  o.dp = 24;
  assert_int_equal(try_fill_plan(&o, NULL, &err), PZ_OK);
  assert_int_equal(launch_fill("llama2-7b", &o, &net, &l, &err), PZ_OK);
  assert_int_equal(l.nodes, 3);
  assert_int_equal(l.gpus_per_node, 8);
  o.devices = o.dp = 4;
  assert_int_equal(launch_fill("llama2-7b", &o, NULL, &l, &err), PZ_OK);
  assert_int_equal(l.nodes, 1);
  assert_int_equal(l.gpus_per_node, 4);
  o.devices = o.dp = 12;
  assert_int_equal(launch_fill("llama2-7b", &o, &net, &l, &err), PZ_BAD_USE);
  assert_non_null(strstr(err.message, "accepted: multiples of 8"));
  net.level[0].devices = 6; /* 4 of each node, as place takes them */
  o.devices = o.dp = 16;
  assert_int_equal(launch_fill("llama2-7b", &o, &net, &l, &err), PZ_OK);
  assert_true(l.nodes == 4 && l.gpus_per_node == 4);
  o.devices = o.dp = 12; /* without a cluster as many of each node as 8 hold */
  assert_int_equal(launch_fill("llama2-7b", &o, NULL, &l, &err), PZ_OK);
  assert_true(l.nodes == 2 && l.gpus_per_node == 6);
}

/* A model of Llama's or DeepSeek's family with this in its config.json, run with so many tokens: part of its script, or
 * of the message that refuses it. */
static const struct scaling {
  int framework;
  const char *family, *rope;
  int64_t seq;
  const char *words;
} scalings[] = {
#define LLAMA31(low, original)                                                                     \
  "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":" low               \
  ",\"high_freq_factor\":4,\"original_max_position_embeddings\":" original "}"
#define YARN(all)                                                                                  \
  "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":1,\"mscale_all_dim\":" all "}"
    {MEGATRON, "llama", LLAMA31("1", "8192"), 4096,
     "--use-rope-scaling\n  --rope-scaling-factor 8\n"},
    {NEMO, "llama", LLAMA31("1", "8192"), 4096, "\nmodel.rope_scaling_factor = 8\n"},
    {TORCHTITAN, "llama", LLAMA31("2", "8192"), 4096,
     "RoPEScalingArgs(scaling_factor=8, low_freq_factor=2, high_freq_factor=4,"},
    {MEGATRON, "llama", LLAMA31("2", "8192"), 4096, "with low_freq_factor 1, high_freq_factor 4"},
    {NEMO, "llama", LLAMA31("1", "4096"), 4096, "and 8192 original positions"},
    {DEEPSPEED, "llama", LLAMA31("1", "8192"), 4096, "positions that are not stretched"},
    {MEGATRON, "llama", "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2}", 4096,
     "accepted: rope_scaling of llama3"},
    {MEGATRON, "llama", YARN("1"), 4096, "accepted: rope_scaling of llama3"},
    {MEGATRON, "llama", "\"rope_theta\":10000", 4096, "--rotary-base 10000\n  --normalization"},
    {MEGATRON, "llama", "\"rope_theta\":10000", 9000, "--rope-scaling-factor 4\n"},
    {TORCHTITAN, "llama", "\"rope_theta\":10000", 8192, "RoPEScalingArgs(scaling_factor=2),\n"},
    {TORCHTITAN, "llama", "\"rope_theta\":10000", 8192, "# The model has 4096 rotary positions"},
    {TORCHTITAN, "llama", "\"rope_theta\":10000", 4096, "RoPEScalingArgs(scaling_factor=1),\n"},
    {DEEPSPEED, "llama", "\"rope_theta\":10000", 8192, "no sequence beyond the model's positions"},
    {MEGATRON, "deepseek_v3", YARN("1"), 8192,
     "--rope-type yarn\n  --rotary-scaling-factor 40\n  --mscale 1\n  --mscale-all-dim 1\n"},
    {NEMO, "deepseek_v3", YARN("1"), 8192, "model.original_max_position_embeddings = 4096\n"},
    {TORCHTITAN, "deepseek_v3", YARN("1"), 8192, "rope_factor=40,\n    beta_fast=32,\n"},
    {TORCHTITAN, "deepseek_v3", YARN("0.5"), 8192, "mscale and mscale_all_dim are equal"},
    {MEGATRON, "deepseek_v3", "\"rope_theta\":10000", 4096,
     "--rope-type rope\n  --no-rope-fusion\n"},
    {MEGATRON, "deepseek_v3", "\"rope_theta\":10000", 8192, "beyond the positions of latent"},
    {TORCHTITAN, "deepseek_v3", "\"rope_theta\":10000", 4096, "rope_factor=1.0,\n"},
    {MEGATRON, "deepseek_v3", LLAMA31("1", "8192"), 4096, "rope_scaling of yarn"}};

static void rotary_scaling_is_told(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++) {
    const struct scaling *x = &scalings[i];
    char config[900], *text = NULL;
    struct pz_error err = {0};
    struct pz_launch l = {
        .model = "scaled", .nodes = 1, .gpus_per_node = 8, .plan = pz_plan_default()};
    snprintf(config, sizeof config,
             "{\"model_type\":\"%s\",\"num_hidden_layers\":4,\"hidden_size\":1024,"
             "\"num_attention_heads\":8,\"intermediate_size\":4096,\"vocab_size\":1024,"
             "\"max_position_embeddings\":4096,\"n_routed_experts\":64,\"num_experts_per_tok\":8,"
             "\"moe_intermediate_size\":256,\"kv_lora_rank\":64,\"qk_nope_head_dim\":64,"
             "\"qk_rope_head_dim\":64,\"v_head_dim\":64,%s}",
             x->family, x->rope);
    struct model m = {"scaled", config};
    l.shape = shape_of(&m);
    l.plan.framework = pz_framework_find(pz_launch_names[x->framework]);
    l.plan.dp = 8;
    l.plan.seq = x->seq;
    assert_int_equal(try_fill_plan(&l.plan, NULL, &err), PZ_OK);
    enum pz_status status = launch_script(x->framework, &l, &text, &err);
    if (!strstr(status == PZ_OK ? text : err.message, x->words))
      fail_msg("%zu: no '%s' in %s", i, x->words, status == PZ_OK ? text : err.message);
    pz_free(text);
  }
}

/* What released configurations say. */
static void shapes_are_those_of_the_configurations(void **state) {
  (void)state;
  struct model m = {"deepseek-v3", deepseek};
  struct pz_model_shape s = shape_of(&m);
  assert_int_equal(s.family, PZ_SHAPE_DEEPSEEK_V3);
  assert_int_equal(s.shared_ffn, 2048);
  assert_int_equal(s.dense_layers, 3);
  assert_true(s.routed_scale == 2.5);
  m = (struct model){"llama3-70b", NULL};
  s = shape_of(&m);
  assert_true(s.rotary_base == 500000 && !s.tied && s.gated && !s.bias);
  m = (struct model){"gpt3-175b", NULL};
  s = shape_of(&m);
  assert_true(s.rotary_base == 0 && s.tied && !s.gated && s.bias && s.drop_hidden == 0.1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(real_options_are_not_misspelt),
      cmocka_unit_test(scripts_say_what_the_plan_says),
      cmocka_unit_test(scripts_are_predicted_as_the_plan),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(adapters_are_written_and_read),
      cmocka_unit_test(adapters_in_other_words),
      cmocka_unit_test(adapters_of_8_bit_layers),
      cmocka_unit_test(unknown_families_are_refused_by_name),
      cmocka_unit_test(nodes_are_whole),
      cmocka_unit_test(rotary_scaling_is_told),
      cmocka_unit_test(shapes_are_those_of_the_configurations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
