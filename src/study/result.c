/* Parts of a result that need no search: access to its chips, the summary of throughput ratios,
 * and the inputs, which pz_result_set_inputs() restores from JSON. */
#include "study/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "study/study.h"

void pz_result_init(struct pz_result *result, struct pz_arena *arena) {
  *result = (struct pz_result){.arena = arena};
}

/* Returns the chip with this id in the space, or NULL if the result does not list it. */
const struct pz_result_chip *pz_result_chip(const struct pz_result *result, uint64_t id) {
  uint32_t low = 0, high = result->n_chips; /* chips are sorted by id */
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (result->chips[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low < result->n_chips && result->chips[low].id == id ? &result->chips[low] : NULL;
}

/* ---- ratios --------------------------------------------------------------------------------- */

struct ratio {
  double value;
  uint32_t model;
};

/* Compares ratios by value, then by the index of their model, for qsort. */
static int compare_ratios(const void *a, const void *b) {
  const struct ratio *first = a, *second = b;
  if (first->value != second->value) return first->value < second->value ? -1 : 1;
  return (first->model > second->model) - (first->model < second->model);
}

/* Returns the mean, median and range of the ratios above 0; if fewer than 2, only their number. */
struct pz_ratios pz_ratios_of(const double *ratios, const char *const *models, uint32_t n_models) {
  struct ratio list[PZ_SEARCH_MOST_MODELS];
  uint32_t n = 0;
  double logs = 0;
  for (uint32_t i = 0; i < n_models; i++) {
    bool counts = ratios[i] > 0; /* false for NaN */
    if (!counts) continue;
    list[n++] = (struct ratio){ratios[i], i};
    logs += log(ratios[i]);
  }
  if (n < 2) return (struct pz_ratios){.n_models = n};
  qsort(list, n, sizeof *list, compare_ratios);
  uint32_t last = n - 1;
  uint32_t most = last; /* the first model with the largest ratio */
  while (most > 0 && list[most - 1].value == list[last].value) most--;
  return (struct pz_ratios){.n_models = n,
                            .geometric_mean = exp(logs / n),
                            .median = (list[last / 2].value + list[n / 2].value) / 2,
                            .least_model = models[list[0].model],
                            .most_model = models[list[most].model],
                            .least = list[0].value,
                            .most = list[most].value};
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* Returns a copy of a text member without control characters; "" if it is missing. */
static const char *plain_text(struct pz_call *call, const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return pz_text_plain(pz_copy_text(call, text ? text : ""));
}

/* Reads the options with what reports show beside them: names, and the area of the base chip. */
void pz_result_set_inputs(struct pz_call *call, struct pz_result *result, const char *json) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  struct pz_result_inputs *inputs = &result->inputs;
  const json_t *root = pz_json_read(call, "inputs", json, strlen(json));
  const json_t *space = json_object_get(root, "space"), *base = json_object_get(space, "base");
  const json_t *cluster = json_object_get(json_object_get(root, "original"), "cluster");
  const json_t *models = json_object_get(root, "models");
  inputs->options = pz_study_options_from_inputs(&result_call, root);
  if (base) {
    struct pz_chip chip;
    pz_chip_read_json(call, "inputs: base chip", base, true, &chip);
    inputs->base_mm2 = pz_chip_bill(&chip, PZ_BILL_LIKELY).area_mm2;
  }
  inputs->space_name = plain_text(&result_call, space, "name");
  inputs->space_about = plain_text(&result_call, space, "about");
  inputs->cluster_name = plain_text(&result_call, cluster, "name");
  inputs->cluster_about = plain_text(&result_call, cluster, "about");
  for (uint32_t i = 0; i < inputs->options.n_models; i++) {
    const json_t *model = json_array_get(models, i);
    inputs->models[i] = (struct pz_result_input_model){
        inputs->options.models[i], json_integer_value(json_object_get(model, "seq")),
        plain_text(&result_call, model, "digest")};
  }
  inputs->json = pz_copy_text(&result_call, json);
}
