/* The machine that a subcommand works for: a chip and the network of its devices, from the options --chip, --cluster and
 * --any-units, or from the file of a training run.  PZ_MACHINE_OPTIONS and PZ_UNITS_OPTION put the options into a table;
 * pz_machine_open() reads the chip and the cluster, finds the network, and prints what the user has to know about it. */
#ifndef PZ_CLI_MACHINE_OPTIONS_H
#define PZ_CLI_MACHINE_OPTIONS_H

#include "chip/chip.h"
#include "cli/command.h"
#include "core/arena.h"

struct pz_machine_options {
  const char *chip, *cluster; /* cluster NULL: the chip's standard cluster, or its own link */
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
/* For the files of both; `at` is the offset of any_units. */
#define PZ_UNITS_OPTION(at)                                                                         \
  {.name = "any-units", .type = PZ_OPTION_FLAG, .offset = (at),                                     \
   .help = "Accept numbers of a chip.json or cluster.json that are out of their usual range, as a clock of 1.5 Hz"}
/* clang-format on */

/* The devices that a subcommand needs, and the option that asks for them. */
struct pz_machine_use {
  const char *option;
  int64_t devices;
  bool quiet;
  bool training; /* of a training plan: the default network is the standard cluster of the chip */
};

struct pz_machine {
  struct pz_chip chip;
  struct pz_network network;
};

/* Returns the cluster of the machine, or NULL if the devices are joined by the chip's own link. */
static inline const struct pz_cluster *pz_machine_net(const struct pz_machine *m) {
  return m->network.own_link && !m->network.cluster.instant ? NULL : &m->network.cluster;
}

/* Returns the name of the cluster, or NULL for the chip's own link. */
static inline const char *pz_machine_net_name(const struct pz_machine *m) {
  return m->network.own_link ? NULL : m->network.cluster.name;
}

/* Reads the chip and the cluster.  Unless `quiet` is set, stderr tells about a cluster that was chosen by default or has
 * to be scaled out, and about a network that does not match the chip. */
struct pz_machine *pz_machine_open(struct pz_call *call, const struct pz_machine_options *o,
                                   struct pz_machine_use use);

/* Returns an estimator of operators for the machine of the options. */
struct pz_cost *pz_machine_cost(struct pz_call *call, const struct pz_machine_options *o,
                                struct pz_machine_use use);

/* Reads a training run from a file in the formats of `phaze tune`; the path "-" means standard input.  *name is the name
 * of the input for messages. */
struct pz_run_plan *pz_machine_read_run(struct pz_call *call, const char *path,
                                        const struct pz_run_plan_options *o, const char **name);

/* Opens the machine of a training run.  Chip and cluster of the options override those of the run, which then records
 * that they come from the options. */
struct pz_machine *pz_machine_of(struct pz_call *call, const struct pz_machine_options *o,
                                 const char *name, bool quiet, struct pz_run_plan *run);

/* Returns whether a path is a plan file: JSON with a model or a plan, and not the config.json of a model. */
bool pz_machine_is_plan(const char *path);

/* Returns whether a path is the file of the chip or of the cluster. */
bool pz_machine_reads(const struct pz_machine_options *o, const char *path);

/* Returns whether an output to `path` (NULL: none) would overwrite the input or a file of the machine. */
bool pz_machine_overwrites(const struct pz_machine_options *o, const char *input, const char *path);

/* Adds the paths of the files of chip and cluster to a JSON object.  Readers of plans use them instead of the names. */
void pz_machine_files_json(const struct pz_machine_options *o, json_t *j);

/* Returns the warnings about the network as a JSON array, a new reference. */
json_t *pz_machine_warnings(const struct pz_machine *m);

/* Writes the description of a calibrated chip to a file. */
void pz_machine_save_chip(struct pz_call *call, const struct pz_chip *chip, const char *path);

/* Prints the factors of a correction as a table, or returns them as a JSON array, a new reference. */
void pz_machine_show_factors(struct pz_call *call, const struct pz_step_factor *factors,
                             uint32_t n);
json_t *pz_machine_factors_json(const struct pz_step_factor *factors, uint32_t n);

/* Prints to stderr that a cluster has more devices than its description. */
void pz_machine_tell_scale(const struct pz_cluster *net);

#endif
