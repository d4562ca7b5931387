/* The cost breakdown of a chip as JSON: the parts and their sums, with ranges of the sums. */
#include <string.h>

#include "chip/chip.h"

#define PART(field, label, unit)                                                                   \
  { #field, label, unit, offsetof(struct pz_bill, field) }
static const struct pz_bill_part parts[] = {
    PART(tensor_mm2, "tensor cores", "mm2"),
    PART(tensor_local_mm2, "  buffers, registers, L1", "mm2"),
    PART(vector_mm2, "vector cores", "mm2"),
    PART(vector_local_mm2, "  buffers", "mm2"),
    PART(fp64_mm2, "64-bit units", "mm2"),
    PART(glb_mm2, "global buffer", "mm2"),
    PART(noc_mm2, "network on chip", "mm2"),
    PART(hbm_mm2, "HBM PHYs, controllers", "mm2"),
    PART(link_mm2, "links", "mm2"),
    PART(die_link_mm2, "links between dies", "mm2"),
    PART(io_mm2, "host I/O, management", "mm2"),
    PART(other_mm2, "control, wiring, spare", "mm2"),
    PART(static_watts, "static and clock", "W"),
    PART(link_watts, "links", "W"),
    PART(product_watts, "long products", "W"),
    PART(stream_watts, "HBM at full rate", "W"),
    PART(die_dollars, "dies", "$"),
    PART(hbm_dollars, "HBM", "$"),
    PART(package_dollars, "package", "$"),
};
static const struct pz_bill_part sums[] = {PART(area_mm2, "area", "mm2"), PART(watts, "watts", "W"),
                                           PART(dollars, "dollars", "$"),
                                           PART(edge_mm, "edge", "mm")};
enum { PARTS = sizeof parts / sizeof *parts, SUMS = sizeof sums / sizeof *sums };

const struct pz_bill_part *pz_bill_part_at(size_t i) { return i < PARTS ? &parts[i] : NULL; }

/* Returns the value of a part as JSON, or null if the technology has no prices or edges. */
static json_t *part_json(const struct pz_bill *bill, const struct pz_bill_part *part) {
  bool is_unknown = (strcmp(part->unit, "$") == 0 && !(bill->dollars > 0)) ||
                    (strcmp(part->unit, "mm") == 0 && !(bill->edge_mm > 0));
  if (is_unknown) return json_null();
  return json_real(*(const double *)((const char *)bill + part->offset));
}

/* Returns the sums, then their ranges as pairs of low and high, and then the parts. */
json_t *pz_bill_json(const struct pz_chip *chip) {
  struct pz_bill likely = pz_chip_bill(chip, PZ_BILL_LIKELY);
  struct pz_bill low = pz_chip_bill(chip, PZ_BILL_LOW), high = pz_chip_bill(chip, PZ_BILL_HIGH);
  json_t *object = json_object(), *ranges = json_object();
  for (size_t i = 0; i < SUMS; i++) {
    const struct pz_bill_part *sum = &sums[i];
    json_object_set_new(object, sum->key, part_json(&likely, sum));
    json_object_set_new(ranges, sum->key,
                        json_pack("[o,o]", part_json(&low, sum), part_json(&high, sum)));
  }
  json_object_set_new(object, "ranges", ranges);
  json_object_set_new(object, "dies", json_integer((json_int_t)likely.dies));
  json_object_set_new(object, "edge_room_mm", json_real(likely.edge_room_mm));
  for (size_t i = 0; i < PARTS; i++)
    json_object_set_new(object, parts[i].key, part_json(&likely, &parts[i]));
  return object;
}
