/* Prints the options of a study as a command line: the models, the space and its limits, the cluster, the workload, the
 * plans to consider, the objective and how to search, each only where it differs from the default. */
#include "report/command_line.h"

#include <inttypes.h>
#include <string.h>

static const char unquoted_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/,:+";

static void print_word(const char *word, FILE *out) {
  bool needs_quotes = !*word || word[strspn(word, unquoted_letters)];
  if (!needs_quotes) {
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

static void print_text_option(const char *option, const char *value, FILE *out) {
  if (!value) return;
  fprintf(out, " --%s", option);
  print_word(value, out);
}

static void print_int_option(const char *option, int64_t v, int64_t usual, FILE *out) {
  if (v != usual) fprintf(out, " --%s %" PRId64, option, v);
}

static void print_list_option(const char *option, const struct pz_choices *c,
                              const struct pz_choices *usual, FILE *out) {
  bool same = c->n == usual->n && memcmp(c->v, usual->v, (size_t)c->n * sizeof *c->v) == 0;
  if (same) return;
  fprintf(out, " --%s ", option);
  for (int i = 0; i < c->n; i++) fprintf(out, i ? ",%" PRId64 : "%" PRId64, c->v[i]);
}

/* The default space 'paper' is omitted together with its evaluator. */
static void print_space(const struct pz_result_inputs *in, FILE *out) {
  const struct pz_study_options *o = &in->options;
  bool usual = strcmp(in->space_name, "paper") == 0, preset = false;
  for (size_t i = 0; pz_space_preset_name(i); i++)
    if (strcmp(pz_space_preset_name(i), in->space_name) == 0) preset = true;
  char file[64];
  snprintf(file, sizeof file, preset ? "%s" : "%s.json", in->space_name);
  if (!usual) print_text_option("space", file, out);
  if (o->limit_mm2 != in->base_mm2) fprintf(out, " --limit-mm2 %.17g", o->limit_mm2);
  if (o->limit_watts > 0) fprintf(out, " --limit-watts %.17g", o->limit_watts);
  if (o->limit_dollars > 0) fprintf(out, " --limit-dollars %.17g", o->limit_dollars);
  if (!usual) fprintf(out, " --evaluator %s", pz_evaluator_names[o->evaluator]);
}

void pz_command_line_print(const struct pz_result_inputs *in, uint64_t seed, FILE *out) {
  struct pz_study_options usual = pz_study_options_default();
  const struct pz_study_options *o = &in->options;
  fputs(seed == PZ_COMPARE_SEED ? "phaze search" : "phaze compare", out);
  for (uint32_t i = 0; i < o->n_models; i++) print_word(o->models[i], out);
  print_space(in, out);
  if (strcmp(in->cluster_name, usual.cluster) != 0)
    print_text_option("cluster", in->cluster_name, out);
  print_int_option("devices", o->devices, usual.devices, out);
  print_int_option("batch", o->batch, usual.batch, out);
  print_int_option("seq", o->workload.seq, usual.workload.seq, out);
  for (int i = 0; i < PZ_MOST_DIMS && o->workload.dims[i]; i++)
    print_text_option("dim", o->workload.dims[i], out);
  print_text_option("batch-dim", o->workload.batch_dim, out);
  print_text_option("layers", o->workload.layers, out);
  if (o->workload.unknown_ops == PZ_UNKNOWN_VECTOR) fputs(" --unknown-ops vector", out);
  print_list_option("mbs", &o->mbs, &usual.mbs, out);
  print_list_option("hbm", &o->hbm_gib, &usual.hbm_gib, out);
  print_list_option("tp", &o->tp, &usual.tp, out);
  if (o->objective != PZ_OBJECTIVE_GEOMEAN)
    fprintf(out, " --objective %s", pz_objective_names[o->objective]);
  if (o->objective == PZ_OBJECTIVE_WEIGHTED) {
    fputs(" --weights ", out);
    for (uint32_t i = 0; i < o->n_models; i++) fprintf(out, i ? ",%.17g" : "%.17g", o->weight[i]);
  }
  if (o->state < usual.state) fputs(" --optimizer sgd", out);
  print_int_option("steps", o->steps, usual.steps, out);
  if (o->exhaustive) fputs(" --exhaustive", out);
  if (o->assumptions) fputs(" --rules original", out);
  if (o->pareto) fputs(" --pareto", out);
  if (o->pareto && o->pareto_tolerance != usual.pareto_tolerance)
    fprintf(out, " --pareto-tolerance %.15g", 100 * o->pareto_tolerance);
  print_int_option("seed", (int64_t)seed, PZ_COMPARE_SEED, out);
  fputs(" -o DIR", out);
}
