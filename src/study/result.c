#include "study/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/text.h"
#include "study/study.h"

void pz_result_init(struct pz_result *r, struct pz_arena *arena) {
  *r = (struct pz_result){.arena = arena};
}

const struct pz_result_chip *pz_result_chip(const struct pz_result *r, uint64_t id) {
  uint32_t lo = 0, hi = r->n_chips;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (r->chips[mid].id < id)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < r->n_chips && r->chips[lo].id == id ? &r->chips[lo] : NULL;
}

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the result");
}

/* ---- ratios --------------------------------------------------------------------------------- */

struct ratio {
  double v;
  uint32_t at; /* in the list of models */
};

static int by_size(const void *a, const void *b) {
  const struct ratio *x = a, *y = b;
  if (x->v != y->v) return x->v < y->v ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

struct pz_ratios pz_ratios_of(const double *ratios, const char *const *models, uint32_t n_all) {
  struct ratio list[PZ_SEARCH_MOST_MODELS];
  uint32_t n = 0;
  double logs = 0;
  for (uint32_t i = 0; i < n_all; i++) {
    if (!(ratios[i] > 0)) continue;
    list[n++] = (struct ratio){ratios[i], i};
    logs += log(ratios[i]);
  }
  if (n < 2) return (struct pz_ratios){.n_models = n};
  qsort(list, n, sizeof *list, by_size);
  uint32_t last = n - 1, most = last;
  while (most > 0 && list[most - 1].v == list[last].v) most--;
  return (struct pz_ratios){.n_models = n,
                            .geometric_mean = exp(logs / n),
                            .median = (list[last / 2].v + list[n / 2].v) / 2,
                            .least_model = models[list[0].at],
                            .most_model = models[list[most].at],
                            .least = list[0].v,
                            .most = list[most].v};
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* A text of an object, copied, without control characters; "" where there is none, NULL when out of memory. */
static const char *copy_text(struct pz_arena *arena, const json_t *o, const char *key) {
  const char *text = json_string_value(json_object_get(o, key));
  return pz_text_plain(pz_arena_strdup(arena, text ? text : ""));
}

static bool set_models(struct pz_result *r, const json_t *models) {
  struct pz_result_inputs *in = &r->inputs;
  bool good = true;
  for (uint32_t i = 0; i < in->options.n_models && good; i++) {
    const json_t *m = json_array_get(models, i);
    in->models[i] = (struct pz_result_input_model){in->options.models[i],
                                                   json_integer_value(json_object_get(m, "seq")),
                                                   copy_text(r->arena, m, "digest")};
    good = in->models[i].digest;
  }
  return good;
}

static enum pz_status set_space(struct pz_result *r, const json_t *space, struct pz_error *err) {
  struct pz_result_inputs *in = &r->inputs;
  const json_t *own = json_object_get(space, "base");
  struct pz_chip base;
  enum pz_status status = PZ_OK;
  if (own) {
    char *text = pz_json_dump(own, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text) return no_memory(err);
    status = pz_chip_read_text_units("inputs: base chip", text, strlen(text), true, &base, err);
    pz_free(text);
    if (status == PZ_OK) in->base_mm2 = pz_chip_bill(&base, PZ_BILL_LIKELY).area_mm2;
  }
  in->space_name = copy_text(r->arena, space, "name");
  in->space_about = copy_text(r->arena, space, "about");
  if (status == PZ_OK && !(in->space_name && in->space_about)) status = no_memory(err);
  return status;
}

static enum pz_status set_inputs(struct pz_result *r, const json_t *root, struct pz_error *err) {
  struct pz_result_inputs *in = &r->inputs;
  const json_t *cluster = json_object_get(json_object_get(root, "original"), "cluster");
  enum pz_status status = pz_study_from_inputs(root, r->arena, &in->options, err);
  if (status == PZ_OK) status = set_space(r, json_object_get(root, "space"), err);
  if (status != PZ_OK) return status;
  in->cluster_name = copy_text(r->arena, cluster, "name");
  in->cluster_about = copy_text(r->arena, cluster, "about");
  bool good = set_models(r, json_object_get(root, "models"));
  return good && in->cluster_name && in->cluster_about ? PZ_OK : no_memory(err);
}

enum pz_status pz_result_set_inputs(struct pz_result *r, const char *json, struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_json_parse("inputs", json, strlen(json), &root, err);
  if (status == PZ_OK) status = set_inputs(r, root, err);
  json_decref(root);
  if (status != PZ_OK) return status;
  r->inputs.json = pz_arena_strdup(r->arena, json);
  return r->inputs.json ? PZ_OK : no_memory(err);
}
