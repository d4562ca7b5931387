/* A chip description as one plain struct without pointers, opaque in the public header, and the network between chips,
 * read from and written to JSON.  Knows nothing of models or latencies. */
#ifndef PZ_CHIP_CHIP_H
#define PZ_CHIP_CHIP_H

#include "core/fields.h"

struct pz_tensor_cores {
  int64_t cores, rows, cols;
  int64_t local_bytes;      /* buffer of one core */
  int64_t register_bytes;   /* of one multiplier, for the operand on the array */
  double local_bytes_per_s; /* of one core, reads and writes together; 0: feeds its array every
                               cycle */
  double local_total_bytes_per_s; /* over all cores; 0: no such limit */
  double
      fp8_speedup; /* of the data sheet: rate of fp8 products over that of 16-bit ones; 0: not told */
  double nvfp4_speedup; /* the same of nvfp4 products */
  int64_t scale_block;  /* values with one scale that the core applies; 0: 32 with nvfp4, or none */
};

struct pz_vector_cores {
  int64_t cores, lanes;
  int64_t local_bytes;
};

struct pz_hbm {
  int64_t stacks, bytes_per_stack;
  double bytes_per_s_per_stack;
  double core_bytes_per_s; /* what one core can draw; 0: all of it */
};

/* How the numbers are counted.  The defaults are this program's own model; a chip file may change
 * them to reproduce another tool's assumptions. */
struct pz_rules {
  bool fill;             /* filling and draining the array takes time */
  bool duplex;           /* every bandwidth holds for reads and for writes, each */
  bool partitioned;      /* local_bytes holds for each operand */
  bool double_buffer;    /* what streams through a buffer stands in it twice */
  bool nested_mapping;   /* the tile of the global buffer contains those of the cores */
  bool rate_levels;      /* operators hold bandwidth in levels and may run slower than they could */
  bool vector_memory;    /* vector operators wait for the bytes they read and write */
  int64_t operand_bytes; /* of an input or a result */
  int64_t sum_bytes;     /* of a partial sum */
};

/* How one kind of vector operator runs, where it was measured: the numbers of calibration.def. */
struct pz_kernel {
  char kind[24];
#define KERNEL_NUMBER(name, ...) double name;
#include "chip/calibration.def"
  int64_t long_row;   /* rows beyond this many values do not stay on the core */
  int64_t block_from; /* rows beyond this are worked on by a block of threads; 0: never */
};

enum { PZ_CHIP_MOST_KERNELS = 48, PZ_CHIP_MOST_TILES = 8 };

/* What measurements add to the description: facts of the machine and its libraries that the data
 * sheet does not have, the numbers of calibration.def.  An uncalibrated chip has efficiencies and factors 1, times 0, and
 * no lists. */
struct pz_calibration {
#define NUMBER(name, ...) double name;
#include "chip/calibration.def"
  int n_tiles; /* tiles the library has kernels for; 0: any */
  int64_t tiles[PZ_CHIP_MOST_TILES], most_tile_values, most_splits, least_split_k;
  int n_kernels;
  struct pz_kernel kernels[PZ_CHIP_MOST_KERNELS];
};

/* How operators of a layer run: beside each other on the cores, as a compiler schedules them; one after another on the
 * whole chip, as the host issues them (GPUs), or as compilers of today have them (TPUs). */
enum pz_chip_execution { PZ_CHIP_SCHEDULED, PZ_CHIP_STREAM, PZ_CHIP_SERIAL, PZ_CHIP_EXECUTIONS };

/* What the numbers of a calibration follow from: they are not told, operators that were measured on such silicon, or
 * published training runs. */
enum pz_calibrated_by { PZ_CALIBRATED_SOMEHOW, PZ_CALIBRATED_BY_OPERATORS, PZ_CALIBRATED_BY_RUNS };

/* What training steps that were measured on such chips say of the times of a step's parts: each over the time that the
 * calibration gives; 0: as it gives it.  Of the training step alone (step/correction.h). */
struct pz_correction {
  double gemms, attention, elementwise, launches, collectives;
  double
      memory; /* bytes that the allocator reserved in a rehearsal over those predicted; 0: not known */
  int64_t steps; /* that it follows from */
  double error;  /* mean error of each of them by those of other runs; 0: not known */
  int64_t kinds; /* of runs among them: pz_correction_kind */
};

/* Operands of a GEMM: 16 bit, or of 8 as enum pz_fp8_recipe has them, or of 4. */
enum pz_format {
  PZ_FORMAT_16BIT,
  PZ_FORMAT_FP8_DELAYED,
  PZ_FORMAT_FP8_CURRENT,
  PZ_FORMAT_FP8_BLOCK,
  PZ_FORMAT_MXFP8,
  PZ_FORMAT_NVFP4,
  PZ_FORMATS
};

/* 1: dense in 16 bit, 2: dense in 8 or 4 bit, 4 and 8: the same with experts. */
static inline int64_t pz_correction_kind(bool experts, int precision) {
  return (experts ? 4 : 1) << (precision == PZ_PRECISION_FP8 || precision == PZ_PRECISION_NVFP4);
}

static inline double pz_corrected(double factor) { return factor > 0 ? factor : 1; }

/* Joins a level to the innermost one while both have the same rate and latency: such levels are one network. */
void pz_cluster_join_equal(struct pz_cluster *net);

/* What collectives reach inside the innermost level: as the cluster says, otherwise as its chips do. */
struct pz_collective_facts pz_cluster_facts(const struct pz_cluster *net,
                                            const struct pz_collective_facts *chip);

/* Links slower by the factor of collectives. */
void pz_cluster_correct(struct pz_cluster *net, const struct pz_correction *c);

/* The dies of a package, where a real chip holds more than its description counts.  dies 0: one die
 * of the chip's technology with what the description counts; else 0 in another field: as the
 * description counts. */
struct pz_package {
  int64_t dies, io_dies;       /* of the cores; of what is below, where it has dies of its own */
  enum pz_tech tech, io_tech;  /* io: global buffer, HBM, links, host interface */
  int64_t cores, vector_cores; /* on the dies, spare ones included */
  int64_t core_bytes;          /* registers, caches and buffers of one tensor core */
  int64_t fp64_units;          /* of one tensor core */
  int64_t sram_bytes;          /* global buffers and caches shared by cores */
  int64_t stacks;              /* HBM interfaces on the dies */
  double die_bytes_per_s;      /* between its dies, one way, all of them together */
};

struct pz_chip {
  char name[96], about[160];
  enum pz_tech tech;
  enum pz_chip_execution execution;
  double clock_hz;
  struct pz_tensor_cores tensor;
  struct pz_vector_cores vector;
  int64_t glb_bytes;
  double glb_bytes_per_s;
  double glb_core_bytes_per_s; /* what one core can draw; 0: all of it */
  struct pz_hbm hbm;
  double watts; /* of the data sheet; 0: unknown */
  double link_bytes_per_s, link_latency_s;
  struct pz_collective_facts collectives; /* over the link */
  struct pz_rules rules;
  struct pz_calibration calibration;
  enum pz_calibrated_by calibrated_by;
  struct pz_correction correction;
  struct pz_package package;
  bool any_units; /* numbers out of their usual range are meant */
  bool
      cold; /* nobody measured it: its calibration is that of its class (chip/cold.h), its clock what its watts allow */
  double static_mm2; /* whose static power counts against the watts; 0: its own area */
  /* This chip stands for all chips that have no more of any resource, and times on it are lower bounds of theirs.  The mapping
   * that is fastest at the nominal clock need not be fastest at a clock that the power limit lowers, so that a lowered clock
   * lengthens only the cycles that every mapping needs. */
  bool bounds_others;
  double
      glb_core_bytes; /* that one core of a cold GPU can draw from the global buffer in a cycle; 0: no limit */
  double energy_part; /* of the cores, over what the technology says; 0: 1 */
  int precisions; /* that its tensor cores have: a bit for each of enum pz_precision; 0: 16 bit, and fp8
                     where calibration has a rate for it */
  double host_bytes_per_s; /* to and from the host's memory, each way; 0: the model's */
  double host_bytes;       /* of the host's memory for each device; 0: the model's */
  bool host_own_link;      /* what leaves the node passes another link than what goes to the host */
  uint64_t
      checked; /* digest of all before it when a file said it: while it holds, pz_chip_check has nothing to do */
};

/* Tensor cores with nvfp4, NVIDIA's from Blackwell on: they read 8-bit operands in either order too. */
static inline bool pz_chip_has_nvfp4(const struct pz_chip *c) {
  return c->precisions >> PZ_PRECISION_NVFP4 & 1 || c->calibration.nvfp4_speedup > 1;
}

/* Do its tensor cores apply scales of blocks, as mxfp8 needs them? */
static inline bool pz_chip_scales_blocks(const struct pz_chip *c) {
  return c->tensor.scale_block > 0 || pz_chip_has_nvfp4(c);
}

/* What streams through a buffer stands there in slices of this many values, or of the array's rows
 * if those are fewer. */
enum { PZ_CHIP_SLICE = 32 };

/* "scheduled", "stream"; "", "operators", "runs"; NULL behind the last. */
extern const char *const pz_chip_execution_names[], *const pz_calibrated_by_names[];

/* The length below which a dimension longer than the array is not divided: the array's shorter
 * side, or an eighth of it where filling the array takes no time. */
int64_t pz_chip_least_tile(const struct pz_chip *c);

/* The bytes that a tensor core's buffer and the global buffer need for tiles of every product. */
int64_t pz_chip_least_local_bytes(const struct pz_chip *c);
int64_t pz_chip_least_glb_bytes(const struct pz_chip *c);

/* Name a chip by what it was fitted to: "h100, calibrated with my.csv"; what stands before a comma is the chip that it is. */
void pz_chip_name_calibrated(struct pz_chip *c, const char *path);

/* The chip with only so many of its cores (0: all of that class) and what they can draw of HBM and
 * global buffer. */
struct pz_chip pz_chip_part(const struct pz_chip *c, int64_t tensor_cores, int64_t vector_cores);

/* pz_chip_load and pz_chip_parse into a struct that the caller has. */
PZ_NODISCARD enum pz_status pz_chip_read(const char *chip, struct pz_chip *out,
                                         struct pz_error *err);
PZ_NODISCARD enum pz_status pz_chip_read_text(const char *name, const char *text, size_t bytes,
                                              struct pz_chip *out, struct pz_error *err);

/* The same, with numbers out of their usual range accepted if any_units is true: where a user says that they are meant
 * (the chip then says it too), and for chips that a search made. */
PZ_NODISCARD enum pz_status pz_chip_read_units(const char *chip, bool any_units,
                                               struct pz_chip *out, struct pz_error *err);
PZ_NODISCARD enum pz_status pz_chip_read_text_units(const char *name, const char *text,
                                                    size_t bytes, bool any_units,
                                                    struct pz_chip *out, struct pz_error *err);

/* A chip as its data sheet describes it, without what measurements say: to be compared with chips that
 * nobody has built. */
void pz_chip_describe(struct pz_chip *c);
PZ_NODISCARD enum pz_status pz_chip_load_described(const char *chip, struct pz_chip *out,
                                                   struct pz_error *err);

/* Bytes that a multiply-accumulate of a large product takes from the buffer of its core. */
double pz_chip_local_bytes_per_mac(const struct pz_chip *c);

/* How much more power than at its node's sustained clock switching takes. */
double pz_chip_held_part(const struct pz_chip *c);

/* pz_chip_peak_watts of a chip whose breakdown is known. */
double pz_bill_peak_watts(const struct pz_chip *c, const struct pz_bill *b);

/* How this kind of vector operator was measured, or NULL. */
const struct pz_kernel *pz_chip_kernel(const struct pz_chip *c, const char *kind);

/* ---- chips and networks as JSON ----------------------------------------------------------------- */

/* The description as JSON, readable by pz_chip_read_text.  New reference, the caller's. */
json_t *pz_chip_json(const struct pz_chip *c);

/* Append what doc/fields.md says of each field of chip.json, of its calibration, of cluster.json (pz_key_describe). */
void pz_chip_fields(json_t *list);
void pz_calibration_fields(json_t *list);
void pz_cluster_fields(json_t *list);

/* Is every field of a description that a program made or changed in the range that pz_chip_read_text
 * and pz_cluster_parse accept?  PZ_BAD_USE for NULL, PZ_BAD_INPUT for a field. */
PZ_NODISCARD enum pz_status pz_chip_check(const struct pz_chip *c, struct pz_error *err);

/* In the layout that pz_cluster_parse reads; the reference is the caller's. */
json_t *pz_cluster_json(const struct pz_cluster *c);

/* ---- the network between chips: levels from the chip outward, each joining groups of the one before --- */

/* The innermost level that joins so many devices, or the outermost where none does; NULL where the
 * network has no levels. */
const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices);

/* pz_cluster_load as pz_chip_read_units. */
PZ_NODISCARD enum pz_status pz_cluster_read_units(const char *cluster, bool any_units,
                                                  struct pz_cluster *out, struct pz_error *err);

/* Of a cluster that a program passes: PZ_BAD_INPUT says what cannot be. */
PZ_NODISCARD enum pz_status pz_cluster_check(const struct pz_cluster *c, struct pz_error *err);

/* The network that a caller gave, checked and with at least so many devices: a copy in *wide, which *out points to; NULL
 * for none. */
PZ_NODISCARD enum pz_status pz_cluster_take(const struct pz_cluster *net, int64_t devices,
                                            struct pz_cluster *wide, const struct pz_cluster **out,
                                            struct pz_error *err);

/* ---- chips of a design space that are made from a base chip ------------------------------------- */

struct pz_chip_size {
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
};

/* The base with other numbers of cores, array, lanes and global buffer.  A core's buffer grows with its units, as many
 * bytes each as in the base; that of a tensor core holds a tile at least.  What a data sheet says of the base's power does
 * not hold for it. */
void pz_chip_resize(const struct pz_chip *base, const struct pz_chip_size *size,
                    struct pz_chip *out);

/* Field "base" of a space.json: a chip's name or file, or the chip itself; absent: `usual`. */
void pz_chip_read_base(struct pz_fields *f, const char *usual, struct pz_chip *base);

/* ---- the measured part of a description --------------------------------------------------------- */

/* The numbers of a calibration and of one of its kernels: the last word of the key is the name, offsets are in struct
 * pz_calibration and struct pz_kernel, `absent` is what an uncalibrated chip has. */
const struct pz_key *pz_calibration_constants(size_t *n);
const struct pz_key *pz_kernel_constants(size_t *n);

/* A kernel without a name that says nothing. */
struct pz_kernel pz_kernel_none(void);

/* Field "calibration" of a chip.json; absent fields get the values of an uncalibrated chip. */
void pz_calibration_read(struct pz_fields *f, int64_t glb_bytes, struct pz_calibration *c);

/* That of an uncalibrated chip. */
void pz_calibration_none(int64_t glb_bytes, struct pz_calibration *c);

/* New reference, the caller's. */
json_t *pz_calibration_json(const struct pz_calibration *c);

/* ---- technology libraries: area, energy and price of chip components ---------------------------- */

/* Every constant of 16 nm and below is in silicon.def with its unit, range and source; those of the original
 * library are in tech.c. */

/* As a pz_name_at: NULL after the last. */
const char *pz_tech_name_at(const void *ctx, size_t i);

/* Area of a buffer: of a core, or the global one, um2. */
double pz_tech_local_um2(const struct pz_tech_info *t, int64_t bytes);
double pz_tech_glb_um2(const struct pz_tech_info *t, int64_t bytes);

/* Is it one of the original system's libraries, which have no static power and not every block? */
bool pz_tech_is_library(const struct pz_tech_info *t);

/* The technology with the constants at one end of their ranges. */
struct pz_tech_info pz_tech_range(enum pz_tech tech, enum pz_bill_range range);

/* Square of the voltage at a clock, over that at the sustained clock. */
static inline double pz_tech_voltage2(const struct pz_tech_info *t, double clock_hz) {
  double v = 1 + t->voltage_slope * (clock_hz / t->reference_hz - 1);
  if (v < t->voltage_floor) v = t->voltage_floor;
  return v * v;
}

/* A good die of this size, $. */
double pz_tech_die_dollars(const struct pz_tech_info *t, double mm2);

/* Chips of one architecture, which calibration treats alike: a100-40 and a100-80 are "a100", h100,
 * h200 and h800 "hopper".  A chip of no known line is a line of its own. */
const char *pz_chip_line(const char *chip);

#endif
