/* Tables of operators measured on real chips, in the columns of AIConfigurator's collectors
 * (github.com/ai-dynamo/aiconfigurator: gemm_perf.txt, context_attention_perf.txt, moe_perf.txt,
 * nccl_perf.txt, ...; milliseconds) or in shorter ones (chip, dtype, m, n, k, us; ...);
 * doc/validate.md has both.  A table is of one kind, known by its columns. */
#ifndef PZ_COST_SILICON_TABLE_H
#define PZ_COST_SILICON_TABLE_H

#include "cost/ops_table.h"

/* Has it the columns of one of these kinds? */
bool pz_silicon_is(const struct pz_csv *csv);

/* The rows of such a table, in the arena; *rows has csv->rows of them, and times.  What the model does
 * not predict (4-bit operands, decoding, ...) has a reason; unknown columns and words, and numbers
 * out of range are PZ_BAD_INPUT with their line.  Times of GEMMs in bursts are multiplied by the
 * constant `burst`. */
PZ_NODISCARD enum pz_status pz_silicon_read(const char *name, const struct pz_csv *csv,
                                            struct pz_arena *arena, const struct pz_ops_row **rows,
                                            struct pz_error *err);

/* "GEMMs (dtype, m, n, k, us); attention (...); ...": kinds with the columns they need.  Returns buf. */
char *pz_silicon_accepted(char *buf, size_t size);

#endif
