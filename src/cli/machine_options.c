/* Reads the chip and the network that the options or the file of a training run name (machine_options.h): first the
 * network of a chip, then runs and plan files, then the description of a chip as output. */
#include "cli/machine_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/owned.h"
#include "core/file.h"
#include "report/table.h"

/* ---- chip and network ----------------------------------------------------------------------- */

void pz_machine_tell_scale(const struct pz_cluster *net) {
  if (net->devices > net->stated_devices)
    fprintf(stderr,
            "phaze: cluster %s: %" PRId64 " devices, scaled out from %" PRId64
            " at the rates of its outermost level\n",
            net->name, net->devices, net->stated_devices);
}

struct pz_machine *pz_machine_open(struct pz_call *call, const struct pz_machine_options *o,
                                   struct pz_machine_use use) {
  struct pz_error *err = pz_call_error(call);
  struct pz_machine *m = pz_alloc(call, 1, sizeof *m);
  struct pz_cluster *named = NULL;
  pz_chip_read_units(call, o->chip, o->any_units, &m->chip);
  if (o->cluster) {
    named = pz_alloc(call, 1, sizeof *named);
    pz_cluster_read_units(call, o->cluster, o->any_units, named);
  }
  if (use.training) {
    pz_must(call, pz_network_find(&m->chip, named, use.devices, use.option, &m->network, err));
  } else {
    /* Without a plan, only a cluster that was named is used, or else the chip's own link. */
    m->network.own_link = !named;
    if (named) {
      m->network.cluster = *named;
      pz_must(call, pz_cluster_reach(&m->network.cluster, use.devices, use.option, err));
    }
  }
  if (use.quiet) return m;
  if (m->network.standard)
    pz_command_say("no --cluster: %s, the network of %s", m->network.cluster.name, m->chip.name);
  if (*m->network.warning) pz_command_warn(false, m->network.warning);
  if (!m->network.own_link) pz_machine_tell_scale(&m->network.cluster);
  return m;
}

struct pz_cost *pz_machine_cost(struct pz_call *call, const struct pz_machine_options *o,
                                struct pz_machine_use use) {
  const struct pz_machine *m = pz_machine_open(call, o, use);
  struct pz_cost *cost = NULL;
  pz_must(call, pz_cost_new(&m->chip, pz_machine_net(m), &cost, pz_call_error(call)));
  pz_defer(call, pz_free_cost, cost);
  return cost;
}

bool pz_machine_reads(const struct pz_machine_options *o, const char *path) {
  bool chip_file = o->chip && pz_file_named(o->chip);
  bool cluster_file = o->cluster && pz_file_named(o->cluster);
  return (chip_file && pz_file_same(o->chip, path)) ||
         (cluster_file && pz_file_same(o->cluster, path));
}

bool pz_machine_overwrites(const struct pz_machine_options *o, const char *input,
                           const char *path) {
  return path && (pz_file_same(path, input) || pz_machine_reads(o, path));
}

void pz_machine_files_json(const struct pz_machine_options *o, json_t *j) {
  if (o->chip && pz_file_named(o->chip)) json_object_set_new(j, "chip_file", json_string(o->chip));
  if (o->cluster && pz_file_named(o->cluster))
    json_object_set_new(j, "cluster_file", json_string(o->cluster));
}

json_t *pz_machine_warnings(const struct pz_machine *m) {
  json_t *list = json_array();
  if (*m->network.warning) json_array_append_new(list, json_string(m->network.warning));
  return list;
}

/* ---- training runs -------------------------------------------------------------------------- */

struct pz_run_plan *pz_machine_read_run(struct pz_call *call, const char *path,
                                        const struct pz_run_plan_options *o, const char **name) {
  struct pz_run_plan *run = NULL;
  size_t bytes = 0;
  bool standard = strcmp(path, "-") == 0;
  *name = standard ? "standard input" : path;
  char *text = pz_file_text(call, standard ? "/dev/stdin" : path, PZ_PLAN_FILE_MOST_BYTES, &bytes);
  pz_must(call, pz_run_plan_read(*name, text, bytes, o, &run, pz_call_error(call)));
  pz_defer(call, pz_free_run_plan, run);
  return run;
}

struct pz_machine *pz_machine_of(struct pz_call *call, const struct pz_machine_options *o,
                                 const char *name, bool quiet, struct pz_run_plan *run) {
  if (o->chip) {
    run->from[PZ_RUN_CHIP] = "--chip";
    run->chip = o->chip;
  }
  if (o->cluster) {
    run->from[PZ_RUN_CLUSTER] = "--cluster";
    run->cluster = o->cluster;
  }
  if (!run->chip)
    pz_raise(call, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP, and --cluster NET", name);
  struct pz_machine_options merged = {run->chip, run->cluster, o->any_units};
  struct pz_machine_use use = {"devices", pz_plan_asked_devices(&run->plan), quiet,
                               .training = true};
  return pz_machine_open(call, &merged, use);
}

struct plan_test {
  const char *path;
  bool is_plan;
};

static void test_plan_file(struct pz_call *call, void *ctx) {
  struct plan_test *test = ctx;
  size_t bytes = 0;
  char *text = pz_file_text(call, test->path, PZ_PLAN_FILE_MOST_BYTES, &bytes);
  if (text[strspn(text, " \t\r\n")] != '{') return;
  test->is_plan = true; /* the reader of plans reports what is wrong with malformed JSON */
  json_t *root = pz_json_read(call, test->path, text, bytes);
  test->is_plan = json_object_get(root, "model") || json_object_get(root, "plan") ||
                  json_object_get(root, "run");
}

bool pz_machine_is_plan(const char *path) {
  struct plan_test test = {.path = path};
  if (!pz_file_is_regular(path)) return false;
  enum pz_status status = pz_border(test_plan_file, &test, NULL);
  (void)status; /* whoever reads the file next reports the error */
  return test.is_plan;
}

/* ---- calibrated chips ----------------------------------------------------------------------- */

void pz_machine_save_chip(struct pz_call *call, const struct pz_chip *chip, const char *path) {
  char *text = NULL;
  pz_must(call, pz_chip_text(chip, &text, pz_call_error(call)));
  pz_command_save_text(call, path, text);
}

void pz_machine_show_factors(struct pz_call *call, const struct pz_step_factor *factors,
                             uint32_t n) {
  static const char *const names[] = {"GEMMs", "attention", "element-wise, optimizer", "launches",
                                      "collectives, transfers"};
  static const char *const heads[] = {"part of the step", ">share", ">time by", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < n; i++) {
    pz_table_cell(t, "%s", names[i]);
    pz_table_cell(t, "%.0f%%", 100 * factors[i].share);
    pz_table_cell(t, "%+.1f%%", 100 * (factors[i].factor - 1));
  }
  printf("\n");
  pz_table_print(t, 0, stdout);
}

json_t *pz_machine_factors_json(const struct pz_step_factor *factors, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n; i++)
    json_array_append_new(list, json_pack("{s:s,s:f,s:f}", "name", factors[i].name, "factor",
                                          factors[i].factor, "share", factors[i].share));
  return list;
}
