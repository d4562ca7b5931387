/* phaze spaces: the built-in design spaces, or spaces from files. */
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
     .help = "Area limit: that of a chip, or mm2 (default: the area of the space's base chip)"},
};

/* "1, 2 .. 4096 (13)" */
static const char *axis_text(const struct pz_space *s, enum pz_axis a, char *buf, size_t size) {
  int64_t unit = a == PZ_AXIS_GLB ? 1 << 20 : 1;
  const int64_t *v = s->value[a];
  if (s->n[a] == 1 && v[0] == 0)
    snprintf(buf, size, "same as cols");
  else if (s->n[a] == 1)
    snprintf(buf, size, "%lld", (long long)(v[0] / unit));
  else
    snprintf(buf, size, "%lld .. %lld (%d)", (long long)(v[0] / unit),
             (long long)(v[s->n[a] - 1] / unit), s->n[a]);
  return buf;
}

static json_t *space_json(const struct pz_space *s, uint32_t n) {
  json_t *o = json_pack("{s:s,s:s,s:I,s:I,s:f}", "name", s->name, "about", s->about, "points",
                        (json_int_t)pz_space_grid(s), "chips", (json_int_t)n, "budget_mm2",
                        s->budget_um2 / 1e6);
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    json_t *list = json_array();
    for (int i = 0; i < s->n[a]; i++)
      json_array_append_new(list, json_integer(s->value[a][i] >> (a == PZ_AXIS_GLB ? 20 : 0)));
    json_object_set_new(o, pz_axis_name(a), list);
  }
  return o;
}

static void print_space(const struct pz_space *s, uint32_t n) {
  char points[32], chips[32], text[64];
  printf("%s: %s\n", s->name, s->about);
  printf("  %s grid point%s, %s chip%s within %.6g mm2\n",
         pz_text_count(points, sizeof points, pz_space_grid(s)),
         pz_text_s((double)pz_space_grid(s)), pz_text_count(chips, sizeof chips, n), pz_text_s(n),
         s->budget_um2 / 1e6);
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    printf("  %-13s %s\n", pz_axis_name(a), axis_text(s, a, text, sizeof text));
}

static enum pz_status show(const char *name, const struct settings *set, json_t *list,
                           struct pz_error *err) {
  struct pz_space s;
  uint32_t n = 0;
  enum pz_status status = pz_space_load(name, &s, err);
  if (status == PZ_OK && set->budget) status = pz_space_set_budget(&s, set->budget, err);
  if (status == PZ_OK) status = pz_space_count(&s, &n, err);
  if (status != PZ_OK) return status;
  if (set->common.json)
    json_array_append_new(list, space_json(&s, n));
  else
    print_space(&s, n);
  return PZ_OK;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_call call;
  if (!pz_call_begin(&call, &pz_cmd_spaces, argc, argv, &s)) return call.code;
  enum pz_status status = PZ_OK;
  json_t *list = json_array();
  for (int i = 0; i < call.n_args && status == PZ_OK; i++)
    status = show(argv[i + 1], &s, list, &call.err);
  for (size_t i = 0; call.n_args == 0 && pz_space_preset_name(i) && status == PZ_OK; i++)
    status = show(pz_space_preset_name(i), &s, list, &call.err);
  if (status == PZ_OK && s.common.json) status = pz_command_json(json_incref(list), &call.err);
  json_decref(list);
  return pz_call_end(&call, status);
}

const struct pz_command pz_cmd_spaces = {
    .name = "spaces",
    .synopsis = "[SPACE...] [--budget CHIP|MM2] [--json]",
    .summary = "List the built-in design spaces, or show spaces from files",
    .detail = "A design space is a grid of chips that differ from a base chip. A space.json\n"
              "file is\n"
              "  {name, about, base: CHIP, tensor_cores: [..], rows: [..], cols: [..],\n"
              "   vector_cores: [..], lanes: [..] (default: same as cols), glb_mib: [..],\n"
              "   least_part}\n"
              "The area limit removes chips that are too large. Chips with several tensor cores\n"
              "and several vector cores that use less than least_part of the limit are removed\n"
              "too.\n"
              "\n"
              "Examples:\n"
              "  phaze spaces\n"
              "  phaze spaces ./space.json --budget 400\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .run = run,
};
