#include "chip/cold.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"

static const struct pz_cold_info infos[] = {
#define COLD(name, value, low, high, kind, source) {#name, value, low, high, kind, source},
#include "chip/cold.def"
};

const struct pz_cold_info *pz_cold_at(size_t i) { return i < PZ_COLD_CONSTANTS ? &infos[i] : NULL; }

struct pz_cold pz_cold_usual(void) {
  struct pz_cold k;
  for (size_t i = 0; i < PZ_COLD_CONSTANTS; i++) k.v[i] = infos[i].value;
  return k;
}

static struct pz_kernel *add_kernel(struct pz_calibration *c, const char *kind) {
  struct pz_kernel *k = &c->kernels[c->n_kernels++];
  *k = pz_kernel_none();
  pz_text_copy(k->kind, sizeof k->kind, kind);
  return k;
}

/* Flash attention of one library, forward and backward; `most`: multiply-accumulates of a core in a cycle. */
static void add_attention(struct pz_chip *c, const struct pz_cold *k, const char *library,
                          double most) {
  static const double BACKWARD = 0.87, BACKWARD_CYCLES = 2.08; /* cuDNN and fa2 on an H200 */
  double macs = (double)c->tensor.rows * (double)c->tensor.cols;
  char kind[40];
  snprintf(kind, sizeof kind, "attention%s", library);
  struct pz_kernel *forward = add_kernel(&c->calibration, kind);
  forward->startup_s = 4.7e-6;
  forward->row_s = 1.9e-6;
  forward->cycles = k->v[PZ_COLD_launched_softmax];
  forward->efficiency = fmin(k->v[PZ_COLD_launched_attention], most / macs);
  snprintf(kind, sizeof kind, "attention%s_bwd", library);
  struct pz_kernel *backward = add_kernel(&c->calibration, kind);
  backward->startup_s = 13.4e-6;
  backward->row_s = 10.6e-6;
  backward->cycles = BACKWARD_CYCLES * k->v[PZ_COLD_launched_softmax];
  backward->efficiency = fmin(k->v[PZ_COLD_launched_attention_bwd], BACKWARD * most / macs);
}

/* Start-ups, tiles and element-wise kernels of every GPU: those of an H200, the only one where all were measured. */
static enum pz_status launched(struct pz_chip *c, const struct pz_cold *k, struct pz_error *err) {
  static const double ANY = 1e9, FA1 = 311, TRITON = 334;
  static _Thread_local struct pz_chip like; /* read once: chips of a search are many */
  static _Thread_local bool known;
  const char *text = pz_chip_preset_text("h200");
  if (!known) {
    enum pz_status status =
        pz_chip_read_text("h200", text ? text : "", text ? strlen(text) : 0, &like, err);
    if (status != PZ_OK) return status;
    known = true;
  }
  struct pz_calibration *to = &c->calibration, *from = &like.calibration;
  double scale = (double)c->glb_bytes / (double)like.glb_bytes;
  double cycle = like.clock_hz / c->clock_hz; /* ends of tiles and rows take as many cycles */
  *to = *from;
  to->tensor_efficiency = k->v[PZ_COLD_launched_products];
  to->throttle = to->training_throttle = 1;
  to->tile_value_s *= cycle;
  to->warm_from_bytes = from->warm_from_bytes * scale;
  to->warm_to_bytes = from->warm_to_bytes * scale;
  to->n_kernels = 0;
  for (int i = 0; i < from->n_kernels; i++)
    if (strncmp(from->kernels[i].kind, "attention", 9) != 0)
      to->kernels[to->n_kernels++] = from->kernels[i];
  add_attention(c, k, "", ANY);
  add_attention(c, k, "_fa1", FA1);
  add_attention(c, k, "_triton", TRITON);
  add_attention(c, k, "_fa2", k->v[PZ_COLD_fa2_products]);
  for (struct pz_kernel *own = to->kernels; own < to->kernels + to->n_kernels; own++) {
    own->value_latency_s *= cycle;
    own->row_s *= cycle;
    own->block_row_s *= cycle;
    own->block_value_s *= cycle;
  }
  return PZ_OK;
}

static void compiled(struct pz_chip *c, const struct pz_cold *k) {
  struct pz_calibration *to = &c->calibration;
  to->tensor_efficiency = k->v[PZ_COLD_compiled_products];
  to->hbm_read_efficiency = to->hbm_write_efficiency = k->v[PZ_COLD_compiled_memory];
  struct pz_kernel *attention = add_kernel(to, "attention");
  attention->efficiency = k->v[PZ_COLD_compiled_attention];
  attention->cycles = k->v[PZ_COLD_compiled_softmax];
  attention->tail = 0;
}

enum pz_status pz_chip_set_class(struct pz_chip *c, const struct pz_cold *k, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  struct pz_cold usual = pz_cold_usual();
  bool has_fp8 = c->precisions >> PZ_PRECISION_FP8 & 1 || c->calibration.fp8_speedup > 1;
  double fp8 = c->tensor.fp8_speedup > 0 ? c->tensor.fp8_speedup : has_fp8 ? 2 : 1;
  bool has_nvfp4 = c->precisions >> PZ_PRECISION_NVFP4 & 1 || c->calibration.nvfp4_speedup > 1;
  double nvfp4 = c->tensor.nvfp4_speedup > 0 ? c->tensor.nvfp4_speedup : has_nvfp4 ? 4 : 0;
  if (!k) k = &usual;
  pz_calibration_none(c->glb_bytes, &c->calibration);
  c->cold = true;
  c->energy_part = k->v[PZ_COLD_energy];
  c->glb_core_bytes = c->execution == PZ_CHIP_STREAM ? k->v[PZ_COLD_launched_l2_bytes] : 0;
  if (c->execution == PZ_CHIP_STREAM)
    status = launched(c, k, err);
  else
    compiled(c, k);
  c->calibration.fp8_speedup = fp8;
  c->calibration.fp8_block_speedup = 0;
  c->calibration.nvfp4_speedup = nvfp4;
  return status;
}

enum pz_status pz_chip_make_cold(struct pz_chip *c, const struct pz_cold *k, struct pz_error *err) {
  enum pz_status status = pz_chip_set_class(c, k, err);
  c->collectives = (struct pz_collective_facts){0};
  c->correction = (struct pz_correction){.steps = 0};
  c->glb_core_bytes_per_s = c->hbm.core_bytes_per_s = 0;
  if (c->execution == PZ_CHIP_STREAM)
    c->glb_bytes_per_s =
        fmin(c->glb_bytes_per_s, (double)c->tensor.cores * c->clock_hz *
                                     (k ? *k : pz_cold_usual()).v[PZ_COLD_launched_l2_bytes]);
  return status;
}

/* phaze validate --cold --runs ../shared/ref/published/runs.csv: over 12 chips */
double pz_cold_spread(void) { return 0.065; }
