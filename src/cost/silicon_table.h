/* Tables of operators measured on real chips, with the columns of AIConfigurator's collectors
 * (github.com/ai-dynamo/aiconfigurator: gemm_perf.txt, context_attention_perf.txt, moe_perf.txt,
 * nccl_perf.txt, ...; times in milliseconds) or with shorter ones (chip, dtype, m, n, k, us; ...).
 * doc/validate.md describes both. */
#ifndef PZ_COST_SILICON_TABLE_H
#define PZ_COST_SILICON_TABLE_H

#include "cost/ops_table.h"

/* Returns whether a table has the columns of such a table. */
bool pz_silicon_is(const struct pz_csv *csv);

/* Reads such a table; the result has csv->rows rows with times.  Rows that the model does not
 * predict, for example of decoding, have a reason.  Unknown columns and words and numbers out of
 * range are errors.  Times of GEMMs in bursts are multiplied by the constant `burst`. */
const struct pz_ops_row *pz_silicon_read_csv(struct pz_call *call, const char *name,
                                             const struct pz_csv *csv);

/* Writes "GEMMs (dtype, m, n, k, us); attention (...); ..." into buf: the kinds of tables with the
 * columns that they need.  Returns buf. */
char *pz_silicon_accepted(char *buf, size_t size);

#endif
