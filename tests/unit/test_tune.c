/* Runs that people have: Megatron's arguments as they write them, plan files, and what is found for them. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/json.h"
#include "launch/megatron_args.h"
#include "launch/shell_words.h"
#include "plan/plan_fill.h"
#include "step/predict.h"
#include "step_borders.h"
#include "unit/chip_borders.h"
#include "unit/plan_borders.h"

static struct pz_arena arena;

static int begin(void **state) {
  (void)state;
  pz_arena_init(&arena);
  return 0;
}

static int end(void **state) {
  (void)state;
  pz_arena_release(&arena);
  return 0;
}

/* ---- words ---------------------------------------------------------------------------------- */

struct word_reading {
  const char *text;
  size_t bytes;
  struct pz_shell_text words;
};

static void read_words(struct pz_call *call, void *ctx) {
  struct word_reading *x = ctx;
  struct pz_call results = pz_call_in(call, &arena);
  x->words = pz_shell_read(&results, "text", x->text, x->bytes, NULL);
}

/* Reads words into the arena of the tests. */
static enum pz_status shell_words(const char *text, size_t bytes, struct pz_shell_text *out,
                                  struct pz_error *err) {
  struct word_reading x = {.text = text, .bytes = bytes};
  enum pz_status status = pz_border(read_words, &x, err);
  *out = x.words;
  return status;
}

/* Words of a text with bars between them; a slash before one that begins something. */
static void words_of(const char *text, char *out, size_t size) {
  struct pz_shell_text t;
  struct pz_error err = {0};
  if (shell_words(text, strlen(text), &t, &err) != PZ_OK) fail_msg("%s: %s", text, err.message);
  out[0] = '\0';
  for (uint32_t i = 0; i < t.words.n; i++) {
    const struct pz_shell_word *w = pz_vec_at(&t.words, struct pz_shell_word, i);
    size_t n = strlen(out);
    snprintf(out + n, size - n, "%s%s%s", i ? "|" : "", w->is_first ? "/" : "", w->text);
  }
}

static void words_are_a_shells(void **state) {
  (void)state;
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"a b\tc", "/a|b|c"},
      {"a 'b c' \"d e\"", "/a|b c|d e"},
      {"a \\\n b\nc", "/a|b|/c"},
      {"a \\  \n b", "/a|b"},
      {"a # comment 'with quote\nb#c", "/a|/b#c"},
      {"A=8 ; --x $A ${A} \"$A\" '$A'", "/--x|8|8|8|$A"},
      {"A=8\nB=$((A*2 + 4/2))\n--x $B $((B % 5))", "/--x|18|3"},
      {"--x ${A:-7} ${A-6} ${A:=$((2*3))}", "/--x|7|6|6"},
      {"A=1\nA+=2\n--x $A", "/--x|2"}, /* lists alone are added to */
      {"L=(--a 1\n --b 2 # two\n)\nrun ${L[@]} --c", "/--a|1|--b|2|/run|--c"},
      {"L=\"--a 1 --b 'x y'\"\nL=\"$L --c 3\"\nrun $L", "/--a|1|--b|x y|/--c|3|/run"},
      {"bash -c \"run --a=1 --b 2\"", "/bash|-c|/run|--a=1|--b|2"},
      {"\"--a\" \"1\"", "/--a|1"},
      {"--x $NONE `date` $(ls -l) $1", "/--x|$NONE|`date`|$(ls -l)|$1"},
      {"export X=3; echo $X>out", "/export|/echo|3|/out"},
      {"--x a\\ b $", "/--x|a b|$"},
      {"--x ''", "/--x|"},
      {"say \"don't --a 1\"", "/say|/don't|--a|1"},
      {"a;b|c&&d", "/a|/b|/c|/d"},
      {"--x $((1/0)) $((9*(2+1)))", "/--x|$((1/0))|27"},
      {"L=\"--a\"\nL+=\" --b\"\nrun $L 2>&1 2>x 3", "/--a|/--b|/run|/1|/x|3"},
      /* conditions that the text decides */
      {"X=1\nif [ \"$X\" = 1 ]; then a; else b; fi; c", "/a|/c"},
      {"X=0\nif [ $X = 1 ]; then\n  L+=(--a 1\n  --b 2)\n  Y=3\nfi\n--c $Y", "/--c|$Y"},
      {"X=2\nif [[ $X == 1 ]]; then a; elif [[ $X == 2 && -n y ]]; then b; else c; fi", "/b"},
      {"X=3\nif (( X > 2 )); then a; fi; if ((X*2 == 5)); then b; fi; ((X)) && c", "/a|/c"},
      {"[ -z \"${X:-}\" ] && a; [ -n \"${X:-}\" ] && b; [ 3 -ge 4 ] || c", "/a|/c"},
      {"[ a = b ] && { a\n b\n}\n[[ ! a = b ]] && { c; }", "/c"},
      {"false && a || b; true && c && d; ! true || e", "/b|/c|/d|/e"},
      {"if [ 1 -eq 2 ]; then if true; then a; fi; b; fi; c", "/c"},
      {"if [[ a = b || c = c && ! -z x ]]; then a; fi; test a = b || b", "/a|/b"},
      {"if [[ (a = b || c = d) && -z x ]]; then a; fi; [ a -a -z b -o c ] && b", "/a|/b"},
      {"if [[ (a || b || c) && -z x ]]; then a; fi; [ ! -n x -o -z \"\" ] && b", "/a|/b"},
      {"X=7B\ncase $X in\n 7B|13B) a ;;\n *) b;;\nesac\nc", "/a|/c"},
      {"case x in (y) a ;; \"x\") b\n c;; *) d\nesac; e", "/b|/c|/e"},
      /* and that it does not: all is read */
      {"if [ -f x ]; then a; else b; fi; [ -d y ] && c", "/a|/b|/c"},
      {"if [ \"$X\" = 1 ]; then a; fi; if grep -q x y; then b; fi", "/a|/grep|-q|x|y|/b"},
      {"while [ $# -gt 0 ]; do case $1 in --a) A=$2 ;; --b*) B=1;; esac; shift; done",
       "/while|[|$#|-gt|0|]|/shift|/done"},
      {"A=8\n[ -n \"$1\" ] && A=$1\nif [ $A = 8 ]; then a; fi; --x $A", "/a|/--x|8"},
      {"A=1\n[ -f x ] && A=2\nif [ $A = 1 ]; then a; else b; fi", "/a|/b"},
      {"A=1\n[ -f x ] && A=2\nif [ $((A)) = 1 ]; then a; else b; fi; ((A == 2)) || c", "/a|/b|/c"},
      {"if [ -f x ]; then a; elif true; then b; else c; fi", "/a|/b"},
      {"if [ a; then b", "/b"},
      {"fi; else; esac; }; a", "/a"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char got[400];
    words_of(cases[i].text, got, sizeof got);
    assert_string_equal(got, cases[i].words);
  }
}

static void words_have_limits(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {{"a 'b", "text:1: a quote is not closed; accepted: another behind it"},
               {"a\nL=\"--b 1", "text:2: a quote is not closed; accepted: another behind it"},
               {"a\nL=(--b", "text:2: a list '(' is not closed; accepted: ')' behind it"},
               {"${a", "text:1: '${' is not closed; accepted: '}' behind it"},
               {"$(a", "text:1: '$(' is not closed; accepted: ')' behind it"},
               {"`a", "text:1: '`' is not closed; accepted: another behind it"}};
  struct pz_shell_text t;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_error err = {0};
    assert_int_equal(shell_words(cases[i].text, strlen(cases[i].text), &t, &err), PZ_BAD_INPUT);
    assert_string_equal(err.message, cases[i].message);
  }
  struct pz_error err = {0};
  assert_int_equal(shell_words("a\0b", 3, &t, &err), PZ_BAD_INPUT);
  /* a variable that doubles itself */
  char doubled[400] = "A=0123456789abcdef\n";
  for (int i = 0; i < 20; i++) strcat(doubled, "A=$A$A\n");
  err = (struct pz_error){0};
  assert_int_equal(shell_words(doubled, strlen(doubled), &t, &err), PZ_LIMIT);
  size_t many = 2 * PZ_SHELL_MOST_WORDS + 2;
  char *words = pz_malloc(many);
  for (size_t i = 0; i < many; i++) words[i] = i % 2 ? ' ' : 'a';
  err = (struct pz_error){0};
  assert_int_equal(shell_words(words, many, &t, &err), PZ_LIMIT);
  pz_free(words);
}

/* Only arguments whose condition the script does not decide are marked as guesses. */
static void guesses_are_marked(void **state) {
  (void)state;
  static const char text[] = "if [ -f x ]; then\n  A=1\nfi\n"
                             "if [ -f x ]; then\n  A+=(--b 1)\nelse\n  A+=(--c 1)\nfi\n"
                             "if [ 1 = 2 ]; then\n  A+=(--d)\nfi\n"
                             "[ -f y ] && A+=(--e 1 --f 2)\n"
                             "case $1 in\n  x) A+=(--g) ;;\nesac\n--h\n";
  char marked[80] = "";
  struct pz_shell_text t;
  struct pz_error err = {0};
  assert_int_equal(shell_words(text, strlen(text), &t, &err), PZ_OK);
  for (uint32_t i = 0; i < t.words.n; i++) {
    const struct pz_shell_word *w = pz_vec_at(&t.words, struct pz_shell_word, i);
    size_t n = strlen(marked);
    snprintf(marked + n, sizeof marked - n, "%s%s", w->text, w->guessed ? "? " : " ");
  }
  assert_string_equal(marked, "--b? 1? --c? 1? --e? 1? --f? 2? --g? --h ");
}

/* ---- arguments ------------------------------------------------------------------------------ */

#define GPT                                                                                        \
  "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "                 \
  "--max-position-embeddings 2048 --vocab-size 50257 --bf16 --micro-batch-size 2 "
#define LLAMA                                                                                      \
  "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 "           \
  "--seq-length 4096 --swiglu "                                                                    \
  "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear "                  \
  "--untie-embeddings-and-output-weights "                                                         \
  "--vocab-size 32000 --bf16 --micro-batch-size 1 --hidden-dropout 0 "
#define ON8 "torchrun --nproc_per_node 8 pretrain_gpt.py "

/* Argument lists as people write them, and fields of the run: "tp 8 pp 4". */
/* Experts in every layer, as Mixtral; with latent attention and shared ones, as DeepSeek-V3. */
#define MOE                                                                                        \
  "--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 2048 --vocab-size "      \
  "50257 "                                                                                         \
  "--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --bf16 "  \
  "--micro-batch-size 1 --hidden-dropout 0 --attention-dropout 0 --ffn-hidden-size 4096 "          \
  "--num-experts 16 --moe-router-topk 2 --moe-ffn-hidden-size 512 --moe-grouped-gemm "
#define MLA                                                                                        \
  MOE "--multi-latent-attention --q-lora-rank 256 --kv-lora-rank 128 --qk-head-dim 64 "            \
      "--qk-pos-emb-head-dim 32 --v-head-dim 64 --qk-layernorm "                                   \
      "--moe-shared-expert-intermediate-size 1024 "
#define A2A "--moe-token-dispatcher-type alltoall "
/* So narrow that Megatron's default of --ffn-hidden-size is 0. */
#define NARROW                                                                                     \
  "--num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 64 --vocab-size 1000 "     \
  "--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --bf16 "  \
  "--micro-batch-size 1 "

static const struct example {
  const char *name, *text, *fields, *config;
} examples[] = {
    {"least", ON8 GPT,
     "devices 8 tp 1 sp off pp 1 vpp 1 batch 0 mbs 2 seq 2048 zero 0 recompute none attention "
     "flash "
     "overlap none execution eager grad_bytes 4",
     "\"vocab_size\":50257,"},
    {"nodes",
     "python -m torch.distributed.launch --nproc_per_node=8 --nnodes=4 x.py " GPT
     "--tensor-model-parallel-size 4 --global-batch-size 512",
     "devices 32 tp 4 sp off batch 512", "\"vocab_size\":50257,"},
    {"stages",
     ON8 GPT "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
             "--global-batch-size 64",
     "pp 4 vpp 3 overlap p2p", NULL},
    {"chunks by rank",
     ON8 GPT "--pipeline-model-parallel-size 4 "
             "--num-virtual-stages-per-pipeline-rank 6 "
             "--no-overlap-p2p-communication --global-batch-size 64",
     "pp 4 vpp 6 overlap none", NULL},
    {"llama",
     ON8 LLAMA "--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer "
               "--overlap-grad-reduce --overlap-param-gather --tp-comm-overlap",
     "tp 2 sp on zero 1 overlap grad,param,tp", "\"attention_bias\":false,\"mlp_bias\":false"},
    {"grouped", ON8 LLAMA "--group-query-attention --num-query-groups 8 --add-qkv-bias", "tp 1",
     "\"model_type\":\"qwen2\""},
    {"rotary gelu", ON8 GPT "--position-embedding-type rope", "tp 1",
     "\"model_type\":\"gpt_neox\""},
    {"default width",
     ON8 "--num-layers 2 --hidden-size 4096 --num-attention-heads 32 --seq-length 64 "
         "--swiglu --normalization RMSNorm --use-rotary-position-embeddings --fp16 "
         "--micro-batch-size 1 --padded-vocab-size 32768 --hidden-dropout 0",
     "tp 1", "\"intermediate_size\":10880,\"vocab_size\":32768"},
    {"selective", ON8 GPT "--recompute-activations --tensor-model-parallel-size 2",
     "recompute selective", NULL},
    {"block",
     ON8 GPT "--recompute-granularity full --recompute-method block --recompute-num-layers 3",
     "recompute full recompute_layers 3", NULL},
    {"uniform", ON8 GPT "--recompute-granularity full --recompute-method uniform",
     "recompute full recompute_layers 0", NULL},
    {"ends",
     ON8 GPT "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5 "
             "--decoder-last-pipeline-num-layers 5",
     "pp 4 first_layers 5 last_layers 5", NULL},
    {"ends as layers",
     ON8 "--num-layers 30 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
         "--vocab-size 9 --bf16 --micro-batch-size 1 --pipeline-model-parallel-size 8 "
         "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
     "pp 8 first_layers 3 last_layers 3", NULL},
    {"fsdp",
     ON8 LLAMA "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
               "--ckpt-format fsdp_dtensor",
     "zero 3", NULL},
    {"fsdp2", ON8 LLAMA "--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", "zero 2", NULL},
    {"copies",
     "--nnodes 4 --nproc-per-node 8 " GPT "--use-distributed-optimizer "
     "--num-distributed-optimizer-instances 4 --grad-reduce-in-bf16",
     "zero 1 shard 8 grad_bytes 2", NULL},
    {"kernels", ON8 GPT "--attention-backend unfused --cuda-graph-impl local",
     "attention standard execution graph", NULL},
    {"library", ON8 GPT "--attention-backend fused --enable-cuda-graph",
     "attention flash attention_library cudnn execution graph", NULL},
    {"graphs of modules",
     ON8 MOE A2A "--expert-model-parallel-size 8 --cuda-graph-impl transformer_engine "
                 "--cuda-graph-scope attn moe_router moe_preprocess",
     "execution eager cuda_graphs attn,moe_router,moe_preprocess", NULL},
    {"graph of all", ON8 GPT "--cuda-graph-impl local --cuda-graph-scope full_iteration",
     "execution graph", NULL},
    {"local", ON8 GPT "--transformer-impl local", "attention standard", NULL},
    {"local flash", ON8 GPT "--transformer-impl local --use-flash-attn", "attention flash", NULL},
    {"slurm",
     "#SBATCH -N 2\n#SBATCH --gres=gpu:h100:8\nsrun torchrun --nnodes $SLURM_NNODES x.py " GPT,
     "devices 16", NULL},
    {"tasks", "#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=8\nsrun python x.py " GPT, "devices 24",
     NULL},
    {"context",
     ON8 LLAMA "--context-parallel-size 2 --fp8-format hybrid --fp8-amax-history-len 1024 "
               "--tensor-model-parallel-size 2",
     "cp 2 cp_form ring tp 2 precision fp8 fp8_recipe delayed", NULL},
    {"scales of blocks",
     ON8 GPT "--fp8-format e4m3 --fp8-recipe mxfp8 --first-last-layers-bf16 "
             "--num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 2 "
             "--activation-func-fp8-input-store",
     "precision fp8 fp8_recipe mxfp8 bf16_layers 2 act_precision fp8", NULL},
    {"ends in 16 bit",
     ON8 GPT "--fp8-format hybrid --fp8-recipe tensorwise --first-last-layers-bf16 "
             "--num-layers-at-start-in-bf16 3",
     "precision fp8 fp8_recipe current bf16_first_layers 3 bf16_layers 1", NULL},
    {"four bits", ON8 GPT "--fp4-format e2m1 --fp4-recipe nvfp4", "precision nvfp4", NULL},
    {"context of heads", ON8 LLAMA "--context-parallel-size 2 --cp-comm-type a2a",
     "cp 2 cp_form all-to-all", NULL},
    {"modules",
     ON8 GPT "--recompute-granularity selective --recompute-modules layernorm mlp "
             "--overlap-grad-reduce",
     "recompute selective recompute_modules layernorm,mlp overlap grad", NULL},
    {"core alone", ON8 GPT "--recompute-granularity selective --recompute-modules core_attn",
     "recompute selective recompute_modules none", NULL},
    {"mixtral", ON8 MOE A2A "--expert-model-parallel-size 8 --moe-router-dtype fp32",
     "ep 8 etp 1 imbalance 0 mtp off", "\"model_type\":\"mixtral\""},
    {"qwen3",
     ON8 MOE A2A "--expert-model-parallel-size 4 --tensor-model-parallel-size 2 "
                 "--sequence-parallel --qk-layernorm --moe-layer-freq '([0]*1+[1]*7)' "
                 "--expert-tensor-parallel-size 1 --overlap-moe-expert-parallel-comm "
                 "--moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity",
     "ep 4 etp 1 tp 2 imbalance 1.25 overlap ep", "\"mlp_only_layers\":[0]}"},
    {"every second", ON8 MOE "--qk-layernorm --moe-layer-freq 2", "ep 1 etp 1",
     "\"mlp_only_layers\":[1,3,5,7]}"},
    {"sums in sums",
     ON8 MOE "--qk-layernorm --moe-layer-freq '(([1] + [0])*2+[1, 0 ])*0+(([0]+[1]*3))*2'",
     "ep 1 etp 1", "\"mlp_only_layers\":[0,4]}"},
    {"etp as tp", ON8 MOE "--tensor-model-parallel-size 4 --sequence-parallel", "ep 1 etp 4", NULL},
    {"deepseek",
     ON8 MLA A2A "--moe-layer-freq '[0]*3 + [1]*5' --expert-model-parallel-size 8 "
                 "--mtp-num-layers 1 --moe-layer-recompute",
     "ep 8 mtp on recompute selective recompute_modules moe,core_attn",
     "\"first_k_dense_replace\":3,\"n_group\":1"},
    {"deepseek again",
     ON8 MLA "--moe-router-num-groups 4 --moe-router-group-topk 2 --num-experts 32", "ep 1",
     "\"n_routed_experts\":32,\"n_shared_experts\":2"},
    {"dense qwen3", ON8 LLAMA "--disable-bias-linear --qk-layernorm", "ep 1 etp 1",
     "\"model_type\":\"qwen3\""},
    {"neutral", ON8 GPT "--context-parallel-size 1 --expert-model-parallel-size 1 --optimizer adam",
     "tp 1", NULL},
    {"the last counts", ON8 GPT "--tensor-model-parallel-size 2 --tensor-model-parallel-size 4",
     "tp 4", NULL},
};

struct run_request {
  const char *name, *text;
  const struct pz_run_plan_options *options;
  struct pz_run_plan *run;
};

static void read_megatron(struct pz_call *call, void *ctx) {
  const struct run_request *x = ctx;
  struct pz_call results = pz_call_in(call, &arena);
  pz_megatron_read(&results, x->name, x->text, strlen(x->text), x->options, x->run);
}

static enum pz_status read_text(const char *name, const char *text,
                                const struct pz_run_plan_options *o, struct pz_run_plan *m,
                                struct pz_error *err) {
  static const struct pz_run_plan_options none = {.vocab = 0};
  struct run_request x = {name, text, o ? o : &none, m};
  return pz_border(read_megatron, &x, err);
}

/* Fields of the plan, then those beside it. */
static const char *run_field_name(int f) {
  static const char *const beside[] = {"model", "chip", "cluster"};
  return f < PZ_PLAN_FIELDS ? pz_plan_field((enum pz_plan_field)f)->name
                            : beside[f - PZ_PLAN_FIELDS];
}

static const char *run_field_text(const struct pz_run_plan *r, int f, char *buf, size_t size) {
  const char *const beside[] = {r->model, r->chip, r->cluster};
  if (f < PZ_PLAN_FIELDS) return pz_plan_field_text(&r->plan, (enum pz_plan_field)f, buf, size);
  const char *text = beside[f - PZ_PLAN_FIELDS];
  snprintf(buf, size, "%s", text ? text : "-");
  return buf;
}

static int field_of(const char *name) {
  for (int f = 0; f < PZ_RUN_FIELDS; f++)
    if (strcmp(run_field_name(f), name) == 0) return f;
  fail_msg("no field %s", name);
  return PZ_RUN_FIELDS;
}

static void expect_fields(const char *name, const struct pz_run_plan *r, const char *fields) {
  char field[40], value[40], got[64];
  int n;
  for (; sscanf(fields, "%39s %39s%n", field, value, &n) == 2; fields += n) {
    run_field_text(r, field_of(field), got, sizeof got);
    if (strcmp(got, value) != 0) fail_msg("%s: %s is %s, not %s", name, field, got, value);
  }
}

static void arguments_are_read(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    const struct example *e = &examples[i];
    struct pz_run_plan m;
    struct pz_error err = {0};
    if (read_text(e->name, e->text, NULL, &m, &err) != PZ_OK) fail_msg("%s", err.message);
    expect_fields(e->name, &m, e->fields);
    if (e->config && !strstr(m.config, e->config))
      fail_msg("%s: no %s in %s", e->name, e->config, m.config);
    /* what was read can be a model */
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_workload *w = NULL;
    o.seq = 64;
    if (pz_workload_parse(e->name, m.config, strlen(m.config), &o, &w, &err) != PZ_OK)
      fail_msg("%s", err.message);
    pz_workload_free(w);
  }
}

static void wrong_arguments_are_told(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "x: no --num-layers"},
      {"hello world", "x: no --num-layers"},
      {ON8 "--num-layers", "x:1: --num-layers without a value"},
      {ON8 "--num-layers 0", "accepted: an integer from 1 to 2^26"},
      {ON8 "--num-layers 1e3", "accepted: an integer"},
      {ON8 "--num-layers -3", "accepted: an integer"},
      {ON8 "--num-layers 99999999999999999999", "accepted: an integer"},
      {ON8 "--num-layers $LAYERS", "$LAYERS has no value in the text; accepted: --set NAME=VALUE"},
      {ON8 "--num-layers --hidden-size 3", "without a value"},
      {GPT, "the number of devices is not stated"},
      {"torchrun --nnodes $N --nproc_per_node 8 " GPT, "$N has no value"},
      {"torchrun --nnodes 1:4 --nproc_per_node 8 " GPT, "--nnodes 1:4; accepted: an integer"},
      {ON8 GPT "\n--window-size 8,0", "x:2: --window-size is not covered: attention over a window; "
                                      "accepted: the run without it (--ignore window-size)"},
      {ON8 GPT "--num-experts 8", "experts in a model with biases is not covered"},
      {ON8 GPT "--moe-latent-size 2", "--moe-latent-size is not covered: this choice for experts"},
      {ON8 GPT "--expert-model-parallel-size 2", "accepted: 1, or with it --num-experts"},
      {ON8 MOE "--expert-model-parallel-size 4", "allgather, is not covered"},
      {ON8 MOE A2A "--expert-model-parallel-size 3", "a number that divides the experts"},
      {ON8 MOE "--expert-model-parallel-size 4 --moe-token-dispatcher-type allgather",
       "accepted: alltoall or flex"},
      {ON8 MOE A2A "--expert-model-parallel-size 4 --overlap-moe-expert-parallel-comm "
                   "--recompute-granularity full --recompute-method uniform",
       "no recomputation of whole layers"},
      {ON8 MOE "--tensor-model-parallel-size 2", "with it --sequence-parallel"},
      {ON8 MOE "--moe-shared-expert-intermediate-size 64", "with it --multi-latent-attention"},
      {ON8 MOE "--moe-shared-expert-overlap", "shared experts beside the dispatch"},
      {ON8 MOE "--moe-layer-freq 2", "experts in every layer, or --qk-layernorm"},
      {ON8 MOE "--moe-layer-freq [0]*3+[1]*9", "a list with 0 or 1 for each layer"},
      {ON8 MOE "--moe-layer-freq [0]*3+(1)*5", "a list with 0 or 1 for each layer"},
      {ON8 MOE "--moe-layer-freq [1]*99999999", "a list with 0 or 1 for each layer"},
      {ON8 MOE "--moe-expert-capacity-factor 0.5", "accepted: a number from 1"},
      {ON8 MOE "--mtp-num-layers 1", "without --multi-latent-attention is not covered"},
      {ON8 MLA "--moe-layer-freq [1,0]*4", "dense layers at the start alone"},
      {ON8 NARROW "--num-experts 8 --multi-latent-attention --kv-lora-rank 8 --qk-layernorm "
                  "--moe-shared-expert-intermediate-size 64",
       "no --ffn-hidden-size among the arguments, and its default"},
      {ON8 NARROW, "no --ffn-hidden-size among the arguments, and its default"},
      {ON8 LLAMA "--multi-latent-attention --disable-bias-linear", "without --num-experts"},
      {ON8 GPT "--hierarchical-context-parallel-sizes 2 2", "is not covered: context parallelism"},
      {ON8 GPT "--context-parallel-size 2 --cp-comm-type all_gather", "accepted: p2p or a2a"},
      {ON8 GPT "--squared-relu",
       "--squared-relu is not covered: the activation function squared ReLU"},
      {ON8 GPT "--mamba-num-heads 8", "state-space layers without --hybrid-layer-pattern"},
      {ON8 GPT "--attention-output-gate", "a gate of attention's result"},
      {ON8 GPT "--spec my.module", "--spec my.module is not covered: a model of its own"},
      {ON8 GPT "--hybrid-layer-pattern MX", "accepted: a letter M, *, E or - for each layer"},
      {ON8 GPT "--hybrid-layer-pattern 'M*/*E/M'", "one and the same layer that predicts"},
      {ON8 GPT "--hybrid-layer-pattern M*", "accepted: as many layers as --num-layers"},
      {ON8 LLAMA "--experimental-attention-variant gated_delta_net",
       "accepted: gated_delta_net with --qk-layernorm"},
      {ON8 GPT "--fp8-format e5m2", "accepted: hybrid or e4m3"},
      {ON8 GPT "--fp8-format hybrid --fp8-recipe custom", "tensorwise, blockwise or mxfp8"},
      {ON8 GPT "--fp4-format e2m1 --fp4-recipe mxfp4", "accepted: nvfp4"},
      {ON8 GPT "--fp8-param-gather", "this choice of 8-bit precision"},
      {ON8 GPT "--multi-latent-attention", "latent attention in a model with biases"},
      {ON8 GPT "--optimizer sgd", "--optimizer sgd is not covered: optimizers other than adam"},
      {ON8 GPT "--recompute-granularity full", "--recompute-method uniform or block"},
      {ON8 GPT "--recompute-granularity some", "accepted: full or selective"},
      {ON8 GPT "--recompute-granularity selective --recompute-modules mlp attn",
       "--recompute-modules mlp attn; accepted: layernorm, moe_act"},
      {ON8 GPT "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
       "units of several layers"},
      {ON8 GPT "--pipeline-model-parallel-size 5", "a number that divides the layers"},
      {ON8 GPT "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4",
       "divides the layers of a stage"},
      {ON8 GPT "--overlap-param-gather", "with it --overlap-grad-reduce"},
      {ON8 GPT "--tensor-model-parallel-size 2 --tp-comm-overlap", "with it --sequence-parallel"},
      /* words that can only be meant for an argument */
      {ON8 GPT "-tp 8", "x:1: '-tp' is no argument; did you mean --tensor-model-parallel-size? "
                        "(--ignore tp leaves it out)"},
      {ON8 GPT "--tp=8", "'--tp' is no argument; did you mean --tensor-model-parallel-size?"},
      {ON8 GPT "-tensor-model-parallel-size 8", "did you mean --tensor-model-parallel-size?"},
      {ON8 GPT "\xe2\x80\x93tensor-model-parallel-size 8", "mean --tensor-model-parallel-size?"},
      {"A=(\xe2\x80\x94seq-length 8)\n" ON8 GPT, "x:1: '\xe2\x80\x94seq-length' is no argument"},
      {ON8 GPT "-\xe2\x88\x92seq-length 8", "did you mean --seq-length?"},
      {ON8 GPT "tensor-model-parallel-size 8", "did you mean --tensor-model-parallel-size?"},
      {ON8 GPT "--swiglu bf16", "'bf16' is no argument; did you mean --bf16?"},
      {ON8 GPT "--tensor-modle-parallel-size 8", "did you mean --tensor-model-parallel-size?"},
      {ON8 GPT "--tensor_model_paralel_size 8", "did you mean --tensor-model-parallel-size?"},
      {ON8 GPT "--pipeline-parallel-size 2", "did you mean --pipeline-model-parallel-size?"},
      {ON8 GPT "--data-parallel-sharding-stratgy optim", "--data-parallel-sharding-strategy?"},
      {ON8 GPT "--windw-size 8,0", "did you mean --window-size?"},
      {ON8 "model.tensor_modle_parallel_size=8\n" GPT, "mean --tensor-model-parallel-size?"},
      /* what Megatron-LM refuses */
      {ON8 GPT "--fp16", "x:1: --fp16; accepted: --fp16 or --bf16, not both"},
      {ON8 GPT "--fp4-format e2m1 --fp8-format hybrid", "--fp4-format or --fp8-format, not both"},
      {ON8 GPT "--seq-length 4096",
       "--max-position-embeddings 2048; accepted: at least --seq-length (4096)"},
      {ON8 GPT "--recompute-granularity selective --recompute-method uniform",
       "accepted: with it --recompute-granularity full, not selective"},
      {ON8 GPT "--recompute-activations --recompute-num-layers 2", "full, not selective"},
      {ON8 GPT "--recompute-granularity full --recompute-method block --recompute-num-layers 13 "
               "--pipeline-model-parallel-size 2",
       "--recompute-num-layers 13; accepted: at most the layers of a pipeline stage (12)"},
      {ON8 GPT "--num-layers-per-virtual-pipeline-stage 2",
       "with it --pipeline-model-parallel-size above 1"},
      {ON8 LLAMA "--use-torch-fsdp2 --pipeline-model-parallel-size 4", "one pipeline stage"},
      {ON8 LLAMA "--use-torch-fsdp2 --use-distributed-optimizer", "no --use-distributed-optimizer"},
      {ON8 GPT "--use-torch-fsdp2", "x:1: --use-torch-fsdp2; accepted: with it --untie-embeddings"},
      {ON8 MLA "--group-query-attention", "or --multi-latent-attention, not both"},
      {ON8 GPT "--overlap-param-gather --use-distributed-optimizer",
       "x:1: --overlap-param-gather; accepted: with it --overlap-grad-reduce"},
      {ON8 GPT "--swiglu", "swiglu, LayerNorm and learned positions is not covered"},
      {ON8 GPT "--normalization BatchNorm", "accepted: LayerNorm or RMSNorm"},
      {ON8 GPT "--position-embedding-type alibi", "accepted: learned_absolute or rope"},
      {ON8 GPT "--group-query-attention --num-query-groups 4", "with gelu is not covered"},
      {ON8 GPT "--hidden-dropout 1.5", "accepted: a number from 0"},
      {ON8 "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
           "--micro-batch-size 1 --vocab-size 9",
       "neither --bf16 nor --fp16"},
      {ON8 "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
           "--micro-batch-size 1 --bf16",
       "the size of the vocabulary is not stated"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_run_plan m;
    struct pz_error err = {0};
    if (read_text("x", cases[i].text, NULL, &m, &err) == PZ_OK)
      fail_msg("%s: was read", cases[i].text);
    if (!strstr(err.message, cases[i].message)) fail_msg("%s: %s", cases[i].text, err.message);
  }
}

static void options_fill_gaps(void **state) {
  (void)state;
  static const char *const set[] = {"LAYERS=12", NULL};
  struct pz_run_plan_options o = {.vocab = 1000, .devices = 4, .set = set};
  struct pz_run_plan m;
  struct pz_error err = {0};
  const char *text = "LAYERS=6\n--num-layers $LAYERS --hidden-size 64 --num-attention-heads 4 "
                     "--seq-length 64 --micro-batch-size 1 --bf16 --unheard-of 3 --lr 1 "
                     "--unheard-of 4 --seq-length 128";
  assert_int_equal(read_text("x", text, &o, &m, &err), PZ_OK);
  assert_int_equal(m.layers, 12);
  assert_int_equal(m.vocab, 1000); /* padded where it is priced */
  assert_int_equal(m.plan.devices, 4);
  assert_int_equal(m.n_ignored, 1);
  assert_string_equal(m.ignored[0], "unheard-of");
  assert_int_equal(m.n_notes, 1);
  assert_non_null(strstr(m.notes[0], "the last counts"));
  static const char *const ignore[] = {"--num-experts", "moe-*", NULL};
  const char *experts =
      ON8 GPT "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 1";
  struct pz_run_plan_options leave = {.ignore = ignore};
  assert_int_equal(read_text("x", experts, &leave, &m, &err), PZ_OK);
  assert_true(m.n_ignored == 0 && m.n_notes == 2);
  static const char *const wrong[] = {"3=4", NULL};
  o.set = wrong;
  assert_int_equal(read_text("x", text, &o, &m, &err), PZ_BAD_USE);
}

/* Words among the arguments that mean nothing known are told, those of other commands and values are not; a name can be left
 * out. */
static void strays_are_told(void **state) {
  (void)state;
  static const struct {
    const char *text, *notes; /* with bars between them */
  } cases[] = {
      {ON8 GPT "stray -x 3 --unheard-of a b -2 2>&1", "line 1: 'stray' is not understood|"
                                                      "line 1: '-x' is not understood|"},
      {"mkdir -p a; head -n 1 b | tail -c 3\nsrun -N 1 -l " ON8 GPT " # -tp 8\necho tp -tp", ""},
      {ON8 GPT "--lr 1e-4 --data-path 0.5 a 0.5 b --rampup-batch-size 8 8 100 $MORE \"$@\"",
       "--rampup-batch-size: the prediction is of the full global batch size|"},
      {"python -u -m torch.distributed.launch --nproc_per_node 8 -x y x.py -z " GPT,
       "line 1: '-z' is not understood|"},
      {ON8 GPT "--transformer-type megatron --patch-size 14", ""}, /* of forks of Megatron-LM */
      {ON8 GPT "--sequence-parallel",
       "--sequence-parallel has no effect without --tensor-model-parallel-size above 1|"},
      {ON8 GPT "--recompute-method uniform",
       "--recompute-method and --recompute-num-layers have no "
       "effect without --recompute-granularity|"},
      {"[ -f x ] && A=\"--seq-length 2048\"\n" ON8 GPT,
       "arguments in line 1 count, though the text does not decide whether they are run|"},
      {"[ -f x ] && A=\"--seq-length 2048 --bf16\n --bf16\"\n[ -f x ] || A+=\" --bf16\"\n" ON8 GPT,
       "arguments in lines 1, 2, 3 count, though the text does not decide whether they are run|"},
      {"X=0\nif [ $X = 1 ]; then A+=\" --tensor-model-parallel-size 8\"; fi\n" ON8 GPT, ""},
  };
  struct pz_run_plan m;
  struct pz_error err = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char notes[600] = "";
    if (read_text("x", cases[i].text, NULL, &m, &err) != PZ_OK) fail_msg("%s", err.message);
    for (uint32_t k = 0; k < m.n_notes; k++) {
      size_t n = strlen(notes);
      snprintf(notes + n, sizeof notes - n, "%s|", m.notes[k]);
    }
    assert_string_equal(notes, cases[i].notes);
    assert_int_equal(m.plan.tp, 1);
  }
  static const char *const ignore[] = {"tp", "tensor-modle-parallel-size", NULL};
  const struct pz_run_plan_options leave = {.ignore = ignore};
  const char *both = ON8 GPT "-tp 8 --tensor-modle-parallel-size 8";
  assert_int_equal(read_text("x", both, &leave, &m, &err), PZ_OK);
  assert_int_equal(m.plan.tp, 1);
}

/* ---- DeepSpeed's configuration -------------------------------------------------------------- */

#define DEEP(stage)                                                                                \
  ON8 LLAMA                                                                                        \
      "--global-batch-size 64 --deepspeed --deepspeed_config ds.json --no-pipeline-parallel "      \
      "--zero-stage " #stage "\n"
#define CONFIG(text) "cat > ds.json <<'EOF'\n{" text "}\nEOF\n"
#define ZERO3(text) DEEP(3) CONFIG("\"zero_optimization\": {\"stage\": 3" text "}")

/* Without values as DeepSpeed's runtime/zero/config.py has them. */
static void deepspeed_configurations_are_read(void **state) {
  (void)state;
  static const struct {
    const char *text, *fields; /* or the message */
    bool wrong;
  } cases[] = {
      {ZERO3(""), "zero 3 overlap grad,param", false},
      {DEEP(3), "zero 3 overlap grad,param", false}, /* the configuration is elsewhere */
      {DEEP(2), "zero 2 overlap none", false},
      {DEEP(3) CONFIG("\"train_batch_size\": 64"), "overlap grad,param", false},
      {ZERO3(", \"overlap_comm\": false"), "overlap none", false},
      {ZERO3(", \"stage3_prefetch_bucket_size\": 0"), "overlap grad", false},
      {ZERO3(", \"stage3_prefetch_bucket_size\": 5e7"), "overlap grad,param", false},
      {DEEP(2) CONFIG("\"zero_optimization\": {\"overlap_comm\": true}"), "overlap grad", false},
      {ZERO3(", \"offload_optimizer\": {\"device\": \"cpu\"}"), "offload optimizer", false},
      {ZERO3(", \"offload_optimizer\": {\"device\": \"none\"}"), "offload none", false},
      {ZERO3(", \"offload_param\": {\"device\": \"none\"}, \"mics_shard_size\": -1, "
             "\"zero_hpz_partition_size\": 1, \"zero_quantized_weights\": false"),
       "zero 3", false},
      {ZERO3(", \"offload_param\": {\"device\": \"cpu\"}"),
       "x:3: DeepSpeed's configuration: zero_optimization.offload_param is not covered; accepted: "
       "the run without it (--ignore offload_param)",
       true},
      {ZERO3(", \"offload_optimizer\": {\"device\": \"nvme\"}"), "'nvme'; accepted: cpu or none",
       true},
      {ZERO3(", \"zero_hpz_partition_size\": 8"), "zero_hpz_partition_size is not covered", true},
      {ZERO3(", \"overlap_com\": false"),
       "zero_optimization.overlap_com is no key; did you mean overlap_comm?", true},
      {DEEP(3) CONFIG("\"zero_optimizaton\": {}"), "did you mean zero_optimization?", true},
      {DEEP(3) CONFIG("\"train_batch_size\": 32"),
       "train_batch_size is 32; accepted: 64, as --global-batch-size", true},
      {DEEP(2) CONFIG("\"zero_optimization\": {\"stage\": 3}"), "accepted: 2, as --zero-stage",
       true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_run_plan m;
    struct pz_error err = {0};
    bool read = read_text("x", cases[i].text, NULL, &m, &err) == PZ_OK;
    if (read == cases[i].wrong) fail_msg("%s: %s", cases[i].text, err.message);
    if (!read && !strstr(err.message, cases[i].fields)) fail_msg("%s", err.message);
    if (!read) continue;
    expect_fields(cases[i].text, &m, cases[i].fields);
    assert_int_equal(m.n_ignored, 0);
  }
}

/* ---- torchtitan's configuration ------------------------------------------------------------- */

#define JOB "[job]\ndescription = \"a # in a text\"\n\n"
#define LLAMA8 "[model]\nname = \"llama3\"\nflavor = '8B'  # of the package\n"
#define BATCH "[training]\nlocal_batch_size = 2\nseq_len = 8_192\nsteps = 1_000\n"

static enum pz_status read_toml(const char *text, int64_t devices, struct pz_run_plan **r,
                                struct pz_error *err) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  o.devices = devices;
  return pz_run_plan_read("job.toml", text, strlen(text), &o, r, err);
}

static void job_configurations_are_read(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t devices;
    const char *model, *fields;
  } cases[] = {
      {JOB LLAMA8 BATCH "[parallelism]\ndata_parallel_shard_degree = -1\n", 64, "llama3.1-8b",
       "tp 1 pp 1 cp 1 ep 1 dp 64 mbs 2 batch 128 seq 8192 zero 3 shard 64 recompute half "
       "execution "
       "eager precision bf16 overlap grad,param"},
      {LLAMA8 "[training]\nlocal_batch_size = 8\n[parallelism]\ntensor_parallel_degree = "
              "2\npipeline_parallel_degree = 4\n"
              "data_parallel_shard_degree = 8\ndata_parallel_replicate_degree = 2\n"
              "context_parallel_degree = 2\npipeline_parallel_schedule = "
              "\"Interleaved1F1B\"\n[activation_checkpoint]\nmode = 'full'\n",
       0, "llama3.1-8b",
       "devices 256 tp 2 sp on pp 4 vpp 2 cp 2 dp 16 zero 2 shard 16 mbs 1 batch 128 recompute "
       "full "
       "pipeline interleaved"},
      /* before 0.2: other names of the batch, of compiling and of 8-bit precision */
      {"[model]\nname = \"llama3\"\nflavor = \"405B\"\nconverters = \"float8\"\n[training]\n"
       "batch_size = 2\nseq_len = 8192\ncompile = true\n[parallelism]\n"
       "tensor_parallel_degree = 8\nenable_async_tensor_parallel = true\n[float8]\n"
       "filter_fqns = \"output\"\n",
       128, "llama3.1-405b",
       "tp 8 dp 16 batch 32 mbs 2 zero 3 precision fp8 execution compile overlap grad,param,tp"},
      {"[model]\nname = \"deepseek_v3\"\nflavor = \"671B\"\n" BATCH
       "global_batch_size = 1024\n[parallelism]\nexpert_parallel_degree = 32\n"
       "fsdp_reshard_after_forward = \"never\"\n[compile]\nenable=true\ncomponents = "
       "[\"loss\"]\n[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = 'op'\n",
       256, "deepseek-v3", "ep 32 dp 256 batch 1024 zero 2 recompute alternate execution eager"},
      {LLAMA8 BATCH "[parallelism]\npipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [\n"
                    "  [\"tok_embeddings\", \"layers.0\"], # one\n  [\"layers.1\", \"layers.2\", "
                    "\"norm\", \"output\"],\n]\n",
       2, "llama3.1-8b", "pp 2 vpp 1 first_layers 1 last_layers 2 zero 2 mbs 1 batch 2"},
      {"\xef\xbb\xbf[model]\n", 2, NULL, "accepted: [table], or key = value"},
      {JOB, 8, NULL, "no model.name and model.flavor"},
      {"[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n", 8, NULL,
       "job.toml:3: model.flavor is debugmodel; accepted: with model.name: llama3 8B"},
      {LLAMA8 BATCH, 0, NULL, "the number of devices is not stated; accepted: --devices N"},
      {LLAMA8 "[parallelism]\ntensor_parallel_degree = 3\n", 8, NULL,
       "accepted: parallelism degrees with as many"},
      {LLAMA8 "[parallelism]\ntensor_parallel_degree = \"8\"\n", 8, NULL,
       "job.toml:5: parallelism.tensor_parallel_degree is 8; accepted: an integer from 1"},
      {LLAMA8 "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
              "\"LoopedBFS\"\n",
       8, NULL, "accepted: 1F1B, Interleaved1F1B"},
      {LLAMA8 "[training]\nenable_cpu_offload = true\n", 8, NULL,
       "not covered: parameters and optimizer on the host (--ignore training.enable_cpu_offload"},
      {LLAMA8 "[optimizer]\nname = \"Muon\"\n", 8, NULL, "accepted: AdamW or Adam"},
      {LLAMA8 "[activation_checkpoint]\nselective_ac_option = \"3\"\n", 8, NULL,
       "accepted: op or 2"},
      {LLAMA8 BATCH "[training]\ndataset = \"c4\"\n", 8, NULL,
       "job.toml:8: training stands in line 4 already; accepted: once"},
      {LLAMA8 BATCH "seq_len = 4096\n", 8, NULL,
       "job.toml:8: training.seq_len stands in line 6 already; accepted: once"},
      {LLAMA8 "[[x]]\ny = 1\n[[x]]\ny = 2\n[x.z]\ny = 1\n[parallelism]\n"
              "tensor_parallel_degre = 2\n",
       8, NULL,
       "job.toml:11: parallelism.tensor_parallel_degre is no key; did you mean "
       "parallelism.tensor_parallel_degree? (--ignore parallelism.tensor_parallel_degre leaves"},
      {LLAMA8 "[paralelism]\npipeline_parallel_degree = 2\n", 8, NULL,
       "did you mean parallelism.pipeline_parallel_degree?"},
      {LLAMA8 "[training]\ntensor_parallel_degree = 2\n", 8, NULL,
       "did you mean parallelism.tensor_parallel_degree?"},
      {LLAMA8 "[optimizer]\nnmae = \"Muon\"\n", 8, NULL, "did you mean optimizer.name?"},
      {"cat > job.toml <<'EOF'\n" LLAMA8 BATCH "EOF\ntorchrun --nproc_per_node 8 x.py "
       "--job.config_file job.toml --metrics.log_freq 1\n",
       0, "llama3.1-8b", "devices 8 mbs 2"},
      {"cat > job.toml <<'EOF'\n" LLAMA8 BATCH "EOF\ntorchrun --nproc_per_node 8 x.py "
       "--job.config_file job.toml --training.seq_len=4096\n",
       0, NULL, "job.toml: --training.seq_len behind the configuration; accepted: the key in it"},
      {LLAMA8 "x = [1, [2, 3]\n", 8, NULL, "an array is not closed"},
      {LLAMA8 "x = \"a\ny = 1\n", 8, NULL, "job.toml:4: a quote is not closed"},
      {LLAMA8 "[table\n", 8, NULL, "a table is not closed"},
      {LLAMA8 "x\n", 8, NULL, "job.toml:4: accepted: [table], or key = value"},
      {LLAMA8 "x = [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n", 8, NULL, "arrays in each other"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_run_plan *r = NULL;
    struct pz_error err = {0};
    bool read = read_toml(cases[i].text, cases[i].devices, &r, &err) == PZ_OK;
    if (read != (cases[i].model != NULL)) fail_msg("%s: %s", cases[i].text, err.message);
    if (!read && !strstr(err.message, cases[i].fields))
      fail_msg("%s: %s", cases[i].text, err.message);
    if (!read) continue;
    assert_string_equal(r->model, cases[i].model);
    if (try_fill_plan(&r->plan, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
    expect_fields(cases[i].text, r, cases[i].fields);
    assert_int_equal(r->n_ignored, 0);
    pz_run_plan_free(r);
  }
}

/* Keys that are not known are listed, and those that are to be left out are. */
static void other_keys_are_named(void **state) {
  (void)state;
  static const char text[] = LLAMA8 BATCH "tempo = 3\nenable_cpu_offload = true\n";
  static const char *const ignore[] = {"training.enable_cpu_offload", NULL};
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_run_plan *r = NULL;
  struct pz_error err = {0};
  o.devices = 8;
  o.ignore = ignore;
  assert_int_equal(pz_run_plan_read("job", text, strlen(text), &o, &r, &err), PZ_OK);
  assert_int_equal(r->n_ignored, 1);
  assert_string_equal(r->ignored[0], "training.tempo");
  assert_int_equal(r->n_notes, 1);
  pz_run_plan_free(r);
}

/* ---- plan files ----------------------------------------------------------------------------- */

static void read_back(const struct pz_run_plan *r, struct pz_run_plan *out) {
  struct pz_error err = {0};
  char *text = NULL;
  json_t *j = pz_run_plan_json(r);
  assert_int_equal(pz_json_text(j, &text, &err), PZ_OK);
  if (try_read_plan_file("plan", text, strlen(text), &arena, out, &err) != PZ_OK)
    fail_msg("%s\n%s", err.message, text);
  json_decref(j);
  pz_free(text);
}

static void expect_same(const struct pz_run_plan *a, const struct pz_run_plan *b) {
  char x[200], y[200];
  for (int f = 0; f < PZ_RUN_FIELDS; f++)
    if (f >= PZ_PLAN_FIELDS || pz_plan_field_is_relevant(&a->plan, (enum pz_plan_field)f))
      assert_string_equal(run_field_text(a, f, x, sizeof x), run_field_text(b, f, y, sizeof y));
  assert_true(!a->config == !b->config);
  assert_int_equal(a->plan.sp, b->plan.sp);
}

/* Every run of the examples, before and after it is filled in. */
static void plans_are_read_back(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    struct pz_run_plan m;
    struct pz_run_plan back;
    struct pz_error err = {0};
    assert_int_equal(read_text("x", examples[i].text, NULL, &m, &err), PZ_OK);
    read_back(&m, &back);
    expect_same(&m, &back);
    if (try_fill_plan(&m.plan, NULL, &err) != PZ_OK)
      fail_msg("%s: %s", examples[i].name, err.message);
    read_back(&m, &back);
    expect_same(&m, &back);
    assert_int_equal(try_fill_plan(&back.plan, NULL, &err), PZ_OK);
    expect_same(&m, &back);
  }
}

/* What 'phaze tune --json' prints is a plan file by its run. */
static void tuned_runs_are_plan_files(void **state) {
  (void)state;
  static const char text[] = "{\"run\": {\"model\": \"gpt2\", \"chip\": \"h100\", \"devices\": 16, "
                             "\"tp\": 2, \"batch\": 64},"
                             " \"from\": {\"tp\": \"given\"}, \"prediction\": {\"step_s\": 1}}";
  struct pz_run_plan r;
  struct pz_error err = {0};
  assert_int_equal(try_read_plan_file("plan", text, strlen(text), &arena, &r, &err), PZ_OK);
  expect_fields("tuned", &r, "model gpt2 chip h100 devices 16 tp 2 batch 64");
  assert_int_equal(try_read_plan_file("plan", "{\"run\": 3}", 10, &arena, &r, &err), PZ_BAD_INPUT);
}

static void wrong_plans_are_told(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{", "not valid JSON"},
      {"{}", "no model"},
      {"{\"model\": 3}", "plan: model"},
      {"{\"model\": \"gpt2\", \"tb\": 3}", "unknown field 'tb'"},
      {"{\"model\": \"gpt2\", \"tp\": \"two\"}", "plan: tp"},
      {"{\"model\": \"gpt2\", \"zero\": 99999999999}", "plan: zero"},
      {"{\"model\": \"gpt2\", \"tp\": 2.5}", "plan: tp"},
      {"{\"model\": \"gpt2\", \"sp\": 1}", "accepted: true or false"},
      {"{\"model\": \"gpt2\", \"config\": \"x\"}", "accepted: an object"},
      {"{\"model\": \"gpt2\", \"recompute\": \"most\"}",
       "recompute is 'most'; accepted: none, sel"},
      {"{\"model\": \"gpt2\", \"overlap\": \"grad,none\"}",
       "overlap is 'none'; accepted: none, all, or a list"},
      {"{\"model\": \"gpt2\", \"plan\": 3}", "plan is an integer"},
      {"{\"model\": \"gpt2\", \"plan\": {\"model\": \"x\", \"foo\": 1}}", "unknown field 'foo'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_run_plan r;
    struct pz_error err = {0};
    if (try_read_plan_file("plan", cases[i].text, strlen(cases[i].text), &arena, &r, &err) == PZ_OK)
      fail_msg("%s: was read", cases[i].text);
    if (!strstr(err.message, cases[i].message)) fail_msg("%s: %s", cases[i].text, err.message);
  }
}

/* ---- what is found -------------------------------------------------------------------------- */

static struct pz_plan_tuning *tune(const struct pz_run_plan *m, const char *chip_name,
                                   const char *net_name) {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_error err = {0};
  struct pz_tune_options o = pz_tune_options_default();
  struct pz_plan_tuning *out = NULL;
  o.threads = 1;
  assert_int_equal(pz_test_chip_read(chip_name, &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load(net_name, &net, &err), PZ_OK);
  if (pz_plan_tune(m, &chip, &net, &o, &out, &err) != PZ_OK) fail_msg("%s", err.message);
  return out;
}

static double price(const struct pz_run_plan *m, const struct pz_plan *plan, const char *chip_name,
                    const char *net_name) {
  struct pz_job job = {.model = m->model, .config = m->config};
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_prediction p;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read(chip_name, &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load(net_name, &net, &err), PZ_OK);
  job.chip = &chip;
  job.net = &net;
  if (try_predict(&job, plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
  return p.step_s;
}

/* Changes are sorted, fit, keep devices and batch, are priced as predict prices them, and say what to change; no best
 * plan is slower than a single change within the same memory and the same overlaps. */
static void changes_are_sound(void **state) {
  (void)state;
  static const char *const texts[] = {
      ON8 GPT "--global-batch-size 64 --recompute-granularity full --recompute-method uniform",
      ON8 LLAMA
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --global-batch-size 32 "
      "--transformer-impl local",
      ON8 LLAMA "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4 "
                "--global-batch-size 32 --use-distributed-optimizer --overlap-grad-reduce"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct pz_run_plan m;
    struct pz_plan_tuning *t;
    struct pz_error err = {0};
    if (read_text("x", texts[i], NULL, &m, &err) != PZ_OK) fail_msg("%s", err.message);
    assert_int_equal(try_fill_plan(&m.plan, NULL, &err), PZ_OK);
    t = tune(&m, "a100-80", "dgx-a100");
    assert_true(t->n_changes > 0 && t->has_best && t->n_tried >= t->n_changes);
    for (uint32_t k = 0; k < t->n_changes; k++) {
      const struct pz_plan_change *c = &t->changes[k];
      assert_true(k == 0 || c->p.step_s >= t->changes[k - 1].p.step_s);
      assert_true(c->p.step_s < t->own.p.step_s && c->p.needed_bytes <= t->limit_bytes);
      assert_true(c->plan.devices == m.plan.devices && c->plan.batch == m.plan.batch);
      assert_true(c->field < PZ_PLAN_FIELDS);
      assert_true(fabs(price(&m, &c->plan, "a100-80", "dgx-a100") / c->p.step_s - 1) < 1e-9);
      assert_true(c->megatron[0] && c->options[0]);
      bool same = c->plan.overlap == m.plan.overlap && c->plan.attention == m.plan.attention;
      if (same && pz_prediction_fits(&c->p))
        assert_true(t->best.p.step_s <= c->p.step_s * (1 + 1e-9));
    }
    assert_true(!t->has_overlapped || t->overlapped.p.step_s <= t->best.p.step_s * (1 + 1e-9));
    pz_plan_tuning_free(t);
  }
}

/* The arguments of a change, put behind those of the run, are the changed plan. */
static void expect_changes_read_back(const char *run, int least) {
  struct pz_run_plan m, back;
  struct pz_plan_tuning *t;
  struct pz_error err = {0};
  int compared = 0;
  assert_int_equal(read_text("x", run, NULL, &m, &err), PZ_OK);
  assert_int_equal(try_fill_plan(&m.plan, NULL, &err), PZ_OK);
  t = tune(&m, "h100", "dgx-h100");
  for (uint32_t k = 0; k < t->n_changes + t->has_best; k++) {
    const struct pz_plan_change *c = k < t->n_changes ? &t->changes[k] : &t->best;
    const char *more = c->megatron;
    if (strstr(more, "remove") || strstr(more, "layout")) continue;
    char *text = pz_arena_printf(&arena, "%s %s", run, more);
    if (read_text("x", text, NULL, &back, &err) != PZ_OK) fail_msg("%s: %s", more, err.message);
    assert_int_equal(try_fill_plan(&back.plan, NULL, &err), PZ_OK);
    char x[200], y[200];
    for (int f = PZ_PLAN_DEVICES; f < PZ_PLAN_FIELDS; f++) {
      pz_plan_field_text(&c->plan, (enum pz_plan_field)f, x, sizeof x);
      pz_plan_field_text(&back.plan, (enum pz_plan_field)f, y, sizeof y);
      if (strcmp(x, y) != 0) fail_msg("%s: %s is %s, not %s", more, run_field_name(f), y, x);
    }
    compared++;
  }
  assert_true(compared >= least);
  pz_plan_tuning_free(t);
}

static void changed_arguments_are_the_plan(void **state) {
  (void)state;
  expect_changes_read_back(ON8 LLAMA
                           "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
                           "--global-batch-size 32",
                           4);
  expect_changes_read_back(ON8 MOE A2A "--tensor-model-parallel-size 2 --sequence-parallel "
                                       "--expert-model-parallel-size 2 --global-batch-size 32",
                           4);
  expect_changes_read_back(ON8 MLA A2A "--expert-model-parallel-size 2 --mtp-num-layers 1 "
                                       "--global-batch-size 32",
                           3);
}

/* A plan that its framework cannot run is priced, and the rule is told. */
static void refused_runs_are_told(void **state) {
  (void)state;
  struct pz_run_plan m;
  struct pz_plan_tuning *t;
  struct pz_error err = {0};
  static const char *const runs[] = {
      ON8 LLAMA "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
                "--global-batch-size 32 ",
      ON8 LLAMA "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params "
                "--global-batch-size 32 --pipeline-model-parallel-size 4"};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(read_text("x", runs[i], NULL, &m, &err), PZ_OK);
    t = tune(&m, "h100", "dgx-h100");
    assert_int_equal(strstr(t->own.refusal, "ZeRO stages 2 and 3 (Megatron FSDP)") != NULL, i);
    assert_int_equal(t->own.refusal[0] != '\0', i);
    pz_plan_tuning_free(t);
  }
}

/* A run that does not fit: changes that do. */
static void misfits_are_mended(void **state) {
  (void)state;
  struct pz_run_plan m;
  struct pz_plan_tuning *t;
  struct pz_error err = {0};
  static const char run[] = ON8 LLAMA "--global-batch-size 64 --micro-batch-size 4";
  assert_int_equal(read_text("x", run, NULL, &m, &err), PZ_OK);
  assert_int_equal(try_fill_plan(&m.plan, NULL, &err), PZ_OK);
  t = tune(&m, "a100-40", "dgx-a100");
  assert_true(!pz_prediction_fits(&t->own.p) && t->n_changes > 0);
  for (uint32_t k = 0; k < t->n_changes; k++) assert_true(pz_prediction_fits(&t->changes[k].p));
  pz_plan_tuning_free(t);
}

/* ---- two runs ------------------------------------------------------------------------------- */

static struct pz_plan_diff *diff(const char *a_text, const char *b_text, const char *b_chip) {
  struct pz_run_plan *run[2] = {NULL, NULL};
  struct pz_chip chip[2];
  struct pz_cluster net;
  struct pz_error err = {0};
  struct pz_plan_diff *d = NULL;
  const char *const texts[] = {a_text, b_text};
  for (int i = 0; i < 2; i++)
    if (pz_run_plan_read("x", texts[i], strlen(texts[i]), NULL, &run[i], &err) != PZ_OK)
      fail_msg("%s", err.message);
  assert_int_equal(pz_test_chip_read("h100", &chip[0], &err), PZ_OK);
  assert_int_equal(pz_test_chip_read(b_chip, &chip[1], &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  struct pz_diff_side a = {sizeof a, run[0], &chip[0], &net};
  struct pz_diff_side b = {sizeof b, run[1], &chip[1], &net};
  if (pz_plan_diff(&a, &b, &d, &err) != PZ_OK) fail_msg("%s", err.message);
  pz_run_plan_free(run[0]);
  pz_run_plan_free(run[1]);
  return d;
}

static bool near(double a, double b, double of) { return fabs(a - b) <= 1e-9 * fabs(of); }

/* Terms of both steps, of both peaks, and of the path sum up to the differences; every plan of the path is priced as
 * predict prices it. */
static void differences_sum_up(void **state) {
  (void)state;
#define RUN(more) "{\"model\":\"llama3-8b\",\"devices\":64,\"batch\":128" more "}"
  static const struct {
    const char *a, *b, *chip;
    uint32_t path;
    const char *last; /* change */
  } cases[] = {{RUN(""), RUN(""), "h100", 0, NULL},
               {RUN(""), RUN(",\"tp\":4"), "h100", 1, "tp 1 -> 4"},
               {RUN(",\"zero\":1"), RUN(",\"pp\":4,\"vpp\":2,\"recompute\":\"full\",\"zero\":1"),
                "h100", 3, "recompute none -> full"},
               {RUN(""), RUN(""), "h200", 1, "chip h100 -> h200"},
               {RUN(",\"tp\":8"), "{\"model\":\"llama2-7b\",\"devices\":32,\"batch\":128,\"tp\":8}",
                "h200", 3, NULL},
               /* ZeRO 1 is not torchtitan's, nor its recomputation Megatron's */
               {RUN(",\"zero\":1,\"recompute\":\"none\""), RUN(",\"framework\":\"torchtitan\""),
                "h100", 0, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_plan_diff *d = diff(cases[i].a, cases[i].b, cases[i].chip);
    const struct pz_prediction *a = &d->a.p, *b = &d->b.p;
    const struct pz_part_info *part;
    double time = 0, memory = 0, path_s = 0, path_bytes = 0;
    for (size_t k = 0; (part = pz_time_part_at(k)); k++)
      time += pz_time_part(&b->parts, part) - pz_time_part(&a->parts, part);
    for (size_t k = 0; (part = pz_memory_part_at(k)); k++)
      memory += pz_memory_part(&b->peak, part) - pz_memory_part(&a->peak, part);
    for (uint32_t k = 0; k < d->n_path; k++) {
      path_s += d->path[k].step_s;
      path_bytes += d->path[k].peak_bytes;
    }
    assert_true(near(time, b->step_s - a->step_s, a->step_s));
    assert_true(near(memory, b->peak_bytes - a->peak_bytes, a->peak_bytes));
    assert_true(near(path_s, b->step_s - a->step_s, a->step_s));
    assert_true(near(path_bytes, b->peak_bytes - a->peak_bytes, a->peak_bytes));
    if (i < 5) assert_int_equal(d->n_path, cases[i].path);
    if (i == 5) assert_true(d->n_path > 1);
    if (cases[i].last) assert_string_equal(d->path[d->n_path - 1].change, cases[i].last);
    assert_true((d->n_fields > 0) == (d->n_path > 0));
    for (uint32_t k = 0; k + 1 < d->n_path; k++) {
      assert_true(d->path[k].fields > 0);
      if (i == 2) {
        struct pz_run_plan run = {.model = "llama3-8b"};
        assert_true(near(price(&run, &d->path[k].plan, "h100", "dgx-h100"), d->path[k].p.step_s,
                         d->path[k].p.step_s));
      }
    }
    pz_plan_diff_free(d);
  }
}

/* ---- changes by words ----------------------------------------------------------------------- */

/* As options of predict, and as the texts of plans that are printed. */
static void changes_are_read(void **state) {
  (void)state;
  static const struct {
    const char *words, *options;
  } cases[] = {
      {"tp 8, pp 2, recompute full", "tp 8;pp 2;recompute full"},
      {"tp=8,pp=2", "tp 8;pp 2"},
      {"--tp 8 --no-sp --framework Megatron --mtp", "tp 8;sp off;framework megatron;mtp on"},
      {"tp 8 pp 2 recompute-layers 3", "tp 8;pp 2;recompute_layers 3"},
      {"tp 8 -> 4, recompute none -> full", "tp 4;recompute full"},
      {"sp, mtp", "sp on;mtp on"},
      {"sp off, tp 2", "sp off;tp 2"},
      {"tp 4 sp, cp 2 (all-to-all), ep 4", "tp 4;sp on;cp 2;cp_form all-to-all;ep 4"},
      {"pp 4 x 5 in zb-v, mbs 2 in halves", "pp 4;vpp 5;pipeline zb-v;mbs 2;halves on"},
      {"pp 4 x 5 chunks, ep 8 x etp 2", "pp 4;vpp 5;ep 8;etp 2"},
      {"zero 1 over 8, 3 and 5 layers at the ends", "zero 1;shard 8;first_layers 3;last_layers 5"},
      {"fp8 GEMMs (delayed), the first 2 layers bf16, the last 3 layers bf16, bf16 attn,mtp",
       "precision fp8;fp8_recipe delayed;bf16_first_layers 2;bf16_layers 3;bf16_modules attn,mtp"},
      {"torchtitan: deepep dispatcher, flash attention, compile",
       "framework torchtitan;dispatcher deepep;attention flash;execution compile"},
      {"overlap grad,param, ep 8", "overlap grad,param;ep 8"},
      {"overlap grad, param", "overlap grad,param"},
      {"recompute selective (moe_act,mlp), CUDA graphs attn,mlp",
       "recompute selective;recompute_modules moe_act,mlp;cuda_graphs attn,mlp"},
      {"recompute full (4 layers a chunk), lora:16:q+v",
       "recompute full;recompute_layers 4;peft lora:16:q+v"},
      {"activations of 4 layers a chunk and 25% of the optimizer on the host",
       "offload activations,optimizer;offload_layers 4;offload_fraction 0.25"},
      {"memory_margin 12.5%, offload_fraction 50%", "memory_margin 12.5;offload_fraction 0.5"},
      {"activations and the optimizer on the host", "offload activations,optimizer"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_plan want = pz_plan_default();
    struct pz_error err = {0};
    struct pz_run_plan none = pz_run_plan_default(), *run = NULL;
    if (pz_run_plan_with(&none, cases[i].words, &run, &err) != PZ_OK)
      fail_msg("%s: %s", cases[i].words, err.message);
    char *at = pz_arena_strdup(&arena, cases[i].options);
    while (at) {
      char *next = strchr(at, ';'), *value = strchr(at, ' ');
      if (next) *next++ = '\0';
      *value++ = '\0';
      if (pz_plan_set(&want, at, value, &err) != PZ_OK) fail_msg("%s", err.message);
      at = next;
    }
    for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
      char x[PZ_FIELD_TEXT_MOST], y[PZ_FIELD_TEXT_MOST];
      pz_plan_field_text(&run->plan, (enum pz_plan_field)f, x, sizeof x);
      pz_plan_field_text(&want, (enum pz_plan_field)f, y, sizeof y);
      if (strcmp(x, y) != 0)
        fail_msg("%s: %s is %s, not %s", cases[i].words, pz_plan_field_name((enum pz_plan_field)f),
                 x, y);
    }
    pz_run_plan_free(run);
  }
}

static void wrong_changes_are_told(void **state) {
  (void)state;
  static const struct {
    const char *words, *message;
  } cases[] = {{"recompue full", "did you mean recompute?"},
               {"tp", "tp has no value"},
               {"tp, pp 2", "tp has no value"},
               {"tp eight", "tp is 'eight'; accepted: an integer"},
               {"tp 4, tp 8", "tp is given twice, 4 and '8'"},
               {"recompute some layers", "recompute is 'some'"},
               {"chip", "chip has no value"},
               {"tp 8 faster", "'faster' is no field of a plan"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_run_plan none = pz_run_plan_default(), *run = NULL;
    struct pz_error err = {0};
    assert_int_equal(pz_run_plan_with(&none, cases[i].words, &run, &err), PZ_BAD_USE);
    assert_null(run);
    if (!strstr(err.message, cases[i].message)) fail_msg("%s: %s", cases[i].words, err.message);
  }
  struct pz_run_plan none = pz_run_plan_default(), *run = NULL;
  struct pz_error err = {0};
  char many[1200];
  for (size_t i = 0; i < sizeof many; i++) many[i] = i % 2 ? ' ' : 'x';
  many[sizeof many - 1] = '\0';
  assert_int_equal(pz_run_plan_with(&none, many, &run, &err), PZ_LIMIT);
  assert_int_equal(pz_run_plan_with(&none, " , ", &run, &err), PZ_OK); /* no change */
  pz_run_plan_free(run);
  none.chip = "h100";
  assert_int_equal(pz_run_plan_with(&none, "--chip h200 --cluster dgx-h200 -> x", &run, &err),
                   PZ_OK);
  assert_string_equal(run->chip, "h200");
  assert_string_equal(run->cluster, "x");
  pz_run_plan_free(run);
}

/* A run beside the same with changes: devices and batch stay, what follows from the changes is derived, and the verdict is
 * of the step, of memory or of the framework. */
static void verdicts_are_right(void **state) {
  (void)state;
  static const struct {
    const char *run, *with, *changes, *verdict;
  } cases[] = {
      {RUN(",\"tp\":2,\"zero\":1"), "tp 4", "tp 4", "slower: +"},
      {RUN(",\"tp\":4,\"zero\":1"), "tp 2", "tp 2", "faster: -"},
      {RUN(",\"tp\":2,\"zero\":1"), "zero 1", "", "is as fast"},
      {RUN(",\"zero\":1,\"mbs\":2"), "zero 0, recompute none", "zero 0", "does not fit: "},
      {RUN(",\"zero\":0,\"mbs\":2,\"recompute\":\"none\""), "zero 1, recompute full",
       "zero 1, recompute full", "fits in memory, unlike the other, and is "},
      {RUN(",\"zero\":1,\"tp\":4"), "memory_margin 100, mbs 4", "mbs 4, memory_margin 100",
       "does not fit: needs "},
      {RUN(",\"zero\":2"), "pp 4", "pp 4",
       "is refused: megatron cannot run this plan: it has ZeRO"},
      {"{\"model\":\"llama3-8b\",\"tp\":2,\"dp\":8,\"zero\":1}", "tp 4", "tp 4", "slower"},
      {RUN(",\"tp\":2,\"zero\":1"), "devices 128", "devices 128", "by tokens a second and device"}};
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read("h100", &chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load("dgx-h100", &net, &err), PZ_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_run_plan *run = NULL, *with = NULL;
    struct pz_plan_diff *d = NULL;
    const char *text = cases[i].run;
    if (pz_run_plan_read("x", text, strlen(text), NULL, &run, &err) != PZ_OK ||
        pz_run_plan_with(run, cases[i].with, &with, &err) != PZ_OK)
      fail_msg("%s", err.message);
    struct pz_diff_side a = {sizeof a, run, &chip, &net}, b = {sizeof b, with, &chip, &net};
    if (pz_plan_diff(&a, &b, &d, &err) != PZ_OK) fail_msg("%s: %s", cases[i].with, err.message);
    assert_string_equal(d->changes, cases[i].changes);
    if (!strstr(d->verdict, cases[i].verdict)) fail_msg("%s: %s", cases[i].with, d->verdict);
    assert_int_equal(d->a.plan.batch, d->b.plan.batch);
    if (i < 8) assert_int_equal(d->a.plan.devices, d->b.plan.devices);
    double percent = 0, ratio = d->b.p.step_s / d->a.p.step_s;
    if (i < 2 && sscanf(d->verdict, "is %lf%%", &percent) == 1)
      assert_true(fabs(percent - 100 * fabs(ratio - 1)) < 0.051);
    if (i < 2) assert_true(percent > 1);
    pz_plan_diff_free(d);
    pz_run_plan_free(with);
    pz_run_plan_free(run);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(changes_are_read, begin, end),
      cmocka_unit_test_setup_teardown(wrong_changes_are_told, begin, end),
      cmocka_unit_test_setup_teardown(verdicts_are_right, begin, end),
      cmocka_unit_test_setup_teardown(words_are_a_shells, begin, end),
      cmocka_unit_test_setup_teardown(words_have_limits, begin, end),
      cmocka_unit_test_setup_teardown(guesses_are_marked, begin, end),
      cmocka_unit_test_setup_teardown(arguments_are_read, begin, end),
      cmocka_unit_test_setup_teardown(wrong_arguments_are_told, begin, end),
      cmocka_unit_test_setup_teardown(options_fill_gaps, begin, end),
      cmocka_unit_test_setup_teardown(strays_are_told, begin, end),
      cmocka_unit_test_setup_teardown(deepspeed_configurations_are_read, begin, end),
      cmocka_unit_test_setup_teardown(job_configurations_are_read, begin, end),
      cmocka_unit_test_setup_teardown(other_keys_are_named, begin, end),
      cmocka_unit_test_setup_teardown(differences_sum_up, begin, end),
      cmocka_unit_test_setup_teardown(plans_are_read_back, begin, end),
      cmocka_unit_test_setup_teardown(tuned_runs_are_plan_files, begin, end),
      cmocka_unit_test_setup_teardown(wrong_plans_are_told, begin, end),
      cmocka_unit_test_setup_teardown(changes_are_sound, begin, end),
      cmocka_unit_test_setup_teardown(changed_arguments_are_the_plan, begin, end),
      cmocka_unit_test_setup_teardown(refused_runs_are_told, begin, end),
      cmocka_unit_test_setup_teardown(misfits_are_mended, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
