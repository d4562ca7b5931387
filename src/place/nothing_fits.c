/* A placement where no plan fits: what lacks memory, and the smallest changes after which one does,
 * each found by a search of its own. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/sized.h"
#include "core/text.h"
#include "cost/constants.h"
#include "place/prediction_parts.h"
#include "place/training.h"

enum { MOST_TIMES = 64, LEAST_SEQ = 128 };

/* The question, and the message as it grows. */
struct answer {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_place_options *asked;
  bool weak;
  char changes[560];
  size_t n;
};

static void add_change(struct answer *a, const char *change, const struct pz_training_run *r) {
  char plan[256];
  int n = snprintf(a->changes + a->n, sizeof a->changes - a->n, "%s%s (%s)", a->n ? "; " : "",
                   change, pz_training_run_text(r, plan, sizeof plan));
  if (n > 0 && (size_t)n < sizeof a->changes - a->n)
    a->n += (size_t)n;
  else
    a->changes[a->n] = 0; /* no room for it */
}

/* Does a plan fit with these options?  Then the change is told. */
static enum pz_status try_change(struct answer *a, const struct pz_chip *chip,
                                 const struct pz_training_place_options *o, const char *change,
                                 bool *fits) {
  struct pz_training_plans *p = NULL;
  struct pz_error why = {0};
  enum pz_status status = pz_training_place(a->model, chip, a->net, o, &p, &why);
  *fits = status == PZ_OK && p->n > 0;
  if (*fits) add_change(a, change, p->runs[0]);
  pz_training_plans_free(p);
  return status == PZ_NO_MEMORY ? status : PZ_OK; /* a question without plans is no change */
}

/* ---- the changes ---------------------------------------------------------------------------- */

/* A field that was pinned, searched again. */
static enum pz_status try_pins(struct answer *a) {
  struct pz_training_place_options o = *a->asked;
  const struct {
    const char *name;
    int64_t *field;
  } pins[] = {{"recompute", &o.recompute},
              {"zero", &o.zero},
              {"mbs", &o.mbs},
              {"tp", &o.tp},
              {"pp", &o.pp},
              {"vpp", &o.vpp},
              {"dp", &o.dp},
              {"cp", &o.cp},
              {"ep", &o.ep}};
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof pins / sizeof *pins && status == PZ_OK; i++) {
    int64_t pinned = *pins[i].field;
    char change[32];
    bool fits;
    if (pinned == PZ_FREE) continue;
    *pins[i].field = PZ_FREE;
    snprintf(change, sizeof change, "without --%s", pins[i].name);
    status = try_change(a, a->chip, &o, change, &fits);
    *pins[i].field = pinned;
  }
  return status;
}

static enum pz_status try_devices(struct answer *a) {
  struct pz_training_place_options o = *a->asked;
  int64_t devices = o.devices;
  enum pz_status status = PZ_OK;
  bool fits = false;
  for (int64_t times = 2; times <= MOST_TIMES && !fits && status == PZ_OK; times *= 2) {
    char change[48];
    o.devices = devices * times;
    if (o.devices > 1 << 24) break;
    if (a->weak) o.batch = a->asked->batch * times;
    snprintf(change, sizeof change, "--devices %" PRId64, o.devices);
    status = try_change(a, a->chip, &o, change, &fits);
  }
  return status;
}

static enum pz_status try_hbm(struct answer *a, double least_bytes) {
  struct pz_chip chip = *a->chip;
  double gib = ceil(least_bytes / pz_constants_default.usable_part / 0x1p30);
  char change[48];
  bool fits;
  chip.hbm.bytes_per_stack = (int64_t)ceil(gib * 0x1p30 / (double)chip.hbm.stacks);
  snprintf(change, sizeof change, "--hbm %.0f", gib);
  return try_change(a, &chip, a->asked, change, &fits);
}

static enum pz_status try_seq(struct answer *a, int64_t seq) {
  struct pz_training_place_options o = *a->asked;
  enum pz_status status = PZ_OK;
  bool fits = false;
  for (o.seq = seq / 2; o.seq >= LEAST_SEQ && !fits && status == PZ_OK; o.seq /= 2) {
    char change[48];
    snprintf(change, sizeof change, "--seq %" PRId64, o.seq);
    status = try_change(a, a->chip, &o, change, &fits);
  }
  return status;
}

/* ---- what lacks memory ---------------------------------------------------------------------- */

static const struct pz_part_info *largest_part(const struct pz_training_memory *m) {
  const struct pz_part_info *most = NULL, *part;
  for (size_t i = 0; (part = pz_memory_part_at(i)); i++)
    if (!most || pz_memory_part(m, part) > pz_memory_part(m, most)) most = part;
  return most;
}

/* Weights that could be divided further, if the framework did. */
static const char *framework_note(const struct pz_training_run *r) {
  const struct pz_framework *f = pz_framework_find(r->plan.framework);
  return f && r->plan.pp > 1 && !f->shards_stages
             ? "; this framework has ZeRO 2 and 3 only without pipeline stages"
             : "";
}

static enum pz_status tell_changes(const struct answer *a, const struct pz_training_run *r,
                                   struct pz_error *err) {
  const struct pz_part_info *part = largest_part(&r->p.peak);
  char name[120], plan[256];
  return pz_fail(
      err, PZ_NO_ANSWER,
      "no plan of %s fits on %" PRId64 " x %s: the least is %.1f GB a device of %.1f GB usable "
      "(%s), most of it %s, %.1f GB%s. Fits with: %s",
      pz_text_plain(pz_text_copy(name, sizeof name, a->model)), a->asked->devices, a->chip->name,
      r->p.peak_bytes / 1e9, r->hbm_bytes * pz_constants_default.usable_part / 1e9,
      pz_training_run_text(r, plan, sizeof plan), part->label,
      pz_memory_part(&r->p.peak, part) / 1e9, framework_note(r),
      a->n ? a->changes : "no single change of devices, HBM or sequence length");
}

/* PZ_BAD_USE where the question is not one that nothing fits. */
static enum pz_status check_question(const struct answer *a, const struct pz_training_plans *p,
                                     struct pz_error *err) {
  enum pz_status status = pz_need(a->model, "model", err);
  if (status == PZ_OK) status = pz_need(a->chip, "chip", err);
  if (status == PZ_OK) status = pz_need(p, "plans", err);
  if (status == PZ_OK && p->n) status = pz_fail(err, PZ_BAD_USE, "a plan fits");
  if (status == PZ_OK && !p->least)
    status = pz_fail(err, PZ_BAD_USE,
                     "no plan has these degrees on %" PRId64 " devices with a batch of %" PRId64
                     "; accepted: vpp whose chunks divide the layers, with microbatches that "
                     "stages divide, and a ZeRO stage that the framework has",
                     a->asked->devices, a->asked->batch);
  return status;
}

enum pz_status pz_training_nothing_fits(const char *model, const struct pz_chip *chip,
                                        const struct pz_cluster *net,
                                        const struct pz_training_place_options *options, bool weak,
                                        const struct pz_training_plans *p, struct pz_error *err) {
  struct pz_training_place_options o = pz_training_place_options_default();
  struct answer a = {.model = model, .chip = chip, .net = net, .asked = &o, .weak = weak};
  enum pz_status status =
      pz_sized_take(&o, sizeof o, options, "pz_training_place_options_default", err);
  if (status == PZ_OK) status = check_question(&a, p, err);
  if (status == PZ_OK) status = try_pins(&a);
  if (status == PZ_OK) status = try_devices(&a);
  if (status == PZ_OK) status = try_hbm(&a, p->least->p.peak_bytes);
  if (status == PZ_OK && !a.n) status = try_seq(&a, p->least->plan.seq);
  if (status == PZ_NO_MEMORY) return pz_fail(err, status, "out of memory for the plans");
  return status == PZ_OK ? tell_changes(&a, p->least, err) : status;
}
