#include "chip/chip.h"

#include <math.h>

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

/* ---- area ----------------------------------------------------------------------------------- */

/* Dies and their technologies: as the package says, or one of the chip's own. */
struct dies {
  int64_t n, io;
  struct pz_tech_info tech, io_tech;
};

enum pz_tech pz_chip_bill_tech(const struct pz_chip *c) {
  return c->package.dies ? c->package.tech : c->tech;
}

static struct dies bill_dies(const struct pz_chip *c, enum pz_bill_range range) {
  const struct pz_package *p = &c->package;
  enum pz_tech tech = pz_chip_bill_tech(c);
  return (struct dies){.n = p->dies ? p->dies : 1,
                       .io = p->dies ? p->io_dies : 0,
                       .tech = pz_tech_range(tech, range),
                       .io_tech = pz_tech_range(p->dies && p->io_dies ? p->io_tech : tech, range)};
}

/* What the dies hold is no less than what the description counts. */
static double on_dies(const struct pz_chip *c, int64_t held, int64_t described) {
  return (double)(c->package.dies && held > described ? held : described);
}

static void core_area(const struct pz_chip *c, const struct pz_tech_info *t, struct pz_bill *b) {
  double cores = on_dies(c, c->package.cores, c->tensor.cores);
  double vectors = on_dies(c, c->package.vector_cores, c->vector.cores);
  double bytes = on_dies(c, c->package.core_bytes, c->tensor.local_bytes);
  b->tensor_mm2 = cores * (double)c->tensor.rows * (double)c->tensor.cols * t->mac_um2 / 1e6;
  b->tensor_local_mm2 = cores * bytes * t->sram_um2_per_byte / 1e6;
  b->vector_mm2 = vectors * (double)c->vector.lanes * t->lane_um2 / 1e6;
  b->vector_local_mm2 = vectors * (double)c->vector.local_bytes * t->sram_um2_per_byte / 1e6;
  b->fp64_mm2 = on_dies(c, c->package.fp64_units, 0) * cores * t->fp64_um2 / 1e6;
  /* half for the ports of cores of both kinds, half for what passes: 32 B of each core in a cycle on an H200 */
  double ports = (cores + vectors) / 2, wires = c->glb_bytes_per_s / t->reference_hz / 32;
  b->noc_mm2 = (ports + wires) / 2 * t->noc_um2 / 1e6;
}

static void shared_area(const struct pz_chip *c, const struct dies *d, struct pz_bill *b) {
  const struct pz_tech_info *t = &d->io_tech;
  double bytes = on_dies(c, c->package.sram_bytes, c->glb_bytes);
  b->glb_mm2 =
      (bytes * t->glb_um2_per_byte + c->glb_bytes_per_s / 1e9 * t->glb_port_um2_per_gbs) / 1e6;
  b->hbm_mm2 = on_dies(c, c->package.stacks, c->hbm.stacks) * t->hbm_phy_um2 / 1e6;
  b->link_mm2 = c->link_bytes_per_s / 1e9 * t->link_um2_per_gbs / 1e6;
  b->die_link_mm2 = c->package.die_bytes_per_s / 1e9 * t->die_link_um2_per_gbs / 1e6;
  b->io_mm2 = (double)(d->io ? d->io : d->n) * t->io_um2 / 1e6;
}

static void library_area(const struct pz_chip *c, struct pz_bill *b) {
  struct pz_area a = pz_chip_area(c);
  b->tensor_mm2 = a.tensor_um2 / 1e6;
  b->tensor_local_mm2 = a.tensor_local_um2 / 1e6;
  b->vector_mm2 = a.vector_um2 / 1e6;
  b->vector_local_mm2 = a.vector_local_um2 / 1e6;
  b->glb_mm2 = a.glb_um2 / 1e6;
  b->hbm_mm2 = a.hbm_um2 / 1e6;
  b->area_mm2 = pz_area_total_um2(&a) / 1e6;
}

/* ---- watts ---------------------------------------------------------------------------------- */

/* Part of the peak rate that long products sustain at their clock (H200: 0.795), the part of the HBM
 * rate that runs beside them, and vector operations on each byte of a stream (address, load, convert,
 * store of 16-bit values). */
static const double PRODUCT_PART = 0.8, HBM_BESIDE = 0.15, STREAM_OPS_PER_BYTE = 1;

double pz_chip_local_bytes_per_mac(const struct pz_chip *c) {
  static const double KEPT = 8; /* sums of a multiplier, in 32 B of registers */
  return 2 * (double)c->rules.operand_bytes /
         sqrt((double)c->tensor.rows * (double)c->tensor.cols * KEPT);
}

/* A multiplier of a larger array reads less from its buffer, but all of them together read more: power
 * grows with the array. */
static void bill_watts(const struct pz_chip *c, const struct pz_tech_info *t, struct pz_bill *b) {
  double clock = fmin(c->clock_hz, t->reference_hz), v2 = pz_tech_voltage2(t, clock);
  double macs = pz_chip_tensor_flop_per_s(c) / 2 / c->clock_hz * clock * PRODUCT_PART;
  double hbm = pz_chip_hbm_bytes_per_s(c);
  b->static_watts =
      b->area_mm2 * (t->static_w_per_mm2 + t->clock_w_per_mm2 * clock / t->reference_hz * v2);
  b->link_watts = c->link_bytes_per_s * t->link_j + c->package.die_bytes_per_s * t->die_link_j;
  b->product_watts = macs * v2 * (t->mac_j + pz_chip_local_bytes_per_mac(c) * t->local_j) +
                     HBM_BESIDE * hbm * t->hbm_j;
  b->stream_watts = hbm * (t->hbm_j + t->glb_j + STREAM_OPS_PER_BYTE * v2 * t->lane_j);
  b->watts = b->static_watts + b->link_watts + fmax(b->product_watts, b->stream_watts);
}

double pz_chip_held_part(const struct pz_chip *c) {
  const struct pz_tech_info *t = pz_tech_at(pz_chip_bill_tech(c));
  if (!(t->reference_hz > 0) || c->clock_hz <= t->reference_hz) return 1;
  return c->clock_hz * pz_tech_voltage2(t, c->clock_hz) /
         (t->reference_hz * pz_tech_voltage2(t, t->reference_hz));
}

/* The breakdown has the watts of a chip that lowers its clock to what its node sustains, and of products as GPUs run
 * them.  A scheduled chip holds its clock, above the sustained one its dynamic power grows with f V^2, and products run
 * at their full rate, as their times have it. */
double pz_bill_peak_watts(const struct pz_chip *c, const struct pz_bill *b) {
  const struct pz_tech_info *t = pz_tech_at(pz_chip_bill_tech(c));
  if (pz_tech_is_library(t) || (c->execution == PZ_CHIP_STREAM && !c->cold)) return b->watts;
  double beside = HBM_BESIDE * pz_chip_hbm_bytes_per_s(c) * t->hbm_j;
  double products = (b->product_watts - beside) / PRODUCT_PART + beside;
  double dynamic = fmax(products, b->stream_watts), clock_watts = b->area_mm2 * t->clock_w_per_mm2;
  double held = b->static_watts + b->link_watts + dynamic +
                (pz_chip_held_part(c) - 1) * (dynamic + clock_watts);
  return c->cold && c->watts > 0 ? fmin(held, c->watts) : held; /* what it may take */
}

static double library_watts(const struct pz_chip *c, const struct pz_tech_info *t) {
  return pz_chip_tensor_flop_per_s(c) / 2 * t->mac_j + pz_chip_vector_op_per_s(c) * t->lane_j +
         c->glb_bytes_per_s * t->glb_j + pz_chip_hbm_bytes_per_s(c) * t->hbm_j +
         c->link_bytes_per_s * t->link_j;
}

/* ---- dollars and edge ----------------------------------------------------------------------- */

/* Wafer of 300 mm less an edge of 5 mm, 0.2 mm between dies; yield by the negative binomial model with
 * ten critical levels (Feng and Ma, Chiplet Actuary, DAC 2022).  At least one die is on a wafer. */
double pz_tech_die_dollars(const struct pz_tech_info *t, double mm2) {
  static const double PI = 3.14159265358979323846, DIAMETER = 290, SCRIBE = 0.2, LEVELS = 10;
  double side = sqrt(mm2) + SCRIBE, taken = side * side;
  double dies = PI * DIAMETER * DIAMETER / 4 / taken - PI * DIAMETER / sqrt(2 * taken);
  double yield = pow(1 + t->defects_per_cm2 * mm2 / 100 / LEVELS, -LEVELS);
  return t->wafer_dollars / fmax(dies, 1) / yield;
}

static void bill_dollars(const struct pz_chip *c, const struct dies *d, double io_mm2,
                         struct pz_bill *b) {
  static const double STACK_MM2 = 110; /* of HBM2e and HBM3: 10 x 11 mm */
  double n = (double)d->n, io = (double)d->io, core_mm2 = b->area_mm2 - io_mm2;
  b->die_dollars = n * pz_tech_die_dollars(&d->tech, core_mm2 / n);
  if (io > 0) b->die_dollars += io * pz_tech_die_dollars(&d->io_tech, io_mm2 / io);
  b->hbm_dollars = (double)pz_chip_hbm_bytes(c) / 0x1p30 * d->tech.hbm_dollars_per_gb;
  b->package_dollars =
      (b->area_mm2 + (double)c->hbm.stacks * STACK_MM2) * d->tech.package_dollars_per_mm2;
  b->dollars = b->die_dollars + b->hbm_dollars + b->package_dollars;
}

static void bill_edge(const struct pz_chip *c, const struct dies *d, double io_mm2,
                      struct pz_bill *b) {
  double n = (double)(d->io ? d->io : d->n), mm2 = d->io ? io_mm2 : b->area_mm2;
  b->edge_mm = on_dies(c, c->package.stacks, c->hbm.stacks) * d->io_tech.hbm_edge_mm +
               c->link_bytes_per_s / 1e9 * d->io_tech.link_edge_mm_per_gbs;
  b->edge_room_mm = 4 * n * sqrt(mm2 / n);
}

struct pz_bill pz_chip_bill(const struct pz_chip *c, enum pz_bill_range range) {
  struct dies d = bill_dies(c, range);
  struct pz_bill b = {.dies = d.n + d.io};
  double io_mm2 = 0;
  if (pz_tech_is_library(&d.tech)) {
    library_area(c, &b);
    b.watts = library_watts(c, &d.tech);
  } else {
    core_area(c, &d.tech, &b);
    shared_area(c, &d, &b);
    double shared = b.glb_mm2 + b.hbm_mm2 + b.link_mm2 + b.die_link_mm2 + b.io_mm2;
    double core = b.tensor_mm2 + b.tensor_local_mm2 + b.vector_mm2 + b.vector_local_mm2 +
                  b.fp64_mm2 + b.noc_mm2;
    b.other_mm2 = core * d.tech.other_share + shared * d.io_tech.other_share;
    b.area_mm2 = core + shared + b.other_mm2;
    if (d.io) io_mm2 = shared * (1 + d.io_tech.other_share);
    bill_watts(c, &d.tech, &b);
    bill_dollars(c, &d, io_mm2, &b);
    bill_edge(c, &d, io_mm2, &b);
  }
  return b;
}

double pz_chip_peak_watts(const struct pz_chip *c) {
  struct pz_bill b = pz_chip_bill(c, PZ_BILL_LIKELY);
  return pz_bill_peak_watts(c, &b);
}
