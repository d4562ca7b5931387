/* The fastest way to train a model on a cluster: pipeline stages, replicas, tensor parallelism,
 * microbatch size and activation checkpointing.
 *
 *     cc examples/plan.c $(pkg-config --cflags --libs phaze) -o plan
 *     ./plan llama2-7b h200 dgx-h200
 */
#include <inttypes.h>
#include <phaze/phaze.h>
#include <stdio.h>

static void note(void *ctx, unsigned lists, const char *text) {
  (void)ctx;
  if (!lists) fprintf(stderr, "note: %s\n", text);
}

int main(int argc, char **argv) {
  struct pz_error err = {0};
  struct pz_partition_options options = pz_partition_options_default();
  struct pz_partitions *found = NULL;
  struct pz_chip *chip = NULL;
  struct pz_cluster net;
  options.devices = 64;
  options.batch = 512;
  options.n_next = 2;
  options.note = note;
  enum pz_status status = pz_chip_load(argc > 2 ? argv[2] : "h200", &chip, &err);
  if (status == PZ_OK) status = pz_cluster_load(argc > 3 ? argv[3] : "dgx-h200", &net, &err);
  if (status == PZ_OK)
    status =
        pz_partition_model(argc > 1 ? argv[1] : "llama2-7b", chip, &net, &options, &found, &err);
  if (status != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    pz_chip_free(chip);
    return status == PZ_NO_ANSWER ? 1 : 2;
  }
  for (uint32_t i = 0; i < found->n_plans; i++) {
    const struct pz_partition *p = &found->plans[i];
    printf("%.3f s: %u stages x %" PRId64 " replicas x tensor %" PRId64 ", microbatch %" PRId64
           ", activations %s, %.0f%% of peak\n",
           p->step_s, p->pp, p->dp, p->tp, p->mbs, p->recompute ? "recomputed" : "kept",
           100 * p->flop_utilisation);
  }
  pz_partitions_free(found);
  pz_chip_free(chip);
  return 0;
}
