/* The machine that a subcommand works for: a chip and the network of its devices, from the
 * options --chip, --cluster and --any-units, or from the file of a training run.
 * PZ_MACHINE_OPTIONS and PZ_UNITS_OPTION put the options into a table; pz_machine_open() reads
 * the chip and the cluster, finds the network, and prints what the user has to know about it. */
#ifndef PZ_CLI_MACHINE_OPTIONS_H
#define PZ_CLI_MACHINE_OPTIONS_H

#include "chip/chip.h"
#include "cli/command.h"
#include "core/arena.h"
#include "report/records.h"

struct pz_machine_options {
  const char *chip;    /* name of a preset, or path of a chip.json */
  const char *cluster; /* preset or path; NULL for the chip's standard cluster or its own link */
  bool any_units;
};

/* clang-format off */
/* T is the settings struct, F its member of type struct pz_machine_options. */
#define PZ_MACHINE_OPTIONS(T, F) \
  PZ_TEXT_OPTION("chip", offsetof(T, F.chip), "CHIP", "Chip: a name listed by 'phaze chips', or a chip.json file"), \
  PZ_TEXT_OPTION("cluster", offsetof(T, F.cluster), "NET", "Network for collectives: a cluster listed by 'phaze chips', or a cluster.json file (default: of training plans over more than a node the cluster that the chip stands in; else the chip's own link)")
/* For subcommands that read files of chips and clusters; `at` is the offset of any_units. */
#define PZ_UNITS_OPTION(at) \
  PZ_FLAG_OPTION("any-units", (at), "Accept numbers of a chip.json or cluster.json that are out of their usual range, as a clock of 1.5 Hz")
/* clang-format on */

/* The devices that a subcommand needs, and the option that asks for them. */
struct pz_machine_use {
  const char *option;
  int64_t devices;
  bool quiet;
  bool training; /* whether the default network is the standard cluster of the chip */
};

struct pz_machine {
  struct pz_chip chip;
  struct pz_network network;
  const struct pz_cluster *net; /* NULL if the devices are joined by the chip's own link */
  const char *net_name;         /* NULL without a cluster */
};

/* Reads the chip and the cluster.  Unless `quiet` is set, it prints to stderr that a cluster was
 * chosen by default or is scaled out, and that a network does not match the chip. */
struct pz_machine *pz_machine_open(struct pz_call *call, const struct pz_machine_options *options,
                                   struct pz_machine_use use);

/* Returns an estimator of operators for the machine of the options. */
struct pz_cost *pz_machine_cost(struct pz_call *call, const struct pz_machine_options *options,
                                struct pz_machine_use use);

/* Prints to stderr if a cluster has more devices than its description states. */
void pz_machine_report_scaling(const struct pz_cluster *cluster);

/* ---- files of chip and cluster -------------------------------------------------------------- */

/* Returns whether a path is the file of the chip or of the cluster. */
bool pz_machine_reads(const struct pz_machine_options *options, const char *path);

/* Returns an error message if an output to one of the paths (NULL: not written) would overwrite
 * the input or a file of the machine, otherwise NULL. */
const char *pz_machine_find_overwrite(const struct pz_machine_options *options, const char *input,
                                      const char *trace_path, const char *report_path);

/* Returns what an answer states about its question. */
struct pz_asked pz_machine_asked(const struct pz_machine *machine,
                                 const struct pz_machine_options *options, const char *model);

/* ---- training runs -------------------------------------------------------------------------- */

/* Largest number of --set and of --ignore options. */
enum { PZ_MOST_SETS = 32 };

/* A training run that was read from a file in the formats of `phaze tune`. */
struct pz_run_file {
  const char *name; /* name of the input, for messages */
  const char *text;
  struct pz_run_plan *run;
};

/* Reads a training run; the path "-" means standard input. */
struct pz_run_file pz_run_file_read(struct pz_call *call, const char *path,
                                    const struct pz_run_plan_options *options);

/* Prints the notes on a run that was read and the arguments that were ignored, as warnings. */
void pz_run_file_warn(bool quiet, const struct pz_run_plan *run);

/* Opens the machine of a training run, which was read from the input `name`.  Chip and cluster
 * of the options override those of the run, which then records that they come from the options. */
struct pz_machine *pz_machine_of_run(struct pz_call *call, const struct pz_machine_options *options,
                                     const char *name, bool quiet, struct pz_run_plan *run);

/* Returns whether a file is JSON with a model or a plan, not the config.json of a model. */
bool pz_is_plan_file(const char *path);

/* ---- calibrated chips ----------------------------------------------------------------------- */

/* Writes the description of a calibrated chip to a file. */
void pz_machine_save_chip(struct pz_call *call, const struct pz_chip *chip, const char *path);

/* Prints the factors of a correction as a table. */
void pz_machine_show_factors(struct pz_call *call, const struct pz_step_factor *factors,
                             uint32_t n);

#endif
