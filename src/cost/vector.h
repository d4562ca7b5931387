/* Vector operators: the larger of lane cycles and memory traffic over bandwidth. */
#ifndef PZ_COST_VECTOR_H
#define PZ_COST_VECTOR_H

#include "cost/mapper.h"

struct pz_vector_work {
  int kind; /* enum pz_op_kind */
  enum pz_direction direction;
  int64_t rows, cols;
  double bytes; /* read and written */
  bool warm;    /* as in pz_product */
};

struct pz_vector_time {
  double startup_s;
  double rows_s; /* of rows, not hidden by anything */
  double compute_s, hbm_s, glb_s;
  double latency_s;
  enum pz_bound bound;
  double moved; /* of the bytes, over each once: a kernel may read long rows again */
};

/* Cycles of one lane for one value. */
double pz_vector_cycles(const struct pz_chip *c, int kind, enum pz_direction direction);

/* Latency and bound from the other fields. */
void pz_vector_conclude(struct pz_vector_time *t);

/* A derivative is that of kernel KIND_bwd where the chip has one, else of its operator's. */
void pz_vector_time(const struct pz_chip *c, const struct pz_vector_work *w,
                    struct pz_vector_time *out);

/* The same with a kernel of this name where the chip has one. */
void pz_vector_named(const struct pz_chip *c, const char *kernel, const struct pz_vector_work *w,
                     struct pz_vector_time *out);

#endif
