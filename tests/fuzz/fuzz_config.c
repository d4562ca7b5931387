/* config.json: any bytes give a workload or an error with a message, never a crash, and what is
 * built is consistent. */
#include <stdlib.h>

#include "phaze/phaze.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void check(const struct pz_workload *w) {
  const struct pz_totals *t = &w->totals;
  require(w->n_layers >= 3 && t->params > 0 && t->param_bytes == 2 * t->params);
  require(t->model_params >= t->params && t->matmul_forward_flop > 0 && t->backward_flop > 0);
  require(t->activation_bytes > 0 && t->peak_bytes > t->param_bytes);
  int64_t layers = 0;
  for (uint32_t i = 0; i < w->n_order; i++) layers += w->order[i].n_unit * w->order[i].repeats;
  require(layers == t->layers && t->active_params <= t->model_params);
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++)
      for (uint32_t k = 0; k < w->layers[i].ops[d].n; k++) {
        const struct pz_op *op = &w->layers[i].ops[d].op[k];
        require(op->flop >= 0 && op->bytes_read >= 0 && op->bytes_written >= 0);
        for (uint32_t p = 0; p < op->n_pred; p++) require(op->pred[p] < k);
      }
}

/* The options vary with the input, so that every combination comes up. */
static struct pz_workload_options vary(const uint8_t *data, size_t bytes, unsigned salt) {
  struct pz_workload_options o = pz_workload_options_default();
  unsigned h = salt;
  for (size_t i = 0; i < bytes; i++) h = h * 31 + data[i];
  o.kernels = h & 1 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
  o.attention = h & 2 ? PZ_ATTENTION_FLASH : PZ_ATTENTION_STANDARD;
  o.recompute = h & 4 ? PZ_RECOMPUTE_FULL : PZ_RECOMPUTE_NONE;
  o.sequence_parallel = h & 8;
  o.tp = 1 + (h >> 4) % 8;
  o.slice = (h >> 8) % (unsigned)o.tp;
  o.mbs = 1 + (h >> 12) % 4;
  o.seq = (h >> 16) % 3 ? 8 * ((h >> 18) % 64) : 0;
  o.ep = (h >> 24) % 3;
  o.etp = (h >> 26) % 3;
  o.mtp = (h >> 28) % 4 == 0;
  if ((h >> 30) & 1) o.num_layers = 1 + (h >> 20) % 40;
  return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  for (unsigned salt = 0; salt < 4; salt++) {
    struct pz_workload_options o = vary(data, bytes, salt);
    struct pz_error err = {0};
    struct pz_workload *w = NULL;
    if (pz_workload_parse("fuzz", (const char *)data, bytes, &o, &w, &err) == PZ_OK)
      check(w);
    else
      require(err.message[0] && !w);
    pz_workload_free(w);
  }
  return 0;
}
