#include "chip/chip.h"

#include "chip/tech.h"

struct pz_area pz_chip_area(const struct pz_chip *c) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  double tc = (double)c->tensor.cores, vc = (double)c->vector.cores;
  return (struct pz_area){
      .tensor_um2 = tc * (double)(c->tensor.rows * c->tensor.cols) * t->mac_um2,
      .tensor_local_um2 = tc * pz_tech_local_um2(t, c->tensor.local_bytes),
      .vector_um2 = vc * (double)c->vector.lanes * t->lane_um2,
      .vector_local_um2 = vc * pz_tech_local_um2(t, c->vector.local_bytes),
      .glb_um2 = pz_tech_glb_um2(t, c->glb_bytes),
      .hbm_um2 = (double)c->hbm.stacks * t->hbm_phy_um2,
  };
}

double pz_area_total_um2(const struct pz_area *a) {
  return a->tensor_um2 + a->tensor_local_um2 + a->vector_um2 + a->vector_local_um2 + a->glb_um2 +
         a->hbm_um2;
}

double pz_chip_peak_watts(const struct pz_chip *c) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  return pz_chip_tensor_flop_per_s(c) / 2 * t->mac_j + pz_chip_vector_op_per_s(c) * t->lane_j +
         c->glb_bytes_per_s * t->glb_j + pz_chip_hbm_bytes_per_s(c) * t->hbm_j +
         c->link_bytes_per_s * t->link_j;
}
