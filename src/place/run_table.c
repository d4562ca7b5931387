#include "place/run_table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "core/pool.h"
#include "core/text.h"
#include "place/recompute.h"

/* ---- columns -------------------------------------------------------------------------------- */

enum column {
  ID,
  GROUP,
  LAYERS,
  HIDDEN,
  HEADS,
  KV_HEADS,
  HEAD_DIM,
  FFN,
  MLP,
  VOCAB,
  SEQ,
  EXPERTS,
  CHIP,
  CLUSTER,
  N_DEV,
  PRECISION,
  ATTENTION,
  TP,
  SP,
  PP,
  VPP,
  CP,
  DP,
  ZERO,
  MBS,
  GBS,
  RECOMPUTE,
  OVERLAP,
  EXECUTION,
  PIPELINE,
  FRAMEWORK,
  GRAD_BYTES,
  ATTN_KERNEL,
  STEP_TIME,
  PEAK_BYTES,
  QUALITY,
  COLUMNS_NEEDED,
  /* a table of dense models need not have these */
  TOPK = COLUMNS_NEEDED,
  EXPERT_FFN,
  SHARED_EXPERTS,
  DENSE_LAYERS,
  MLA,
  EP,
  MTP,
  COLUMNS
};

static const char *const heads[COLUMNS] = {"id",           "group",      "layers",
                                           "hidden",       "heads",      "kv_heads",
                                           "head_dim",     "ffn",        "mlp",
                                           "vocab",        "seq",        "experts",
                                           "chip",         "cluster",    "n_dev",
                                           "precision",    "attention",  "tp",
                                           "sp",           "pp",         "vpp",
                                           "cp",           "dp",         "zero",
                                           "mbs",          "gbs",        "recompute",
                                           "overlap",      "execution",  "pipeline",
                                           "framework",    "grad_bytes", "attn_kernel",
                                           "step_time_s",  "peak_bytes", "quality",
                                           "topk",         "expert_ffn", "shared_experts",
                                           "dense_layers", "mla",        "ep",
                                           "mtp"};

struct reader {
  const char *name;
  const struct pz_csv *csv;
  uint32_t at[COLUMNS];
  uint32_t row;
  struct pz_error *err;
};

static const char *cell(const struct reader *r, enum column c) {
  return r->at[c] == PZ_NONE ? "" : pz_csv_cell(r->csv, r->row, r->at[c]);
}

static enum pz_status no_column(const struct reader *r, const char *head) {
  char all[480] = "";
  for (size_t c = 0, n = 0; c < COLUMNS_NEEDED && n < sizeof all; c++)
    n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", c ? ", " : "", heads[c]);
  return pz_fail(r->err, PZ_BAD_INPUT,
                 "%s:1: no column '%s'; accepted: a table of runs with the columns %s", r->name,
                 head, all);
}

static enum pz_status find_columns(struct reader *r) {
  for (int c = 0; c < COLUMNS; c++) {
    r->at[c] = pz_csv_column(r->csv, heads[c]);
    if (r->at[c] == PZ_NONE && c < COLUMNS_NEEDED) return no_column(r, heads[c]);
  }
  return PZ_OK;
}

/* A number; `absent` where the cell is empty. */
static enum pz_status read_number(const struct reader *r, enum column c, double absent,
                                  double *out) {
  const char *text = cell(r, c);
  char *end;
  *out = absent;
  if (!*text) return PZ_OK;
  errno = 0;
  *out = strtod(text, &end);
  if (*end || errno || !(*out >= 0 && *out < 1e18))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: column '%s' is '%.40s'; accepted: a number from 0 to 1e18", r->name,
                   r->csv->lines[r->row], heads[c], text);
  return PZ_OK;
}

static enum pz_status read_count(const struct reader *r, enum column c, int64_t absent,
                                 int64_t *out) {
  double v = 0;
  enum pz_status status = read_number(r, c, (double)absent, &v);
  if (status != PZ_OK) return status;
  if (v != floor(v) || v > 1e15)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: an integer",
                   r->name, r->csv->lines[r->row], heads[c], cell(r, c));
  *out = (int64_t)v;
  return PZ_OK;
}

/* ---- a row ---------------------------------------------------------------------------------- */

/* A row as it is asked. */
struct request {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, seq, n_dev, sp, zero;
  int64_t experts, topk, expert_ffn, shared_experts, dense_layers, mtp;
  int64_t q_rank, kv_rank, rope_dim, nope_dim,
      value_dim; /* latent attention; kv_rank 0: ordinary */
  struct pz_training_plan plan;
  struct pz_training_model model;
  char config[960];
  struct pz_chip chip;
  struct pz_cluster net;
  enum pz_status status; /* of the prediction */
};

static enum pz_status read_numbers(const struct reader *r, struct request *q) {
  const struct {
    enum column c;
    int64_t absent, *to;
  } list[] = {{LAYERS, 0, &q->layers},
              {HIDDEN, 0, &q->hidden},
              {HEADS, 0, &q->heads},
              {KV_HEADS, 0, &q->kv_heads},
              {HEAD_DIM, 0, &q->head_dim},
              {FFN, 0, &q->ffn},
              {VOCAB, 0, &q->vocab},
              {SEQ, 0, &q->seq},
              {N_DEV, 0, &q->n_dev},
              {SP, 0, &q->sp},
              {CP, 1, &q->plan.cp},
              {ZERO, 0, &q->zero},
              {TP, 1, &q->plan.tp},
              {PP, 1, &q->plan.pp},
              {VPP, 1, &q->plan.vpp},
              {DP, 1, &q->plan.dp},
              {MBS, 1, &q->plan.mbs},
              {GBS, 1, &q->plan.batch},
              {EXPERTS, 0, &q->experts},
              {TOPK, 0, &q->topk},
              {EXPERT_FFN, 0, &q->expert_ffn},
              {SHARED_EXPERTS, 0, &q->shared_experts},
              {DENSE_LAYERS, 0, &q->dense_layers},
              {EP, 1, &q->plan.ep},
              {MTP, 0, &q->mtp}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    enum pz_status status = read_count(r, list[i].c, list[i].absent, list[i].to);
    if (status != PZ_OK) return status;
  }
  if (!q->experts) q->plan.ep = 1;
  if (*cell(r, MLA) &&
      sscanf(cell(r, MLA), "%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64,
             &q->q_rank, &q->kv_rank, &q->rope_dim, &q->nope_dim, &q->value_dim) != 5)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: column 'mla' is '%.40s'; accepted: query rank/key-value "
                   "rank/rope/nope/value dimension",
                   r->name, r->csv->lines[r->row], cell(r, MLA));
  q->plan.zero = (int)pz_min(q->zero, 4);
  q->plan.sequence_parallel = q->sp > 0;
  return read_number(r, GRAD_BYTES, 4, &q->plan.grad_bytes);
}

static bool says(const struct reader *r, enum column c, const char *word) {
  return strcmp(cell(r, c), word) == 0;
}

static unsigned overlap_of(const char *text) {
  static const struct {
    const char *word;
    unsigned bit;
  } words[] = {{"grad", PZ_OVERLAP_GRAD},
               {"param", PZ_OVERLAP_PARAM},
               {"tp", PZ_OVERLAP_TP},
               {"p2p", PZ_OVERLAP_P2P}};
  unsigned set = 0;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(text, words[i].word)) set |= words[i].bit;
  return set;
}

/* Position of a word in a list that ends with NULL; -1: it is not there. */
static int word_at(const char *const *list, const char *word) {
  for (int i = 0; list[i]; i++)
    if (strcmp(list[i], word) == 0) return i;
  return -1;
}

/* What the model of a step does not cover yet. */
static const char *not_covered(const struct reader *r) {
  if (!says(r, PRECISION, "bf16") && !says(r, PRECISION, "fp8"))
    return "precisions other than bf16 and fp8 are not covered";
  if (word_at(pz_pipeline_names, cell(r, PIPELINE)) < 0)
    return "this order of a pipeline is not covered";
  return NULL;
}

static bool knows_overlap(const char *text) {
  static const char *const words[] = {"none", "grad", "param", "tp", "p2p", "ep", NULL};
  char word[16];
  for (; *text; text += strspn(text, " ")) {
    size_t n = strcspn(text, " ");
    if (n >= sizeof word) return false;
    memcpy(word, text, n);
    word[n] = '\0';
    if (word_at(words, word) < 0) return false;
    text += n;
  }
  return true;
}

/* Is a column among those that the source does not state?  A table need not say. */
static bool is_assumed(const struct reader *r, const char *column) {
  uint32_t at = pz_csv_column(r->csv, "assumed");
  return at != PZ_NONE && strstr(pz_csv_cell(r->csv, r->row, at), column);
}

/* The row's words as choices; NULL, or the column whose word is not known. */
static const char *read_choices(const struct reader *r, struct request *q) {
  static const char *const recomputations[] = {
      "none", "selective", "full", "alternate", "other:every second layer", NULL};
  static const char *const executions[] = {"eager", "compile", "graph", NULL};
  static const char *const mlps[] = {"gelu", "swiglu", NULL};
  struct pz_training_plan *p = &q->plan;
  const char *word = cell(r, RECOMPUTE);
  bool policy = strncmp(word, "other:", 6) == 0 && pz_kept_parse(word + 6, &p->kept);
  bool modules =
      !policy && strncmp(word, "other:", 6) == 0 && pz_modules_parse(word + 6, &p->modules);
  int recompute = policy    ? PZ_RECOMPUTATION_FULL
                  : modules ? PZ_RECOMPUTATION_SELECTIVE
                            : word_at(recomputations, word);
  int execution = word_at(executions, cell(r, EXECUTION));
  int attention = word_at(pz_attention_names, cell(r, ATTENTION));
  p->framework = pz_framework_find(cell(r, FRAMEWORK));
  if (!p->framework) return heads[FRAMEWORK];
  if (recompute < 0) return heads[RECOMPUTE];
  if (execution < 0) return heads[EXECUTION];
  if (attention < 0) return heads[ATTENTION];
  if (word_at(mlps, cell(r, MLP)) < 0) return heads[MLP];
  if (!knows_overlap(cell(r, OVERLAP))) return heads[OVERLAP];
  p->recompute = (enum pz_recomputation)recompute;
  p->order = (enum pz_pipeline_order)word_at(pz_pipeline_names, cell(r, PIPELINE));
  if (recompute == PZ_RECOMPUTATION_NONE && p->framework->modules) {
    p->recompute = PZ_RECOMPUTATION_SELECTIVE;
    p->modules = p->framework->modules;
  }
  p->precision = says(r, PRECISION, "fp8") ? PZ_PRECISION_FP8 : PZ_PRECISION_BF16;
  p->execution = (enum pz_execution)execution;
  p->attention_library = cell(r, ATTN_KERNEL);
  p->overlap = overlap_of(cell(r, OVERLAP));
  q->model.attention = (enum pz_attention)attention;
  /* MaxText has flash attention where nothing else is asked */
  if (says(r, FRAMEWORK, "maxtext") && is_assumed(r, heads[ATTENTION]))
    q->model.attention = PZ_ATTENTION_FLASH;
  return NULL;
}

/* ---- the model of a row as a configuration ---- */

struct text {
  char *to;
  size_t bytes, n;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *form, ...) {
  va_list args;
  va_start(args, form);
  int n = t->n < t->bytes ? vsnprintf(t->to + t->n, t->bytes - t->n, form, args) : 0;
  va_end(args);
  if (n > 0) t->n += (size_t)n;
}

static void put_number(struct text *t, const char *key, int64_t v) {
  put(t, ",\"%s\":%lld", key, (long long)v);
}

/* The vocabulary is padded, as frameworks do, to a multiple of 128 on each device. */
static int64_t padded_vocab(const struct request *q) {
  int64_t unit = 128 * pz_max(1, q->plan.tp);
  return pz_ceil_div(pz_max(q->vocab, 1), unit) * unit;
}

/* GPT's shape, whose head is the embedding except in plain PyTorch models. */
static void put_gpt(struct text *t, const struct request *q, bool tied) {
  put(t, "{\"model_type\":\"gpt2\"");
  put_number(t, "n_embd", q->hidden);
  put_number(t, "n_layer", q->layers);
  put_number(t, "n_head", q->heads);
  put_number(t, "n_inner", q->ffn);
  put_number(t, "vocab_size", padded_vocab(q));
  put_number(t, "n_positions", q->seq);
  put(t, ",\"tie_word_embeddings\":%s}", tied ? "true" : "false");
}

static void put_experts(struct text *t, const struct request *q) {
  put_number(t, q->kv_rank ? "n_routed_experts" : "num_experts", q->experts);
  put_number(t, "num_experts_per_tok", q->topk);
  put_number(t, "moe_intermediate_size", q->expert_ffn ? q->expert_ffn : q->ffn);
  if (q->shared_experts) put_number(t, "n_shared_experts", q->shared_experts);
  if (q->dense_layers || q->kv_rank) put_number(t, "first_k_dense_replace", q->dense_layers);
}

static void put_latent(struct text *t, const struct request *q) {
  if (q->q_rank)
    put_number(t, "q_lora_rank", q->q_rank);
  else
    put(t, ",\"q_lora_rank\":null");
  put_number(t, "kv_lora_rank", q->kv_rank);
  put_number(t, "qk_rope_head_dim", q->rope_dim);
  put_number(t, "qk_nope_head_dim", q->nope_dim);
  put_number(t, "v_head_dim", q->value_dim);
  if (q->mtp) put_number(t, "num_nextn_predict_layers", q->mtp);
}

/* Which of the families a row has: with latent attention DeepSeek's; with experts alone Qwen3's; plain PyTorch and
 * shared experts beside ordinary attention the plain decoder; else Llama. */
static const char *family_of(const struct request *q) {
  if (q->kv_rank) return "deepseek_v3";
  if (q->plan.framework && q->plan.framework->decoder) return "decoder";
  if (q->experts) return q->shared_experts || q->dense_layers ? "decoder" : "qwen3_moe";
  return "llama";
}

/* Rows with a gated feed-forward are Llama's shape or one of its descendants, others GPT's. */
static void write_config(const struct reader *r, struct request *q) {
  struct text t = {.to = q->config, .bytes = sizeof q->config};
  bool gated = says(r, MLP, "swiglu"), plain = q->plan.framework && q->plan.framework->decoder;
  q->model.name = cell(r, ID);
  q->model.config = q->config;
  q->model.seq = q->seq;
  q->model.mtp = q->mtp > 0;
  if (!gated && !plain && !q->experts) {
    put_gpt(&t, q, !says(r, FRAMEWORK, "torch"));
    return;
  }
  put(&t, "{\"model_type\":\"%s\",\"hidden_act\":\"%s\"", family_of(q), gated ? "silu" : "gelu");
  put_number(&t, "hidden_size", q->hidden);
  put_number(&t, "num_hidden_layers", q->layers);
  put_number(&t, "num_attention_heads", q->heads);
  put_number(&t, "num_key_value_heads", q->kv_heads);
  if (!q->kv_rank) put_number(&t, "head_dim", q->head_dim);
  put_number(&t, "intermediate_size", q->ffn);
  put_number(&t, "vocab_size", padded_vocab(q));
  put_number(&t, "max_position_embeddings", q->seq);
  if (q->kv_rank) put_latent(&t, q);
  if (q->experts) put_experts(&t, q);
  put(&t, "}");
}

static enum pz_status load_machine(const struct reader *r, struct request *q,
                                   struct pz_error *err) {
  enum pz_status status = pz_chip_load(cell(r, CHIP), &q->chip, err);
  if (status == PZ_OK) status = pz_cluster_load(cell(r, CLUSTER), &q->net, err);
  return status == PZ_OK ? pz_cluster_reach(&q->net, pz_max(q->n_dev, 1), "n_dev", err) : status;
}

/* What XLA does whatever a table says: collectives run beside compute, activations between layers are
 * divided over the tensor-parallel group, weights over a slice (the innermost level), and without
 * stages a replica's samples are one microbatch (tables have those of a device). */
static void compile(const struct pz_cluster *net, struct pz_training_plan *p) {
  int64_t slice = net->level[0].devices / pz_max(1, p->tp);
  p->overlap |= PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM | PZ_OVERLAP_TP;
  p->sequence_parallel = p->tp > 1;
  if (p->pp == 1 && p->dp > 0) p->mbs = pz_max(p->mbs, p->batch / p->dp);
  if (p->zero == 3 && slice > 0 && p->dp > slice && p->dp % slice == 0) p->shard = slice;
}

/* ---- the table ------------------------------------------------------------------------------ */

struct table_job {
  struct reader reader;
  struct request *requests;
  struct pz_run_row *rows;
};

static enum pz_status read_row(struct table_job *j, uint32_t i) {
  struct reader *r = &j->reader;
  struct request *q = &j->requests[i];
  struct pz_run_row *row = &j->rows[i];
  r->row = i;
  *row =
      (struct pz_run_row){.id = cell(r, ID), .group = cell(r, GROUP), .quality = cell(r, QUALITY)};
  enum pz_status status = read_numbers(r, q);
  if (status == PZ_OK) status = read_number(r, STEP_TIME, 0, &row->measured_s);
  if (status == PZ_OK) status = read_number(r, PEAK_BYTES, 0, &row->measured_bytes);
  if (status != PZ_OK) return status;
  struct pz_error why = {0};
  const char *unknown = read_choices(r, q), *reason = not_covered(r);
  if (!reason && unknown) {
    snprintf(row->reason, sizeof row->reason, "unknown word in column '%s'", unknown);
    return PZ_OK;
  }
  if (!reason && load_machine(r, q, &why) != PZ_OK) reason = why.message;
  if (why.status == PZ_NO_MEMORY) return pz_fail(r->err, PZ_NO_MEMORY, "%s", why.message);
  if (reason) pz_text_copy(row->reason, sizeof row->reason, reason);
  if (!reason && pz_framework_compiles(q->plan.framework)) compile(&q->net, &q->plan);
  write_config(r, q);
  return PZ_OK;
}

static void predict_row(void *ctx, size_t i, unsigned worker) {
  struct table_job *j = ctx;
  struct pz_run_row *row = &j->rows[i];
  struct request *q = &j->requests[i];
  struct pz_error why = {0};
  (void)worker;
  if (row->reason[0]) return;
  q->status = pz_predict(&q->model, &q->chip, &q->net, &q->plan, &row->p, NULL, &why);
  row->predicted = q->status == PZ_OK;
  if (!row->predicted) pz_text_copy(row->reason, sizeof row->reason, why.message);
}

enum pz_status pz_run_table_read(const char *name, const char *text, size_t bytes, unsigned threads,
                                 struct pz_arena *arena, struct pz_run_table *out,
                                 struct pz_error *err) {
  return pz_run_table_with(NULL, name, text, bytes, threads, arena, out, err);
}

enum pz_status pz_run_table_with(const struct pz_constants *constants, const char *name,
                                 const char *text, size_t bytes, unsigned threads,
                                 struct pz_arena *arena, struct pz_run_table *out,
                                 struct pz_error *err) {
  struct pz_run_table t = {.n_rows = 0};
  struct pz_pool *pool = NULL;
  enum pz_status status = pz_csv_parse(name, text, bytes, arena, &t.csv, err);
  if (status != PZ_OK) return status;
  struct table_job j = {.reader = {.name = name, .csv = &t.csv, .err = err}};
  j.requests = pz_arena_alloc(arena, t.csv.rows, sizeof *j.requests);
  j.rows = t.rows = pz_arena_alloc(arena, t.csv.rows, sizeof *t.rows);
  if (!j.requests || !j.rows) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  status = find_columns(&j.reader);
  for (uint32_t i = 0; i < t.csv.rows && status == PZ_OK; i++) {
    status = read_row(&j, i);
    j.requests[i].plan.constants = constants;
  }
  if (status == PZ_OK) status = pz_pool_new(threads, &pool, err);
  if (status != PZ_OK) return status;
  pz_pool_for(pool, t.csv.rows, predict_row, &j);
  pz_pool_free(pool);
  for (uint32_t i = 0; i < t.csv.rows; i++)
    if (j.requests[i].status == PZ_NO_MEMORY)
      return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  t.n_rows = t.csv.rows;
  *out = t;
  return PZ_OK;
}
