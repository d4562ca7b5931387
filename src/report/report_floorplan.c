/* Section of a report: die area by block and main numbers of the best and reference chips. */
#include "chip/chip.h"
#include "report/report_data.h"

/* Appends the blocks of a chip to the dataset "floorplan" and the chip to the dataset "dies". */
static void append_chip(struct pz_call *call, json_t *floorplan, json_t *dies, const char *role,
                        const struct pz_chip *chip) {
  struct pz_bill bill = pz_chip_bill(chip, PZ_BILL_LIKELY);
  const struct {
    const char *block;
    int64_t count;
    double mm2;
  } blocks[] = {{"tensor arrays", chip->tensor.cores, bill.tensor_mm2},
                {"tensor buffers", chip->tensor.cores, bill.tensor_local_mm2},
                {"vector lanes", chip->vector.cores, bill.vector_mm2},
                {"vector buffers", chip->vector.cores, bill.vector_local_mm2},
                {"global buffer", 1, bill.glb_mm2},
                {"HBM interface", chip->hbm.stacks, bill.hbm_mm2},
                {"64-bit units", 1, bill.fp64_mm2},
                {"network on chip", 1, bill.noc_mm2},
                {"links", 1, bill.link_mm2 + bill.die_link_mm2},
                {"host I/O", 1, bill.io_mm2},
                {"control, wiring, spare", 1, bill.other_mm2}};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    pz_dataset_add(call, floorplan, "[s,s,s,I,f]", role, chip->name, blocks[i].block,
                   (json_int_t)blocks[i].count, blocks[i].mm2);
  pz_dataset_add(
      call, dies, "[s,s,I,I,I,I,I,f,f,f,f,f,f,f]", role, chip->name, (json_int_t)chip->tensor.cores,
      (json_int_t)chip->tensor.rows, (json_int_t)chip->tensor.cols, (json_int_t)chip->vector.cores,
      (json_int_t)chip->vector.lanes, (double)chip->glb_bytes / 0x1p20,
      (double)pz_chip_hbm_bytes(chip) / 0x1p30, pz_chip_hbm_bytes_per_s(chip), bill.area_mm2,
      pz_chip_peak_watts(chip), pz_chip_tensor_flop_per_s(chip), pz_chip_vector_op_per_s(chip));
}

/* Adds the blocks of both dies, and a row for each chip. */
void pz_report_floorplan(struct pz_call *call, struct pz_report *report) {
  struct pz_chip *reference = pz_alloc(call, 1, sizeof *reference);
  json_t *floorplan =
      pz_dataset_new(call, report->datasets, "floorplan", "role,chip,part,count,area_mm2");
  json_t *dies = pz_dataset_new(
      call, report->datasets, "dies",
      "role,chip,tensor_cores,rows,cols,vector_cores,lanes,glb_mib,hbm_gib,hbm_bytes_per_s,area_"
      "mm2,watts,tensor_flop_per_s,vector_op_per_s");
  pz_chip_read(call, report->result->reference_chip.name, reference);
  append_chip(call, floorplan, dies, "found", pz_result_best(report->result)->chip);
  append_chip(call, floorplan, dies, "reference", reference);
}
