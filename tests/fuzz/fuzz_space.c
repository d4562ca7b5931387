/* space.json: any bytes give a space whose chips can be made, and which is the same when written and read; or an error with
 * a message. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/json.h"
#include "space/box.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

static void use(const struct pz_space *s) {
  uint64_t all = (uint64_t)pz_space_chips(s);
  require(all >= 1 && (int64_t)all == pz_space_kind_chips(s) * pz_space_kinds(s));
  for (uint64_t id = 0; id < all; id += 1 + all / 100) {
    struct pz_point p = pz_space_point(s, id);
    struct pz_chip c;
    pz_space_chip(s, &p, &c);
    struct pz_taken t = pz_chip_taken(&c);
    require(pz_space_id(s, &p) == id && t.mm2 > 0 && c.vector.lanes > 0);
  }
  for (uint32_t k = 0; k < pz_space_kinds(s); k++) {
    struct pz_box all_of_kind = pz_box_all(s, k);
    struct pz_boxed b;
    pz_boxed_set(s, &all_of_kind, &b);
    require(b.least.mm2 > 0 && b.least.mm2 <= b.most.mm2 * (1 + 1e-12));
    require(pz_box_chips(&all_of_kind) == pz_space_kind_chips(s));
  }
}

/* A base is written with as many digits as it takes, an axis as its values. */
static void read_again(const struct pz_space *s) {
  static struct pz_space again;
  struct pz_error err = {0};
  json_t *json = pz_space_json(s);
  char *text = pz_json_dump(json, JSON_COMPACT);
  require(text && pz_space_parse("again", text, strlen(text), &again, &err) == PZ_OK);
  require(pz_space_chips(&again) == pz_space_chips(s) && again.has_base == s->has_base);
  require(memcmp(again.n, s->n, sizeof s->n) == 0 && again.least_part == s->least_part);
  for (enum pz_axis a = 0; a < PZ_AXES; a++)
    require(memcmp(again.value[a], s->value[a], (size_t)s->n[a] * sizeof **s->value) == 0);
  pz_free(text);
  json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static struct pz_space s;
  struct pz_error err = {0};
  if (pz_space_parse("fuzz", (const char *)data, bytes, &s, &err) == PZ_OK) {
    use(&s);
    read_again(&s);
  } else
    require(err.message[0]);
  return 0;
}
