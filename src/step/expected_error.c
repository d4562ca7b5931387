#include "step/expected_error.h"

#include <stdio.h>
#include <string.h>

const char *const pz_likeness_texts[PZ_LIKENESSES] = {
    [PZ_LIKE_KIND] = "same chip line and framework, as many nodes (one or several)",
    [PZ_LIKE_CHIP_FRAMEWORK] = "same chip line and framework",
    [PZ_LIKE_CHIP] = "same chip line",
    [PZ_LIKE_FRAMEWORK] = "same framework",
    [PZ_LIKE_WORK] = "same kind of layers and precision",
    [PZ_LIKE_ANY] = "all chips and frameworks",
};

const char *pz_work_name(bool experts, bool fp8) {
  return experts ? "experts" : fp8 ? "fp8" : "16-bit";
}

const char *pz_chip_line(const char *chip) {
  static const struct {
    const char *begin, *line;
  } lines[] = {{"v100", "v100"},       {"a100", "a100"},      {"h100", "hopper"},
               {"h200", "hopper"},     {"h800", "hopper"},    {"gb200", "blackwell"},
               {"gb300", "blackwell"}, {"b200", "blackwell"}, {"b300", "blackwell"},
               {"tpuv4-real", "tpuv4"}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strncmp(chip, lines[i].begin, strlen(lines[i].begin)) == 0) return lines[i].line;
  return chip;
}

/* One line of the table. */
struct expected_row {
  char line[48], framework[48], nodes[16], work[16];
  unsigned rows;
  double mean, bias;
};

/* The row behind `text`; NULL: there is none.  The file is our own: a line that is no row ends it. */
static const char *next_row(const char *text, struct expected_row *r) {
  const char *at = text ? strchr(text, '\n') : NULL;
  if (!at) return NULL;
  int n = sscanf(at + 1, "%47[^,],%47[^,],%15[^,],%15[^,],%u,%lf,%lf", r->line, r->framework,
                 r->nodes, r->work, &r->rows, &r->mean, &r->bias);
  return n == 7 ? at + 1 : NULL;
}

static bool is_like(const struct expected_row *r, const struct pz_run_kind *run,
                    enum pz_likeness like) {
  bool chip = strcmp(r->line, pz_chip_line(run->chip)) == 0;
  bool framework = strcmp(r->framework, run->framework) == 0;
  bool nodes = strcmp(r->nodes, run->one_node ? "one" : "several") == 0;
  if (like < PZ_LIKE_ANY && strcmp(r->work, run->work) != 0) return false;
  switch (like) {
  case PZ_LIKE_KIND: return chip && framework && nodes;
  case PZ_LIKE_CHIP_FRAMEWORK: return chip && framework;
  case PZ_LIKE_CHIP: return chip;
  case PZ_LIKE_FRAMEWORK: return framework;
  default: return true;
  }
}

static void add_row(struct pz_expected_error *e, const struct expected_row *r) {
  e->rows += r->rows;
  e->mean += r->rows * r->mean;
  e->bias += r->rows * r->bias;
}

struct pz_expected_error pz_expected_error(const struct pz_run_kind *run) {
  struct pz_expected_error sums[PZ_LIKENESSES] = {{.rows = 0}};
  struct expected_row r;
  const char *at = pz_embedded_text(pz_embedded_expected, "expected_error");
  while ((at = next_row(at, &r)) != NULL)
    for (enum pz_likeness like = 0; like < PZ_LIKENESSES; like++)
      if (is_like(&r, run, like)) add_row(&sums[like], &r);
  enum pz_likeness like = 0;
  while (like < PZ_LIKE_ANY && sums[like].rows < PZ_LEAST_EXPECTED) like++;
  struct pz_expected_error e = sums[like];
  e.like = like;
  if (e.rows) e.mean /= e.rows;
  if (e.rows) e.bias /= e.rows;
  return e;
}

struct pz_expectation pz_plan_expectation(const struct pz_plan *plan, const struct pz_prediction *p,
                                          const struct pz_chip *chip,
                                          const struct pz_cluster *net) {
  struct pz_run_kind kind = {
      .chip = chip->name,
      .framework = pz_plan_framework(plan)->name,
      .one_node = !net || plan->devices <= net->level[0].devices,
      .work = pz_work_name(p->active_params < p->params, plan->precision == PZ_PRECISION_FP8)};
  struct pz_expected_error e = pz_expected_error(&kind);
  return (struct pz_expectation){.runs = e.rows,
                                 .error = e.mean,
                                 .bias = e.bias,
                                 .of = pz_likeness_texts[e.like],
                                 .same_chip = e.like <= PZ_LIKE_CHIP};
}
