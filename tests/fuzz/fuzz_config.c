/* config.json: any bytes give a workload or an error with a message, never a crash, and what is
 * built is consistent. */
#include <stdlib.h>

#include "phaze/phaze.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void check(const struct pz_workload *w) {
  require(w->n_layers == 3 && w->totals.params > 0 && w->totals.matmul_forward_flop > 0);
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++)
      for (uint32_t k = 0; k < w->layers[i].ops[d].n; k++) {
        const struct pz_op *op = &w->layers[i].ops[d].op[k];
        require(op->flop >= 0 && op->bytes_read >= 0 && op->bytes_written >= 0);
        for (uint32_t p = 0; p < op->n_pred; p++) require(op->pred[p] < k);
      }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  for (int variant = 0; variant < 4; variant++) {
    struct pz_workload_options o = pz_workload_options_default();
    struct pz_error err = {0};
    struct pz_workload *w = NULL;
    o.kernels = variant & 1 ? PZ_KERNELS_EAGER : PZ_KERNELS_FUSED;
    o.tp = variant & 2 ? 2 : 1;
    o.sequence_parallel = variant == 3;
    o.mbs = variant + 1;
    if (pz_workload_parse("fuzz", (const char *)data, bytes, &o, &w, &err) == PZ_OK)
      check(w);
    else
      require(err.message[0] && !w);
    pz_workload_free(w);
  }
  return 0;
}
