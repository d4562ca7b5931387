#include "step/expected_error.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "cost/constants.h"

/* ---- features ------------------------------------------------------------------------------- */

enum role { CONTEXT, PLAIN, MORE };

static const struct feature_info {
  const char *text;
  enum role role;
} features[PZ_FEATURES] = {
#define FEATURE(id, role, when, text) {text, role},
#include "step/plan_features.def"
#undef FEATURE
};

const char *pz_feature_text(enum pz_feature f) { return features[f].text; }

bool pz_feature_is_fitted(enum pz_feature f) {
  static const uint64_t common = PZ_FEATURE_BIT(PZ_FEATURE_TP) | PZ_FEATURE_BIT(PZ_FEATURE_PP) |
                                 PZ_FEATURE_BIT(PZ_FEATURE_MBS) | PZ_FEATURE_BIT(PZ_FEATURE_EP) |
                                 PZ_FEATURE_BIT(PZ_FEATURE_TOKEN_KERNELS);
  return features[f].role != MORE && !(common >> f & 1);
}

uint64_t pz_plan_features(const struct pz_plan *p, const struct pz_feature_context *c) {
  enum pz_framework_family family = pz_plan_framework(p)->family;
  int64_t cp = pz_plan_cp(p), ep = pz_plan_ep(p), devices = pz_plan_devices(p);
  int overlap = pz_plan_effective_overlap(p);
  uint64_t set = 0;
#define FEATURE(id, role, when, text) set |= (when) ? PZ_FEATURE_BIT(PZ_FEATURE_##id) : 0;
#include "step/plan_features.def"
#undef FEATURE
  return set;
}

uint64_t pz_feature_partners(enum pz_feature f) {
  uint64_t set = 0;
  for (int g = (int)f + 1; g < PZ_FEATURES; g++) {
    bool context = features[f].role == CONTEXT || features[g].role == CONTEXT;
    if (context || (features[f].role == PLAIN && features[g].role == PLAIN))
      set |= PZ_FEATURE_BIT(g);
  }
  return set;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* "kind,name,sources,runs,mean_error,variance,most,with": most is the devices of the largest run with a feature, or the
 * longest sequence of all; `with` the set of features that runs with it have. */
struct row {
  char kind[16], name[96];
  unsigned runs;
  double variance;
  int64_t most;
  uint64_t with;
};

/* The row behind `text`; NULL: there is none.  The file is our own: a line that is no row ends it. */
static const char *next_row(const char *text, struct row *r) {
  const char *at = text ? strchr(text, '\n') : NULL;
  if (!at) return NULL;
  int n = sscanf(at + 1, "%15[^,],%95[^,],%*u,%u,%*f,%lf,%" SCNd64 ",%" SCNx64, r->kind, r->name,
                 &r->runs, &r->variance, &r->most, &r->with);
  return n == 6 ? at + 1 : NULL;
}

__attribute__((format(printf, 3, 4))) static void add_beyond(char *text, size_t bytes,
                                                             const char *form, ...) {
  size_t n = strlen(text);
  va_list args;
  va_start(args, form);
  if (n) n += (size_t)snprintf(text + n, bytes - n, "; ");
  if (n < bytes) vsnprintf(text + n, bytes - n, form, args);
  va_end(args);
}

/* What of the question no validated run has: each is a feature more. */
struct strange {
  bool chip, net; /* such ones are in the table */
  uint64_t with;  /* features of runs on such a chip */
  int64_t longest, largest;
};

static void find_strange(struct pz_risk *r, const struct pz_risk_question *q,
                         const struct strange *s) {
  static const enum pz_feature of_chip[] = {PZ_FEATURE_EXPERTS, PZ_FEATURE_EIGHT_BIT,
                                            PZ_FEATURE_FOUR_BIT};
  const bool has[] = {q->experts, q->precision == PZ_PRECISION_FP8,
                      q->precision == PZ_PRECISION_NVFP4};
  char line[48], here[32], most[32];
  unsigned n = 0;
  pz_text_copy(line, sizeof line, pz_chip_line(q->chip->name));
  line[strcspn(line, ",")] = '\0'; /* "h100, calibrated with ..." */
  if (!s->chip) n++, add_beyond(r->beyond, sizeof r->beyond, "chip line %s", line);
  for (size_t i = 0; i < sizeof of_chip / sizeof *of_chip; i++)
    if (s->chip && has[i] && !(s->with & PZ_FEATURE_BIT(of_chip[i])))
      n++, add_beyond(r->beyond, sizeof r->beyond, "%s on %s", features[of_chip[i]].text, line);
  if (q->net && !s->net && !(q->net->calibration_error > 0))
    n++, add_beyond(r->beyond, sizeof r->beyond, "network %s", q->net->name);
  if (q->seq > s->longest)
    n++, add_beyond(r->beyond, sizeof r->beyond, "sequence %s (longest validated %s)",
                    pz_text_count(here, sizeof here, q->seq),
                    pz_text_count(most, sizeof most, s->longest));
  r->beyond_runs = n;
  if (q->devices <= s->largest || s->largest <= 0) return;
  r->growth = pz_constants_default.error_growth * log2((double)q->devices / (double)s->largest);
  add_beyond(r->beyond, sizeof r->beyond, "%s devices (most validated %s)",
             pz_text_count(here, sizeof here, q->devices),
             pz_text_count(most, sizeof most, s->largest));
}

struct pz_risk pz_risk_of(const char *table, const struct pz_risk_question *q) {
  struct pz_risk r = {.all = 0};
  struct strange s = {.largest = 0};
  struct row x;
  int f = 0;
  char line[48];
  pz_text_copy(line, sizeof line, pz_chip_line(q->chip->name));
  line[strcspn(line, ",")] = '\0';
  while ((table = next_row(table, &x)) != NULL) {
    if (strcmp(x.kind, "all") == 0) {
      r.all = x.variance;
      r.all_runs = x.runs;
      s.largest = x.most;
    }
    if (strcmp(x.kind, "unseen") == 0) r.unseen = x.variance;
    if (strcmp(x.kind, "sequence") == 0) s.longest = x.most;
    if (strcmp(x.kind, "chip") == 0 && strcmp(x.name, line) == 0) s.chip = true, s.with = x.with;
    if (strcmp(x.kind, "network") == 0 && q->net && strcmp(x.name, q->net->name) == 0) s.net = true;
    if (strcmp(x.kind, "feature") != 0 || f == PZ_FEATURES) continue;
    if (x.runs) r.seen |= PZ_FEATURE_BIT(f);
    if (f == PZ_FEATURE_EXPERTS && q->experts) s.largest = x.most;
    r.own[f] = x.variance;
    r.runs[f] = x.runs;
    r.strange[f] = pz_feature_partners((enum pz_feature)f) & ~x.with;
    f++;
  }
  const struct pz_correction *c = &q->chip->correction;
  bool alike = c->kinds & pz_correction_kind(q->experts, q->precision);
  if (c->error > 0 && (alike || c->error * c->error > r.all)) {
    r.all =
        c->error * c->error; /* measured with the user's own steps, whatever features they have */
    memset(r.own, 0, sizeof r.own);
    r.own_steps = true;
  }
  if (r.all_runs) find_strange(&r, q, &s);
  return r;
}

struct pz_risk pz_risk_built_in(const struct pz_risk_question *q) {
  return pz_risk_of(pz_embedded_text(pz_embedded_expected, "expected_error"), q);
}

/* ---- the error of a plan -------------------------------------------------------------------- */

unsigned pz_risk_unseen(const struct pz_risk *r, uint64_t set, struct pz_expectation *e) {
  unsigned n = 0;
  uint64_t known = set & r->seen;
  for (uint64_t left = set & ~r->seen; left; left &= left - 1, n++)
    if (e) add_beyond(e->beyond, sizeof e->beyond, "%s", features[__builtin_ctzll(left)].text);
  for (uint64_t left = known; left; left &= left - 1) {
    int f = __builtin_ctzll(left);
    for (uint64_t s = known & r->strange[f]; s; s &= s - 1, n++)
      if (e)
        add_beyond(e->beyond, sizeof e->beyond, "%s with %s", features[__builtin_ctzll(s)].text,
                   features[f].text);
  }
  return n;
}

double pz_risk_error(const struct pz_risk *r, uint64_t set) {
  double variance = r->all, unseen = r->beyond_runs + pz_risk_unseen(r, set, NULL);
  for (uint64_t left = set; left; left &= left - 1) variance += r->own[__builtin_ctzll(left)];
  return sqrt(variance) + sqrt(unseen * r->unseen) + r->growth;
}

struct pz_expectation pz_plan_expectation(const struct pz_plan *plan, const struct pz_prediction *p,
                                          int64_t layers, const struct pz_chip *chip,
                                          const struct pz_cluster *net) {
  struct pz_expectation e = {.runs = 0};
  int64_t devices = pz_plan_devices(plan), node = net && net->n_levels ? pz_cluster_node(net) : 8;
  struct pz_feature_context c = {.experts = p->active_params<p->params, .scans = p->scan_layers> 0,
                                 .sparse = p->sparse_layers > 0,
                                 .layers = layers,
                                 .node = node};
  struct pz_risk_question q = {.chip = chip,
                               .net = devices > node ? net : NULL,
                               .experts = c.experts,
                               .precision = plan->precision,
                               .devices = devices,
                               .seq = (int64_t)(p->tokens / (double)plan->batch + 0.5)};
  struct pz_risk r = pz_risk_built_in(&q);
  uint64_t set = pz_plan_features(plan, &c);
  if (!r.all_runs) return e;
  e.error = pz_risk_error(&r, set);
  e.runs = r.all_runs;
  for (uint64_t left = set & r.seen; left; left &= left - 1)
    e.runs = (uint32_t)pz_min(e.runs, r.runs[__builtin_ctzll(left)]);
  pz_text_copy(e.beyond, sizeof e.beyond, r.beyond);
  pz_risk_unseen(&r, set, &e);
  if (r.own_steps) {
    e.runs = (uint32_t)chip->correction.steps;
    snprintf(e.of, sizeof e.of, "your own steps, each predicted from the others");
    return e;
  }
  snprintf(e.of, sizeof e.of, "all runs %.0f%%", 100 * sqrt(r.all));
  for (uint64_t left = set; left; left &= left - 1) {
    int f = __builtin_ctzll(left);
    size_t n = strlen(e.of);
    if (r.own[f] > 0)
      snprintf(e.of + n, sizeof e.of - n, ", %s %.0f%%", features[f].text, 100 * sqrt(r.own[f]));
  }
  return e;
}
