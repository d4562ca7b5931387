/* chip.json and cluster.json: any bytes give a description the mapper can use, or an error with a
 * message. */
#include <stdlib.h>

#include "chip/chip.h"
#include "cost/constants.h"
#include "cost/mapper.h"
#include "cost/network.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool ok) {
  if (!ok) abort();
}

/* A product that varies with the input, up to the largest that is accepted. */
static struct pz_product vary(const uint8_t *data, size_t bytes) {
  uint64_t h = 1;
  for (size_t i = 0; i < bytes; i++) h = h * 31 + data[i];
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
  if (pz_map_product(&p, c, &o, &err) == PZ_OK)
    require(o.latency_s > 0 && o.energy_j > 0 && o.utilisation > 0 && o.utilisation <= 1 + 1e-9 &&
            o.items > 0);
  else
    require(err.message[0]);
  json_decref(pz_chip_json(c));
}

/* Collectives of groups of all sizes take a time, and none less than nothing. */
static void use_cluster(const struct pz_cluster *c, uint64_t h) {
  for (int kind = 0; kind <= PZ_COLLECTIVE_SEND; kind++) {
    struct pz_group g = {1 + (int64_t)(h >> 7) % (1 << 12), 1 + (int64_t)(h >> 23) % (1 << 8)};
    double s = pz_network_s(&pz_constants_default, c, (enum pz_collective)kind, 1e6, g);
    require(g.devices == 1 ? s == 0 : s > 0 && s < 1e18);
  }
  json_decref(pz_cluster_json(c));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct pz_chip chip;
  struct pz_cluster cluster;
  struct pz_error err = {0};
  if (pz_chip_read_text("fuzz", (const char *)data, bytes, &chip, &err) == PZ_OK)
    use(&chip, vary(data, bytes));
  else
    require(err.message[0]);
  err = (struct pz_error){0};
  if (pz_cluster_parse("fuzz", (const char *)data, bytes, &cluster, &err) == PZ_OK) {
    struct pz_product p = vary(data, bytes);
    use_cluster(&cluster, (uint64_t)(p.m * 40503 + p.n * 2654435761 + p.k));
  } else
    require(err.message[0]);
  return 0;
}
