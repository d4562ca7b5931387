/* What a search saves: the run file (SQLite), the bytes of its rounds, its texts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../unit/core_borders.h"
#include "../unit/store_borders.h"
#include "../unit/study_borders.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"
#include "fuzz.h"
#include "search/state.h"
#include "store/run_file.h"

/* ---- run.sqlite: looking leaves the bytes as they are ------------------------------------------- */

static void use(struct pz_run_file *f) {
  const struct pz_round_store *store = pz_run_file_rounds(f);
  struct pz_error err = {0};
  require(pz_run_file_inputs(f)[0]);
  for (uint32_t i = 0; i < 4; i++) {
    struct pz_buffer b = {0};
    err = (struct pz_error){0};
    if (read_stored_round(store, i / 2, i % 2, &b, &err) != PZ_OK) require(err.message[0]);
    pz_free(b.text);
  }
  for (enum pz_part part = PZ_PART_RESULT; part <= PZ_PART_DETAIL; part++) {
    char *text = NULL;
    err = (struct pz_error){0};
    if (pz_run_file_text(f, part, &text, &err) != PZ_OK) require(err.message[0] && !text);
    pz_free(text);
  }
  err = (struct pz_error){0};
  if (pz_run_file_check(f, &err) != PZ_OK) require(err.message[0]);
}

static void put(const char *path, const char *data, size_t bytes) {
  FILE *out = fopen(path, "wb");
  require(out && fwrite(data, 1, bytes, out) == bytes && fclose(out) == 0);
}

static void require_unchanged(const char *path, const char *data, size_t bytes) {
  char *text = NULL;
  size_t n = 0;
  require(pz_file_read(path, bytes, &text, &n, NULL) == PZ_OK);
  require(n == bytes && memcmp(text, data, n) == 0);
  pz_free(text);
}

void fuzz_run_file(const char *text, size_t bytes) {
  char dir[] = "/tmp/phaze-fuzz-XXXXXX", path[sizeof dir + 16];
  struct pz_run_file *f = NULL;
  struct pz_error err = {0};
  require(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/run.sqlite", dir);
  put(path, text, bytes);
  if (was_read(pz_run_file_look(dir, &f, &err), &err))
    use(f);
  else
    require(!f);
  pz_run_file_close(f);
  require_unchanged(path, text, bytes);
  unlink(path);
  require(rmdir(dir) == 0); /* nothing else was left there */
}

/* ---- rounds: an outcome within the space, written as it was read; of a box it closes as many chips as this has */

static void check_box(const struct pz_space *s, const struct pz_box *b) {
  require(b->kind < pz_space_kinds(s));
  for (enum pz_axis a = 0; a < PZ_AXES; a++) require(b->lo[a] <= b->hi[a] && b->hi[a] < s->n[a]);
}

static void check(const struct pz_driver *d, const struct pz_outcome *x) {
  const struct pz_space *s = d->search->question.space;
  struct pz_box all = pz_box_all(s, 0);
  int64_t chips = 0;
  require(x->value >= 0);
  for (uint32_t i = 0; i < x->boxes.n; i++) {
    const struct pz_closed_box *b = pz_vec_at(&x->boxes, struct pz_closed_box, i);
    check_box(s, &b->box);
    require(b->end < PZ_BOX_OPEN && b->bound >= 0 && b->value >= 0);
    chips += pz_box_chips(&b->box);
  }
  for (uint32_t i = 0; i < x->children.n; i++) {
    const struct pz_open_box *b = pz_vec_at(&x->children, struct pz_open_box, i);
    check_box(s, &b->box);
    require(b->effort != PZ_EFFORT_NONE && b->effort <= PZ_EFFORT_FULL && b->bound >= 0);
    chips += pz_box_chips(&b->box);
  }
  for (uint32_t i = 0; i < x->known.n; i++) {
    const struct pz_found_step *k = pz_vec_at(&x->known, struct pz_found_step, i);
    require(k->chip_id < (uint64_t)pz_space_chips(s) && k->entry < d->search->question.n_entries);
    require(k->evaluation.least_s <= k->evaluation.step_s && k->evaluation.least_s >= 0);
    for (uint32_t n = 0; n < k->evaluation.plan.n_stages; n++) (void)k->evaluation.plan.layers[n];
  }
  if (pz_outcome_is_of(x, &all, true)) require(chips == pz_box_chips(&all));
  if (pz_outcome_is_of(x, &all, false)) require(!x->boxes.n && !x->children.n);
}

struct rounds {
  struct pz_driver *driver;
  struct pz_bytes in;
};

/* Outcomes one after another, as a round has them. */
static void read_outcomes(struct pz_call *call, void *ctx) {
  struct rounds *rounds = ctx;
  struct pz_outcome *x = &rounds->driver->outcomes[0];
  while (rounds->in.left) {
    struct pz_buffer *again = pz_buffer_new(call);
    const char *from = rounds->in.at;
    pz_outcome_init(x);
    pz_outcome_unpack(call, rounds->driver, 0, &rounds->in);
    check(rounds->driver, x);
    pz_outcome_pack(call, rounds->driver, 0, again);
    require(again->bytes == (size_t)(rounds->in.at - from));
    require(memcmp(again->text, from, again->bytes) == 0);
    pz_close(call, again);
    pz_arena_release(&x->arena);
  }
}

void fuzz_rounds(const char *text, size_t bytes) {
  static struct pz_space two = {
      .name = "two",
      .n_nodes = 1,
      .node = {PZ_TECH_5NM},
      .n_arrays = 2,
      .array = {{16, 16}, {32, 32}},
      .n_hbm = 1,
      .n = {2, 1, 3, 1, 1, 1, 1, 1, 1},
      .value = {{1, 2}, {64}, {1, 2, 4}, {16}, {4}, {64}, {1000}, {1}, {10}}};
  static struct pz_driver d;
  struct pz_search s = {.question = {.space = &two, .n_entries = 2}};
  struct rounds rounds = {&d, {text, bytes}};
  d.search = &s;
  enum pz_status status = pz_border(read_outcomes, &rounds, NULL);
  require(status == PZ_OK || status == PZ_BAD_INPUT);
  pz_arena_release(&d.outcomes[0].arena);
}

/* ---- results ------------------------------------------------------------------------------------ */

void fuzz_result(const char *text, size_t bytes) {
  struct pz_result r;
  struct pz_arena arena;
  struct pz_error errors[4] = {{0}};
  json_t *json = NULL;
  if (!was_read(pz_json_parse("x", text, bytes, &json, &errors[0]), &errors[0])) return;
  pz_arena_init(&arena);
  pz_result_init(&r, &arena);
  if (was_read(pz_result_read(json, &r, &errors[1]), &errors[1])) {
    require(r.n_answers > 0 && pz_result_best(&r)->n_models == r.inputs.options.n_models);
    require(pz_text_is_plain(r.reference_chip.name) && pz_text_is_plain(r.inputs.space_name));
    json_t *again = pz_result_json(&r);
    require(again != NULL);
    json_decref(again);
  }
  (void)was_read(pz_comparison_read(json, &r, &errors[2]), &errors[2]);
  (void)was_read(pz_detail_read(json, &r, &errors[3]), &errors[3]);
  pz_arena_release(&arena);
  json_decref(json);
}
