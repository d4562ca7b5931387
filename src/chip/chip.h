/* A chip description as one plain struct without pointers (opaque in the public header), the
 * network between chips, and both as JSON.  This folder does not know models or latencies.
 *
 * chip.c has presets and values derived from a description, chip_json.c reads and writes chip.json,
 * calibration.c its measured part, cold.c the class of chips without measurements, cluster.c the
 * network, and bill.c area, power and production cost, with the technology constants of tech.c. */
#ifndef PZ_CHIP_CHIP_H
#define PZ_CHIP_CHIP_H

#include "core/fields.h"

struct pz_tensor_cores {
  int64_t cores, rows, cols;
  int64_t local_bytes;    /* buffer of one core */
  int64_t register_bytes; /* registers of one multiplier for the operand that stays on the array */
  /* Read and write rate of one core's buffer, or 0 if the buffer can always feed the array */
  double local_bytes_per_s;
  double local_total_bytes_per_s; /* limit for the buffers of all cores together, or 0 if none */
  /* Data-sheet rates of narrow GEMMs over that of 16-bit GEMMs, or 0 if not stated */
  double fp8_speedup, nvfp4_speedup;
  /* Values that share a scale which the core applies.  0 means 32 on chips with nvfp4, or none. */
  int64_t scale_block;
};

struct pz_vector_cores {
  int64_t cores, lanes;
  int64_t local_bytes;
};

struct pz_hbm {
  int64_t stacks, bytes_per_stack;
  double bytes_per_s_per_stack;
  double core_bytes_per_s; /* HBM rate that one core can draw, or 0 if the full rate */
};

/* Modelling assumptions, which a chip file can change to reproduce another tool. */
struct pz_rules {
  bool fill;             /* filling and draining the array takes time */
  bool duplex;           /* reads and writes each have the full bandwidth */
  bool partitioned;      /* each operand has a buffer of local_bytes of its own */
  bool double_buffer;    /* operands that stream through a buffer occupy it twice */
  bool nested_mapping;   /* the tile of the global buffer contains those of the cores */
  bool rate_levels;      /* concurrent operators share bandwidth and can run slower than alone */
  bool vector_memory;    /* vector operators wait for the bytes that they read and write */
  int64_t operand_bytes; /* bytes of a value of an input or a result */
  int64_t sum_bytes;     /* bytes of a partial sum */
};

/* Measured performance of one kind of vector operator: the numbers of calibration.def. */
struct pz_kernel {
  char kind[24];
#define KERNEL_NUMBER(name, ...) double name;
#include "chip/calibration.def"
  int64_t long_row;   /* values beyond which a row does not stay on the core, or 0 if none */
  int64_t block_from; /* values beyond which a block of threads processes a row, or 0 if none */
};

enum { PZ_CHIP_MOST_KERNELS = 48, PZ_CHIP_MOST_TILES = 8 };

/* Measured facts about the machine and its libraries that the data sheet does not contain: the
 * numbers of calibration.def.  An uncalibrated chip has efficiencies and factors of 1, times of 0,
 * and no lists. */
struct pz_calibration {
#define NUMBER(name, ...) double name;
#include "chip/calibration.def"
  int n_tiles; /* number of tile sizes for which the library has kernels, or 0 if any size */
  int64_t tiles[PZ_CHIP_MOST_TILES], most_tile_values, most_splits, least_split_k;
  int n_kernels;
  struct pz_kernel kernels[PZ_CHIP_MOST_KERNELS];
};

/* How the operators of a layer run: concurrently on parts of the cores, as a compiler schedules
 * them; one after another on the whole chip, launched by the host (GPUs); or one after another,
 * compiled (TPUs of today). */
enum pz_chip_execution { PZ_CHIP_SCHEDULED, PZ_CHIP_STREAM, PZ_CHIP_SERIAL, PZ_CHIP_EXECUTIONS };

/* Source of a calibration: not stated, measured operators, or published training runs. */
enum pz_calibrated_by { PZ_CALIBRATED_SOMEHOW, PZ_CALIBRATED_BY_OPERATORS, PZ_CALIBRATED_BY_RUNS };

/* Correction by training steps that were measured on such chips (step/correction.h): the time of
 * each part of a step over the time that the calibration gives, or 0 for no correction.  It applies
 * to training steps only. */
struct pz_correction {
  double gemms, attention, elementwise, launches, collectives;
  double memory; /* bytes that an allocator reserved in a rehearsal over those predicted, or 0 */
  int64_t steps; /* number of measured steps that the correction was fitted to */
  double error;  /* mean error of a step, predicted by a fit to the other steps; 0 if unknown */
  int64_t kinds; /* kinds of runs among the steps, a set of pz_correction_kind() */
};

/* Formats of the operands of a GEMM: 16 bit, 8 bit by enum pz_fp8_recipe, or 4 bit. */
enum pz_format {
  PZ_FORMAT_16BIT,
  PZ_FORMAT_FP8_DELAYED,
  PZ_FORMAT_FP8_CURRENT,
  PZ_FORMAT_FP8_BLOCK,
  PZ_FORMAT_MXFP8,
  PZ_FORMAT_NVFP4,
  PZ_FORMATS
};

/* Returns the kind of a training run: 1 for a dense model in 16 bits, 2 for one in 8 or 4 bits, and
 * 4 and 8 for models with experts. */
static inline int64_t pz_correction_kind(bool experts, int precision) {
  return (experts ? 4 : 1) << (precision == PZ_PRECISION_FP8 || precision == PZ_PRECISION_NVFP4);
}

/* Returns a factor of a correction, where 0 stands for 1. */
static inline double pz_corrected(double factor) { return factor > 0 ? factor : 1; }

/* The dies of a real chip with more blocks than its description counts (spare cores, several dies).
 * They matter for area, power and cost only.  If `dies` is 0, the chip is one die with the
 * described blocks.  If another field is 0, the value of the description counts. */
struct pz_package {
  int64_t dies;                /* number of dies with cores */
  int64_t io_dies;             /* separate dies for global buffer, HBM, links and host interface */
  enum pz_tech tech, io_tech;  /* technologies of the dies with cores and of the I/O dies */
  int64_t cores, vector_cores; /* tensor and vector cores on the dies, including spare ones */
  int64_t core_bytes;          /* registers, caches and buffers of one tensor core */
  int64_t fp64_units;          /* 64-bit units of one tensor core */
  int64_t sram_bytes;          /* global buffers and caches that cores share */
  int64_t stacks;              /* HBM interfaces on the dies */
  double die_bytes_per_s;      /* total rate between the dies in one direction */
};

struct pz_chip {
  char name[96], about[160];
  enum pz_tech tech;
  enum pz_chip_execution execution;
  double clock_hz;
  struct pz_tensor_cores tensor;
  struct pz_vector_cores vector;
  int64_t glb_bytes; /* global buffer (L2 of a GPU) */
  double glb_bytes_per_s;
  double glb_core_bytes_per_s; /* global buffer rate that one core draws, or 0 for the full rate */
  struct pz_hbm hbm;
  double watts; /* power limit of the data sheet, or 0 if unknown */
  double link_bytes_per_s, link_latency_s;
  struct pz_collective_facts collectives; /* measured performance of collectives over the link */
  struct pz_rules rules;
  struct pz_calibration calibration;
  enum pz_calibrated_by calibrated_by;
  struct pz_correction correction;
  struct pz_package package;
  bool any_units; /* numbers out of their usual range are accepted */
  bool cold;      /* unmeasured: calibrated by its class (chip/cold.h), clocked by its watts */
  double
      static_mm2; /* area whose static power counts against the watts, or 0 for that of the chip */
  /* Times on this chip are lower bounds for all chips that have no more of any resource.  Another
   * mapping can be the fastest at a clock that the power limit lowers, so a lowered clock lengthens
   * only the cycles that every mapping needs. */
  bool bounds_others;
  double
      glb_core_bytes; /* bytes that a core of a cold GPU can draw in a cycle, or 0 if unlimited */
  double energy_part; /* energy of the cores over that of their technology, or 0 for 1 */
  /* A bit for each enum pz_precision, or 0 for 16 bits and precisions with a measured rate */
  int precisions;
  double host_bytes_per_s; /* rate to or from the host's memory, or 0 for the model's constant */
  double host_bytes;       /* host memory for each device, or 0 for the model's constant */
  bool host_own_link;      /* traffic out of the node does not share the link to the host */
  uint64_t checked; /* digest of all members above when they were checked by pz_chip_check() */
};

/* Returns whether the cores support nvfp4.  Such cores also read 8-bit operands in any order. */
static inline bool pz_chip_has_nvfp4(const struct pz_chip *chip) {
  return chip->precisions >> PZ_PRECISION_NVFP4 & 1 || chip->calibration.nvfp4_speedup > 1;
}

/* Data stream through a buffer in slices of at most this many values, or the array's rows. */
enum { PZ_CHIP_SLICE = 32 };

/* Names of enum pz_chip_execution and enum pz_calibrated_by, ending with NULL. */
extern const char *const pz_chip_execution_names[], *const pz_calibrated_by_names[];

/* ---- reading and checking -------------------------------------------------------------------- */

/* Reads a chip by the name of a preset, or by the path of a chip.json. */
void pz_chip_read(struct pz_call *call, const char *chip, struct pz_chip *out);

/* Like pz_chip_read(); any_units accepts numbers out of their usual range. */
void pz_chip_read_units(struct pz_call *call, const char *chip, bool any_units,
                        struct pz_chip *out);

/* Reads the text of a chip.json, which messages call `name`. */
void pz_chip_read_text(struct pz_call *call, const char *name, const char *text, size_t bytes,
                       bool any_units, struct pz_chip *out);

/* Reads a chip from a JSON object.  any_units accepts numbers out of their usual range. */
void pz_chip_read_json(struct pz_call *call, const char *name, const json_t *object, bool any_units,
                       struct pz_chip *out);

/* Reads the field "base" of a space.json: the name or file of a chip, or a chip as an object.  If
 * the field is absent, the base is the preset `absent`. */
void pz_chip_read_base(struct pz_call *call, struct pz_fields *fields, const char *absent,
                       struct pz_chip *base);

/* Raises an error unless every field of a chip is in the range that files must keep. */
void pz_chip_check(struct pz_call *call, const struct pz_chip *chip);

/* Removes all measurements from a chip, to compare its data sheet with unbuilt chips. */
void pz_chip_remove_measurements(struct pz_chip *chip);

/* Names a chip after the file that it was fitted to, as in "h100, calibrated with my.csv". */
void pz_chip_name_calibrated(struct pz_chip *chip, const char *path);

/* Returns the line of a chip, whose members calibration treats alike: "a100" for a100-40 and
 * a100-80, "hopper" for h100, h200 and h800.  A chip of no known line is a line of its own. */
const char *pz_chip_line(const char *chip);

/* ---- values that follow from a description --------------------------------------------------- */

/* Returns the least length to which a longer dimension of a GEMM is divided: the shorter side of
 * the array, or an eighth of it if filling the array takes no time. */
int64_t pz_chip_least_tile(const struct pz_chip *chip);

/* Return the least sizes of a core's buffer and of the global buffer, in bytes, with which GEMMs of
 * any size can run. */
int64_t pz_chip_least_local_bytes(const struct pz_chip *chip);
int64_t pz_chip_least_glb_bytes(const struct pz_chip *chip);

/* Returns the chip reduced to some of its tensor and vector cores, with the rates of HBM and global
 * buffer that these can draw.  0 stands for all cores of that kind. */
struct pz_chip pz_chip_part(const struct pz_chip *chip, int64_t tensor_cores, int64_t vector_cores);

/* Returns the measurements of a kind of vector operator, or NULL. */
const struct pz_kernel *pz_chip_kernel(const struct pz_chip *chip, const char *kind);

/* Returns the bytes that a large GEMM reads from the buffer of a core per multiply-accumulate. */
double pz_chip_local_bytes_per_mac(const struct pz_chip *chip);

/* Returns the switching power at the nominal clock over that at the sustained clock. */
double pz_chip_held_part(const struct pz_chip *chip);

/* Like pz_chip_peak_watts(), for a chip whose cost breakdown is known. */
double pz_bill_peak_watts(const struct pz_chip *chip, const struct pz_bill *bill);

/* Sizes in which a chip of pz_chip_resize() differs from its base. */
struct pz_chip_size {
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
};

/* Makes a chip of other sizes from a base.  The buffer of a core grows with its units, and that of
 * a tensor core can hold at least one tile.  Power limit, correction and package of the base are
 * dropped. */
void pz_chip_resize(const struct pz_chip *base, const struct pz_chip_size *size,
                    struct pz_chip *out);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Return new references of the caller, as in chip.json, cluster.json and calibration. */
json_t *pz_chip_json(const struct pz_chip *chip);
json_t *pz_cluster_json(const struct pz_cluster *cluster);
json_t *pz_calibration_json(const struct pz_calibration *calibration);

/* Returns the cost breakdown of a chip as a new reference, which belongs to the caller. */
json_t *pz_bill_json(const struct pz_chip *chip);

/* Append the descriptions of the fields of chip.json, its calibration, and cluster.json. */
void pz_chip_fields(json_t *list);
void pz_calibration_fields(json_t *list);
void pz_cluster_fields(json_t *list);

/* ---- the network between chips --------------------------------------------------------------- */

/* Like pz_cluster_load().  If any_units is set, numbers out of their usual range are accepted. */
void pz_cluster_read_units(struct pz_call *call, const char *cluster, bool any_units,
                           struct pz_cluster *out);

/* Raises an error if a cluster that a program made or changed is inconsistent. */
void pz_cluster_check(struct pz_call *call, const struct pz_cluster *cluster);

/* Checks the network of a caller and copies it to *wide, extended to at least `devices` devices.
 * Returns `wide`, or NULL if `net` is NULL. */
const struct pz_cluster *pz_cluster_widen(struct pz_call *call, const struct pz_cluster *net,
                                          int64_t devices, struct pz_cluster *wide);

/* Returns the innermost level that joins `devices` devices, or the outermost level if none does.
 * Returns NULL for a network without levels. */
const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices);

/* Joins the innermost levels while they have the same rate and latency. */
void pz_cluster_join_equal(struct pz_cluster *net);

/* Returns the cluster's, or else the chip's, facts of collectives in the innermost level. */
struct pz_collective_facts pz_cluster_facts(const struct pz_cluster *net,
                                            const struct pz_collective_facts *chip);

/* Slows all links down by the correction of collectives. */
void pz_cluster_correct(struct pz_cluster *net, const struct pz_correction *correction);

/* ---- the measured part of a description ------------------------------------------------------ */

/* Return the rows of calibration.def for a calibration and for one of its kernels, and set *n to
 * their number.  Offsets refer to struct pz_calibration and struct pz_kernel. */
const struct pz_key *pz_calibration_constants(size_t *n);
const struct pz_key *pz_kernel_constants(size_t *n);

/* Returns a kernel without a name and without measurements. */
struct pz_kernel pz_kernel_none(void);

/* Reads the field "calibration"; absent fields get the values of an uncalibrated chip. */
void pz_calibration_read(struct pz_fields *fields, int64_t glb_bytes,
                         struct pz_calibration *calibration);

/* Sets the calibration of an uncalibrated chip. */
void pz_calibration_none(int64_t glb_bytes, struct pz_calibration *calibration);

/* ---- technology: area, energy and price of chip components ----------------------------------- */

/* Returns the name of technology i, or NULL after the last (a pz_name_at). */
const char *pz_tech_name_at(const void *ctx, size_t i);

/* Returns the area in um2 of a buffer of a core, or of a global buffer. */
double pz_tech_buffer_um2(const struct pz_tech_info *tech, int64_t bytes, bool is_global);

/* Returns whether a technology is of the original system, which lacks static power. */
bool pz_tech_is_library(const struct pz_tech_info *tech);

/* Returns a technology with its constants at one end of their ranges. */
struct pz_tech_info pz_tech_range(enum pz_tech tech, enum pz_bill_range range);

/* Returns the square of the voltage at a clock over that at the sustained clock. */
static inline double pz_tech_voltage2(const struct pz_tech_info *tech, double clock_hz) {
  double voltage = 1 + tech->voltage_slope * (clock_hz / tech->reference_hz - 1);
  if (voltage < tech->voltage_floor) voltage = tech->voltage_floor;
  return voltage * voltage;
}

/* Returns the cost in dollars of a die of this area that passed its test. */
double pz_tech_die_dollars(const struct pz_tech_info *tech, double mm2);

/* ---- rental prices --------------------------------------------------------------------------- */

enum { PZ_PRICES_MOST_ROWS = 1024 };

struct pz_price {
  const char *chip; /* a preset, or one of the chips in question as it is written there */
  double dollars_per_device_hour;
};

struct pz_price_table {
  const struct pz_price *rows;
  uint32_t n_rows;
};

/* Reads a price table, where `name` stands for it in messages.  `chips` lists names and files that
 * rows may have in addition to presets, separated by commas, or NULL if none.  Raises PZ_BAD_INPUT
 * for unknown columns and chips, a chip with two rows, and invalid prices. */
struct pz_price_table pz_price_table_read(struct pz_call *call, const char *name, const char *text,
                                          size_t bytes, const char *chips);

/* Returns the price of a device for an hour in dollars, or 0 if the chip is not in the table. */
double pz_price_of(const struct pz_price_table *table, const char *chip);

#endif
