/* Tables of operators measured on real chips: both sets of columns, what is compared with what, and mistakes. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "cost/calibrate.h"
#include "cost/constants.h"
#include "cost/silicon_table.h"
#include "unit/chip_borders.h"
#include "unit/cost_borders.h"

static enum pz_status read_text(const char *text, struct pz_arena *arena, struct pz_measured *m,
                                struct pz_error *err) {
  struct pz_csv csv;
  *err = (struct pz_error){0};
  enum pz_status status = pz_csv_parse("t.csv", text, strlen(text), arena, &csv, err);
  return status == PZ_OK ? pz_measured_read("t.csv", &csv, arena, m, err) : status;
}

static const struct good {
  const char *text, *op, *chip, *group;
  bool predicted;
  int64_t batch, m, n, k;
  double us; /* as the table has it; negative: a burst of a GEMM */
} good[] = {
    {"chip,dtype,m,n,k,us\nh200,bf16,2048,1024,4096,100\n", "gemm", "h200", "gemm bf16", true, 1,
     2048, 1024, 4096, -100},
    {"framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
     "TRTLLM,1,NVIDIA H200,gemm,torch_flow,bfloat16,2048,1024,4096,0.1\n",
     "gemm", "h200", "gemm bf16", true, 1, 2048, 1024, 4096, -100},
    {"gemm_dtype,m,n,k,latency,power\nfp8,2048,1023,4096,0.1,690\n", "fp8_linear", NULL,
     "small gemm fp8 sustained", true, 1, 2048, 1023, 4096, 100},
    {"chip,dtype,m,n,k,us_sglang,us_power\nb200,fp8_block,2048,1024,4096,7,100\n",
     "fp8_block_linear", "b200", "gemm fp8_block sustained", true, 1, 2048, 1024, 4096, 100},
    {"chip,dtype,m,n,k,us\ngb300,nvfp4,2048,1024,4096,100\n", "nvfp4_linear", "gb300", "gemm nvfp4",
     true, 1, 2048, 1024, 4096, -100},
    {"chip,phase,q_dtype,kv_dtype,batch,seq,heads,kv_heads,head_dim,window,us,kernel\n"
     "h100,prefill,bf16,bf16,2,4096,32,8,128,0,900,vllm_flash_attn_fa3\n",
     "prefill", "h100", "prefill attention bf16", true, 2, 4096, 4096, 128, 900},
    {"device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_"
     "dtype,"
     "kv_cache_dtype,window_size,step,latency\n"
     "NVIDIA GB200,context_attention,x,2,4096,32,8,128,bfloat16,bfloat16,128,0,0.9\n",
     "prefill", "gb200", "prefill attention bf16, window", true, 2, 4096, 128, 128, 900},
    {"chip,phase,q_dtype,kv_dtype,batch,seq,heads,kv_heads,head_dim,us\n"
     "h100,decode,bf16,bf16,2,4096,32,8,128,900\n",
     "gemm", "h100", "decode attention", false, 2, 4096, 0, 128, 900},
    {"chip,operation,dtype,gpus,bytes,us,backend\na100,alltoall,fp16,8,2097152,50,nccl\n",
     "alltoall", "a100-80", "nccl 4 and 8 GPUs above 1 MB", true, 8, 1, 2097152, 0, 50},
    {"device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
     "NVIDIA A100-SXM4-80GB,all_reduce,NCCL,half,2,1024,0.05\n",
     "all_reduce", "a100-80", "nccl 2 GPUs up to 1 MB", true, 2, 1, 2048, 0, 50},
    {"chip,operation,dtype,gpus,bytes,us,backend\nh100,all_reduce,bf16,8,2048,5,custom_vllm\n",
     "all_reduce", "h100", "custom collectives", false, 8, 1, 2048, 0, 5},
    {"chip,mode,operation,dtype,nodes,gpus,tokens,hidden,topk,experts,sms,us,notify_us\n"
     "h100,deepep_normal,dispatch,,1,8,1024,7168,8,256,24,100,\n",
     "dispatch", "h100", "dispatch deepep", true, 8, 1024, 0, 7168, 100},
    {"chip,mode,operation,nodes,gpus,tokens,hidden,topk,sms,us,notify_us\n"
     "h200,deepep_normal,combine,2,16,64,7168,8,20,100,30\n",
     "combine", "h200", "combine deepep, 2 nodes", true, 16, 64, 0, 7168, 130},
    {"chip,mode,operation,nodes,gpus,tokens,hidden,topk,sms,us\n"
     "gb200,trtllm_NVLinkTwoSided,prepare,1,4,64,7168,8,,9\n",
     "gemm", "gb200", "prepare trtllm_NVLinkTwoSided", false, 4, 64, 0, 7168, 9},
    {"framework,version,device,op_name,kernel_source,d_model,latency\nSGLang,1,NVIDIA "
     "H200,mamba2,x,4096,0.1\n",
     "gemm", "h200", "other operators", false, 0, 0, 0, 0, 0},
    {"chip,kind,params,us\nb200,mamba2.mamba_chunk_scan_combined,\"{\"\"batch_size\"\":4,\"\"seq_"
     "len\"\":256,"
     "\"\"d_state\"\":128,\"\"nheads\"\":64,\"\"head_dim\"\":32,\"\"n_groups\"\":8,\"\"chunk_"
     "size\"\":128}\",57.6\n",
     "ssm_scan", "b200", "mamba2 scan", true, 4, 256, 128, 32, 57.6},
    {"chip,kind,params,us\nh100,gdn.causal_conv1d_fn,\"{\"\"batch_size\"\":4,\"\"seq_len\"\":256,"
     "\"\"num_k_heads\"\":4,"
     "\"\"head_k_dim\"\":64,\"\"num_v_heads\"\":8,\"\"head_v_dim\"\":128}\",7\n",
     "conv1d", "h100", "gdn conv1d", true, 4, 256, 1536, 1, 7},
    {"framework,version,device,op_name,kernel_source,phase,batch_size,seq_len,num_k_heads,head_k_"
     "dim,num_v_heads,head_v_dim,latency\n"
     "SGLang,1,NVIDIA H200,gdn,chunk_gated_delta_rule,context,4,256,4,64,8,128,0.06\n",
     "delta_rule", "h200", "gdn delta rule", true, 4, 256, 128, 64, 60},
    {"chip,kind,params,us\nh100,mhc.pre,{},7\n", "gemm", "h100", "other operators", false, 0, 0, 0,
     0, 0},
    /* what is not known in the collectors' form: columns, operators, types, devices */
    {"device,op_name,model,mla_dtype,num_heads,batch_size,isl,latency\n"
     "NVIDIA H200,dsa_context_module,x,bfloat16,128,1,1024,1.5\n",
     "gemm", "h200", "other operators", false, 0, 0, 0, 0, 0},
    {"device,op_name,m,k,latency\nNVIDIA H200,compute_scale,64,64,1.5\n", "gemm", "h200",
     "other operators", false, 0, 0, 0, 0, 0},
    {"device,op_name,attn_dtype,num_heads,batch_size,isl,head_dim,latency\n"
     "NVIDIA H200,sideways,bfloat16,128,1,1024,64,1.5\n",
     "gemm", "h200", "other operators", false, 0, 0, 0, 0, 0},
    {"device,op_name,gemm_dtype,m,n,k,latency\nNVIDIA H200,gemm,fp3,64,64,64,1.5\n", "gemm", "h200",
     "other operators", false, 1, 0, 0, 0, 0},
    {"device,op_name,gemm_dtype,m,n,k,latency\nNVIDIA H100 PCIe,gemm,fp8,64,64,64,1.5\n", "gemm",
     "NVIDIA H100 PCIe", "operators of NVIDIA H100 PCIe", false, 0, 0, 0, 0, 0},
};

static void both_forms_are_read(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    const struct good *g = &good[i];
    struct pz_arena arena;
    struct pz_measured m;
    struct pz_error err;
    pz_arena_init(&arena);
    if (read_text(g->text, &arena, &m, &err) != PZ_OK) fail_msg("%zu: %s", i, err.message);
    const struct pz_ops_row *r = &m.rows[0];
    assert_string_equal(r->group, g->group);
    assert_int_equal(r->reason == NULL, g->predicted);
    if (g->chip)
      assert_string_equal(r->chip, g->chip);
    else
      assert_null(r->chip);
    if (g->predicted) assert_string_equal(pz_ops_name(r->op), g->op);
    assert_true(r->batch == g->batch && r->m == g->m && r->n == g->n && r->k == g->k);
    double us = g->us < 0 ? -g->us * pz_constants_default.burst : g->us;
    assert_true(fabs(r->us - us) < 1e-9);
    pz_arena_release(&arena);
  }
}

static const struct bad {
  const char *text, *part; /* of the message */
} bad[] = {
    {"chip,dtype,m,n,k,us,colour\nh200,bf16,1,1,1,1,red\n",
     "t.csv:1: unknown column 'colour' of GEMMs"},
    {"chip,dtype,m,n,k\nh200,bf16,1,1,1\n", "t.csv:1: no column 'us'"},
    {"chip,m,n,k,us\nh200,1,1,1,1\n", "t.csv:1: no column 'dtype' of GEMMs"},
    {"chip,dtype,m,n,k,us\nh200,bf16,1,1,1,1\nh201,bf16,1,1,1,1\n", "t.csv:3: unknown chip 'h201'"},
    {"chip,dtype,m,n,k,us\nh200,bf17,1,1,1,1\n",
     "t.csv:2: column 'dtype' is 'bf17'; accepted: bf16"},
    {"chip,dtype,m,n,k,us\nh200,bf16,1.5,1,1,1\n",
     "t.csv:2: column 'm' is '1.5'; accepted: an integer"},
    {"chip,dtype,m,n,k,us\nh200,bf16,,1,1,1\n", "t.csv:2: column 'm' is ''"},
    {"chip,dtype,m,n,k,us\nh200,bf16,0,1,1,1\n", "t.csv:2: column 'm' is '0'"},
    {"chip,dtype,m,n,k,us\nh200,bf16,1,1,1,0\n",
     "t.csv:2: column 'us' is '0'; accepted: 0.01 to 1e9 microseconds"},
    {"chip,dtype,m,n,k,us\nh200,bf16,1,1,1,soon\n",
     "t.csv:2: column 'us' is 'soon'; accepted: 0.01 to 1e9 microseconds"},
    {"chip,dtype,m,n,k,latency\nh200,bf16,1,1,1,2e6\n",
     "t.csv:2: column 'latency' is '2e6'; accepted: 1e-5 to 1e6 milliseconds"},
    {"chip,dtype,m,n,k,us\nh200,bf16,1,x,1,1\n",
     "t.csv:2: column 'n' is 'x'; accepted: an integer from 1 to 2^40"},
    {"chip,dtype,m,n,k,us,latency\nh200,bf16,1,1,1,1,1\n",
     "t.csv:1: columns 'us' and 'latency' mean the same; accepted: one of them"},
    {"chip,device,dtype,m,n,k,us\nh200,h200,bf16,1,1,1,1\n",
     "t.csv:1: columns 'chip' and 'device' mean the same"},
    {"device,gemm_dtype,m,n,k,latency\nNVIDIA H200,fp8,1,1,1,-1\n",
     "t.csv:2: column 'latency' is '-1'"},
    {"chip,dtype,m,n,k,us,flag\nh200,bf16,1,1,1,1,fast\n",
     "t.csv:2: column 'flag' is 'fast'; accepted: slow"},
    {"chip,dtype,m,n,k,us\nh200,bf16,1099511627776,1099511627776,1,1\n", "more than 2^53 values"},
    {"chip,phase,q_dtype,batch,seq,heads,kv_heads,head_dim,us\nh200,prefill,bf16,1,64,8,16,64,1\n",
     "16 kv heads; accepted: at most heads, 8"},
    {"chip,phase,q_dtype,batch,seq,heads,us\nh200,sideways,bf16,1,64,8,1\n",
     "column 'phase' is 'sideways'; accepted: prefill"},
    {"chip,dtype,tokens,hidden,inter,topk,experts,tp,ep,distribution,us\nh200,bf16,8,64,64,8,4,1,1,"
     "balanced,1\n",
     "top 8 and ep 1 of 4 experts"},
    {"chip,dtype,tokens,hidden,inter,topk,experts,tp,ep,distribution,us\nh200,bf16,8,64,64,2,4,1,1,"
     "power_law_x,1\n",
     "accepted: balanced or power_law_A"},
    {"chip,operation,dtype,gpus,bytes,us,backend\nh200,all_reduce,bf16,1,8,1,nccl\n",
     "column 'gpus' is '1'; accepted: an integer from 2"},
    {"chip,operation,dtype,gpus,bytes,us,backend\nh200,all_redoce,bf16,2,8,1,nccl\n",
     "accepted: all_reduce, all_gather"},
    {"chip,mode,operation,nodes,gpus,tokens,hidden,topk,sms,us\n"
     "h200,deepep_normal,dispatch,3,16,64,7168,8,20,9\n",
     "16 GPUs of 3 nodes"},
    {"chip,mode,operation,nodes,gpus,tokens,hidden,topk,sms,us\n"
     "h200,deepep_normal,dispatch,1,8,64,7168,8,,9\n",
     "column 'sms' is ''; accepted: an integer from 1"},
    {"chip,mode,operation,nodes,gpus,tokens,hidden,topk,sms,us\n"
     "h200,deepep_fast,dispatch,1,8,64,7168,8,20,9\n",
     "column 'mode' is 'deepep_fast'; accepted: deepep_normal"},
    {"chip,mode,operation,nodes,gpus,tokens,hidden,topk,sms,us,notify_us\n"
     "h200,deepep_normal,dispatch,1,8,64,7168,8,20,9,-1\n",
     "column 'notify_us' is '-1'"},
    {"chip,kind,params,us\nh100,gdn.causal_conv1d_fn,\"{\"\"batch_size\"\":4,\"\"seq_len\"\":0}\","
     "7\n",
     "t.csv:2: no usable 'seq_len'; accepted: an integer from 1"},
    {"chip,kind,params,us\nh100,gdn.causal_conv1d_fn,4,7\n", "t.csv:2"},
    {"a,b\n1,2\n", "no column 'kernel_us'"},
    {"a,b\n1,2\n", "attention (phase, q_dtype, batch, seq, heads, head_dim, us)"},
    {"chip,dtype,m,n,k,us\n", "0 rows"},
};

static void mistakes_are_named(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_arena arena;
    struct pz_measured m;
    struct pz_error err;
    pz_arena_init(&arena);
    assert_int_equal(read_text(bad[i].text, &arena, &m, &err), PZ_BAD_INPUT);
    if (!strstr(err.message, bad[i].part)) fail_msg("'%s' lacks '%s'", err.message, bad[i].part);
    pz_arena_release(&arena);
  }
}

/* Of a table of many chips the rows of one; of a table of one chip all, whatever it is called. */
static void rows_of_a_chip(void **state) {
  (void)state;
  static const char *const names[] = {"h200", "b200"};
  struct pz_chip chips[2], mine;
  for (int i = 0; i < 2; i++) assert_int_equal(pz_test_chip_read(names[i], &chips[i], NULL), PZ_OK);
  mine = chips[0];
  pz_text_copy(mine.name, sizeof mine.name, "mine");
  struct pz_arena arena;
  struct pz_measured all, own;
  struct pz_error err;
  pz_arena_init(&arena);
  assert_int_equal(
      read_text("chip,dtype,m,n,k,us,flag\nh200,bf16,64,64,64,4,\nh100,bf16,64,64,64,4,\n"
                "h200,nvfp4,64,64,64,4,\nh200,bf16,64,64,64,9,slow\n",
                &arena, &all, &err),
      PZ_OK);
  assert_int_equal(pz_measured_of_chip(&all, &chips[0], &arena, &own, &err), PZ_OK);
  assert_int_equal(own.n, 1);
  assert_int_equal(own.rows[0].line, 2);
  assert_int_equal(pz_measured_of_chip(&all, &chips[1], &arena, &own, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "none of 4 rows is of b200"));
  assert_int_equal(read_text("chip,dtype,m,n,k,us\nh100,bf16,64,64,64,4\n", &arena, &all, &err),
                   PZ_OK);
  assert_int_equal(pz_measured_of_chip(&all, &mine, &arena, &own, &err), PZ_OK);
  assert_int_equal(own.n, 1);
  pz_arena_release(&arena);
}

/* A directory: all its tables in the order of their names; the columns of the source say the same as the others. */
static void directories_are_read(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_measured m, collected;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  assert_int_equal(pz_measured_load(PHAZE_TEST_DATA "/silicon", &arena, &m, &err), PZ_OK);
  assert_int_equal(pz_measured_load(PHAZE_TEST_DATA "/silicon/collected", &arena, &collected, &err),
                   PZ_OK);
  assert_true(m.n > 300 && collected.n > 30);
  for (uint32_t i = 1; i < m.n; i++) assert_true(strcmp(m.rows[i - 1].table, m.rows[i].table) <= 0);
  for (uint32_t i = 0; i < collected.n; i++) {
    const struct pz_ops_row *a = &collected.rows[i];
    bool same = false;
    for (uint32_t j = 0; j < m.n && !same; j++) {
      const struct pz_ops_row *b = &m.rows[j];
      same = a->op == b->op && a->batch == b->batch && a->m == b->m && a->n == b->n &&
             a->k == b->k && a->heads == b->heads && a->kv_heads == b->kv_heads &&
             a->topk == b->topk && a->skew == b->skew && strcmp(a->chip, b->chip) == 0 &&
             strcmp(a->group, b->group) == 0 && fabs(a->us / b->us - 1) < 1e-4;
    }
    if (!same) fail_msg("%s:%u is not in the sample", a->table, a->line);
  }
  assert_int_equal(pz_measured_load(PHAZE_TEST_DATA "/chip", &arena, &m, &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "no table of operators"));
  pz_arena_release(&arena);
}

/* 8-bit GEMMs without such a rate, DeepEP off GPUs, several nodes without a network. */
static void what_a_chip_cannot_run(void **state) {
  (void)state;
  static const char gemms[] = "dtype,m,n,k,us\nfp8,64,64,64,9\nbf16,64,64,64,9\n",
                    dispatches[] = "mode,operation,nodes,gpus,tokens,hidden,topk,sms,us\n"
                                   "deepep_normal,dispatch,2,16,64,7168,8,20,9\n"
                                   "deepep_normal,dispatch,1,8,64,7168,8,20,9\n";
  static const struct {
    const char *chip, *text, *reason[2];
  } cases[] = {{"v100", gemms, {"the chip does not multiply 8-bit values", NULL}},
               {"tpuv2", gemms, {"the chip does not multiply 8-bit values", NULL}},
               {"h100", gemms, {NULL, NULL}},
               {"h100", dispatches, {NULL, NULL}},
               {"tpuv4", dispatches, {"DeepEP runs on GPUs", "DeepEP runs on GPUs"}},
               {"l40s", dispatches, {"no network between nodes of this chip is known", NULL}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_arena arena;
    struct pz_measured m;
    struct pz_error err;
    struct pz_chip chip;
    pz_arena_init(&arena);
    assert_int_equal(read_text(cases[i].text, &arena, &m, &err), PZ_OK);
    assert_int_equal(pz_test_chip_read(cases[i].chip, &chip, &err), PZ_OK);
    for (int k = 0; k < 2; k++) {
      const char *reason = pz_ops_not_on(&chip, &m.rows[k]);
      if (cases[i].reason[k] && reason)
        assert_string_equal(reason, cases[i].reason[k]);
      else
        assert_true(!reason && !cases[i].reason[k]);
    }
    pz_arena_release(&arena);
  }
}

/* Sums come back in 16 bit; more cores and fewer nodes are faster. */
static void dispatches_are_predicted(void **state) {
  (void)state;
  struct pz_arena arena;
  struct pz_measured m;
  struct pz_error err;
  struct pz_chip chip;
  struct pz_cost cost;
  double us[5];
  pz_arena_init(&arena);
  assert_int_equal(read_text("chip,mode,operation,nodes,gpus,tokens,hidden,topk,sms,us\n"
                             "h200,deepep_normal,dispatch,1,8,4096,7168,8,24,1\n"
                             "h200,deepep_normal,combine,1,8,4096,7168,8,24,1\n"
                             "h200,deepep_normal,dispatch,1,8,4096,7168,8,4,1\n"
                             "h200,deepep_normal,dispatch,4,32,4096,7168,8,24,1\n"
                             "h200,deepep_normal,dispatch,1,8,4096,7168,1,24,1\n",
                             &arena, &m, &err),
                   PZ_OK);
  assert_int_equal(pz_test_chip_read("h200", &chip, &err), PZ_OK);
  pz_cost_init(&cost, &chip, NULL);
  for (int i = 0; i < 5; i++) assert_int_equal(pz_ops_us(&cost, &m.rows[i], &us[i], &err), PZ_OK);
  for (int i = 1; i < 4; i++) assert_true(us[i] > us[0]);
  assert_true(us[4] < us[0]);
  pz_text_copy(cost.chip.name, sizeof cost.chip.name, "mine");
  assert_int_equal(pz_ops_us(&cost, &m.rows[3], &us[3], &err), PZ_BAD_INPUT);
  assert_non_null(strstr(err.message, "t.csv:5: no cluster of chip mine is known"));
  pz_cost_release(&cost);
  pz_arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(both_forms_are_read),  cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(rows_of_a_chip),       cmocka_unit_test(what_a_chip_cannot_run),
      cmocka_unit_test(directories_are_read), cmocka_unit_test(dispatches_are_predicted)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
