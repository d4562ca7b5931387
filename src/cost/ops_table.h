/* A table of single operators, measured or to be predicted: columns op, batch (or b), m, n, k, and
 * extra where an operator needs more; doc/cost.md says what they mean for each. */
#ifndef PZ_COST_OPS_TABLE_H
#define PZ_COST_OPS_TABLE_H

#include "core/csv.h"
#include "cost/cost.h"

enum {
  PZ_OPS_MOST_ROWS = 1000000,
  PZ_OPS_MOST_ROWS_IN_ALL = 4000000
}; /* of a table, of a directory */

/* Experts: batch = experts of the model, m = tokens of the group, n = inner width, k = hidden size.
 * Scans: batch = samples, m = tokens of one, n and k as in pz_scan_work; convolutions: n = channels.
 * Collectives: batch = devices, n = bytes; dispatch: batch = devices, m = tokens of one, k = hidden size. */
struct pz_ops_row {
  uint32_t op; /* see pz_ops_name */
  int64_t batch, m, n, k;
  int64_t heads, kv_heads; /* of attention; of a scan, heads of values and of keys, or groups */
  int64_t chunk;           /* of a scan: tokens */
  bool causal;             /* likewise */
  const char *library;     /* likewise, of its kernel; NULL: the operator's */
  int64_t largest;         /* tokens of the largest expert; 0: all alike */
  int64_t topk, tp, ep;    /* of experts */
  int64_t nodes, sms;      /* of a dispatch: of its devices, and cores that it holds */
  double skew;             /* likewise: exponent of the power law of their tokens; 0: balanced */
  bool gated;              /* likewise: three matrices, else two */
  bool alone;              /* of a scan or convolution: one call a CUDA graph */
  double us;               /* measured; 0: the table has no times */
  const char *chip;   /* the preset of the chip that the row names; NULL: the table names none */
  const char *group;  /* what it is counted with; NULL: its operator */
  const char *reason; /* why it is not predicted; NULL: it is */
  bool slow;          /* the table marks the time as doubtful */
  const char *table;  /* name of the file, for messages */
  uint32_t line;      /* of the file, likewise */
};

/* The rows of a table, in the arena; *rows has csv->rows of them. */
PZ_NODISCARD enum pz_status pz_ops_read(const char *name, const struct pz_csv *csv,
                                        struct pz_arena *arena, const struct pz_ops_row **rows,
                                        struct pz_error *err);

/* A measured time, in microseconds or milliseconds.  PZ_BAD_INPUT unless it is from 0.01 us to 1000 s. */
PZ_NODISCARD enum pz_status pz_ops_read_us(const char *where, const char *column, const char *text,
                                           bool milliseconds, double *us, struct pz_error *err);

/* What is measured for a row: as a benchmark loop would, with repeated calls, so that data which
 * fits in the global buffer stays there. */
PZ_NODISCARD enum pz_status pz_ops_us(struct pz_cost *cost, const struct pz_ops_row *row,
                                      double *us, struct pz_error *err);

/* Names of the operators, NULL after the last. */
const char *pz_ops_name(uint32_t op);

/* The operator of a name that is among them. */
uint32_t pz_ops_find(const char *name);

/* The library of attention that a table's word for a kernel names; NULL: none is known. */
const char *pz_ops_library(const char *kernel);

/* Why this chip cannot run a row: no 8-bit operands, no link, no network of several nodes, DeepEP off GPUs; NULL:
 * it can. */
const char *pz_ops_not_on(const struct pz_chip *c, const struct pz_ops_row *row);

/* Name and sizes of a row for people, in the arena; NULL: out of memory. */
const char *pz_ops_text(const struct pz_ops_row *row, struct pz_arena *arena);

/* Is it neither a product nor attention? */
bool pz_ops_elementwise(uint32_t op);

/* The kernel of a chip's calibration whose numbers this row shows; "" for a product, whose
 * numbers stand in the calibration itself, "link" for collectives, NULL where it shows those of
 * several. */
const char *pz_ops_kernel(const struct pz_ops_row *row);

#endif
