/* chip.json and cluster.json, which the mapper can use; space.json, whose chips can be made. */
#include <string.h>

#include "../unit/core_borders.h"
#include "../unit/cost_borders.h"
#include "../unit/search_borders.h"
#include "chip/chip.h"
#include "core/alloc.h"
#include "core/json.h"
#include "cost/constants.h"
#include "cost/mapper.h"
#include "cost/network.h"
#include "fuzz.h"
#include "space/box.h"
#include "unit/chip_borders.h"

/* A product that varies with the input, up to the largest that is accepted. */
static struct pz_product vary(uint64_t h) {
  unsigned most = h % 5 == 0 ? 26 : 12;
  struct pz_product p = {1 + (int64_t)(h >> 4) % 3, 0, 0, 0, h & 1};
  p.m = INT64_C(1) + (int64_t)(h >> 8) % (INT64_C(1) << (1 + (h >> 3) % most));
  p.n = INT64_C(1) + (int64_t)(h >> 20) % (INT64_C(1) << (1 + (h >> 9) % most));
  p.k = INT64_C(1) + (int64_t)(h >> 32) % (INT64_C(1) << (1 + (h >> 15) % most));
  return p;
}

static void use(const struct pz_chip *c, struct pz_product p) {
  struct pz_area area = pz_chip_area(c);
  struct pz_mapping o;
  struct pz_error err = {0};
  struct pz_bill bill = pz_chip_bill(c, PZ_BILL_LIKELY);
  require(pz_area_total_um2(&area) > 0);
  bool priced = !pz_tech_is_library(pz_tech_at(pz_chip_bill_tech(c)));
  require(bill.area_mm2 > 0 && bill.watts > 0 && (bill.dollars > 0) == priced);
  if (was_read(pz_map_product(&p, c, &o, &err), &err))
    require(o.latency_s > 0 && o.energy_j > 0 && o.utilisation > 0 && o.utilisation <= 1 + 1e-9 &&
            o.items > 0);
  json_decref(pz_chip_json(c));
}

/* Collectives of groups of all sizes take a time, and none less than nothing. */
static void use_cluster(const struct pz_cluster *c, uint64_t h) {
  for (int kind = 0; kind <= PZ_COLLECTIVE_SEND; kind++) {
    struct pz_group g = {1 + (int64_t)(h >> 7) % (1 << 12), 1 + (int64_t)(h >> 23) % (1 << 8)};
    double s = pz_network_time(&pz_constants_default, c, (enum pz_collective)kind, 1e6, g).s;
    require(g.devices == 1 ? s == 0 : s > 0 && s < 1e18);
  }
  json_decref(pz_cluster_json(c));
}

void fuzz_chip(const char *text, size_t bytes) {
  struct pz_chip chip;
  struct pz_cluster cluster;
  struct pz_error err = {0};
  struct pz_product p = vary(hash(text, bytes, 1));
  if (was_read(pz_test_chip_parse("fuzz", text, bytes, &chip, &err), &err)) use(&chip, p);
  err = (struct pz_error){0};
  if (was_read(pz_cluster_parse("fuzz", text, bytes, &cluster, &err), &err))
    use_cluster(&cluster, (uint64_t)(p.m * 40503 + p.n * 2654435761 + p.k));
}

static void use_space(const struct pz_space *s) {
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

/* Written and read again it is the same. */
void fuzz_space(const char *text, size_t bytes) {
  static struct pz_space s;
  struct pz_error err = {0};
  if (!was_read(pz_space_parse("fuzz", text, bytes, &s, &err), &err)) return;
  use_space(&s);
  read_again(&s);
}
