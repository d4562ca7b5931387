/* Cost breakdown of a chip: die area by block, power, production cost, and die edge.
 *
 * pz_chip_bill() computes all of it from the description of a chip and the constants of its
 * technology (silicon.def), for the likely constants or at one end of their ranges.  Technologies
 * of the original system's library (45 and 22 nm) have area and peak power only.  Blocks whose
 * sizes a real package exceeds (spare cores, caches) are counted as in the package. */
#include "chip/chip.h"

#include <math.h>

static const double UM2_PER_MM2 = 1e6;

/* ---- area ------------------------------------------------------------------------------------ */

/* Returns the area of cores, buffers and HBM interfaces by the original system's rules. */
struct pz_area pz_chip_area(const struct pz_chip *chip) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  const struct pz_tensor_cores *tensor = &chip->tensor;
  double tensor_cores = (double)tensor->cores, vector_cores = (double)chip->vector.cores;
  return (struct pz_area){
      .tensor_um2 = tensor_cores * (double)(tensor->rows * tensor->cols) * tech->mac_um2,
      .tensor_local_um2 = tensor_cores * pz_tech_buffer_um2(tech, tensor->local_bytes, false),
      .vector_um2 = vector_cores * (double)chip->vector.lanes * tech->lane_um2,
      .vector_local_um2 = vector_cores * pz_tech_buffer_um2(tech, chip->vector.local_bytes, false),
      .glb_um2 = pz_tech_buffer_um2(tech, chip->glb_bytes, true),
      .hbm_um2 = (double)chip->hbm.stacks * tech->hbm_phy_um2,
  };
}

double pz_area_total_um2(const struct pz_area *area) {
  return area->tensor_um2 + area->tensor_local_um2 + area->vector_um2 + area->vector_local_um2 +
         area->glb_um2 + area->hbm_um2;
}

/* The dies of a chip and their technologies: those of its package, or one die.  A chip without I/O
 * dies has global buffer, HBM interfaces, links and host interface on its core dies. */
struct dies {
  int64_t core_dies, io_dies;
  struct pz_tech_info core_tech, io_tech;
};

/* Returns the technology of the dies with cores. */
enum pz_tech pz_chip_bill_tech(const struct pz_chip *chip) {
  return chip->package.dies ? chip->package.tech : chip->tech;
}

/* Returns how many of a block, such as cores or bytes, the dies have: `packaged`, the number of the
 * chip's package, if it is stated and larger, otherwise `described`. */
static double count_on_dies(const struct pz_chip *chip, int64_t packaged, int64_t described) {
  return (double)(chip->package.dies && packaged > described ? packaged : described);
}

/* Sets the area of tensor and vector cores and of the network that connects them. */
static void set_core_area(const struct pz_chip *chip, const struct pz_tech_info *tech,
                          struct pz_bill *bill) {
  const struct pz_package *package = &chip->package;
  double tensor_cores = count_on_dies(chip, package->cores, chip->tensor.cores);
  double vector_cores = count_on_dies(chip, package->vector_cores, chip->vector.cores);
  double buffer_bytes = count_on_dies(chip, package->core_bytes, chip->tensor.local_bytes);
  bill->tensor_mm2 = tensor_cores * (double)chip->tensor.rows * (double)chip->tensor.cols *
                     tech->mac_um2 / UM2_PER_MM2;
  bill->tensor_local_mm2 = tensor_cores * buffer_bytes * tech->sram_um2_per_byte / UM2_PER_MM2;
  bill->vector_mm2 = vector_cores * (double)chip->vector.lanes * tech->lane_um2 / UM2_PER_MM2;
  bill->vector_local_mm2 =
      vector_cores * (double)chip->vector.local_bytes * tech->sram_um2_per_byte / UM2_PER_MM2;
  bill->fp64_mm2 =
      count_on_dies(chip, package->fp64_units, 0) * tensor_cores * tech->fp64_um2 / UM2_PER_MM2;
  /* Half of the network's area is proportional to the ports of the cores, the other half to the
   * traffic in units of a core of an H200, which moves 32 B in a cycle. */
  double ports = (tensor_cores + vector_cores) / 2,
         wires = chip->glb_bytes_per_s / tech->reference_hz / 32;
  bill->noc_mm2 = (ports + wires) / 2 * tech->noc_um2 / UM2_PER_MM2;
}

/* Sets the area of what the cores share: global buffer, HBM interfaces, links and host interface,
 * which are on the I/O dies if the chip has any. */
static void set_shared_area(const struct pz_chip *chip, const struct dies *dies,
                            struct pz_bill *bill) {
  const struct pz_tech_info *tech = &dies->io_tech;
  double buffer_bytes = count_on_dies(chip, chip->package.sram_bytes, chip->glb_bytes);
  double stacks = count_on_dies(chip, chip->package.stacks, chip->hbm.stacks);
  bill->glb_mm2 = (buffer_bytes * tech->glb_um2_per_byte +
                   chip->glb_bytes_per_s / 1e9 * tech->glb_port_um2_per_gbs) /
                  UM2_PER_MM2;
  bill->hbm_mm2 = stacks * tech->hbm_phy_um2 / UM2_PER_MM2;
  bill->link_mm2 = chip->link_bytes_per_s / 1e9 * tech->link_um2_per_gbs / UM2_PER_MM2;
  bill->die_link_mm2 =
      chip->package.die_bytes_per_s / 1e9 * tech->die_link_um2_per_gbs / UM2_PER_MM2;
  bill->io_mm2 =
      (double)(dies->io_dies ? dies->io_dies : dies->core_dies) * tech->io_um2 / UM2_PER_MM2;
}

/* ---- power ----------------------------------------------------------------------------------- */

/* Fractions of the peak rate (H200: 0.795) and of the HBM rate that sustained GEMMs reach. */
static const double GEMM_FRACTION = 0.8, HBM_FRACTION = 0.15;

/* Vector operations per byte of a stream of 16-bit values: address, load, convert and store. */
static const double STREAM_OPS_PER_BYTE = 1;

/* Returns the bytes that a GEMM reads from a core's buffer per multiply-accumulate.  A square tile
 * of s partial sums in registers needs 2 sqrt(s) operands for s of them. */
double pz_chip_local_bytes_per_mac(const struct pz_chip *chip) {
  static const double SUMS_PER_MULTIPLIER = 8; /* 32-bit partial sums in 32 B of registers */
  double multipliers = (double)chip->tensor.rows * (double)chip->tensor.cols;
  return 2 * (double)chip->rules.operand_bytes / sqrt(multipliers * SUMS_PER_MULTIPLIER);
}

/* Sets the power at the sustained clock: static and clock power, links, and the larger one of
 * sustained GEMMs and HBM streams. */
static void set_watts(const struct pz_chip *chip, const struct pz_tech_info *tech,
                      struct pz_bill *bill) {
  double clock = fmin(chip->clock_hz, tech->reference_hz);
  double voltage2 = pz_tech_voltage2(tech, clock);
  double macs_per_s = pz_chip_tensor_flop_per_s(chip) / 2 / chip->clock_hz * clock * GEMM_FRACTION;
  double hbm_bytes_per_s = pz_chip_hbm_bytes_per_s(chip);
  bill->static_watts =
      bill->area_mm2 *
      (tech->static_w_per_mm2 + tech->clock_w_per_mm2 * clock / tech->reference_hz * voltage2);
  bill->link_watts =
      chip->link_bytes_per_s * tech->link_j + chip->package.die_bytes_per_s * tech->die_link_j;
  bill->product_watts =
      macs_per_s * voltage2 * (tech->mac_j + pz_chip_local_bytes_per_mac(chip) * tech->local_j) +
      HBM_FRACTION * hbm_bytes_per_s * tech->hbm_j;
  bill->stream_watts =
      hbm_bytes_per_s * (tech->hbm_j + tech->glb_j + STREAM_OPS_PER_BYTE * voltage2 * tech->lane_j);
  bill->watts =
      bill->static_watts + bill->link_watts + fmax(bill->product_watts, bill->stream_watts);
}

/* Returns the switching power at the nominal clock over that at the sustained clock.  It is
 * proportional to f V^2, where f is the clock and V the supply voltage. */
double pz_chip_held_part(const struct pz_chip *chip) {
  const struct pz_tech_info *tech = pz_tech_at(pz_chip_bill_tech(chip));
  double reference_hz = tech->reference_hz;
  if (!(reference_hz > 0) || chip->clock_hz <= reference_hz) return 1;
  return chip->clock_hz * pz_tech_voltage2(tech, chip->clock_hz) /
         (reference_hz * pz_tech_voltage2(tech, reference_hz));
}

/* Returns the peak power of a chip.  For a measured GPU, which lowers its clock to the sustained one
 * and whose GEMMs miss the peak rate, it is the power of the cost breakdown.  Any other chip is
 * assumed to hold its nominal clock, which raises its dynamic power with f V^2, and to run GEMMs at
 * the full rate.  The power limit of an unmeasured ("cold") chip also limits the result. */
double pz_bill_peak_watts(const struct pz_chip *chip, const struct pz_bill *bill) {
  const struct pz_tech_info *tech = pz_tech_at(pz_chip_bill_tech(chip));
  bool is_measured_gpu = chip->execution == PZ_CHIP_STREAM && !chip->cold;
  if (pz_tech_is_library(tech) || is_measured_gpu) return bill->watts;
  double hbm_watts = HBM_FRACTION * pz_chip_hbm_bytes_per_s(chip) * tech->hbm_j;
  double gemm_watts = (bill->product_watts - hbm_watts) / GEMM_FRACTION + hbm_watts;
  double dynamic_watts = fmax(gemm_watts, bill->stream_watts);
  double clock_watts = bill->area_mm2 * tech->clock_w_per_mm2;
  double watts = bill->static_watts + bill->link_watts + dynamic_watts +
                 (pz_chip_held_part(chip) - 1) * (dynamic_watts + clock_watts);
  bool has_limit = chip->cold && chip->watts > 0;
  return has_limit ? fmin(watts, chip->watts) : watts;
}

/* Returns the cost of a die that passed its test.  A wafer has a diameter of 300 mm with an unused
 * edge of 5 mm, 0.2 mm between dies, and at least one die.  The yield follows the negative binomial
 * model with ten critical levels (Feng and Ma, Chiplet Actuary, DAC 2022). */
double pz_tech_die_dollars(const struct pz_tech_info *tech, double mm2) {
  static const double PI = 3.14159265358979323846, DIAMETER = 290, SCRIBE = 0.2, LEVELS = 10;
  double side = sqrt(mm2) + SCRIBE, occupied_mm2 = side * side;
  double dies_per_wafer =
      PI * DIAMETER * DIAMETER / 4 / occupied_mm2 - PI * DIAMETER / sqrt(2 * occupied_mm2);
  double yield = pow(1 + tech->defects_per_cm2 * mm2 / 100 / LEVELS, -LEVELS);
  return tech->wafer_dollars / fmax(dies_per_wafer, 1) / yield;
}

/* Sets the cost of dies, HBM and package.  io_mm2 is the area of all I/O dies together. */
static void set_dollars(const struct pz_chip *chip, const struct dies *dies, double io_mm2,
                        struct pz_bill *bill) {
  static const double STACK_MM2 = 110; /* footprint of an HBM2e or HBM3 stack: 10 x 11 mm */
  double core_dies = (double)dies->core_dies, io_dies = (double)dies->io_dies;
  double core_mm2 = bill->area_mm2 - io_mm2;
  bill->die_dollars = core_dies * pz_tech_die_dollars(&dies->core_tech, core_mm2 / core_dies);
  if (io_dies > 0)
    bill->die_dollars += io_dies * pz_tech_die_dollars(&dies->io_tech, io_mm2 / io_dies);
  bill->hbm_dollars = (double)pz_chip_hbm_bytes(chip) / 0x1p30 * dies->core_tech.hbm_dollars_per_gb;
  bill->package_dollars = (bill->area_mm2 + (double)chip->hbm.stacks * STACK_MM2) *
                          dies->core_tech.package_dollars_per_mm2;
  bill->dollars = bill->die_dollars + bill->hbm_dollars + bill->package_dollars;
}

/* Returns the cost breakdown, computed in the order area, power, production cost, edge. */
struct pz_bill pz_chip_bill(const struct pz_chip *chip, enum pz_bill_range range) {
  const struct pz_package *package = &chip->package;
  enum pz_tech tech = pz_chip_bill_tech(chip), io_tech = tech;
  if (package->dies && package->io_dies) io_tech = package->io_tech;
  struct dies dies = {.core_dies = package->dies ? package->dies : 1,
                      .io_dies = package->dies ? package->io_dies : 0,
                      .core_tech = pz_tech_range(tech, range),
                      .io_tech = pz_tech_range(io_tech, range)};
  struct pz_bill bill = {.dies = dies.core_dies + dies.io_dies};
  if (pz_tech_is_library(&dies.core_tech)) {
    /* The library of the original system states only the area of blocks and the energy of operations
     * and transfers, of which the power at the peak rates follows.  Prices and edges stay 0. */
    const struct pz_tech_info *library = &dies.core_tech;
    struct pz_area area = pz_chip_area(chip);
    bill.tensor_mm2 = area.tensor_um2 / UM2_PER_MM2;
    bill.tensor_local_mm2 = area.tensor_local_um2 / UM2_PER_MM2;
    bill.vector_mm2 = area.vector_um2 / UM2_PER_MM2;
    bill.vector_local_mm2 = area.vector_local_um2 / UM2_PER_MM2;
    bill.glb_mm2 = area.glb_um2 / UM2_PER_MM2;
    bill.hbm_mm2 = area.hbm_um2 / UM2_PER_MM2;
    bill.area_mm2 = pz_area_total_um2(&area) / UM2_PER_MM2;
    bill.watts =
        pz_chip_tensor_flop_per_s(chip) / 2 * library->mac_j +
        pz_chip_vector_op_per_s(chip) * library->lane_j + chip->glb_bytes_per_s * library->glb_j +
        pz_chip_hbm_bytes_per_s(chip) * library->hbm_j + chip->link_bytes_per_s * library->link_j;
    return bill;
  }
  set_core_area(chip, &dies.core_tech, &bill);
  set_shared_area(chip, &dies, &bill);
  double shared_mm2 = bill.glb_mm2 + bill.hbm_mm2 + bill.link_mm2 + bill.die_link_mm2 + bill.io_mm2;
  double core_mm2 = bill.tensor_mm2 + bill.tensor_local_mm2 + bill.vector_mm2 +
                    bill.vector_local_mm2 + bill.fp64_mm2 + bill.noc_mm2;
  /* The share of control and wiring is added to the blocks.  I/O dies have all shared blocks. */
  double io_mm2 = dies.io_dies ? shared_mm2 * (1 + dies.io_tech.other_share) : 0;
  bill.other_mm2 = core_mm2 * dies.core_tech.other_share + shared_mm2 * dies.io_tech.other_share;
  bill.area_mm2 = core_mm2 + shared_mm2 + bill.other_mm2;
  set_watts(chip, &dies.core_tech, &bill);
  set_dollars(chip, &dies, io_mm2, &bill);
  /* HBM and links occupy the edge of the dies with I/O, which are taken to be square. */
  double edge_dies = (double)(dies.io_dies ? dies.io_dies : dies.core_dies);
  double edge_dies_mm2 = dies.io_dies ? io_mm2 : bill.area_mm2;
  double stacks = count_on_dies(chip, chip->package.stacks, chip->hbm.stacks);
  bill.edge_mm = stacks * dies.io_tech.hbm_edge_mm +
                 chip->link_bytes_per_s / 1e9 * dies.io_tech.link_edge_mm_per_gbs;
  bill.edge_room_mm = 4 * edge_dies * sqrt(edge_dies_mm2 / edge_dies);
  return bill;
}

double pz_chip_peak_watts(const struct pz_chip *chip) {
  struct pz_bill bill = pz_chip_bill(chip, PZ_BILL_LIKELY);
  return pz_bill_peak_watts(chip, &bill);
}
