/* What the die is made of, of the winner and of the reference chip. */
#include "chip/chip.h"
#include "report/report_data.h"

static bool tell_chip(json_t *rows, const char *role, const struct pz_chip *c) {
  struct pz_area a = pz_chip_area(c);
  const struct {
    const char *part;
    int64_t count;
    double um2;
  } parts[] = {
      {"tensor arrays", c->tensor.cores, a.tensor_um2},
      {"tensor buffers", c->tensor.cores, a.tensor_local_um2},
      {"vector lanes", c->vector.cores, a.vector_um2},
      {"vector buffers", c->vector.cores, a.vector_local_um2},
      {"global buffer", 1, a.glb_um2},
      {"HBM interface", c->hbm.stacks, a.hbm_um2},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!pz_dataset_row(rows, json_pack("[s,s,s,I,f]", role, c->name, parts[i].part,
                                        (json_int_t)parts[i].count, parts[i].um2 / 1e6)))
      return false;
  return true;
}

static bool tell_facts(json_t *rows, const char *role, const struct pz_chip *c) {
  struct pz_area a = pz_chip_area(c);
  return pz_dataset_row(rows,
                        json_pack("[s,s,I,I,I,I,I,f,f,f,f,f,f,f]", role, c->name,
                                  (json_int_t)c->tensor.cores, (json_int_t)c->tensor.rows,
                                  (json_int_t)c->tensor.cols, (json_int_t)c->vector.cores,
                                  (json_int_t)c->vector.lanes, (double)c->glb_bytes / 0x1p20,
                                  (double)pz_chip_hbm_bytes(c) / 0x1p30, pz_chip_hbm_bytes_per_s(c),
                                  pz_area_total_um2(&a) / 1e6, pz_chip_peak_watts(c),
                                  pz_chip_tensor_flop_per_s(c), pz_chip_vector_op_per_s(c)));
}

enum pz_status pz_report_floorplan(struct pz_report *t) {
  json_t *rows = pz_dataset_add(t->datasets, "floorplan", "role,chip,part,count,area_mm2");
  json_t *facts = pz_dataset_add(
      t->datasets, "dies",
      "role,chip,tensor_cores,rows,cols,vector_cores,lanes,glb_mib,hbm_gib,hbm_bytes_per_s,area_"
      "mm2,watts,tensor_flop_per_s,vector_op_per_s");
  const struct pz_chip *best = pz_result_best(t->result)->chip;
  struct pz_chip reference;
  enum pz_status status = pz_chip_read(t->result->reference_chip.name, &reference, t->err);
  if (status != PZ_OK) return status;
  return pz_report_check(t, rows && facts && tell_chip(rows, "found", best) &&
                                tell_chip(rows, "reference", &reference) &&
                                tell_facts(facts, "found", best) &&
                                tell_facts(facts, "reference", &reference));
}
