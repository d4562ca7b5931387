/* Section of a report: die area by block, and the main numbers of the best chip and of the reference chip. */
#include "chip/chip.h"
#include "report/report_data.h"

static void append_blocks(struct pz_call *call, json_t *rows, const char *role,
                          const struct pz_chip *c) {
  struct pz_bill b = pz_chip_bill(c, PZ_BILL_LIKELY);
  const struct {
    const char *block;
    int64_t count;
    double mm2;
  } blocks[] = {
      {"tensor arrays", c->tensor.cores, b.tensor_mm2},
      {"tensor buffers", c->tensor.cores, b.tensor_local_mm2},
      {"vector lanes", c->vector.cores, b.vector_mm2},
      {"vector buffers", c->vector.cores, b.vector_local_mm2},
      {"global buffer", 1, b.glb_mm2},
      {"HBM interface", c->hbm.stacks, b.hbm_mm2},
      {"64-bit units", 1, b.fp64_mm2},
      {"network on chip", 1, b.noc_mm2},
      {"links", 1, b.link_mm2 + b.die_link_mm2},
      {"host I/O", 1, b.io_mm2},
      {"control, wiring, spare", 1, b.other_mm2},
  };
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    pz_dataset_append(call, rows,
                      json_pack("[s,s,s,I,f]", role, c->name, blocks[i].block,
                                (json_int_t)blocks[i].count, blocks[i].mm2));
}

static void append_die(struct pz_call *call, json_t *rows, const char *role,
                       const struct pz_chip *c) {
  struct pz_bill b = pz_chip_bill(c, PZ_BILL_LIKELY);
  pz_dataset_append(
      call, rows,
      json_pack("[s,s,I,I,I,I,I,f,f,f,f,f,f,f]", role, c->name, (json_int_t)c->tensor.cores,
                (json_int_t)c->tensor.rows, (json_int_t)c->tensor.cols, (json_int_t)c->vector.cores,
                (json_int_t)c->vector.lanes, (double)c->glb_bytes / 0x1p20,
                (double)pz_chip_hbm_bytes(c) / 0x1p30, pz_chip_hbm_bytes_per_s(c), b.area_mm2,
                pz_chip_peak_watts(c), pz_chip_tensor_flop_per_s(c), pz_chip_vector_op_per_s(c)));
}

void pz_report_floorplan(struct pz_call *call, struct pz_report *report) {
  const struct pz_chip *best = pz_result_best(report->result)->chip;
  struct pz_chip *reference = pz_alloc(call, 1, sizeof *reference);
  json_t *blocks =
      pz_dataset_new(call, report->datasets, "floorplan", "role,chip,part,count,area_mm2");
  json_t *dies = pz_dataset_new(
      call, report->datasets, "dies",
      "role,chip,tensor_cores,rows,cols,vector_cores,lanes,glb_mib,hbm_gib,hbm_bytes_per_s,area_"
      "mm2,watts,tensor_flop_per_s,vector_op_per_s");
  pz_must(call, pz_chip_read(report->result->reference_chip.name, reference, pz_call_error(call)));
  append_blocks(call, blocks, "found", best);
  append_blocks(call, blocks, "reference", reference);
  append_die(call, dies, "found", best);
  append_die(call, dies, "reference", reference);
}
