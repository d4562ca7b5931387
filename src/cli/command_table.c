/* The subcommands, in the order in which the usage and the man page show them. */
#include "cli/command.h"

static const struct pz_command *const table[] = {
    &pz_cmd_models,   &pz_cmd_graph,     &pz_cmd_chips,   &pz_cmd_chip,    &pz_cmd_estimate,
    &pz_cmd_schedule, &pz_cmd_place,     &pz_cmd_search,  &pz_cmd_compare, &pz_cmd_report,
    &pz_cmd_verify,   &pz_cmd_spaces,    &pz_cmd_predict, &pz_cmd_explore, &pz_cmd_tune,
    &pz_cmd_validate, &pz_cmd_calibrate, &pz_cmd_diff,    &pz_cmd_rehearse};

const struct pz_command *pz_command_at(size_t i) {
  return i < sizeof table / sizeof *table ? table[i] : NULL;
}
