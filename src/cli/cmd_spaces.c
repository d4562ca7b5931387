/* phaze spaces: the built-in design spaces, or spaces from files. */
#include <string.h>

#include "cli/command.h"
#include "core/text.h"

struct settings {
  struct pz_common common;
  const char *budget;
};

static const struct settings defaults;
#define AT(field) offsetof(struct settings, field)
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    {.name = "budget",
     .type = PZ_OPTION_TEXT,
     .offset = AT(budget),
     .arg = "CHIP|MM2",
     .help = "Limits: those of a chip, or an area in mm2 (default: the area of the base chip)"},
};

static void print_texts(const char *name, const json_t *list) {
  printf("  %-19s", name);
  for (size_t i = 0; i < json_array_size(list); i++)
    printf(" %s", json_string_value(json_array_get(list, i)));
  printf("\n");
}

/* "4 .. 512 (27)", or what stands for it. */
static void print_axis(const char *name, const json_t *v) {
  size_t n = json_array_size(v);
  printf("  %-19s ", name);
  if (n > 1)
    printf("%lld .. %lld (%zu)\n", (long long)json_integer_value(json_array_get(v, 0)),
           (long long)json_integer_value(json_array_get(v, n - 1)), n);
  else if (n)
    printf("%lld\n", (long long)json_integer_value(json_array_get(v, 0)));
  else
    printf("as many as columns\n");
}

static void print_space(const json_t *o) {
  char chips[32], within[32];
  const json_t *hbm = json_object_get(o, "hbm"), *base = json_object_get(o, "base");
  int64_t n = json_integer_value(json_object_get(o, "chips"));
  const char *key;
  json_t *v;
  printf("%s: %s\n", json_string_value(json_object_get(o, "name")),
         json_string_value(json_object_get(o, "about")));
  printf("  %s chip%s", pz_text_count(chips, sizeof chips, n), pz_text_s((double)n));
  if (json_number_value(json_object_get(o, "limit_mm2")) > 0)
    printf(", %s within %.6g mm2",
           pz_text_count(within, sizeof within, json_integer_value(json_object_get(o, "within"))),
           json_number_value(json_object_get(o, "limit_mm2")));
  printf("\n");
  print_texts("nodes", json_object_get(o, "nodes"));
  print_texts("arrays", json_object_get(o, "arrays"));
  if (hbm) print_texts("hbm", hbm);
  if (base)
    printf("  %-19s %s, for what is not listed\n", "base",
           json_string_value(json_object_get(base, "name")));
  json_object_foreach(json_object_get(o, "axes"), key, v) print_axis(key, v);
}

static enum pz_status describe(const char *name, const struct settings *set, json_t *list,
                               struct pz_error *err) {
  struct pz_space *s = NULL;
  char *text = NULL;
  json_t *o = NULL;
  enum pz_status status = pz_space_open(name, &s, err);
  if (status == PZ_OK) status = pz_space_describe(s, set->budget, &text, err);
  if (status == PZ_OK) status = pz_json_parse(name, text, strlen(text), &o, err);
  if (status == PZ_OK && json_array_append(list, o) != 0)
    status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the spaces");
  json_decref(o);
  pz_text_free(text);
  pz_space_close(s);
  return status;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_long_call call;
  if (!pz_call_begin(&call, &pz_cmd_spaces, argc, argv, &s)) return call.code;
  enum pz_status status = PZ_OK;
  json_t *list = json_array(), *space;
  size_t at;
  for (int i = 0; i < call.n_args && status == PZ_OK; i++)
    status = describe(argv[i + 1], &s, list, &call.err);
  for (size_t i = 0; call.n_args == 0 && pz_space_preset_name(i) && status == PZ_OK; i++)
    status = describe(pz_space_preset_name(i), &s, list, &call.err);
  if (status == PZ_OK && s.common.json)
    status = pz_command_json(json_incref(list), &call.err);
  else if (status == PZ_OK)
    json_array_foreach(list, at, space) print_space(space);
  json_decref(list);
  return pz_call_end(&call, status);
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
              "'phaze chips --fields space' has every field.\n"
              "\n"
              "Examples:\n"
              "  phaze spaces\n"
              "  phaze spaces ./space.json --budget 400\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .run = run,
};
