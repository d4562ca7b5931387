#include "chip/bill_json.h"

#include <string.h>

#include "core/status.h"

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

static double value(const struct pz_bill *b, const struct pz_bill_part *p) {
  return *(const double *)((const char *)b + p->offset);
}

/* A library without prices or edges knows none. */
static json_t *amount(const struct pz_bill *b, const struct pz_bill_part *p) {
  bool known =
      strcmp(p->unit, "$") == 0 ? b->dollars > 0 : strcmp(p->unit, "mm") != 0 || b->edge_mm > 0;
  return known ? json_real(value(b, p)) : json_null();
}

static void set_parts(json_t *o, const struct pz_bill *b, const struct pz_bill_part *p, size_t n) {
  for (size_t i = 0; i < n; i++) json_object_set_new(o, p[i].key, amount(b, &p[i]));
}

json_t *pz_bill_json(const struct pz_chip *c) {
  struct pz_bill b = pz_chip_bill(c, PZ_BILL_LIKELY), low = pz_chip_bill(c, PZ_BILL_LOW),
                 high = pz_chip_bill(c, PZ_BILL_HIGH);
  json_t *o = json_object(), *ranges = json_object();
  set_parts(o, &b, sums, SUMS);
  for (size_t i = 0; i < SUMS; i++)
    json_object_set_new(ranges, sums[i].key,
                        json_pack("[o,o]", amount(&low, &sums[i]), amount(&high, &sums[i])));
  json_object_set_new(o, "ranges", ranges);
  json_object_set_new(o, "dies", json_integer((json_int_t)b.dies));
  json_object_set_new(o, "edge_room_mm", json_real(b.edge_room_mm));
  set_parts(o, &b, parts, PARTS);
  return o;
}

enum pz_status pz_bill_text(const struct pz_chip *c, char **text, struct pz_error *err) {
  enum pz_status status = pz_need_each(err, {c, "chip"}, {text, "text"});
  if (status != PZ_OK) return status;
  json_t *o = pz_bill_json(c);
  status = o ? pz_json_text(o, text, err) : pz_fail(err, PZ_NO_MEMORY, "out of memory for a bill");
  json_decref(o);
  return status;
}
