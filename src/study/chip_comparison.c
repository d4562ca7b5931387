#include "study/chip_comparison.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/num.h"
#include "place/plan_question.h"
#include "study/run.h"

/* ---- where a built chip stands -------------------------------------------------------------- */

/* The network that a chip is sold in: a preset, or groups of so many devices with a rate between them. */
static const struct home {
  const char *chip, *cluster;
  int64_t scale_up;
  double outer_bytes_per_s;
} homes[] = {
    {"a100-40", "dgx-a100", 0, 0},  {"a100-80", "dgx-a100", 0, 0},
    {"b200", "dgx-b200", 0, 0},     {"b300", "dgx-b300", 0, 0},
    {"gb200", "nvl72-gb200", 0, 0}, {"gb300", "nvl72-gb300", 0, 0},
    {"h100", "dgx-h100", 0, 0},     {"h200", "dgx-h200", 0, 0},
    {"h800", "h800-8x50", 0, 0},    {"tpuv4-real", "tpuv4-real-pod", 0, 0},
    {"tpuv5e", "tpuv5e-pod", 0, 0}, {"tpuv5p", "tpuv5p-pod", 0, 0},
    {"tpuv6e", "tpuv6e-pod", 0, 0}, {"tpuv7", "tpuv7-pod", 0, 0},
    {"gaudi3", NULL, 8, 75e9},     /* 3 of 24 ports of 200 Gb/s (Intel Gaudi 3 white paper) */
    {"mi300x", NULL, 8, 50e9},     /* one 400 Gb/s interface a GPU (AMD cluster reference guide) */
    {"trainium2", NULL, 16, 25e9}, /* trn2.48xlarge: 16 chips, 3.2 Tb/s (AWS) */
};

static const struct home *home_of(const char *chip) {
  for (size_t i = 0; i < sizeof homes / sizeof *homes; i++)
    if (strcmp(homes[i].chip, chip) == 0) return &homes[i];
  return NULL;
}

static enum pz_status set_network(const struct pz_comparison_question *q, const char *text,
                                  struct pz_compared_chip *x, struct pz_error *err) {
  const struct home *home = home_of(text);
  const char *cluster = q->cluster ? q->cluster : home ? home->cluster : NULL;
  if (cluster) {
    enum pz_status status = pz_cluster_load(cluster, &x->net, err);
    return status == PZ_OK ? pz_cluster_reach(&x->net, q->models.devices, "devices", err) : status;
  }
  struct pz_training_question own = q->models;
  if (home) {
    own.scale_up = home->scale_up;
    own.outer_bytes_per_s = home->outer_bytes_per_s;
  }
  x->net = pz_training_cluster(&own, &x->chip);
  return PZ_OK;
}

/* ---- chips ---------------------------------------------------------------------------------- */

/* Is it the folder of a run? */
static bool has_run(const char *dir) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/run.sqlite", dir);
  return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

/* The best chip of a saved search. */
static enum pz_status load_winner(const char *dir, struct pz_chip *out, struct pz_error *err) {
  struct pz_run_options o = pz_run_options_default();
  struct pz_run *run = NULL;
  o.dir = dir;
  o.threads = 1;
  enum pz_status status = pz_run_look(&o, &run, err);
  if (status == PZ_OK) *out = *pz_result_best(pz_run_result(run))->chip;
  pz_run_close(run);
  return status;
}

static bool is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static enum pz_status load_described(const char *text, struct pz_chip *out, struct pz_error *err) {
  if (has_run(text)) return load_winner(text, out, err);
  bool folder = is_folder(text); /* which may have the name of a chip */
  enum pz_status status = pz_chip_read(text, out, folder ? NULL : err);
  if (status == PZ_OK || !folder) return status;
  return pz_fail(err, PZ_BAD_INPUT,
                 "%.200s: no search is saved here; accepted: the name of a chip, a chip.json, or "
                 "the directory of a search",
                 text);
}

enum pz_status pz_compared_chip_load(const char *text, const struct pz_comparison_question *q,
                                     struct pz_compared_chip *out, struct pz_error *err) {
  enum pz_status status = load_described(text, &out->chip, err);
  if (status != PZ_OK) return status;
  struct pz_chip *c = &out->chip;
  if (pz_tech_is_library(pz_tech_at(c->tech)))
    return pz_fail(err, PZ_BAD_USE,
                   "chip %s is of %s, whose library has no bill of HBM, links and static power; "
                   "accepted: a chip of 16 nm or below",
                   c->name, pz_tech_at(c->tech)->name);
  out->measured = q->measured && !c->cold;
  out->tdp_watts = c->watts;
  if (!out->measured) pz_chip_make_cold(c, NULL);
  out->taken = pz_chip_taken(c);
  if (c->execution == PZ_CHIP_STREAM)
    out->taken.watts = pz_chip_peak_watts(c); /* lowers its clock */
  return set_network(q, text, out, err);
}

/* ---- plans ---------------------------------------------------------------------------------- */

static enum pz_status compare_model(const struct pz_comparison_question *q,
                                    struct pz_compared_chip *x, uint32_t model,
                                    struct pz_arena *arena, struct pz_error *err) {
  struct pz_compared_model *m = &x->model[model];
  struct pz_plan_question one;
  struct pz_found_plans found;
  enum pz_status status =
      pz_training_plan_question(&q->models, model, &x->chip, &x->net, &one, err);
  one.threads = q->threads;
  if (status == PZ_OK) status = pz_plan_search(&one, arena, &found, err);
  if (status != PZ_OK) return status;
  m->fits = found.n > 0;
  if (!m->fits) return PZ_OK;
  m->found = found.list[0];
  return pz_step_energy(&one.job, &m->found.plan, &m->found.p, &m->energy, err);
}

enum pz_status pz_compare_chip(const struct pz_comparison_question *q, struct pz_compared_chip *x,
                               struct pz_arena *arena, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < q->models.n_models && status == PZ_OK; i++)
    status = compare_model(q, x, i, arena, err);
  return status;
}

double pz_compared_ratio(const struct pz_training_question *q, const struct pz_compared_chip *x,
                         const struct pz_compared_chip *to) {
  double sum = 0;
  for (uint32_t i = 0; i < q->n_models; i++) {
    if (!x->model[i].fits || !to->model[i].fits) return 0;
    sum += log(to->model[i].found.p.step_s / x->model[i].found.p.step_s);
  }
  return exp(sum / q->n_models);
}

/* ---- for readers ---------------------------------------------------------------------------- */

static json_t *row_json(const struct pz_comparison_question *q, const struct pz_compared_chip *x,
                        const struct pz_compared_chip *first, uint32_t model) {
  const struct pz_compared_model *m = &x->model[model], *to = &first->model[model];
  const struct pz_prediction *p = &m->found.p;
  char plan[PZ_PLAN_TEXT_MOST];
  double ratio = m->fits && to->fits ? to->found.p.step_s / p->step_s : 0;
  json_t *o =
      json_pack("{s:s,s:s,s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:b}", "chip", x->chip.name, "model",
                q->models.models[model], "kind", x->measured ? "measured" : "described", "cluster",
                x->net.name, "tech", pz_tech_at(x->chip.tech)->name, "clock_hz", x->chip.clock_hz,
                "tensor_flop_per_s", pz_chip_tensor_flop_per_s(&x->chip), "area_mm2", x->taken.mm2,
                "peak_watts", x->taken.watts, "dollars", x->taken.dollars, "tdp_watts",
                x->tdp_watts, "fits", m->fits);
  if (!o || !m->fits) return o;
  json_t *more = json_pack(
      "{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:s}", "step_s", p->step_s, "mfu", p->mfu,
      "mfu_conventional", p->mfu_conventional, "samples_per_s", p->samples_per_s, "ratio", ratio,
      "watts", m->energy.watts, "joules_per_sample", m->energy.joules_per_sample,
      "samples_per_s_per_dollar", p->samples_per_s / ((double)q->models.devices * x->taken.dollars),
      "plan", pz_plan_text(&m->found.plan, plan, sizeof plan));
  if (more) json_object_update(o, more);
  json_decref(more);
  return o;
}

json_t *pz_compared_chips_json(const struct pz_comparison_question *q,
                               const struct pz_compared_chip *chips, uint32_t n) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < q->models.n_models; k++)
      if (json_array_append_new(rows, row_json(q, &chips[i], &chips[0], k)) != 0) {
        json_decref(rows);
        return NULL;
      }
  return rows;
}
