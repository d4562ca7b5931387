/* phaze spaces: prints the JSON of pz_space_describe() for built-in spaces or space files. */
#include <string.h>

#include "cli/command.h"
#include "core/alloc.h"
#include "core/text.h"

struct settings {
  struct pz_common common;
  const char *budget;
};

static const struct settings defaults;
#define AT(field) offsetof(struct settings, field)
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_TEXT_OPTION(
        "budget", AT(budget), "CHIP|MM2",
        "Limits: those of a chip, or an area in mm2 (default: the area of the base chip)"),
};

/* Prints a label and an array of names in one line. */
static void print_names(const char *label, const json_t *names) {
  printf("  %-19s", label);
  for (size_t i = 0; i < json_array_size(names); i++)
    printf(" %s", json_string_value(json_array_get(names, i)));
  printf("\n");
}

/* Prints the range and the number of values of an axis, as "4 .. 512 (27)", or its only value.
 * An axis without values is that of lanes, which are then as many as columns. */
static void print_axis(const char *name, const json_t *values) {
  size_t n = json_array_size(values);
  long long first = json_integer_value(json_array_get(values, 0));
  printf("  %-19s ", name);
  if (n > 1)
    printf("%lld .. %lld (%zu)\n", first,
           (long long)json_integer_value(json_array_get(values, n - 1)), n);
  else if (n == 1)
    printf("%lld\n", first);
  else
    printf("as many as columns\n");
}

/* Prints the description of a space: numbers of chips, names of nodes and arrays, and axes. */
static void print_space(const json_t *space) {
  char chips[32], within[32];
  const json_t *hbm = json_object_get(space, "hbm"), *base = json_object_get(space, "base");
  int64_t n_chips = json_integer_value(json_object_get(space, "chips"));
  int64_t n_within = json_integer_value(json_object_get(space, "within"));
  double limit_mm2 = json_number_value(json_object_get(space, "limit_mm2"));
  const char *axis;
  json_t *values;
  printf("%s: %s\n", json_string_value(json_object_get(space, "name")),
         json_string_value(json_object_get(space, "about")));
  printf("  %s chip%s", pz_text_count(chips, sizeof chips, n_chips), pz_text_s((double)n_chips));
  if (limit_mm2 > 0)
    printf(", %s within %.6g mm2", pz_text_count(within, sizeof within, n_within), limit_mm2);
  printf("\n");
  print_names("nodes", json_object_get(space, "nodes"));
  print_names("arrays", json_object_get(space, "arrays"));
  if (hbm) print_names("hbm", hbm);
  if (base)
    printf("  %-19s %s, for what is not listed\n", "base",
           json_string_value(json_object_get(base, "name")));
  json_object_foreach(json_object_get(space, "axes"), axis, values) print_axis(axis, values);
}

/* Prints the spaces that the arguments name, or all presets. */
static void show_spaces(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  json_t *list, *space;
  size_t i;
  if (!pz_command_options(call, invocation, &settings)) return;
  list = pz_json_built(call, json_array());
  const size_t n_args = (size_t)invocation->n_args;
  for (size_t k = 0; n_args ? k < n_args : pz_space_preset_name(k) != NULL; k++) {
    const char *name = n_args ? invocation->args[k] : pz_space_preset_name(k);
    struct pz_space *opened = NULL;
    char *text = NULL;
    pz_must(call, pz_space_open(name, &opened, pz_call_error(call)));
    pz_defer(call, pz_object_free, opened);
    pz_must(call, pz_space_describe(opened, settings.budget, &text, pz_call_error(call)));
    pz_defer(call, pz_free, text);
    json_t *description = pz_json_read(call, name, text, strlen(text));
    if (json_array_append(list, description) != 0) pz_raise_memory(call, "the spaces");
  }
  if (settings.common.json)
    pz_command_print_json(call, json_incref(list));
  else
    json_array_foreach(list, i, space) print_space(space);
}

const struct pz_command pz_cmd_spaces = {
    .name = "spaces",
    .synopsis = "[SPACE...] [--budget CHIP|MM2] [--json]",
    .summary = "List the built-in design spaces, or show spaces from files",
    .detail = "A design space is a grid of chips. Its file, space.json, is\n"
              "  {name, about, nodes: [\"5nm\"], arrays: [\"64x64\"], hbm: [\"hbm3e\"], axes:\n"
              "   {tensor_cores, local_kib, vector_cores, lanes, glb_mib,\n"
              "    glb_bytes_per_cycle, clock_mhz, hbm_stacks, link_gb_per_s}}\n"
              "with each axis a list of increasing integers or {from, to, step}; axes rows and\n"
              "cols in the place of arrays mean all their products. With base: CHIP what is left\n"
              "out is as that chip has it, and lanes may be \"columns\". Chips are within limits:\n"
              "of 'phaze search', else the area of the base chip. With least_part chips with\n"
              "several tensor cores and several vector cores take at least that part of it.\n"
              "'phaze fields space' has every field.\n"
              "\n"
              "Examples:\n"
              "  phaze spaces\n"
              "  phaze spaces ./space.json --budget 400\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = show_spaces,
};
