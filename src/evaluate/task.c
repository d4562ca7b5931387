/* Values that follow from the inputs of a search, and the assumptions of the original system, each
 * of which can be switched on alone to measure its effect on the answer. */
#include "evaluate/task.h"

/* The names of each assumption, and of what this program does instead. */
static const struct pz_assumption_info table[PZ_ASSUMPTIONS] = {
    [PZ_ASSUME_FAST_NETWORK] = {"network 1000 times too fast", "network as fast as stated"},
    [PZ_ASSUME_NO_WEIGHT_GRADIENTS] = {"no weight gradients", "weight gradients computed"},
    [PZ_ASSUME_FIXED_BANDWIDTH] = {"on-chip bandwidth of every chip equal",
                                   "on-chip bandwidth of the described chip"},
    [PZ_ASSUME_SHIFTED_EXPERT] = {"expert stages off by one layer", "expert stages split evenly"},
    [PZ_ASSUME_FIRST_STAGE] = {"gradients of the first stage only", "gradients of all stages"},
    [PZ_ASSUME_ARITHMETIC_MEAN] = {"arithmetic mean of samples/s", "geometric mean of ratios"},
};

const struct pz_assumption_info *pz_assumption_at(enum pz_assumption assumption) {
  return (size_t)assumption < PZ_ASSUMPTIONS ? &table[assumption] : NULL;
}

/* Gives a chip the on-chip bandwidths and the mapping rules of the original system if
 * PZ_ASSUME_FIXED_BANDWIDTH is in the set; no other assumption changes the chip.
 *
 * The mapper of the original system (the research system Phaze, ICML 2024) has
 * its bandwidths written in its source: words of 16 bits per cycle, for reads and for writes each, in
 * total over all cores.  Its tiles divide a GEMM without remainder, every operand has a local buffer
 * of its own, sums have 16 bits, nothing is double-buffered, and arrays fill in no time.  Its vector
 * cores are described by cycles alone. */
void pz_assume_chip(pz_assumptions set, struct pz_chip *chip) {
  enum { LOCAL_WORDS = 64, GLB_WORDS = 256, HBM_WORDS = 128, WORD_BYTES = 2 };
  if (!pz_assumed(set, PZ_ASSUME_FIXED_BANDWIDTH)) return;
  double words_per_s = WORD_BYTES * chip->clock_hz;
  chip->tensor.local_total_bytes_per_s = LOCAL_WORDS * words_per_s;
  chip->glb_bytes_per_s = GLB_WORDS * words_per_s;
  chip->glb_core_bytes_per_s = 0; /* 0: one core may draw the full rate */
  chip->hbm.core_bytes_per_s = 0; /* likewise */
  chip->hbm.bytes_per_s_per_stack = HBM_WORDS * words_per_s / (double)chip->hbm.stacks;
  chip->rules = (struct pz_rules){
      .duplex = true, .partitioned = true, .operand_bytes = WORD_BYTES, .sum_bytes = WORD_BYTES};
}

/* Returns the placement problem of a variant.  The gradient all-reduce is charged for the stage
 * with the most parameters, or as an assumption of the original system for the first one. */
struct pz_place_problem pz_task_problem(const struct pz_original_task *task,
                                        const struct pz_variant *variant, double hbm_gib,
                                        bool recompute) {
  struct pz_place_problem problem = pz_place_problem_on(&task->net, task->o.devices);
  problem.hbm_bytes = hbm_gib * 0x1p30;
  problem.state = task->o.state;
  problem.microbatches = variant->microbatches;
  problem.recompute = recompute;
  problem.semantics = pz_assumed(task->assumptions, PZ_ASSUME_FIRST_STAGE) ? PZ_SEMANTICS_ORIGINAL
                                                                           : PZ_SEMANTICS_CORRECTED;
  return problem;
}
