/* How the best plan scales, as one HTML page; and, where explore.wasm is at hand, the page that finds plans by itself.
 *
 *     cc examples/pages.c $(pkg-config --cflags --libs phaze) -o pages
 *     ./pages scaling.html [PREFIX/share/phaze/explore.wasm explore.html]
 */
#include <phaze/phaze.h>
#include <stdio.h>

static enum pz_status scale(const char *path, struct pz_error *err) {
  struct pz_training_place_options o = pz_training_place_options_default();
  struct pz_choices devices = {{8, 16, 32}, 3};
  struct pz_scaling *s = NULL;
  struct pz_chip *chip = NULL;
  struct pz_cluster net;
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_chip_load("h100", &chip, err);
  if (status == PZ_OK) status = pz_cluster_load("dgx-h100", &net, err);
  if (status == PZ_OK)
    status = pz_training_scale("llama3-8b", chip, &net, &o, &devices, 4, &s, err);
  for (uint32_t i = 0; status == PZ_OK && i < s->n_rows; i++)
    printf("%lld devices: %.0f tokens/s a device, efficiency %.0f%%\n",
           (long long)s->rows[i].devices, s->rows[i].tokens_per_s_per_device,
           100 * s->rows[i].efficiency);
  if (status == PZ_OK) {
    struct pz_plan_page page = {.size = sizeof page,
                                .model = "llama3-8b",
                                .chip = chip,
                                .net = &net,
                                .rows = s->rows,
                                .n_rows = s->n_rows,
                                .weak = s->weak};
    status = pz_plan_page(&page, &text, &bytes, err);
  }
  FILE *out = status == PZ_OK ? fopen(path, "wb") : NULL;
  if (out) printf("%s: %zu bytes\n", path, fwrite(text, 1, bytes, out));
  if (out) fclose(out);
  pz_text_free(text);
  pz_scaling_free(s);
  pz_chip_free(chip);
  return status;
}

static enum pz_status explore(const char *wasm, const char *path, struct pz_error *err) {
  struct pz_explore_options o = pz_explore_options_default();
  const char *const models[] = {"llama3-8b", NULL};
  char *text = NULL;
  size_t bytes = 0;
  o.models = models;
  o.chip = "h100";
  o.cluster = "dgx-h100";
  o.wasm = wasm;
  enum pz_status status = pz_explore_page(&o, &text, &bytes, err);
  FILE *out = status == PZ_OK ? fopen(path, "wb") : NULL;
  if (out) printf("%s: %zu bytes\n", path, fwrite(text, 1, bytes, out));
  if (out) fclose(out);
  pz_text_free(text);
  return status;
}

int main(int argc, char **argv) {
  struct pz_error err = {0};
  enum pz_status status = scale(argc > 1 ? argv[1] : "scaling.html", &err);
  if (status == PZ_OK && argc > 3) status = explore(argv[2], argv[3], &err);
  if (status == PZ_OK) return 0;
  fprintf(stderr, "%s\n", err.message);
  return status == PZ_NO_ANSWER ? 1 : 2;
}
