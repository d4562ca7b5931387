/* What one training plan takes on a cluster, as a framework runs it, and what a whole run costs.
 *
 *     cc examples/predict.c $(pkg-config --cflags --libs phaze) -o predict
 *     ./predict llama2-7b h200 dgx-h200
 */
#include <inttypes.h>
#include <phaze/phaze.h>
#include <stdio.h>

int main(int argc, char **argv) {
  struct pz_error err = {0};
  struct pz_plan plan = pz_plan_default();
  struct pz_run_cost_options asked = pz_run_cost_options_default();
  struct pz_training_run *run = NULL;
  struct pz_run_cost cost;
  struct pz_chip *chip = NULL;
  struct pz_cluster net;
  plan.framework = pz_framework_find("nemo");
  plan.devices = 64;
  plan.tp = 4;
  plan.batch = 512;
  asked.tokens = 2e12;
  asked.price = 2.5;
  asked.mtbf_s = 50000.0 * 3600;
  enum pz_status status = pz_chip_load(argc > 2 ? argv[2] : "h200", &chip, &err);
  if (status == PZ_OK) status = pz_cluster_load(argc > 3 ? argv[3] : "dgx-h200", &net, &err);
  if (status == PZ_OK)
    status =
        pz_training_predict(argc > 1 ? argv[1] : "llama2-7b", chip, &net, &plan, false, &run, &err);
  if (status == PZ_OK) status = pz_run_cost(run, chip, &asked, &cost, &err);
  if (status != PZ_OK) {
    fprintf(stderr, "%s\n", err.message);
    pz_training_run_free(run);
    pz_chip_free(chip);
    return status == PZ_NO_ANSWER ? 1 : 2;
  }
  printf("%.3f s: %" PRId64 " replicas, %" PRId64 " microbatches, MFU %.0f%%\n", run->p.step_s,
         run->plan.dp, run->p.microbatches, 100 * run->p.mfu);
  printf("%.1f of %.1f GB: %s\n", run->p.peak_bytes / 1e9, run->hbm_bytes / 1e9,
         run->p.peak_bytes <= run->hbm_bytes ? "fits" : "does not fit");
  if (!pz_prediction_fits(&run->p)) {
    struct pz_plan_changes *changes = NULL;
    const char *model = argc > 1 ? argv[1] : "llama2-7b";
    if (pz_training_changes(model, chip, &net, run, &changes, &err) == PZ_OK && changes->n)
      printf("fits with %s\n", changes->list[0].options);
    pz_plan_changes_free(changes);
  }
  printf("%.1f days, %.0f dollars, goodput %.1f%%\n", cost.all_seconds / 86400, cost.all_dollars,
         100 * cost.goodput);
  pz_training_run_free(run);
  pz_chip_free(chip);
  return 0;
}
