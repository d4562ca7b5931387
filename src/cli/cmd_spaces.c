/* phaze spaces: the built-in design spaces, or spaces from files. */
#include <inttypes.h>

#include "box/range_space.h"
#include "cli/command.h"
#include "core/alloc.h"
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

/* ---- spaces of ranges ----------------------------------------------------------------------- */

static json_t *range_json(const struct pz_range_space *s) {
  json_t *all = pz_range_json(s);
  if (all) json_object_set_new(all, "chips", json_integer((json_int_t)pz_range_chips(s)));
  return all;
}

/* "4 .. 512 (27)", or what stands for it. */
static void print_range_axis(const struct pz_range_space *s, enum pz_range_axis a) {
  int32_t low = s->value[a][0], high = s->value[a][s->n[a] - 1];
  printf("  %-19s ", pz_range_axis_name(a));
  if (low > 0)
    printf("%d .. %d (%d)\n", low, high, s->n[a]);
  else
    printf("%s\n", low == PZ_RANGE_AS_COLUMNS ? "as many as columns" : "of the base");
}

static void print_range(const struct pz_range_space *s) {
  char chips[32];
  printf("%s: %s\n", s->name, s->about);
  printf("  %s chips, not listed but searched by boxes\n",
         pz_text_count(chips, sizeof chips, pz_range_chips(s)));
  printf("  %-19s", "nodes");
  for (int i = 0; i < s->n_nodes; i++) printf(" %s", pz_tech_at(s->node[i])->name);
  printf("\n  %-19s", "arrays");
  for (int i = 0; i < s->n_arrays; i++)
    printf(" %" PRId64 "x%" PRId64, s->array[i].rows, s->array[i].cols);
  printf("\n  %-19s", "hbm");
  for (int i = 0; i < s->n_hbm; i++) printf(" %s", pz_range_hbm_name(s, i));
  printf("\n");
  if (s->has_base) printf("  %-19s %s\n", "base", s->base.name);
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++) print_range_axis(s, a);
}

/* *is: false where the name is not of a space of ranges. */
static enum pz_status show_range(const char *name, const struct settings *set, json_t *list,
                                 bool *is, struct pz_error *err) {
  struct pz_range_space *s = pz_calloc(1, sizeof *s);
  enum pz_status status = s ? pz_range_load(name, s, is, err)
                            : pz_fail(err, PZ_NO_MEMORY, "out of memory for the space");
  if (status == PZ_OK && *is && set->budget)
    status = pz_fail(err, PZ_BAD_USE,
                     "--budget does not apply to the space of ranges %s; accepted: limits of "
                     "'phaze search'",
                     s->name);
  if (status == PZ_OK && *is && set->common.json) json_array_append_new(list, range_json(s));
  if (status == PZ_OK && *is && !set->common.json) print_range(s);
  pz_free(s);
  return status;
}

static enum pz_status show(const char *name, const struct settings *set, json_t *list,
                           struct pz_error *err) {
  struct pz_space s;
  uint32_t n = 0;
  bool range = false;
  enum pz_status ranged = show_range(name, set, list, &range, err);
  if (ranged != PZ_OK || range) return ranged;
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
  for (size_t i = 0; call.n_args == 0 && !s.budget && pz_range_preset_name(i) && status == PZ_OK;
       i++)
    status = show(pz_range_preset_name(i), &s, list, &call.err);
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
              "A space of ranges is too large to list. Its file is\n"
              "  {name, about, nodes: [\"5nm\"], arrays: [\"64x64\"], hbm: [\"hbm3e\"], axes:\n"
              "   {tensor_cores, local_kib, vector_cores, lanes, glb_mib,\n"
              "    glb_bytes_per_cycle, clock_mhz, hbm_stacks, link_gb_per_s}}\n"
              "with each axis a list of increasing integers or {from, to, step}. With base: CHIP\n"
              "what is left out is as that chip has it; lanes may be \"columns\".\n"
              "\n"
              "Examples:\n"
              "  phaze spaces\n"
              "  phaze spaces ./space.json --budget 400\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .run = run,
};
