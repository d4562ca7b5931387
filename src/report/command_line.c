#include "report/command_line.h"

#include <inttypes.h>
#include <string.h>

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/,:+";

static void put_word(const char *word, FILE *out) {
  if (*word && !word[strspn(word, plain)]) {
    fprintf(out, " %s", word);
    return;
  }
  fputs(" '", out);
  for (; *word; word++)
    if (*word == '\'')
      fputs("'\\''", out);
    else
      fputc(*word, out);
  fputc('\'', out);
}

static bool same(const struct pz_choices *a, const struct pz_choices *b) {
  return a->n == b->n && memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v) == 0;
}

static void put_choices(const char *option, const struct pz_choices *c,
                        const struct pz_choices *usual, FILE *out) {
  if (same(c, usual)) return;
  fprintf(out, " --%s ", option);
  for (int i = 0; i < c->n; i++) fprintf(out, i ? ",%" PRId64 : "%" PRId64, c->v[i]);
}

static void put_number(const char *option, int64_t v, int64_t usual, FILE *out) {
  if (v != usual) fprintf(out, " --%s %" PRId64, option, v);
}

static bool is_preset(const char *space) {
  for (size_t i = 0; pz_space_preset_name(i); i++)
    if (strcmp(pz_space_preset_name(i), space) == 0) return true;
  return false;
}

static void put_space(const struct pz_result_inputs *in, FILE *out) {
  char file[64];
  snprintf(file, sizeof file, is_preset(in->space_name) ? "%s" : "%s.json", in->space_name);
  if (strcmp(in->space_name, "paper") != 0) {
    fputs(" --space", out);
    put_word(file, out);
  }
  if (in->options.limit_mm2 != in->base_mm2)
    fprintf(out, " --limit-mm2 %.17g", in->options.limit_mm2);
  if (in->options.limit_watts > 0) fprintf(out, " --limit-watts %.17g", in->options.limit_watts);
  if (in->options.limit_dollars > 0)
    fprintf(out, " --limit-dollars %.17g", in->options.limit_dollars);
  if (strcmp(in->space_name, "paper") != 0)
    fprintf(out, " --evaluator %s", pz_evaluator_names[in->options.evaluator]);
}

static void put_objective(const struct pz_study_options *o, FILE *out) {
  if (o->objective == PZ_OBJECTIVE_GEOMEAN) return;
  fprintf(out, " --objective %s", pz_objective_names[o->objective]);
  if (o->objective != PZ_OBJECTIVE_WEIGHTED) return;
  fputs(" --weights ", out);
  for (uint32_t i = 0; i < o->n_models; i++) fprintf(out, i ? ",%.17g" : "%.17g", o->weight[i]);
}

static void put_import(const struct pz_workload_options *w, FILE *out) {
  for (int i = 0; i < PZ_MOST_DIMS && w->dims[i]; i++) {
    fputs(" --dim", out);
    put_word(w->dims[i], out);
  }
  if (w->batch_dim) {
    fputs(" --batch-dim", out);
    put_word(w->batch_dim, out);
  }
  if (w->layers) {
    fputs(" --layers", out);
    put_word(w->layers, out);
  }
  if (w->unknown_ops == PZ_UNKNOWN_VECTOR) fputs(" --unknown-ops vector", out);
}

void pz_command_line_print(const struct pz_result_inputs *in, uint64_t seed, FILE *out) {
  struct pz_study_options usual = pz_study_options_default();
  const struct pz_study_options *o = &in->options;
  bool usual_seed = seed == PZ_COMPARE_SEED;
  fputs(usual_seed ? "phaze search" : "phaze compare", out);
  for (uint32_t i = 0; i < o->n_models; i++) put_word(o->models[i], out);
  put_space(in, out);
  if (strcmp(in->cluster_name, usual.cluster) != 0) {
    fputs(" --cluster", out);
    put_word(in->cluster_name, out);
  }
  put_number("devices", o->devices, usual.devices, out);
  put_number("batch", o->batch, usual.batch, out);
  put_number("seq", o->workload.seq, usual.workload.seq, out);
  put_import(&o->workload, out);
  put_choices("mbs", &o->mbs, &usual.mbs, out);
  put_choices("hbm", &o->hbm_gib, &usual.hbm_gib, out);
  put_choices("tp", &o->tp, &usual.tp, out);
  put_objective(o, out);
  if (o->state < usual.state) fputs(" --optimizer sgd", out);
  put_number("steps", o->steps, usual.steps, out);
  if (o->exhaustive) fputs(" --exhaustive", out);
  if (o->assumptions) fputs(" --rules original", out);
  if (o->pareto) fputs(" --pareto", out);
  if (o->pareto && o->pareto_tolerance != usual.pareto_tolerance)
    fprintf(out, " --pareto-tolerance %.15g", 100 * o->pareto_tolerance);
  put_number("seed", (int64_t)seed, PZ_COMPARE_SEED, out);
  fputs(" -o DIR", out);
}
