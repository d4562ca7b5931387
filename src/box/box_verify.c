/* A saved search over boxes, checked: nothing of the search is used but the judge of single chips. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "box/certificate.h"
#include "box/run_digest.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/num.h"
#include "core/ranks.h"

/* Values are found in another order of sums. */
static const double SAME = 1e-6;

struct verification {
  const struct pz_verify_options *o;
  struct pz_arena *arena;
  struct pz_box_inputs *in;
  struct pz_boxes boxes;
  struct pz_judge *judge;
  json_t *result;
  struct pz_error *err;
  bool holds;
};

static void say(struct verification *v, bool holds, const char *text) {
  if (!holds) v->holds = false;
  if (v->o->say && pz_ranks_first()) v->o->say(v->o->ctx, holds, text);
}

static enum pz_status read_text(const char *dir, const char *file, char **text, size_t *bytes,
                                struct pz_error *err) {
  char path[4096];
  int n = snprintf(path, sizeof path, "%s/%s", dir, file);
  if (n < 0 || (size_t)n >= sizeof path)
    return pz_fail(err, PZ_BAD_USE, "the path of %s in %.100s is too long", file, dir);
  struct pz_buffer b = {0};
  enum pz_status status =
      pz_ranks_first() ? pz_file_read(path, 256 << 20, &b.text, &b.bytes, err) : PZ_OK;
  status = pz_ranks_share(&b, status, err);
  *text = b.text;
  *bytes = b.bytes;
  return status;
}

static enum pz_status check_digest(struct verification *v, const char *boxes) {
  char digest[PZ_RUN_DIGEST_TEXT];
  const char *own = json_string_value(json_object_get(v->result, "digest"));
  enum pz_status status = pz_run_digest(v->result, boxes, digest, v->err);
  if (status == PZ_OK)
    say(v, own && strcmp(own, digest) == 0, "result.json and boxes.csv have the digest of the run");
  return status;
}

static enum pz_status read_run(struct verification *v, const char *dir) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = read_text(dir, "result.json", &text, &bytes, v->err);
  if (status == PZ_OK) status = pz_json_parse("result.json", text, bytes, &v->result, v->err);
  pz_free(text);
  text = NULL;
  if (status == PZ_OK)
    status = pz_box_inputs_read("result.json: inputs", json_object_get(v->result, "inputs"),
                                v->arena, v->in, v->err);
  if (status == PZ_OK) status = read_text(dir, "boxes.csv", &text, &bytes, v->err);
  if (status == PZ_OK) status = check_digest(v, text);
  if (status == PZ_OK)
    status = pz_boxes_parse("boxes.csv", text, bytes, &v->in->space, v->arena, &v->boxes, v->err);
  pz_free(text);
  return status;
}

static double stated(const struct verification *v, const char *of, const char *key) {
  return json_number_value(json_object_get(json_object_get(v->result, of), key));
}

/* The chip that values are told in times of. */
static enum pz_status set_reference(struct verification *v) {
  struct pz_chip c;
  struct pz_steps steps;
  double value = 0;
  enum pz_status status = pz_box_reference_chip(&c, v->err);
  if (status == PZ_OK) status = pz_judge_new(&v->in->options.question, &c, &v->judge, v->err);
  if (status != PZ_OK) return status;
  struct pz_taken taken = pz_chip_taken(&c);
  status = pz_judge_value(v->judge, &c, &taken, 0, &value, &steps, NULL, v->err);
  if (status == PZ_OK && value > 0) pz_judge_set_reference(v->judge, &steps, &taken);
  say(v, value > 0, "the reference trains every model");
  return status;
}

static enum pz_status value_of(struct verification *v, const struct pz_box *chip, double *value) {
  struct pz_chip c;
  pz_box_lo(&v->in->space, chip, &c);
  struct pz_taken taken = pz_chip_taken(&c);
  return pz_judge_value(v->judge, &c, &taken, 0, value, NULL, NULL, v->err);
}

/* The best chip by its description: within the limits, with the value that is stated. */
static enum pz_status check_best(struct verification *v) {
  char text[160];
  double value = 0, best = stated(v, "best", "value");
  struct pz_chip c;
  json_t *chip = json_object_get(json_object_get(v->result, "best"), "chip");
  char *dump = pz_json_dump(chip, JSON_COMPACT);
  if (!dump) return pz_fail(v->err, PZ_BAD_INPUT, "result.json: the best chip is missing");
  enum pz_status status = pz_chip_parse("result.json: best", dump, strlen(dump), &c, v->err);
  pz_free(dump);
  if (status != PZ_OK) return status;
  struct pz_taken taken = pz_chip_taken(&c);
  status = pz_judge_value(v->judge, &c, &taken, 0, &value, NULL, NULL, v->err);
  snprintf(text, sizeof text, "the best chip is within the limits and has the value %.6g", value);
  say(v, fabs(value / best - 1) < SAME && !pz_limits_broken(&v->in->options.limits, &taken, &taken),
      text);
  return status;
}

static bool breaks(const struct verification *v, const struct pz_box *b) {
  struct pz_chip lo, hi;
  pz_box_lo(&v->in->space, b, &lo);
  pz_box_hi(&v->in->space, b, &hi);
  struct pz_taken least = pz_chip_taken(&lo), most = pz_chip_taken(&hi);
  return pz_limits_broken(&v->in->options.limits, &least, &most) != NULL;
}

/* A chip of the box, drawn at random. */
static struct pz_box draw(const struct pz_box *b, uint64_t *seed) {
  struct pz_box c = *b;
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++)
    c.lo[a] = c.hi[a] =
        (uint8_t)(b->lo[a] + (int)pz_random_below(seed, (uint32_t)(b->hi[a] - b->lo[a] + 1)));
  return c;
}

/* Of a box that a bound closed: the value of its largest chip at the price of its smallest, and of one of its chips. */
static enum pz_status check_bound(struct verification *v, const struct pz_closed_box *b,
                                  const struct pz_box *chip, bool *good) {
  struct pz_chip lo, hi;
  double most = 0, one = 0;
  pz_box_lo(&v->in->space, &b->box, &lo);
  pz_box_hi(&v->in->space, &b->box, &hi);
  struct pz_taken least = pz_chip_taken(&lo);
  enum pz_status status = pz_judge_value(v->judge, &hi, &least, 0, &most, NULL, NULL, v->err);
  if (status == PZ_OK) status = value_of(v, chip, &one);
  *good = most <= b->bound * (1 + SAME) && one <= b->bound * (1 + SAME);
  return status;
}

static enum pz_status check_box(struct verification *v, const struct pz_closed_box *b,
                                const struct pz_box *chip, bool *good) {
  double value = 0, best = stated(v, "best", "value");
  enum pz_status status = PZ_OK;
  *good = true;
  switch (b->end) {
  case PZ_BOX_INFEASIBLE: *good = breaks(v, &b->box); break;
  case PZ_BOX_BOUND:
  case PZ_BOX_OPEN: return check_bound(v, b, chip, good);
  default:
    status = value_of(v, &b->box, &value);
    *good = value <= best * (1 + SAME) && value <= pz_fmax(b->bound, best) * (1 + SAME);
  }
  return status;
}

/* A box of the sample, with one of its chips. */
struct drawn {
  const struct pz_closed_box *b;
  struct pz_box chip;
  bool good;
  enum pz_status status;
};

struct sample {
  struct verification *v;
  struct drawn *list;
};

static void check_drawn(void *ctx, size_t i, unsigned worker) {
  struct sample *x = ctx;
  struct drawn *d = &x->list[i];
  (void)worker;
  d->status = check_box(x->v, d->b, &d->chip, &d->good);
}

static void pack_drawn(void *ctx, size_t i, struct pz_buffer *out) {
  const struct drawn *d = &((struct sample *)ctx)->list[i];
  pz_buffer_append(out, (const char *)&d->good, sizeof d->good);
  pz_buffer_append(out, (const char *)&d->status, sizeof d->status);
}

static enum pz_status unpack_drawn(void *ctx, size_t i, struct pz_bytes *in) {
  struct drawn *d = &((struct sample *)ctx)->list[i];
  return pz_bytes_take(in, &d->good, sizeof d->good) &&
                 pz_bytes_take(in, &d->status, sizeof d->status)
             ? PZ_OK
             : PZ_BAD_INPUT;
}

static enum pz_status check_sample(struct verification *v) {
  char text[160];
  uint64_t seed = 1;
  uint32_t wrong = 0, n = v->o->sample < v->boxes.n ? v->o->sample : v->boxes.n;
  struct sample x = {v, pz_arena_alloc(v->arena, n, sizeof *x.list)};
  struct pz_round round = {&x, n, check_drawn, pack_drawn, unpack_drawn, NULL, NULL};
  if (!x.list) return pz_fail(v->err, PZ_NO_MEMORY, "out of memory for the sample");
  for (uint32_t i = 0; i < n; i++) {
    x.list[i].b = &v->boxes.list[pz_random_below(&seed, v->boxes.n)];
    x.list[i].chip = draw(&x.list[i].b->box, &seed);
  }
  enum pz_status status = pz_round_run(NULL, &round, v->err);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    status = x.list[i].status;
    wrong += !x.list[i].good;
  }
  snprintf(text, sizeof text, "%u boxes drawn at random: %u wrong", n, wrong);
  say(v, wrong == 0, text);
  return status;
}

static void check_gap(struct verification *v) {
  char text[160];
  double gap = 0, best = stated(v, "best", "value");
  for (uint32_t i = 0; i < v->boxes.n; i++)
    if (v->boxes.list[i].end == PZ_BOX_BOUND || v->boxes.list[i].end == PZ_BOX_OPEN)
      gap = pz_fmax(gap, v->boxes.list[i].bound / best - 1);
  snprintf(text, sizeof text, "no bound is above the best by more than %.3f%%", 100 * gap);
  say(v, fabs(gap - stated(v, "certificate", "gap")) < SAME, text);
}

static enum pz_status verify(struct verification *v, const char *dir) {
  char text[160];
  enum pz_status status = read_run(v, dir);
  if (status != PZ_OK) return status;
  snprintf(text, sizeof text, "%u boxes hold each of the %lld chips once", v->boxes.n,
           (long long)pz_range_chips(&v->in->space));
  say(v, pz_boxes_cover(&v->in->space, &v->boxes), text);
  check_gap(v);
  status = set_reference(v);
  if (status == PZ_OK) status = check_best(v);
  if (status == PZ_OK) status = check_sample(v);
  return status == PZ_OK ? pz_ranks_share_flag(&v->holds, v->err) : status;
}

enum pz_status pz_box_verify(const char *dir, const struct pz_verify_options *o, bool *holds,
                             struct pz_error *err) {
  struct pz_arena arena;
  struct verification v = {.o = o, .arena = &arena, .err = err, .holds = true};
  pz_arena_init(&arena, NULL);
  v.in = pz_arena_alloc(&arena, 1, sizeof *v.in);
  enum pz_status status =
      v.in ? verify(&v, dir) : pz_fail(err, PZ_NO_MEMORY, "out of memory for the verification");
  *holds = v.holds;
  pz_judge_free(v.judge);
  json_decref(v.result);
  pz_arena_release(&arena);
  return status;
}
