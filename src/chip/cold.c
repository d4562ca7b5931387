/* The calibration of unmeasured chips, by class of machine.
 *
 * GPUs, on which a host launches kernels of libraries, get the start-up times, tiles and
 * element-wise kernels of an H200, the only GPU for which all of these were measured, and
 * efficiencies from cold.def.  All other chips, for which a compiler schedules the whole step, get
 * efficiencies only. */
#include "chip/cold.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

static const struct pz_cold_info infos[] = {
#define COLD(name, value, low, high, kind, source) {#name, value, low, high, kind, source},
#include "chip/cold.def"
};

const struct pz_cold_info *pz_cold_at(size_t i) { return i < PZ_COLD_CONSTANTS ? &infos[i] : NULL; }

/* Returns the likely values of cold.def. */
struct pz_cold pz_cold_usual(void) {
  struct pz_cold constants;
  for (size_t i = 0; i < PZ_COLD_CONSTANTS; i++) constants.v[i] = infos[i].value;
  return constants;
}

/* Returns the spread of errors over unmeasured chips, which
 * `phaze validate --cold --runs ../shared/ref/published/runs.csv` measured over 12 chips. */
double pz_cold_spread(void) { return 0.065; }

/* Adds a kernel without measurements to a calibration, and returns it. */
static struct pz_kernel *add_kernel(struct pz_calibration *calibration, const char *kind) {
  struct pz_kernel *kernel = &calibration->kernels[calibration->n_kernels];
  calibration->n_kernels++;
  *kernel = pz_kernel_none();
  pz_text_copy(kernel->kind, sizeof kernel->kind, kind);
  return kernel;
}

/* Adds the forward and backward kernels of one flash-attention library, such as "_fa2", or "" for the
 * default, to the calibration of a GPU.  Their start-up and row times are those of cuDNN on an H200.  A core does at most most_macs
 * multiply-accumulates in a cycle, or BACKWARD times as many in backward. */
static void add_attention(struct pz_chip *chip, const struct pz_cold *constants,
                          const char *library, double most_macs) {
  static const double BACKWARD = 0.87,
                      BACKWARD_CYCLES = 2.08; /* over forward: cuDNN and fa2 on an H200 */
  double macs = (double)chip->tensor.rows * (double)chip->tensor.cols;
  char kind[40];
  snprintf(kind, sizeof kind, "attention%s", library);
  struct pz_kernel *forward = add_kernel(&chip->calibration, kind);
  forward->startup_s = 4.7e-6;
  forward->row_s = 1.9e-6;
  forward->cycles = constants->v[PZ_COLD_launched_softmax];
  forward->efficiency = fmin(constants->v[PZ_COLD_launched_attention], most_macs / macs);
  snprintf(kind, sizeof kind, "attention%s_bwd", library);
  struct pz_kernel *backward = add_kernel(&chip->calibration, kind);
  backward->startup_s = 13.4e-6;
  backward->row_s = 10.6e-6;
  backward->cycles = BACKWARD_CYCLES * constants->v[PZ_COLD_launched_softmax];
  backward->efficiency =
      fmin(constants->v[PZ_COLD_launched_attention_bwd], BACKWARD * most_macs / macs);
}

/* Reads the preset h200 into the chip that `ctx` points to. */
static void read_h200(struct pz_call *call, void *ctx) {
  const char *text = pz_chip_preset_text("h200");
  if (!text) text = "";
  pz_chip_read_text(call, "h200", text, strlen(text), false, ctx);
}

/* Sets the calibration of a GPU: start-up times, tiles and element-wise kernels of an H200, and the
 * efficiencies in `constants`.  Returns false if the preset h200 cannot be read. */
static bool calibrate_gpu(struct pz_chip *chip, const struct pz_cold *constants) {
  /* multiply-accumulates per core and cycle that a library of attention kernels can reach */
  static const double UNLIMITED = 1e9, FA1_MACS = 311, TRITON_MACS = 334;
  static _Thread_local struct pz_chip h200; /* read once, because a search makes many chips */
  static _Thread_local bool is_read;
  if (!is_read && pz_border(read_h200, &h200, NULL) != PZ_OK) return false;
  is_read = true;
  struct pz_calibration *target = &chip->calibration, *source = &h200.calibration;
  double glb_scale = (double)chip->glb_bytes / (double)h200.glb_bytes;
  /* Fixed costs of tiles and rows take as many cycles as on an H200. */
  double cycle_ratio = h200.clock_hz / chip->clock_hz;
  *target = *source;
  target->tensor_efficiency = constants->v[PZ_COLD_launched_products];
  target->throttle = 1;
  target->training_throttle = 1;
  target->tile_value_s *= cycle_ratio;
  target->warm_from_bytes = source->warm_from_bytes * glb_scale;
  target->warm_to_bytes = source->warm_to_bytes * glb_scale;
  target->n_kernels = 0; /* attention kernels are derived from the constants, others copied */
  for (int i = 0; i < source->n_kernels; i++) {
    if (strncmp(source->kernels[i].kind, "attention", 9) == 0) continue;
    target->kernels[target->n_kernels] = source->kernels[i];
    target->n_kernels++;
  }
  add_attention(chip, constants, "", UNLIMITED);
  add_attention(chip, constants, "_fa1", FA1_MACS);
  add_attention(chip, constants, "_triton", TRITON_MACS);
  add_attention(chip, constants, "_fa2", constants->v[PZ_COLD_fa2_products]);
  for (int i = 0; i < target->n_kernels; i++) {
    target->kernels[i].value_latency_s *= cycle_ratio;
    target->kernels[i].row_s *= cycle_ratio;
    target->kernels[i].block_row_s *= cycle_ratio;
    target->kernels[i].block_value_s *= cycle_ratio;
  }
  return true;
}

/* Returns the rate of GEMMs in a narrow precision over that of 16-bit GEMMs: the one that the data
 * sheet states, unless `stated` is 0; otherwise `usual` if the chip has the precision, which a
 * `calibrated` speedup above 1 also shows, or `absent` if not. */
static double sheet_speedup(const struct pz_chip *chip, double stated, enum pz_precision precision,
                            double calibrated, double usual, double absent) {
  bool has_precision = chip->precisions >> precision & 1 || calibrated > 1;
  if (stated > 0) return stated;
  return has_precision ? usual : absent;
}

/* Sets the calibration of a chip to that of its class: GPUs, or chips whose programs are compiled.
 * The chip is then "cold": known only by its data sheet.  NULL constants are those of cold.def.
 * Returns false if the preset h200 cannot be read.  The speedups of 8-bit and 4-bit GEMMs over
 * 16-bit ones are chosen in the same way for both classes, and before pz_calibration_none() clears
 * the calibrated ones. */
bool pz_chip_try_class(struct pz_chip *chip, const struct pz_cold *constants) {
  struct pz_calibration *calibration = &chip->calibration;
  struct pz_cold usual = pz_cold_usual();
  static const double USUAL_FP8 = 2, USUAL_NVFP4 = 4;
  static const double ABSENT_FP8 = 1;   /* 8-bit GEMMs run at the rate of 16-bit ones */
  static const double ABSENT_NVFP4 = 0; /* 4-bit GEMMs have no rate of their own: the 8-bit rate */
  static const double AS_FP8 = 0;       /* GEMMs with scales of blocks run at the rate of others */
  double fp8 = sheet_speedup(chip, chip->tensor.fp8_speedup, PZ_PRECISION_FP8,
                             calibration->fp8_speedup, USUAL_FP8, ABSENT_FP8);
  double nvfp4 = sheet_speedup(chip, chip->tensor.nvfp4_speedup, PZ_PRECISION_NVFP4,
                               calibration->nvfp4_speedup, USUAL_NVFP4, ABSENT_NVFP4);
  bool is_gpu = chip->execution == PZ_CHIP_STREAM, is_calibrated = true;
  if (!constants) constants = &usual;
  pz_calibration_none(chip->glb_bytes, calibration);
  chip->cold = true;
  chip->energy_part = constants->v[PZ_COLD_energy];
  /* The cores of a GPU draw a limited number of bytes per cycle from its L2, whose rate is constant
   * otherwise.  0 stands for no such limit: other chips' buffers have the clock of the cores. */
  chip->glb_core_bytes = is_gpu ? constants->v[PZ_COLD_launched_l2_bytes] : 0;
  if (is_gpu)
    is_calibrated = calibrate_gpu(chip, constants);
  else {
    /* All other chips run steps that are compiled as a whole. */
    calibration->tensor_efficiency = constants->v[PZ_COLD_compiled_products];
    calibration->hbm_read_efficiency = constants->v[PZ_COLD_compiled_memory];
    calibration->hbm_write_efficiency = constants->v[PZ_COLD_compiled_memory];
    struct pz_kernel *attention = add_kernel(calibration, "attention");
    attention->efficiency = constants->v[PZ_COLD_compiled_attention];
    attention->cycles = constants->v[PZ_COLD_compiled_softmax];
    attention->tail = 0;
  }
  calibration->fp8_speedup = fp8;
  calibration->fp8_block_speedup = AS_FP8;
  calibration->nvfp4_speedup = nvfp4;
  return is_calibrated;
}

/* Like pz_chip_try_class(), but raises an error if it fails, for which lack of memory is the only
 * reason. */
void pz_chip_set_class(struct pz_call *call, struct pz_chip *chip,
                       const struct pz_cold *constants) {
  if (!pz_chip_try_class(chip, constants)) pz_raise_memory(call, "the chip");
}

/* Replaces all measurements of a chip by the calibration of its class, to predict it as if it were
 * unmeasured.  The rate of a GPU's global buffer is limited to what all cores can draw together. */
void pz_chip_make_cold(struct pz_call *call, struct pz_chip *chip,
                       const struct pz_cold *constants) {
  struct pz_cold usual = pz_cold_usual();
  if (!constants) constants = &usual;
  pz_chip_set_class(call, chip, constants);
  chip->collectives = (struct pz_collective_facts){0};
  chip->correction = (struct pz_correction){.steps = 0};
  chip->glb_core_bytes_per_s = 0;
  chip->hbm.core_bytes_per_s = 0;
  if (chip->execution == PZ_CHIP_STREAM)
    chip->glb_bytes_per_s =
        fmin(chip->glb_bytes_per_s,
             (double)chip->tensor.cores * chip->clock_hz * constants->v[PZ_COLD_launched_l2_bytes]);
}
