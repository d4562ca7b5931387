/* Memory: what is kept for backward against closed forms, and the peak of a step against an H200.
 */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

static void assert_within(const char *what, double got, double want, double tolerance) {
  if (!(fabs(got - want) <= tolerance * want))
    fail_msg("%s: %.0f, want %.0f within %g%%", what, got, want, 100 * tolerance);
}

/* s b h (34 + 5 a s / h) with fused kernels; divided, s b h (10 + 24/t + 5 a s / (h t)); with
 * sequence parallelism everything over t (Korthikanti et al., arXiv 2205.05198). */
static void kept_bytes_are_the_closed_form(void **state) {
  (void)state;
  static const struct {
    const char *model;
    double s, h, a;
  } gpt[] = {
      {"bert-large", 512, 1024, 16}, {"gpt2-xl", 1024, 1600, 25}, {"gpt3-175b", 2048, 12288, 96}};
  for (size_t i = 0; i < sizeof gpt / sizeof *gpt; i++)
    for (int64_t b = 1; b <= 8; b *= 2)
      for (int64_t t = 1; t <= 8; t++)
        for (int sp = 0; sp < 2; sp++) {
          if ((int64_t)gpt[i].a % t || (sp && (int64_t)gpt[i].s % t)) continue;
          struct pz_workload_options o = pz_workload_options_default();
          o.mbs = b;
          o.tp = t;
          o.sequence_parallel = sp;
          struct pz_workload *w = pz_test_load(gpt[i].model, &o);
          double sbh = gpt[i].s * (double)b * gpt[i].h, scores = 5 * gpt[i].a * gpt[i].s / gpt[i].h;
          double want =
              sp ? sbh * (34 + scores) / (double)t : sbh * (10 + (24 + scores) / (double)t);
          assert_within(gpt[i].model, (double)w->layers[1].activation_bytes, want, 0.001);
          pz_workload_free(w);
        }
}

/* The saved list adds up to activation_bytes and has no tensor twice. */
static void saved_tensors_add_up(void **state) {
  (void)state;
  for (size_t m = 0; pz_preset_name(m); m++)
    for (int eager = 0; eager < 2; eager++) {
      struct pz_workload_options o = pz_workload_options_default();
      o.kernels = eager ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
      struct pz_workload *w = pz_test_load(pz_preset_name(m), &o);
      int64_t model = 0;
      for (uint32_t l = 0; l < w->n_layers; l++) {
        const struct pz_layer *layer = &w->layers[l];
        int64_t sum = 0;
        for (uint32_t i = 0; i < layer->n_saved; i++) {
          const struct pz_tensor *t = &layer->tensors[layer->saved[i]];
          assert_int_equal(t->storage, layer->saved[i]);
          for (uint32_t k = 0; k < i; k++) assert_int_not_equal(layer->saved[k], layer->saved[i]);
          sum += t->elems * t->elem_bytes;
        }
        assert_int_equal(sum, layer->activation_bytes);
        model += sum * layer->count + layer->shared_bytes;
      }
      assert_int_equal(model, w->totals.activation_bytes);
      pz_workload_free(w);
    }
}

/* Llama's eager layer, byte by byte: two RMS norms keep x in 32 bit, x normalised and the result (8
 * each of 2 s b h / 2), softmax in 32 bit and its cast, rotated query and key, value, context, four
 * feed-forward tensors, two reciprocal deviations a row. */
static void eager_llama_layer_to_the_byte(void **state) {
  (void)state;
  struct pz_workload_options o = pz_workload_options_default();
  o.kernels = PZ_KERNELS_EAGER;
  struct pz_workload *w = pz_test_load("llama2-7b", &o);
  int64_t T = 4096, h = 4096, f = 11008, scores = 32 * T * T;
  assert_int_equal(w->layers[1].activation_bytes,
                   T * (2 * 8 * h + 8 * h + 8 * f + 2 * 4) + 6 * scores);
  pz_workload_free(w);
}

/* A live count never ends below what must still be there, and backward gives back what forward
 * took. */
static void what_is_taken_is_given_back(void **state) {
  (void)state;
  for (size_t m = 0; pz_preset_name(m); m++)
    for (int eager = 0; eager < 2; eager++) {
      struct pz_workload_options o = pz_workload_options_default();
      o.kernels = eager ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
      o.seq = 64;
      struct pz_workload *w = pz_test_load(pz_preset_name(m), &o);
      int64_t net = 0, tied = 0;
      for (uint32_t l = 0; l < w->n_layers; l++) {
        net +=
            w->layers[l].count * (w->layers[l].live[0].net_bytes + w->layers[l].live[1].net_bytes);
        tied += 2 * w->layers[l].tied_params;
        assert_true(w->layers[l].live[0].peak_bytes >= w->layers[l].live_plain.peak_bytes);
      }
      /* what stays: the loss and its gradient, and in eager mode a tied weight's gradient */
      assert_in_range(net - (eager ? tied : 0), 0, 64 * 16);
      pz_workload_free(w);
    }
}

struct row {
  char model[32], attn[16], recompute[16], status[16];
  long long layers, seq, mbs, params, peak;
};

static bool read_row(FILE *f, struct row *r) {
  char line[512], *field[14], *next = line;
  int n = 0;
  if (!fgets(line, sizeof line, f)) return false;
  line[strcspn(line, "\r\n")] = '\0';
  while (next && n < 14) {
    field[n++] = next;
    next = strchr(next, ',');
    if (next) *next++ = '\0';
  }
  assert_int_equal(n, 14);
  snprintf(r->model, sizeof r->model, "%.31s", field[0]);
  snprintf(r->attn, sizeof r->attn, "%.15s", field[4]);
  snprintf(r->recompute, sizeof r->recompute, "%.15s", field[5]);
  snprintf(r->status, sizeof r->status, "%.15s", field[13]);
  r->layers = atoll(field[1]);
  r->seq = atoll(field[2]);
  r->mbs = atoll(field[3]);
  r->params = atoll(field[7]);
  r->peak = atoll(field[11]);
  return true;
}

static double error_of(const struct row *r) {
  struct pz_workload_options o = pz_workload_options_default();
  o.kernels = PZ_KERNELS_EAGER;
  o.seq = r->seq;
  o.mbs = r->mbs;
  o.num_layers = r->layers;
  o.attention = strcmp(r->attn, "sdpa") == 0 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
  o.recompute = strcmp(r->recompute, "True") == 0 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
  struct pz_workload *w = pz_test_load(r->model, &o);
  assert_int_equal(w->totals.params, r->params);
  double error = (double)w->totals.peak_bytes / (double)r->peak - 1;
  print_message("  %-10s %2lld layers, seq %4lld x %2lld, %s%s: %.3f GB of %.3f GB, %+.2f%%\n",
                r->model, r->layers, r->seq, r->mbs, r->attn, o.recompute ? ", recompute" : "",
                (double)w->totals.peak_bytes / 1e9, (double)r->peak / 1e9, 100 * error);
  pz_workload_free(w);
  return fabs(error);
}

/* Measured on an H200; nothing in the model is fitted to these rows. */
static void peak_memory_is_what_a_gpu_shows(void **state) {
  (void)state;
  struct row r;
  double sum = 0, worst = 0, worst_other = 0;
  int n = 0, others = 0;
  FILE *f = fopen(PHAZE_TEST_DATA "/h200_steps.csv", "r");
  char head[512];
  assert_non_null(f);
  assert_non_null(fgets(head, sizeof head, f));
  while (read_row(f, &r)) {
    if (strcmp(r.status, "ok") != 0) continue;
    double error = error_of(&r);
    if (strcmp(r.attn, "eager") == 0 && strcmp(r.recompute, "False") == 0) {
      sum += error;
      worst = error > worst ? error : worst;
      n++;
    } else {
      worst_other = error > worst_other ? error : worst_other;
      others++;
    }
  }
  fclose(f);
  print_message(
      "  eager, nothing recomputed: %d rows, mean error %.3f%%, worst %.3f%%; others: %d rows, "
      "worst %.3f%%\n",
      n, 100 * sum / n, 100 * worst, others, 100 * worst_other);
  assert_true(n >= 15 && others >= 10);
  assert_true(sum / n < 0.003);
  assert_true(worst < 0.01);
  assert_true(worst_other < 0.03);
}

/* 7 B at 4096 tokens in eager mode does not fit in the GPU's 139 GiB, as measured. */
static void what_did_not_fit_is_predicted_not_to_fit(void **state) {
  (void)state;
  for (int64_t mbs = 1; mbs <= 4; mbs *= 4) {
    struct pz_workload_options o = pz_workload_options_default();
    o.kernels = PZ_KERNELS_EAGER;
    o.mbs = mbs;
    struct pz_workload *w = pz_test_load("llama2-7b", &o);
    assert_true(w->totals.peak_bytes > 139LL << 30);
    pz_workload_free(w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kept_bytes_are_the_closed_form),
      cmocka_unit_test(saved_tensors_add_up),
      cmocka_unit_test(eager_llama_layer_to_the_byte),
      cmocka_unit_test(what_is_taken_is_given_back),
      cmocka_unit_test(peak_memory_is_what_a_gpu_shows),
      cmocka_unit_test(what_did_not_fit_is_predicted_not_to_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
