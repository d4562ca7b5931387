/* A chip description as one plain struct without pointers, read from and written to JSON.  Knows
 * nothing of models or latencies. */
#ifndef PZ_CHIP_CHIP_H
#define PZ_CHIP_CHIP_H

#include "chip/calibration.h"
#include "chip/tech.h"
#include "core/json.h"

struct pz_tensor_cores {
  int64_t cores, rows, cols;
  int64_t local_bytes;      /* buffer of one core */
  int64_t register_bytes;   /* of one multiplier, for the operand on the array */
  double local_bytes_per_s; /* of one core, reads and writes together; 0: feeds its array every
                               cycle */
  double local_total_bytes_per_s; /* over all cores; 0: no such limit */
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
  bool vector_memory;    /* vector operators wait for the bytes they read and write */
  int64_t operand_bytes; /* of an input or a result */
  int64_t sum_bytes;     /* of a partial sum */
};

struct pz_chip {
  char name[48], about[160];
  enum pz_tech tech;
  double clock_hz;
  struct pz_tensor_cores tensor;
  struct pz_vector_cores vector;
  int64_t glb_bytes;
  double glb_bytes_per_s;
  double glb_core_bytes_per_s; /* what one core can draw; 0: all of it */
  struct pz_hbm hbm;
  double watts; /* of the data sheet; 0: unknown */
  double link_bytes_per_s, link_latency_s;
  struct pz_rules rules;
  struct pz_calibration calibration;
};

/* What streams through a buffer stands there in slices of this many values, or of the array's rows
 * if those are fewer. */
enum { PZ_CHIP_SLICE = 32, PZ_CHIP_MOST_BYTES = 1 << 20 };

/* The length below which a dimension longer than the array is not divided: the array's shorter
 * side, or an eighth of it where filling the array takes no time. */
int64_t pz_chip_least_tile(const struct pz_chip *c);

/* The bytes that a tensor core's buffer and the global buffer need for tiles of every product. */
int64_t pz_chip_least_local_bytes(const struct pz_chip *c);
int64_t pz_chip_least_glb_bytes(const struct pz_chip *c);

/* A preset's name or the path of a chip.json. */
PZ_NODISCARD enum pz_status pz_chip_load(const char *chip, struct pz_chip *out,
                                         struct pz_error *err);

/* From the text of a chip.json; `name` stands for it in messages. */
PZ_NODISCARD enum pz_status pz_chip_parse(const char *name, const char *text, size_t bytes,
                                          struct pz_chip *out, struct pz_error *err);

/* The description as JSON, readable by pz_chip_parse.  New reference, the caller's. */
json_t *pz_chip_json(const struct pz_chip *c);

/* The chip with only so many of its cores (0: all of that class) and what they can draw of HBM and
 * global buffer. */
struct pz_chip pz_chip_part(const struct pz_chip *c, int64_t tensor_cores, int64_t vector_cores);

/* Multiply-accumulate peak, 2 FLOP each; vector operations; sums over the chip. */
double pz_chip_tensor_flop_per_s(const struct pz_chip *c);
double pz_chip_vector_op_per_s(const struct pz_chip *c);
double pz_chip_hbm_bytes_per_s(const struct pz_chip *c);
int64_t pz_chip_hbm_bytes(const struct pz_chip *c);

/* How this kind of vector operator was measured, or NULL. */
const struct pz_kernel *pz_chip_kernel(const struct pz_chip *c, const char *kind);

/* Names of the presets, NULL after the last; the text of one, NULL if there is none. */
const char *pz_chip_preset_name(size_t i);
const char *pz_chip_preset_text(const char *name);

#endif
