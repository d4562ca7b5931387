/* Tables of runs: short ones are what predict says, words that are not covered are refused with a reason, columns that are
 * not known are errors. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/vec.h"
#include "step/run_table.h"
#include "step_borders.h"
#include "unit/chip_borders.h"

enum { MOST_ROWS = 32 };

/* Rows of a table, as copies. */
struct rows {
  struct pz_run_row at[MOST_ROWS];
  uint32_t n;
};

static struct rows read_rows(const char *text) {
  struct pz_arena arena;
  struct pz_run_table t;
  struct pz_error err = {0};
  struct rows rows = {.n = 0};
  pz_arena_init(&arena);
  if (try_read_runs("x", text, strlen(text), 1, &arena, &t, &err) != PZ_OK)
    fail_msg("%s", err.message);
  assert_true(t.n_rows <= MOST_ROWS);
  for (; rows.n < t.n_rows; rows.n++) rows.at[rows.n] = t.rows[rows.n];
  pz_arena_release(&arena);
  return rows;
}

/* The step of the one row of a table. */
static double step_of(const char *heads, const char *cells) {
  char text[2000];
  snprintf(text, sizeof text, "%s\n%s\n", heads, cells);
  struct rows r = read_rows(text);
  if (!r.at[0].predicted) fail_msg("%s: %s", cells, r.at[0].reason);
  return r.at[0].p.step_s;
}

static struct pz_training_run *predict(const char *model, const char *chip_name,
                                       const char *cluster, const struct pz_plan *plan) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_training_run *run = NULL;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read(chip_name, &chip, &err), PZ_OK);
  if (cluster) assert_int_equal(pz_cluster_load(cluster, &net, &err), PZ_OK);
  if (pz_training_predict(model, &chip, cluster ? &net : NULL, plan, false, &run, &err) != PZ_OK)
    fail_msg("%s", err.message);
  return run;
}

/* A model's name, a chip and what differs: as predict has it with the same options. */
static void short_tables_are_predict(void **state) {
  (void)state;
  struct pz_plan plan = pz_plan_default();
  plan.devices = 64;
  plan.tp = 4;
  plan.batch = 512;
  struct pz_training_run *run = predict("llama2-7b", "h100", "dgx-h100", &plan);
  struct rows r = read_rows("model,chip,cluster,n_dev,tp,gbs,framework\n"
                            "llama2-7b,h100,dgx-h100,64,4,512,\n"
                            "llama2-7b,h100,,64,4,512,megatron\n"); /* where h100 stands */
  for (uint32_t i = 0; i < r.n; i++) {
    assert_true(r.at[i].predicted && r.at[i].devices == 64);
    assert_true(r.at[i].p.step_s == run->p.step_s && r.at[i].p.peak_bytes == run->p.peak_bytes);
    assert_true(r.at[i].hbm_bytes == run->hbm_bytes);
  }
  pz_training_run_free(run);
  plan.devices = 8;
  run = predict("llama2-7b", "tpuv5p", "tpuv5p-pod", &plan);
  assert_true(step_of("model,chip,tp,dp,gbs", "llama2-7b,tpuv5p,4,2,512") == run->p.step_s);
  /* an empty cell is as the framework does it, which overlaps */
  assert_true(step_of("model,chip,tp,dp,gbs,overlap,attn_kernel", "llama2-7b,tpuv5p,4,2,512,,") ==
              run->p.step_s);
  pz_training_run_free(run);
}

/* A plan that does not fit is predicted, a name or a plan that cannot be has a reason. */
static void rows_are_predicted_or_refused(void **state) {
  (void)state;
  struct rows r = read_rows("id,model,chip,n_dev,gbs,tp\n"
                            "large,gpt3-175b,h100,8,64,8\n"
                            "unknown,gpt9,h100,8,64,8\n"
                            "odd,gpt2,h100,7,64,8\n"
                            "chip,gpt2,h9,8,64,1\n"
                            "none,,h100,8,64,1\n");
  assert_true(r.at[0].predicted && r.at[0].p.peak_bytes > r.at[0].hbm_bytes);
  static const char *const reasons[] = {"", "unknown model 'gpt9'", "7 devices are not divided",
                                        "unknown chip 'h9'", "no model; accepted"};
  for (uint32_t i = 1; i < r.n; i++)
    if (r.at[i].predicted || !strstr(r.at[i].reason, reasons[i])) fail_msg("%s", r.at[i].reason);
}

/* Chips of which no cluster is known need one beyond a server; results of an earlier prediction are not read. */
static void clusters_and_results(void **state) {
  (void)state;
  struct rows r = read_rows("model,chip,n_dev,gbs,predicted_step_s,reason\n"
                            "gpt2,v100,8,8,1e9,x\ngpt2,v100,512,512,,\n");
  assert_true(r.n == 2 && r.at[0].predicted && r.at[0].p.step_s < 1e3);
  assert_true(!r.at[1].predicted && strstr(r.at[1].reason, "none is known for v100"));
}

static void words_that_are_not_covered(void **state) {
  (void)state;
  static const struct {
    const char *head, *cell, *reason; /* NULL: covered */
  } list[] = {
      {"kind", "pretrain", NULL},
      {"kind", "sft", NULL},
      {"kind", "lora", NULL},
      {"kind", "vlm-lora", "kind 'vlm-lora'"},
      {"kind", "vlm-sft", "kind 'vlm-sft'"},
      {"peft", "none", NULL},
      {"peft", "lora:16:linear_qkv", NULL},
      {"peft", "dora:16:linear_qkv", "peft is 'dora:16:linear_qkv'"},
      {"ssm", "", NULL},
      {"ssm", "mamba2:heads=64", "ssm 'mamba2"},
      {"kind", "dit-pretrain", "kind 'dit-pretrain'"},
      {"vision", "none", NULL},
      {"vision", "frozen; text only", NULL},
      {"kind,vision", "vlm-sft,text only", NULL},
      {"vision", "vit:layers=27",
       "vision 'vit:layers=27': a vision tower and the images of a sample are not predicted; "
       "accepted: vision none, or text only"},
      {"vision", "vit:layers=27; frozen", "vision 'vit"},
      {"offload", "activations of 2 layers", NULL},
      {"offload", "optimizer 50%", NULL},
      {"offload", "optimizer", NULL},
      {"offload", "optimizer 150%", "offload 'optimizer 150%'"},
      {"offload", "activations: core_attn; optimizer 25%", NULL},
      {"offload", "activations of 2 layers and more", "offload 'activations"},
      {"offload", "activations: everything", "offload 'activations"},
      {"offload", "activations: core_attn", NULL},
      {"layer_pattern", "MEM*", "layer_pattern 'MEM*'"},
      {"moe_latent", "1024", "moe_latent '1024'"},
      {"shared_ffn", "512", "shared_ffn '512' of a model by its name"},
      {"optimizer", "adam", NULL},
      {"optimizer", "muon", "optimizer 'muon'"},
      {"quant", "fp8 current scaling", NULL},
      {"quant", "mxfp8", "fp8_recipe mxfp8 on chip h100"},
      {"quant", "nvfp4", "h100 has no rate for precision nvfp4"},
      {"quant", "nvfp4; bf16: everything", "quant 'nvfp4; bf16: everything'"},
      {"quant", "none", NULL},
      {"quant", "fp8", NULL},
      {"quant", "\"fp8 hybrid, delayed scaling\"", NULL},
      {"quant", "FP8 subchannel scaling", NULL},
      {"quant", "fp8-sc", NULL},
      {"quant", "\"fp8 tensorwise scaling; bf16: last 8 layers, head\"", NULL},
      {"quant", "\"fp8 delayed, current scaling\"",
       "quant 'fp8 delayed, current scaling' is not covered; "
       "accepted: none, nvfp4, mxfp8"},
      {"quant", "hybrid", "quant 'hybrid'"},
      {"quant", "fp8; bf16: qkvs", "quant 'fp8; bf16: qkvs'"},
      {"quant,precision", "fp8 current scaling,bf16",
       "quant 'fp8 current scaling' is not covered with precision bf16; accepted: none"},
      {"quant", "int3", "quant 'int3'"},
      {"act_precision", "fp8", NULL},
      {"act_precision", "fp6", "act_precision 'fp6'"},
      {"routing", "forced balance", NULL},
      {"precision", "nvfp4", "h100 has no rate for precision nvfp4; accepted: bf16, fp8, fp16"},
      {"attention", "dsa",
       "attention 'dsa' of a model whose layers are not known; accepted: "
       "layer_pattern 'DSA: indexer NxN top N'"},
      {"attention", "hybrid", "attention 'hybrid' of a model whose layers"},
      {"mlp", "relu3", "mlp 'relu3'"},
      {"dispatcher", "hybridep", NULL},
      {"dispatcher", "allgather", "dispatcher 'allgather'"},
      {"framework", "automodel", NULL},
      {"framework", "colossal", "framework 'colossal'"},
      {"recompute", "other:unheard", "recompute 'other:unheard'"},
      {"cuda_graphs", "te:attn+moe_router", NULL},
      {"cuda_graphs", "attn+mlp", NULL},
      {"cuda_graphs", "te:everything", "cuda_graphs 'te:everything'"},
      {"cuda_graphs", "te:", "cuda_graphs 'te:'"},
      {"flags", "{}", NULL}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    char text[300];
    snprintf(text, sizeof text, "model,chip,%s\ngpt2,h100,%s\n", list[i].head, list[i].cell);
    struct rows r = read_rows(text);
    if (r.at[0].predicted != !list[i].reason)
      fail_msg("%s %s: %s", list[i].head, list[i].cell, r.at[0].reason);
    if (list[i].reason && !strstr(r.at[0].reason, list[i].reason)) fail_msg("%s", r.at[0].reason);
  }
}

/* Models of a shape: words that say what the layers are. */
static void layers_by_words(void **state) {
  (void)state;
  static const struct {
    const char *cells, *reason; /* NULL: covered */
  } list[] = {
      {"4,64,8,2,16,96,relu2,\"mamba2:heads=8,head_dim=16,state=16,groups=2,conv=4,chunk=64\",M-*M,"
       ",,,,",
       NULL},
      {"4,64,8,2,16,96,relu2,\"mamba2:heads=8,head_dim=16,state=16,groups=2,conv=4,chunk=64\",ME*M,"
       "8,2,"
       "96,32,1",
       NULL},
      {"4,64,8,2,16,96,relu2,\"mamba2:heads=8,head_dim=16\",M-*M,,,,,", "ssm 'mamba2:heads=8"},
      {"4,64,8,2,16,96,relu2,\"mamba2:heads=8,head_dim=16,state=16,groups=2,conv=4,chunk=64\",M-*,,"
       ",,,",
       "layer_pattern 'M-*' of 4 layers"},
      {"4,64,8,2,16,96,swiglu,\"gdn:key_heads=2,value_heads=4,key_dim=16,value_dim=16,conv=4\",("
       "LLL*)x1,"
       ",,,,",
       NULL},
      {"4,64,8,2,16,96,swiglu,\"gdn:key_heads=2,value_heads=4,key_dim=16,value_dim=16,conv=4\",("
       "LLL*)x2,"
       ",,,,",
       "layer_pattern '(LLL*)x2' of 4 layers"},
      {"4,64,8,2,16,96,swiglu,\"gdn:key_heads=2,value_heads=4,key_dim=16,value_dim=16,conv=4\","
       "L*(L)x2,,,,,",
       NULL},
      {"4,64,8,2,16,96,swiglu,\"gdn:key_heads=2,value_heads=4,key_dim=16,value_dim=16,conv=4\","
       "LLM*,,,,,",
       "layer_pattern 'LLM*' of 4 layers"},
      {"4,64,8,2,16,96,relu2,\"mamba2:heads=8,head_dim=16,state=16,groups=2,conv=4,chunk=64\",(M-)"
       "x2,,,,,",
       NULL},
      {"4,64,8,2,16,96,relu2,\"mamba2:heads=8,head_dim=16,state=16,groups=2,conv=4,chunk=64\",(M-)"
       "x0,,,,,",
       "layer_pattern '(M-)x0' of 4 layers"},
      {"4,64,8,2,16,96,swiglu,,\"DSA: indexer 4x16 top 64\",8,2,96,,", "without latent attention"},
      {"4,64,8,2,16,96,swiglu,rwkv:heads=4,,,,,,", "ssm 'rwkv"},
      {"4,64,8,2,16,96,swiglu,,\"window 128 in every second layer, sinks\",8,2,96,,", NULL},
      {"4,64,8,2,16,96,swiglu,,\"window 128 in every third layer\",8,2,96,,",
       "layer_pattern 'window 128 in every third"},
      {"4,64,8,2,16,96,swiglu,,,8,2,96,32,", "moe_latent without Mamba-2"}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    char text[600];
    snprintf(text, sizeof text,
             "id,chip,vocab,seq,layers,hidden,heads,kv_heads,head_dim,ffn,mlp,ssm,layer_pattern,"
             "experts,topk,expert_ffn,moe_latent,shared_experts\nx,h100,1024,256,%s\n",
             list[i].cells);
    struct rows r = read_rows(text);
    if (r.at[0].predicted != !list[i].reason) fail_msg("%s: %s", list[i].cells, r.at[0].reason);
    if (list[i].reason && !strstr(r.at[0].reason, list[i].reason)) fail_msg("%s", r.at[0].reason);
  }
}

/* A shape is the model of a name: hybrids with layers that predict further tokens, letters or parts that repeat; and
 * sparse attention, whose layers may take the keys that another chose. */
static void shapes_are_models_of_a_name(void **state) {
  (void)state;
  static const char heads[] =
      "model,layers,hidden,heads,kv_heads,head_dim,ffn,mlp,vocab,experts,topk,expert_ffn,"
      "shared_experts,dense_layers,mla,ssm,layer_pattern,attention,mtp,seq,chip,n_dev,gbs,ep,tp,"
      "framework";
#define PLAN ",8192,h100,64,64,32,2,nemo"
#define DELTA(pattern, mtp)                                                                        \
  step_of(heads, ",48,2048,16,2,256,5120,swiglu,151936,512,10,512,1,,,\"gdn:key_heads=16,"         \
                 "value_heads=32,key_dim=128,value_dim=128,conv=4\"," pattern ",hybrid," mtp PLAN)
#define LETTERS "LLL*LLL*LLL*LLL*LLL*LLL*"
  static const char qwen[] = "qwen3-next-80b-a3b,,,,,,,,,,,,,,,,,hybrid,";
  char by_name[200];
  snprintf(by_name, sizeof by_name, "%s%s", qwen, "1" PLAN);
  assert_true(step_of(heads, by_name) == DELTA("(LLL*)x12", "1"));
  assert_true(DELTA(LETTERS LETTERS, "1") == DELTA("(LLL*)x12", "1"));
  assert_true(DELTA(LETTERS "L*LL(LLL*)x5", "1") == DELTA(LETTERS LETTERS, "1"));
  assert_true(DELTA(LETTERS "LLLL(LLL*)x5", "1") != DELTA(LETTERS LETTERS, "1"));
  snprintf(by_name, sizeof by_name, "%s%s", qwen, "0" PLAN);
  assert_true(step_of(heads, by_name) == DELTA("(LLL*)x12", "0"));
  assert_true(DELTA("(LLL*)x12", "0") < DELTA("(LLL*)x12", "1"));
#define SPARSE(pattern)                                                                            \
  step_of(heads, ",61,7168,128,128,,18432,swiglu,129280,256,8,2048,1,3,1536/512/64/128/128,,"      \
                 "\"DSA: indexer 64x128 top 2048" pattern "\",dsa,1" PLAN)
  /* a dense hybrid predicts with attention and a dense feed-forward */
#define DENSE(mtp)                                                                                 \
  step_of(heads, ",4,1024,8,2,128,4096,relu2,32000,,,,,,,\"mamba2:heads=16,head_dim=64,state=128," \
                 "groups=8,conv=4,chunk=128\",M-*-,hybrid," mtp ",8192,h100,64,64,,2,nemo")
  assert_true(DENSE("0") < DENSE("1"));
#undef DENSE
  assert_true(step_of(heads, "deepseek-v3.2,,,,,,,,,,,,,,,,,dsa,1" PLAN) == SPARSE(""));
  assert_true(SPARSE(", computed in every layer") == SPARSE(""));
  double half = SPARSE(", computed in every second layer"),
         fourth = SPARSE(", computed in every fourth layer");
  assert_true(fourth < half && half < SPARSE(""));
#undef SPARSE
#undef LETTERS
#undef DELTA
#undef PLAN
}

static void wrong_tables_are_errors(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } list[] = {{"model,chip,n_devs\ngpt2,h100,8\n", "unknown column 'n_devs' (did you mean n_dev"},
              {"model,chip,n_gpus\ngpt2,h100,8\n", "; accepted: id, group"},
              {"model,n_dev\ngpt2,8\n", "no column 'chip'"},
              {"chip,n_dev\nh100,8\n", "no column 'model'"},
              {"model,chip,n_dev\ngpt2,h100,x\n", "x:2: column 'n_dev' is 'x'"}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    struct pz_arena arena;
    struct pz_run_table t;
    struct pz_error err = {0};
    pz_arena_init(&arena);
    assert_int_equal(try_read_runs("x", list[i].text, strlen(list[i].text), 1, &arena, &t, &err),
                     PZ_BAD_INPUT);
    if (!strstr(err.message, list[i].message)) fail_msg("%s", err.message);
    pz_arena_release(&arena);
  }
}

/* Fine-tuning on an H200: time and peak memory of each step. */
static void adapters_take_what_a_gpu_shows(void **state) {
  (void)state;
  char *text = NULL;
  size_t bytes = 0;
  assert_int_equal(pz_file_read(PHAZE_TEST_DATA "/h200_lora.csv", 1 << 20, &text, &bytes, NULL),
                   PZ_OK);
  struct rows r = read_rows(text);
  assert_int_equal(r.n, 8);
  for (uint32_t i = 0; i < r.n; i++) {
    const struct pz_run_row *x = &r.at[i];
    if (!x->predicted) fail_msg("%s", x->reason);
    double step = x->p.step_s / x->measured_s - 1, peak = x->p.peak_bytes / x->measured_bytes - 1;
    if (fabs(step) > 0.05 || fabs(peak) > 0.005)
      fail_msg("row %u: step %+.3f, peak %+.4f", i, step, peak);
  }
  pz_free(text);
}

/* A plan with adapters exchanges and updates these alone; a word that is none of the modules is refused. */
static void frozen_weights_are_neither_exchanged_nor_updated(void **state) {
  (void)state;
  static const char heads[] = "model,chip,cluster,framework,n_dev,gbs,zero,kind,peft";
  char text[600];
  snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s\n", heads,
           "llama3-8b,h100,dgx-h100,nemo,16,16,1,sft,",
           "llama3-8b,h100,dgx-h100,nemo,16,16,1,sft,none",
           "llama3-8b,h100,dgx-h100,nemo,16,16,1,lora,lora:16:all",
           "llama3-8b,h100,dgx-h100,nemo,16,16,1,lora,lora:16:linear_kqv");
  struct rows r = read_rows(text);
  assert_true(r.at[0].p.step_s == r.at[1].p.step_s);
  assert_true(r.at[2].p.parts.optimizer_s < 0.02 * r.at[0].p.parts.optimizer_s);
  assert_true(r.at[2].p.peak.optimizer_bytes < 0.02 * r.at[0].p.peak.optimizer_bytes);
  assert_true(r.at[2].p.parts.gradient_s + r.at[2].p.gradient_hidden_s <
              0.05 * (r.at[0].p.parts.gradient_s + r.at[0].p.gradient_hidden_s));
  assert_true(r.at[2].p.parts.products_s < 0.75 * r.at[0].p.parts.products_s);
  assert_false(r.at[3].predicted);
  assert_non_null(strstr(r.at[3].reason, "no module 'linear_kqv'; accepted"));
}

/* Libraries of chips without measured kernels, by any name, are the chip's attention. */
static void libraries_that_nobody_measured(void **state) {
  (void)state;
  static const char heads[] = "model,chip,framework,n_dev,gbs,attn_kernel";
  assert_true(step_of(heads, "llama2-7b,mi355x,nemo,8,8,ck") ==
              step_of(heads, "llama2-7b,mi355x,nemo,8,8,"));
  assert_true(step_of(heads, "llama2-7b,gaudi3,deepspeed,8,8,fsdpa") ==
              step_of(heads, "llama2-7b,gaudi3,deepspeed,8,8,"));
  assert_true(step_of(heads, "llama2-7b,ascend910b,mindformers,8,8,ascend-fa") ==
              step_of(heads, "llama2-7b,ascend910b,mindformers,8,8,"));
}

/* MLPerf's fine-tuning has an all-to-all of heads where cp divides them, else a ring. */
static void contexts_of_mlperf(void **state) {
  (void)state;
  static const char heads[] =
      "group,model,layers,hidden,heads,kv_heads,head_dim,ffn,mlp,vocab,seq,kind,peft,chip,cluster,"
      "precision,attention,sp,pp,vpp,zero,mbs,recompute,overlap,execution,pipeline,framework,"
      "grad_bytes,attn_kernel,cp_form,n_dev,tp,cp,dp,gbs";
#define SHAPE ",,80,8192,64,8,128,28672,swiglu,32000,"
#define NAMED ",llama2-70b,,,,,,,,,"
#define ROW(group, model, form, plan)                                                              \
  step_of(heads, group model "8192,lora,lora:16:attention,gb200,nvl72-gb200,bf16,flash,0,1,1,1,1," \
                             "none,grad param,eager,1f1b,nemo,2,cudnn," form "," plan)
#define WIDE "64,1,16,4,4"
#define DIVIDED "64,2,8,4,4"
#define EVEN "64,1,8,8,8"
  assert_true(ROW("mlperf_training_5.1", SHAPE, "", EVEN) ==
              ROW("mlperf_training_5.1", SHAPE, "all-to-all", EVEN));
  assert_true(ROW("mlperf_training_5.1", SHAPE, "", EVEN) !=
              ROW("mlperf_training_5.1", SHAPE, "ring", EVEN));
  assert_true(ROW("mlperf_training_5.1", SHAPE, "", WIDE) ==
              ROW("mlperf_training_5.1", SHAPE, "ring", WIDE));
  assert_true(ROW("mlperf_training_5.1", SHAPE, "", DIVIDED) ==
              ROW("mlperf_training_5.1", SHAPE, "ring", DIVIDED));
  assert_true(ROW("mlperf_training_5.1", NAMED, "", WIDE) ==
              ROW("mlperf_training_5.1", NAMED, "ring", WIDE));
  /* as well where something else is left out */
  static const char some[] = "group,model,chip,n_dev,cp,seq,gbs,peft,framework,cp_form";
  assert_true(
      step_of(some, "mlperf_training_5.1,llama2-70b,gb200,64,8,8192,8,lora:16:attention,nemo,") ==
      step_of(some, "x,llama2-70b,gb200,64,8,8192,8,lora:16:attention:0.1,nemo,all-to-all"));
#undef EVEN
#undef DIVIDED
#undef WIDE
#undef ROW
#undef NAMED
#undef SHAPE
}

/* Transformer Engine runs blocks of 128 as mxfp8 on Blackwell.  Tensor cores of CDNA4 apply scales of 32 values, and with
 * one scale nothing of AMD's reads operands in either order. */
static void blocks_are_scaled_as_the_chip_can(void **state) {
  (void)state;
  static const char heads[] = "model,chip,framework,n_dev,gbs,quant";
  assert_true(step_of(heads, "llama3-8b,b200,nemo,8,8,fp8 blockwise scaling") ==
              step_of(heads, "llama3-8b,b200,nemo,8,8,mxfp8"));
  assert_true(step_of(heads, "llama3-8b,mi355x,nemo,8,8,mxfp8") > 0);
  assert_true(step_of(heads, "llama3-8b,mi355x,nemo,8,8,fp8 current scaling") > 0);
  struct rows r = read_rows("model,chip,quant\ngpt2,mi300x,mxfp8\n");
  assert_non_null(strstr(r.at[0].reason, "tensor cores do not scale blocks"));
}

/* In a table bf16 is 16 bit; on the command's side a chip runs what it has. */
static void precisions_are_the_chips(void **state) {
  (void)state;
  static const char heads[] = "model,chip,n_dev,gbs,precision";
  assert_true(step_of(heads, "gpt2,v100,1,8,bf16") == step_of(heads, "gpt2,v100,1,8,fp16"));
  assert_true(step_of(heads, "gpt2,v100,1,8,") == step_of(heads, "gpt2,v100,1,8,fp16"));
  assert_true(step_of(heads, "gpt2,h100,1,8,bf16") == step_of(heads, "gpt2,h100,1,8,fp16"));
  struct rows r = read_rows("model,chip,precision\ngpt2,a100-80,fp8\ngpt2,tpuv5p,fp16\n");
  assert_string_equal(r.at[0].reason,
                      "a100-80 has no rate for precision fp8; accepted: bf16, fp16");
  assert_string_equal(r.at[1].reason, "tpuv5p has no rate for precision fp16; accepted: bf16");
  struct pz_chip v100;
  struct pz_plan plan = pz_plan_default();
  struct pz_training_run *run = NULL;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("v100", &v100, &err), PZ_OK);
  assert_int_equal(pz_training_predict("gpt2", &v100, NULL, &plan, false, &run, &err), PZ_OK);
  assert_int_equal(run->plan.precision, PZ_PRECISION_FP16);
  pz_training_run_free(run);
  plan.precision = PZ_PRECISION_BF16;
  assert_int_equal(pz_training_predict("gpt2", &v100, NULL, &plan, false, &run, &err), PZ_BAD_USE);
  assert_string_equal(err.message, "v100 has no rate for precision bf16; accepted: fp16");
}

/* Every copy of a token goes its way in an all-to-all; with DeepEP one to each node and device, copied by cores, with
 * HybridEP at the links' rate.  Overlap hides some of it. */
static void dispatchers_and_overlap_count(void **state) {
  (void)state;
  static const char heads[] = "model,chip,n_dev,gbs,ep,pp,framework,dispatcher,overlap";
  double all = step_of(heads, "deepseek-v2,h100,128,512,32,4,megatron,alltoall,none"),
         once = step_of(heads, "deepseek-v2,h100,128,512,32,4,megatron,deepep,none");
  assert_true(all > 1.05 * once);
  assert_true(step_of(heads, "deepseek-v2,h100,128,512,32,4,megatron,hybridep,none") <= once);
  assert_true(step_of(heads, "deepseek-v2,h100,128,512,32,4,megatron,,none") == all);
  assert_true(step_of(heads, "deepseek-v2,h100,128,512,8,4,megatron,alltoall,none") >
              step_of(heads, "deepseek-v2,h100,128,512,8,4,megatron,hybridep,none"));
  assert_true(step_of(heads, "deepseek-v2,h100,32,512,32,1,megatron,deepep,ep") <
              step_of(heads, "deepseek-v2,h100,32,512,32,1,megatron,deepep,none"));
}

static void graphs_leave_no_launches(void **state) {
  (void)state;
  static const char heads[] = "model,chip,gbs,execution,cuda_graphs";
  double eager = step_of(heads, "gpt2,h100,1,eager,"), graph = step_of(heads, "gpt2,h100,1,graph,");
  assert_true(graph < eager);
  assert_true(step_of(heads, "gpt2,h100,1,eager,full_iteration") == graph);
  assert_true(step_of(heads, "gpt2,h100,1,eager,mcore:layers") == graph);
  double modules = step_of(heads, "gpt2,h100,1,eager,te:attn+mlp"),
         attention = step_of(heads, "gpt2,h100,1,eager,te:attn");
  assert_true(graph < modules && modules < attention && attention < eager);
  assert_true(step_of(heads, "gpt2,h100,1,eager,none") == eager);
  assert_true(step_of(heads, "gpt2,h100,1,eager,te:moe_router+moe_preprocess") == eager);
  static const char experts[] = "model,chip,n_dev,gbs,ep,framework,cuda_graphs";
  double none = step_of(experts, "qwen3-30b-a3b,b200,8,8,8,nemo,none"),
         router = step_of(experts, "qwen3-30b-a3b,b200,8,8,8,nemo,te:moe_router+moe_preprocess");
  assert_true(router < none);
  /* moe is all of a layer with experts, beside attention and mamba */
  assert_true(step_of(experts, "qwen3-30b-a3b,b200,8,8,8,nemo,te:attn+moe") ==
              step_of(experts, "qwen3-30b-a3b,b200,8,8,8,nemo,te:layers"));
  struct rows r = read_rows("model,chip,cuda_graphs\ngpt2,h100,te:moe\n");
  assert_false(r.at[0].predicted);
  assert_non_null(strstr(r.at[0].reason, "cuda_graphs 'te:moe' is not covered; accepted: none,"));
}

/* In a run that says everything a recipe's facts count: experts padded to a capacity are captured as a whole and have the
 * framework's own all-to-all; who names a dispatcher and no CUDA graphs has none. */
static void recipes_are_read(void **state) {
  (void)state;
  static const char heads[] =
      "layers,hidden,heads,kv_heads,head_dim,ffn,mlp,vocab,seq,experts,topk,expert_ffn,chip,"
      "cluster,"
      "n_dev,precision,attention,tp,sp,pp,vpp,cp,ep,dp,zero,mbs,gbs,recompute,overlap,execution,"
      "pipeline,framework,grad_bytes,attn_kernel,model,cuda_graphs,dispatcher";
#define ROW(model, graphs, dispatcher)                                                             \
  "48,2048,32,4,128,6144,swiglu,151936,4096,128,8,768,gb200,nvl72-gb200,8,fp8,flash,1,0,1,1,1,8,"  \
  "8,"                                                                                             \
  "1,1,512,none,none,eager,1f1b,nemo,4,cudnn," model "," graphs "," dispatcher
  double recipe = step_of(heads, ROW("a", "", "")), none = step_of(heads, ROW("a", "", "hybridep")),
         said = step_of(heads, ROW("a", "te:attn+moe_router+moe_preprocess", "hybridep")),
         whole = step_of(heads, ROW("a", "full_iteration", "hybridep")),
         padded = step_of(heads, ROW("a", "full_iteration", "alltoall"));
  assert_true(recipe == said && said < none && whole < said && whole < padded);
  assert_true(step_of(heads, ROW("a", "full_iteration", "")) == whole);
  assert_true(step_of(heads, ROW("a (tokendrop)", "", "")) == padded);
  assert_true(step_of(heads, ROW("a (tokendrop)", "", "hybridep")) == whole);
#undef ROW
}

/* Recipes by other names are the same; what has more bits takes longer; part of the optimizer's state on the host. */
static void words_of_recipes(void **state) {
  (void)state;
  static const char heads[] = "model,chip,n_dev,gbs,quant";
#define STEP(quant) step_of(heads, "nemotron-h-56b,gb200,64,64," quant)
  assert_true(STEP("fp8 subchannel scaling") == STEP("blockwise"));
  assert_true(STEP("fp8 tensorwise scaling") == STEP("current"));
  assert_true(STEP("\"fp8 hybrid, current scaling\"") == STEP("current"));
  assert_true(STEP("fp8-mx") == STEP("mxfp8"));
  double nvfp4 = STEP("nvfp4"), some = STEP("nvfp4; mxfp8: mamba out"),
         more = STEP("nvfp4; bf16: mamba out");
  assert_true(nvfp4 < some && some < more);
  assert_true(STEP("mxfp8; bf16: mamba out") > STEP("mxfp8"));
  assert_true(STEP("\"nvfp4; bf16: last 8 layers, head\"") ==
              STEP("\"nvfp4 in layers 0-109, bf16 in 110-117 and the head\""));
  double ends = STEP("mxfp8; bf16: first and last layer"), mxfp8 = STEP("mxfp8");
  assert_true(mxfp8 < ends && ends < STEP("\"mxfp8; bf16: first 4 layers, last layer\""));
#undef STEP
  struct rows r = read_rows("model,chip,framework,offload\n"
                            "llama3-8b,h100,megatron,\nllama3-8b,h100,megatron,optimizer 50%\n"
                            "llama3-8b,h100,megatron,optimizer\n");
  assert_true(r.at[2].p.peak.optimizer_bytes < r.at[1].p.peak.optimizer_bytes);
  assert_true(r.at[1].p.peak.optimizer_bytes < r.at[0].p.peak.optimizer_bytes);
}

/* Megatron pads a vocabulary to a multiple of 128 tp, torchtitan does not; the parameters stay the model's own. */
static void vocabularies_are_padded(void **state) {
  (void)state;
  static const char heads[] =
      "layers,hidden,heads,ffn,mlp,vocab,seq,chip,n_dev,gbs,tp,framework,model";
  char text[1000];
  snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s\n", heads,
           "4,1024,16,4096,gelu,50257,1024,h100,1,8,1,megatron,a",
           "4,1024,16,4096,gelu,50304,1024,h100,1,8,1,megatron,b",
           "4,1024,16,4096,swiglu,50257,1024,h100,1,8,1,torchtitan,c",
           "4,1024,16,4096,swiglu,50304,1024,h100,1,8,1,torchtitan,d");
  struct rows r = read_rows(text);
  for (uint32_t i = 0; i < r.n; i++)
    if (!r.at[i].predicted) fail_msg("%s", r.at[i].reason);
  assert_true(r.at[0].p.step_s == r.at[1].p.step_s);
  assert_true(r.at[0].p.peak_bytes == r.at[1].p.peak_bytes);
  assert_true(r.at[0].p.params == r.at[1].p.params - 47 * 1024);
  assert_true(r.at[2].p.step_s > r.at[3].p.step_s);
  struct pz_workload_options o = pz_workload_options_default();
  o.tp = 4;
  struct pz_workload *own = pz_test_load("gpt2", &o);
  o.vocab_multiple = 512;
  struct pz_workload *padded = pz_test_load("gpt2", &o);
  assert_int_equal(own->totals.model_params, padded->totals.model_params);
  assert_int_equal(own->vocab, padded->vocab);
  assert_int_equal(padded->totals.params - own->totals.params, (50688 / 4 - 12565) * 768);
  pz_workload_free(own);
  pz_workload_free(padded);
}

/* Chips name the clusters that they stand in; other clusters have other chips. */
static void chips_stand_in_clusters(void **state) {
  (void)state;
  struct pz_cluster c;
  assert_true(pz_cluster_standard("h100", &c));
  assert_string_equal(c.name, "dgx-h100");
  assert_true(pz_cluster_has_chip(&c, "h100") && !pz_cluster_has_chip(&c, "a100-80"));
  assert_false(pz_cluster_has_chip(&c, "h10"));
  assert_true(pz_cluster_needed(&c, 9) && !pz_cluster_needed(&c, 8));
  assert_true(pz_cluster_standard("tpuv5p", &c));
  assert_true(pz_cluster_needed(&c, 2) && !pz_cluster_needed(&c, 1));
  assert_false(pz_cluster_standard("v100", &c));
  assert_true(pz_cluster_standard("mi250x-gcd", &c)); /* packages of two in nodes of eight */
  assert_true(c.level[0].devices == 2 && pz_cluster_node(&c) == 8);
  assert_true(pz_cluster_standard("mi300x", &c)); /* two of a node have one link of seven */
  assert_true(pz_cluster_needed(&c, 2) && !pz_cluster_needed(&c, 1));
  struct pz_error err = {0};
  assert_int_equal(pz_cluster_load("paper", &c, &err), PZ_OK);
  assert_true(pz_cluster_has_chip(&c, "h100"));
  for (size_t i = 0; pz_cluster_preset_name(i); i++) { /* every name in a list is a chip's */
    struct pz_chip chip;
    char name[48];
    assert_int_equal(pz_cluster_load(pz_cluster_preset_name(i), &c, &err), PZ_OK);
    for (const char *at = c.chips; *at; at += strspn(at, " ")) {
      snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
      assert_int_equal(pz_test_chip_read(name, &chip, &err), PZ_OK);
      at += strlen(name);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adapters_take_what_a_gpu_shows),
      cmocka_unit_test(frozen_weights_are_neither_exchanged_nor_updated),
      cmocka_unit_test(short_tables_are_predict),
      cmocka_unit_test(rows_are_predicted_or_refused),
      cmocka_unit_test(words_that_are_not_covered),
      cmocka_unit_test(layers_by_words),
      cmocka_unit_test(shapes_are_models_of_a_name),
      cmocka_unit_test(wrong_tables_are_errors),
      cmocka_unit_test(libraries_that_nobody_measured),
      cmocka_unit_test(contexts_of_mlperf),
      cmocka_unit_test(blocks_are_scaled_as_the_chip_can),
      cmocka_unit_test(precisions_are_the_chips),
      cmocka_unit_test(dispatchers_and_overlap_count),
      cmocka_unit_test(graphs_leave_no_launches),
      cmocka_unit_test(recipes_are_read),
      cmocka_unit_test(words_of_recipes),
      cmocka_unit_test(vocabularies_are_padded),
      cmocka_unit_test(chips_stand_in_clusters),
      cmocka_unit_test(clusters_and_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
