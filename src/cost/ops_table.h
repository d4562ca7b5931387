/* Tables of single operators, measured or to be predicted, with the columns op, batch (or b), m, n,
 * k, and `extra` for operators that need more; doc/cost.md says what the columns mean for each
 * operator. */
#ifndef PZ_COST_OPS_TABLE_H
#define PZ_COST_OPS_TABLE_H

#include "core/csv.h"
#include "cost/cost.h"

/* The largest numbers of rows of one table, and of all tables of a directory. */
enum { PZ_OPS_MOST_ROWS = 1000000, PZ_OPS_MOST_ROWS_IN_ALL = 4000000 };

/* A row of a table.  A GEMM is batch x (m x k)(k x n).  Experts: batch is the number of experts, m
 * the tokens of the group, n the inner width, k the hidden size.  Scans: batch is the number of
 * samples, m the tokens of a sample, n and k as in pz_scan_work.  Convolutions: n is the number of
 * channels. Collectives: batch is the number of devices, n the bytes.  Dispatch: batch is the
 * number of devices, m the tokens of a device, k the hidden size. */
struct pz_ops_row {
  uint32_t op; /* index of pz_ops_name() */
  int64_t batch, m, n, k;
  int64_t heads,
      kv_heads;         /* heads of attention; heads of values and of keys (or groups) of a scan */
  int64_t chunk;        /* tokens of a chunk of a scan */
  bool causal;          /* attention is causal */
  const char *library;  /* library of the attention kernel, or NULL for that of the operator */
  int64_t largest;      /* tokens of the largest expert of a grouped GEMM, or 0 if all are equal */
  int64_t topk, tp, ep; /* routed experts: choices of a token, and parallel degrees */
  int64_t nodes, sms;   /* dispatch: nodes of its devices, and cores that its kernel uses */
  double skew;        /* exponent of the power law of the experts' loads, or 0 if balanced loads */
  bool gated;         /* an expert has three matrices rather than two */
  bool alone;         /* the scan or convolution was the only call of its CUDA graph */
  double us;          /* measured time in microseconds, or 0 if the table has no times */
  const char *chip;   /* preset of the chip that the row names, or NULL if it names none */
  const char *group;  /* name under which errors are reported, or NULL for that of the operator */
  const char *reason; /* reason why the model does not predict the row, or NULL if it does */
  bool slow;          /* the table marks the time as doubtful */
  const char *table;  /* name of the file in messages */
  uint32_t line;      /* line of the row in the file */
};

/* Reads the rows of a table; the result has csv->rows of them. */
struct pz_ops_row *pz_ops_read_csv(struct pz_call *call, const char *name,
                                   const struct pz_csv *csv);

/* A cell of a table, for messages. */
struct pz_ops_cell {
  const char *table;
  uint32_t line;
  const char *column, *text;
};

/* Reads a measured time and returns it in microseconds.  The cell is in microseconds or
 * milliseconds; the time must be between 0.01 us and 1000 s. */
double pz_ops_read_time(struct pz_call *call, const struct pz_ops_cell *cell, bool milliseconds);

/* Predicts the time of an operator in microseconds, as a benchmark loop would measure it: with
 * repeated calls, so that data that fits in the global buffer stays there. */
double pz_ops_predicted_us(struct pz_call *call, struct pz_cost *cost,
                           const struct pz_ops_row *row);

/* Returns the names of the operators: pz_ops_name(0), pz_ops_name(1), ... until NULL. */
const char *pz_ops_name(uint32_t op);

/* Returns the index of an operator's name, which must be known. */
uint32_t pz_ops_find(const char *name);

/* Returns the attention library that a table's name of a kernel contains, or NULL. */
const char *pz_ops_library(const char *kernel);

/* Returns the reason why a chip cannot run a row, such as a missing link, or NULL if it can. */
const char *pz_ops_not_on(const struct pz_chip *chip, const struct pz_ops_row *row);

/* Describes a row for people: its operator and sizes. */
const char *pz_ops_describe(struct pz_call *call, const struct pz_ops_row *row);

/* Returns whether an operator is a vector operator, such as a norm or an activation. */
bool pz_ops_is_elementwise(uint32_t op);

/* Returns the kernel of a chip's calibration that determines the time of a row: "" for a GEMM,
 * whose constants are in the calibration itself, "link" for a collective, NULL for a row that
 * depends on several kernels. */
const char *pz_ops_kernel(const struct pz_ops_row *row);

#endif
