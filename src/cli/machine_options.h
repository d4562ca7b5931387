/* Options of every command that estimates operators: the chip, and the network for collectives. */
#ifndef PZ_CLI_MACHINE_OPTIONS_H
#define PZ_CLI_MACHINE_OPTIONS_H

#include "chip/chip.h"
#include "cli/command.h"
#include "core/arena.h"

struct pz_machine_options {
  const char *chip, *cluster; /* cluster NULL: what the chip stands in, or its own link */
  bool any_units;
};

/* clang-format off */
/* T: the settings struct; F: its field of type struct pz_machine_options. */
#define PZ_MACHINE_OPTIONS(T, F)                                                                    \
  {.name = "chip", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.chip), .arg = "CHIP",            \
   .help = "Chip: a name listed by 'phaze chips', or a chip.json file"},                            \
  {.name = "cluster", .type = PZ_OPTION_TEXT, .offset = offsetof(T, F.cluster), .arg = "NET",       \
   .help = "Network for collectives: a cluster listed by 'phaze chips', or a cluster.json file "    \
           "(default: of training plans over more than a node the cluster that the chip stands in; "   \
           "else the chip's own link)"}
/* The same for the files of both; `at` is the offset of any_units. */
#define PZ_UNITS_OPTION(at)                                                                         \
  {.name = "any-units", .type = PZ_OPTION_FLAG, .offset = (at),                                     \
   .help = "Accept numbers of a chip.json or cluster.json that are out of their usual range, as a clock of 1.5 Hz"}
/* clang-format on */

/* What asks for devices of the cluster. */
struct pz_machine_use {
  const char *option;
  int64_t devices;
  bool quiet;
  bool training; /* of a plan: without a cluster it is the one that the chip stands in */
};

/* The chip, and its network or own link. */
struct pz_machine {
  struct pz_chip chip;
  struct pz_network at;
};

/* NULL: the chip's own link. */
static inline const struct pz_cluster *pz_machine_net(const struct pz_machine *m) {
  return m->at.own_link && !m->at.cluster.instant ? NULL : &m->at.cluster;
}

/* Its name, NULL for the chip's own link. */
static inline const char *pz_machine_net_name(const struct pz_machine *m) {
  return m->at.own_link ? NULL : m->at.cluster.name;
}

/* Load them.  A cluster that must be scaled out, one that was not asked for, and the warning are told on
 * stderr. */
PZ_NODISCARD enum pz_status pz_machine_load(const struct pz_machine_options *o,
                                            struct pz_machine_use use, struct pz_machine *out,
                                            struct pz_error *err);

/* The same with estimates for them; on success *cost is the caller's to free. */
PZ_NODISCARD enum pz_status pz_machine_cost(const struct pz_machine_options *o,
                                            struct pz_machine_use use, struct pz_cost **cost,
                                            struct pz_error *err);

/* A run from a file as `phaze tune` takes it, "-": standard input; *name is what messages call it. */
PZ_NODISCARD enum pz_status pz_machine_run(const char *path, const struct pz_run_plan_options *o,
                                           const char **name, struct pz_run_plan **out,
                                           struct pz_error *err);

/* Is this path a plan file, JSON with a model or a plan, and no config.json of a model? */
bool pz_machine_is_plan(const char *path);

/* The options' chip and cluster, or those of the run, which says then where they come from. */
PZ_NODISCARD enum pz_status pz_machine_of_run(const struct pz_machine_options *o, const char *name,
                                              bool quiet, struct pz_run_plan *r,
                                              struct pz_machine *out, struct pz_error *err);

/* Is this path the file of the chip or of the cluster? */
bool pz_machine_reads(const struct pz_machine_options *o, const char *path);

/* Adds the paths of the files of chip and cluster to an answer, which a reader of plans takes in place of their names. */
void pz_machine_files_json(const struct pz_machine_options *o, json_t *j);

/* The warning as a list, for JSON: new reference. */
json_t *pz_machine_warnings(const struct pz_machine *m);

/* Write a chip that was calibrated. */
PZ_NODISCARD enum pz_status pz_machine_write_chip(const struct pz_chip *chip, const char *path,
                                                  struct pz_error *err);

/* The factors of a correction as a table, and as JSON, a new reference. */
PZ_NODISCARD enum pz_status pz_machine_print_factors(const struct pz_step_factor *factors,
                                                     uint32_t n, struct pz_arena *arena);
json_t *pz_machine_factors_json(const struct pz_step_factor *factors, uint32_t n);

/* Say on stderr that a cluster has more devices than its description. */
void pz_machine_tell_scale(const struct pz_cluster *net);

#endif
