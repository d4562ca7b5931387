#include "step/run_table.h"

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
#include "plan/plan_fields.h"
#include "step/recompute.h"

/* ---- columns -------------------------------------------------------------------------------- */

/* Beside the fields of the plan, whose columns plan_fields.def names. */
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
  EXPERTS,
  CHIP,
  CLUSTER,
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
  PLAN, /* from here on: fields of the plan */
  COLUMNS = PLAN + PZ_PLAN_FIELDS
};

static const char *const heads[PLAN] = {"id",      "group",       "layers",         "hidden",
                                        "heads",   "kv_heads",    "head_dim",       "ffn",
                                        "mlp",     "vocab",       "experts",        "chip",
                                        "cluster", "step_time_s", "peak_bytes",     "quality",
                                        "topk",    "expert_ffn",  "shared_experts", "dense_layers",
                                        "mla"};

static const uint64_t fields_needed =
    PZ_PLAN_PIN(SEQ) | PZ_PLAN_PIN(DEVICES) | PZ_PLAN_PIN(PRECISION) | PZ_PLAN_PIN(ATTENTION) |
    PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(SP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(VPP) | PZ_PLAN_PIN(CP) |
    PZ_PLAN_PIN(DP) | PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(MBS) | PZ_PLAN_PIN(BATCH) |
    PZ_PLAN_PIN(RECOMPUTE) | PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(EXECUTION) | PZ_PLAN_PIN(PIPELINE) |
    PZ_PLAN_PIN(FRAMEWORK) | PZ_PLAN_PIN(GRAD_BYTES) | PZ_PLAN_PIN(ATTENTION_LIBRARY);

static const char *head(int c) {
  if (c < PLAN) return heads[c];
  const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)(c - PLAN));
  return x->column ? x->column : x->name;
}

static bool is_needed(int c) {
  return c < PLAN ? c < COLUMNS_NEEDED : fields_needed >> (c - PLAN) & 1;
}

struct reader {
  const char *name;
  const struct pz_csv *csv;
  uint32_t at[COLUMNS];
  uint32_t row;
  struct pz_error *err;
};

static const char *cell(const struct reader *r, int c) {
  return r->at[c] == PZ_NONE ? "" : pz_csv_cell(r->csv, r->row, r->at[c]);
}

static enum pz_status find_columns(struct reader *r) {
  char all[480] = "";
  for (int c = 0; c < COLUMNS; c++) {
    r->at[c] = pz_csv_column(r->csv, head(c));
    if (r->at[c] != PZ_NONE || !is_needed(c)) continue;
    for (size_t i = 0, n = 0; i < COLUMNS && n < sizeof all; i++)
      if (is_needed((int)i))
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", n ? ", " : "", head((int)i));
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:1: no column '%s'; accepted: a table of runs with the columns %s", r->name,
                   head(c), all);
  }
  return PZ_OK;
}

/* A number; `absent` where the cell is empty. */
static enum pz_status read_number(const struct reader *r, int c, double absent, double *out) {
  const char *text = cell(r, c);
  char *end;
  *out = absent;
  if (!*text) return PZ_OK;
  errno = 0;
  *out = strtod(text, &end);
  if (*end || errno || !(*out >= 0 && *out < 1e18))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: column '%s' is '%.40s'; accepted: a number from 0 to 1e18", r->name,
                   r->csv->lines[r->row], head(c), text);
  return PZ_OK;
}

static enum pz_status read_count(const struct reader *r, int c, int64_t absent, int64_t *out) {
  double v = 0;
  enum pz_status status = read_number(r, c, (double)absent, &v);
  if (status != PZ_OK) return status;
  if (v != floor(v) || v > 1e15)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: an integer",
                   r->name, r->csv->lines[r->row], head(c), cell(r, c));
  *out = (int64_t)v;
  return PZ_OK;
}

/* ---- a row ---------------------------------------------------------------------------------- */

/* A row as it is asked. */
struct request {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  int64_t experts, topk, expert_ffn, shared_experts, dense_layers, mtp;
  int64_t q_rank, kv_rank, rope_dim, nope_dim,
      value_dim; /* latent attention; kv_rank 0: ordinary */
  struct pz_plan plan;
  struct pz_job job;
  char config[960];
  struct pz_chip chip;
  struct pz_cluster net;
  enum pz_status status; /* of the prediction */
};

/* The plan of a row that says nothing. */
static struct pz_plan plain_plan(void) {
  struct pz_plan p = pz_plan_default();
  p.tp = p.cp = p.ep = p.pp = p.vpp = p.dp = p.mbs = p.batch = 1;
  p.sp = p.zero = p.overlap = 0;
  p.cp_form = PZ_CONTEXT_RING;
  p.grad_bytes = 4;
  return p;
}

/* Is the field a number in a table? */
static bool is_number(const struct pz_plan_field_info *x) {
  return x->kind != PZ_PLAN_KIND_CHOICE && x->kind != PZ_PLAN_KIND_SET &&
         x->kind != PZ_PLAN_KIND_TEXT && x->kind != PZ_PLAN_KIND_LIST;
}

/* Numbers of the plan; whether they are in range is for the prediction to say. */
static enum pz_status read_plan(const struct reader *r, struct pz_plan *p) {
  *p = plain_plan();
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)f);
    int64_t count = 0;
    double v = 0;
    if (!is_number(x) || !*cell(r, PLAN + f)) continue;
    enum pz_status status = x->kind == PZ_PLAN_KIND_REAL ? read_number(r, PLAN + f, 0, &v)
                                                         : read_count(r, PLAN + f, 0, &count);
    if (status != PZ_OK) return status;
    pz_plan_field_store(p, (enum pz_plan_field)f, x->kind == PZ_PLAN_KIND_REAL ? v : (double)count);
  }
  p->sp = p->sp > 0;
  return PZ_OK;
}

static enum pz_status read_numbers(const struct reader *r, struct request *q) {
  const struct {
    int c;
    int64_t *to;
  } list[] = {{LAYERS, &q->layers},
              {HIDDEN, &q->hidden},
              {HEADS, &q->heads},
              {KV_HEADS, &q->kv_heads},
              {HEAD_DIM, &q->head_dim},
              {FFN, &q->ffn},
              {VOCAB, &q->vocab},
              {EXPERTS, &q->experts},
              {TOPK, &q->topk},
              {EXPERT_FFN, &q->expert_ffn},
              {SHARED_EXPERTS, &q->shared_experts},
              {DENSE_LAYERS, &q->dense_layers},
              {PLAN + PZ_PLAN_MTP, &q->mtp}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    enum pz_status status = read_count(r, list[i].c, 0, list[i].to);
    if (status != PZ_OK) return status;
  }
  if (*cell(r, MLA) &&
      sscanf(cell(r, MLA), "%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64,
             &q->q_rank, &q->kv_rank, &q->rope_dim, &q->nope_dim, &q->value_dim) != 5)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: column 'mla' is '%.40s'; accepted: query rank/key-value "
                   "rank/rope/nope/value dimension",
                   r->name, r->csv->lines[r->row], cell(r, MLA));
  enum pz_status status = read_plan(r, &q->plan);
  if (!q->experts) q->plan.ep = 1;
  return status;
}

static bool says(const struct reader *r, int c, const char *word) {
  return strcmp(cell(r, c), word) == 0;
}

/* What the model of a step does not cover yet. */
static const char *not_covered(const struct reader *r) {
  struct pz_plan unused = plain_plan();
  const char *order = cell(r, PLAN + PZ_PLAN_PIPELINE);
  if (!says(r, PLAN + PZ_PLAN_PRECISION, "bf16") && !says(r, PLAN + PZ_PLAN_PRECISION, "fp8"))
    return "precisions other than bf16 and fp8 are not covered";
  if (!*order || pz_plan_field_read(&unused, PZ_PLAN_PIPELINE, order, NULL) != PZ_OK)
    return "this order of a pipeline is not covered";
  return NULL;
}

/* Is a column among those that the source does not state?  A table need not say. */
static bool is_assumed(const struct reader *r, const char *column) {
  uint32_t at = pz_csv_column(r->csv, "assumed");
  return at != PZ_NONE && strstr(pz_csv_cell(r->csv, r->row, at), column);
}

/* Recomputation: a word, or "other:" and every second layer, a policy of what is saved, or modules. */
static bool read_recompute(const char *word, struct pz_plan *p) {
  if (strncmp(word, "other:", 6) != 0)
    return *word && pz_plan_field_read(p, PZ_PLAN_RECOMPUTE, word, NULL) == PZ_OK &&
           p->recompute != PZ_RECOMPUTATION_HALF;
  word += 6;
  if (strcmp(word, "every second layer") == 0)
    p->recompute = PZ_RECOMPUTATION_HALF;
  else if (pz_saved_parse(word, &p->saved))
    p->recompute = PZ_RECOMPUTATION_FULL;
  else if (pz_modules_parse(word, &p->recompute_modules))
    p->recompute = PZ_RECOMPUTATION_SELECTIVE;
  else
    return false;
  return true;
}

/* The row's words as choices; NULL, or the column whose word is not known. */
static const char *read_choices(const struct reader *r, struct request *q) {
  static const char *const mlps[] = {"gelu", "swiglu"};
  struct pz_plan *p = &q->plan;
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const char *word = cell(r, PLAN + f);
    if (is_number(pz_plan_field((enum pz_plan_field)f)) || (!*word && !is_needed(PLAN + f)))
      continue;
    bool known = f == PZ_PLAN_RECOMPUTE
                     ? read_recompute(word, p)
                     : pz_plan_field_read(p, (enum pz_plan_field)f, word, NULL) == PZ_OK;
    bool may_be_empty = f == PZ_PLAN_ATTENTION_LIBRARY || f == PZ_PLAN_OVERLAP;
    if (!known || (!*word && !may_be_empty)) return head(PLAN + f);
  }
  if (!says(r, MLP, mlps[0]) && !says(r, MLP, mlps[1])) return heads[MLP];
  p->attention_library = cell(r, PLAN + PZ_PLAN_ATTENTION_LIBRARY);
  p->overlap =
      p->overlap > 0 ? p->overlap & ~(int)PZ_OVERLAP_EP : 0; /* not covered in tables yet */
  if (p->recompute == PZ_RECOMPUTATION_NONE && pz_plan_framework(p)->modules)
    p->recompute = PZ_RECOMPUTATION_SELECTIVE;
  /* MaxText has flash attention where nothing else is asked */
  if (p->framework == pz_framework_find("maxtext") && is_assumed(r, "attention"))
    p->attention = PZ_ATTENTION_FLASH;
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

static void put_experts(struct text *t, const struct request *q);

/* GPT's shape, with experts or without, whose head is the embedding except in plain PyTorch models. */
static void put_gpt(struct text *t, const struct request *q, bool tied) {
  put(t, "{\"model_type\":\"gpt2\"");
  put_number(t, "n_embd", q->hidden);
  put_number(t, "n_layer", q->layers);
  put_number(t, "n_head", q->heads);
  put_number(t, "n_inner", q->ffn);
  put_number(t, "vocab_size", padded_vocab(q));
  put_number(t, "n_positions", q->plan.seq);
  if (q->kv_heads) put_number(t, "num_key_value_heads", q->kv_heads);
  if (q->experts) put_experts(t, q);
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

/* A model of plain PyTorch. */
static bool is_plain(const struct request *q) {
  return q->plan.framework >= 0 && pz_plan_framework(&q->plan)->decoder;
}

/* Which of the families a row has: with latent attention DeepSeek's; with experts alone Qwen3's; plain PyTorch and
 * shared experts beside ordinary attention the plain decoder; else Llama. */
static const char *family_of(const struct request *q) {
  if (q->kv_rank) return "deepseek_v3";
  if (is_plain(q)) return "decoder";
  if (q->experts) return q->shared_experts || q->dense_layers ? "decoder" : "qwen3_moe";
  return "llama";
}

/* Rows with a gated feed-forward are Llama's shape or one of its descendants, others GPT's. */
static void write_config(const struct reader *r, struct request *q) {
  struct text t = {.to = q->config, .bytes = sizeof q->config};
  bool gated = says(r, MLP, "swiglu"), plain = is_plain(q);
  if (!gated && !plain && !q->kv_rank && !q->shared_experts && !q->dense_layers) {
    put_gpt(&t, q, q->plan.framework != pz_framework_find("torch"));
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
  put_number(&t, "max_position_embeddings", q->plan.seq);
  if (q->kv_rank) put_latent(&t, q);
  if (q->experts) put_experts(&t, q);
  put(&t, "}");
}

static enum pz_status load_machine(const struct reader *r, struct request *q,
                                   struct pz_error *err) {
  enum pz_status status = pz_chip_load(cell(r, CHIP), &q->chip, err);
  if (status == PZ_OK) status = pz_cluster_load(cell(r, CLUSTER), &q->net, err);
  return status == PZ_OK ? pz_cluster_reach(&q->net, pz_max(q->plan.devices, 1), "n_dev", err)
                         : status;
}

/* What XLA does whatever a table says: collectives run beside compute, activations between layers are
 * divided over the tensor-parallel group, weights over a slice (the innermost level), and without
 * stages a replica's samples are one microbatch (tables have those of a device). */
static void compile(const struct pz_cluster *net, struct pz_plan *p) {
  int64_t slice = net->level[0].devices / pz_max(1, p->tp);
  p->overlap |= PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM | PZ_OVERLAP_TP;
  p->sp = p->tp > 1;
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
  if (!reason && pz_framework_compiles(pz_plan_framework(&q->plan))) compile(&q->net, &q->plan);
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
  q->status = pz_predict(&q->job, &q->plan, &row->p, NULL, &why);
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
    struct request *q = &j.requests[i];
    q->job = (struct pz_job){t.rows[i].id, q->config, &q->chip, &q->net, constants};
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
