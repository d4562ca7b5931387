#include "chip/bill_json.h"

const struct pz_bill_part pz_bill_areas[PZ_BILL_AREAS] = {
    {"tensor_mm2", "tensor cores", offsetof(struct pz_bill, tensor_mm2)},
    {"tensor_local_mm2", "  buffers, registers, L1", offsetof(struct pz_bill, tensor_local_mm2)},
    {"vector_mm2", "vector cores", offsetof(struct pz_bill, vector_mm2)},
    {"vector_local_mm2", "  buffers", offsetof(struct pz_bill, vector_local_mm2)},
    {"fp64_mm2", "64-bit units", offsetof(struct pz_bill, fp64_mm2)},
    {"glb_mm2", "global buffer", offsetof(struct pz_bill, glb_mm2)},
    {"noc_mm2", "network on chip", offsetof(struct pz_bill, noc_mm2)},
    {"hbm_mm2", "HBM PHYs, controllers", offsetof(struct pz_bill, hbm_mm2)},
    {"link_mm2", "links", offsetof(struct pz_bill, link_mm2)},
    {"die_link_mm2", "links between dies", offsetof(struct pz_bill, die_link_mm2)},
    {"io_mm2", "host I/O, management", offsetof(struct pz_bill, io_mm2)},
    {"other_mm2", "control, wiring, spare", offsetof(struct pz_bill, other_mm2)},
};

const struct pz_bill_part pz_bill_others[PZ_BILL_OTHERS] = {
    {"static_watts", "static and clock", offsetof(struct pz_bill, static_watts)},
    {"link_watts", "links", offsetof(struct pz_bill, link_watts)},
    {"product_watts", "long products", offsetof(struct pz_bill, product_watts)},
    {"stream_watts", "HBM at full rate", offsetof(struct pz_bill, stream_watts)},
    {"die_dollars", "dies", offsetof(struct pz_bill, die_dollars)},
    {"hbm_dollars", "HBM", offsetof(struct pz_bill, hbm_dollars)},
    {"package_dollars", "package", offsetof(struct pz_bill, package_dollars)},
};

const struct pz_bill_part pz_bill_sums[PZ_BILL_SUMS] = {
    {"area_mm2", "area", offsetof(struct pz_bill, area_mm2)},
    {"watts", "watts", offsetof(struct pz_bill, watts)},
    {"dollars", "dollars", offsetof(struct pz_bill, dollars)},
    {"edge_mm", "edge", offsetof(struct pz_bill, edge_mm)},
};

double pz_bill_value(const struct pz_bill *b, const struct pz_bill_part *p) {
  return *(const double *)((const char *)b + p->offset);
}

static void set_parts(json_t *o, const struct pz_bill *b, const struct pz_bill_part *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    json_object_set_new(o, p[i].key, json_real(pz_bill_value(b, &p[i])));
}

json_t *pz_bill_json(const struct pz_chip *c) {
  struct pz_bill b = pz_chip_bill(c, PZ_BILL_LIKELY), low = pz_chip_bill(c, PZ_BILL_LOW),
                 high = pz_chip_bill(c, PZ_BILL_HIGH);
  json_t *o = json_object(), *ranges = json_object();
  set_parts(o, &b, pz_bill_sums, PZ_BILL_SUMS);
  for (size_t i = 0; i < PZ_BILL_SUMS; i++)
    json_object_set_new(ranges, pz_bill_sums[i].key,
                        json_pack("[f,f]", pz_bill_value(&low, &pz_bill_sums[i]),
                                  pz_bill_value(&high, &pz_bill_sums[i])));
  json_object_set_new(o, "ranges", ranges);
  json_object_set_new(o, "dies", json_integer((json_int_t)b.dies));
  json_object_set_new(o, "edge_room_mm", json_real(b.edge_room_mm));
  set_parts(o, &b, pz_bill_areas, PZ_BILL_AREAS);
  set_parts(o, &b, pz_bill_others, PZ_BILL_OTHERS);
  return o;
}
