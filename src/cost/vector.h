/* Vector operators (element-wise operators, norms, softmax, copies): the larger of lane cycles and
 * memory traffic over its rate, plus a start-up time and a time per row. */
#ifndef PZ_COST_VECTOR_H
#define PZ_COST_VECTOR_H

#include "cost/mapper.h"

struct pz_vector_work {
  int kind; /* enum pz_op_kind */
  enum pz_direction direction;
  int64_t rows, cols;
  double bytes; /* bytes that are read and written */
  bool warm;    /* the call is repeated, so that data can stay in the global buffer */
};

struct pz_vector_time {
  double startup_s;
  double rows_s; /* start-up of rows, which overlaps with nothing */
  double compute_s, hbm_s, glb_s;
  double latency_s;
  enum pz_bound bound;
  double moved; /* HBM traffic over the bytes of the operator: long rows may be read again */
};

/* Returns the cycles in which one lane processes one value of an operator (enum pz_op_kind). */
double pz_vector_cycles(const struct pz_chip *chip, int kind, enum pz_direction direction);

/* Sets latency_s and bound from the other members. */
void pz_vector_conclude(struct pz_vector_time *time);

/* Sets *out to the time of an operator.  On a chip with measured kernels it is that of kernel KIND,
 * backward of KIND_bwd if there is one, or else of the default kernel. */
void pz_vector_time(const struct pz_chip *chip, const struct pz_vector_work *work,
                    struct pz_vector_time *out);

/* Like pz_vector_time(), but uses the measured kernel of this name if the chip has one. */
void pz_vector_named(const struct pz_chip *chip, const char *kernel,
                     const struct pz_vector_work *work, struct pz_vector_time *out);

#endif
