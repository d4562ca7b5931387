#include "cli/machine_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "report/table.h"

bool pz_machine_reads(const struct pz_machine_options *o, const char *path) {
  return (o->chip && pz_file_named(o->chip) && pz_file_same(o->chip, path)) ||
         (o->cluster && pz_file_named(o->cluster) && pz_file_same(o->cluster, path));
}

void pz_machine_tell_scale(const struct pz_cluster *net) {
  if (net->devices > net->stated_devices)
    fprintf(stderr,
            "phaze: cluster %s: %" PRId64 " devices, scaled out from %" PRId64
            " at the rates of its outermost level\n",
            net->name, net->devices, net->stated_devices);
}

void pz_machine_files_json(const struct pz_machine_options *o, json_t *j) {
  if (o->chip && pz_file_named(o->chip)) json_object_set_new(j, "chip_file", json_string(o->chip));
  if (o->cluster && pz_file_named(o->cluster))
    json_object_set_new(j, "cluster_file", json_string(o->cluster));
}

json_t *pz_machine_warnings(const struct pz_machine *m) {
  json_t *list = json_array();
  if (*m->at.warning) json_array_append_new(list, json_string(m->at.warning));
  return list;
}

/* Groups of devices that are no plan have the network that is named, or the chip's own link. */
static enum pz_status find_network(const struct pz_cluster *named, struct pz_machine_use use,
                                   struct pz_machine *m, struct pz_error *err) {
  if (use.training) return pz_network_find(&m->chip, named, use.devices, use.option, &m->at, err);
  m->at = (struct pz_network){.own_link = !named};
  if (!named) return PZ_OK;
  m->at.cluster = *named;
  return pz_cluster_reach(&m->at.cluster, use.devices, use.option, err);
}

enum pz_status pz_machine_load(const struct pz_machine_options *o, struct pz_machine_use use,
                               struct pz_machine *out, struct pz_error *err) {
  struct pz_cluster named;
  enum pz_status status = pz_chip_read_units(o->chip, o->any_units, &out->chip, err);
  if (status == PZ_OK && o->cluster)
    status = pz_cluster_read_units(o->cluster, o->any_units, &named, err);
  if (status == PZ_OK) status = find_network(o->cluster ? &named : NULL, use, out, err);
  if (status != PZ_OK) return status;
  if (out->at.standard && !use.quiet)
    pz_command_say("no --cluster: %s, the network of %s", out->at.cluster.name, out->chip.name);
  if (*out->at.warning) pz_command_warn(use.quiet, out->at.warning);
  if (!out->at.own_link && !use.quiet) pz_machine_tell_scale(&out->at.cluster);
  return PZ_OK;
}

enum pz_status pz_machine_cost(const struct pz_machine_options *o, struct pz_machine_use use,
                               struct pz_cost **cost, struct pz_error *err) {
  struct pz_machine m;
  enum pz_status status = pz_machine_load(o, use, &m, err);
  return status == PZ_OK ? pz_cost_new(&m.chip, pz_machine_net(&m), cost, err) : status;
}

enum pz_status pz_machine_run(const char *path, const struct pz_run_plan_options *o,
                              const char **name, struct pz_run_plan **out, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  bool standard = strcmp(path, "-") == 0;
  *name = standard ? "standard input" : path;
  enum pz_status status =
      pz_file_read(standard ? "/dev/stdin" : path, PZ_PLAN_FILE_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_run_plan_read(*name, text, bytes, o, out, err);
  pz_free(text);
  return status;
}

bool pz_machine_is_plan(const char *path) {
  char *text = NULL;
  size_t bytes = 0;
  json_t *root = NULL;
  if (!pz_file_is_regular(path) ||
      pz_file_read(path, PZ_PLAN_FILE_MOST_BYTES, &text, &bytes, NULL) != PZ_OK)
    return false;
  size_t blank = strspn(text, " \t\r\n");
  bool object = text[blank] == '{';
  /* what is no JSON is for the reader of plans to refuse */
  bool plan = object && (pz_json_parse(path, text, bytes, &root, NULL) != PZ_OK ||
                         json_object_get(root, "model") || json_object_get(root, "plan") ||
                         json_object_get(root, "run"));
  json_decref(root);
  pz_free(text);
  return plan;
}

enum pz_status pz_machine_of_run(const struct pz_machine_options *o, const char *name, bool quiet,
                                 struct pz_run_plan *r, struct pz_machine *out,
                                 struct pz_error *err) {
  if (o->chip) r->from[PZ_RUN_CHIP] = "--chip";
  if (o->cluster) r->from[PZ_RUN_CLUSTER] = "--cluster";
  if (o->chip) r->chip = o->chip;
  if (o->cluster) r->cluster = o->cluster;
  if (!r->chip)
    return pz_fail(err, PZ_BAD_USE, "%s names no chip; accepted: --chip CHIP, and --cluster NET",
                   name);
  struct pz_machine_options m = {r->chip, r->cluster, o->any_units};
  struct pz_machine_use use = {"devices", pz_plan_asked_devices(&r->plan), quiet, .training = true};
  return pz_machine_load(&m, use, out, err);
}

enum pz_status pz_machine_write_chip(const struct pz_chip *chip, const char *path,
                                     struct pz_error *err) {
  char *text = NULL;
  enum pz_status status = pz_chip_text(chip, &text, err);
  if (status == PZ_OK) status = pz_file_write(path, text, strlen(text), err);
  pz_text_free(text);
  return status;
}

enum pz_status pz_machine_print_factors(const struct pz_step_factor *factors, uint32_t n,
                                        struct pz_arena *arena) {
  static const char *const names[] = {"GEMMs", "attention", "element-wise, optimizer", "launches",
                                      "collectives, transfers"};
  static const char *const heads[] = {"part of the step", ">share", ">time by", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < n; i++) {
    pz_table_cell(&t, "%s", names[i]);
    pz_table_cell(&t, "%.0f%%", 100 * factors[i].share);
    pz_table_cell(&t, "%+.1f%%", 100 * (factors[i].factor - 1));
  }
  printf("\n");
  return pz_table_print(&t, 0, stdout);
}

json_t *pz_machine_factors_json(const struct pz_step_factor *factors, uint32_t n) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n; i++)
    json_array_append_new(list, json_pack("{s:s,s:f,s:f}", "name", factors[i].name, "factor",
                                          factors[i].factor, "share", factors[i].share));
  return list;
}
