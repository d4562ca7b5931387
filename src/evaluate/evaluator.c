/* The evaluation of a chip for callers that return a status, the same for all evaluators. */
#include "evaluate/evaluator.h"

struct evaluation_args {
  struct pz_evaluator *evaluator;
  unsigned worker;
  const struct pz_boxed *chip;
  uint32_t model;
  enum pz_effort effort;
  double limit_s;
  struct pz_evaluation *out;
};

static void run_evaluate(struct pz_call *call, void *ctx) {
  const struct evaluation_args *x = ctx;
  *x->out = x->evaluator->ops->evaluate(call, x->evaluator, x->worker, x->chip, x->model, x->effort,
                                        x->limit_s);
}

enum pz_status pz_evaluator_value(struct pz_evaluator *e, unsigned worker,
                                  const struct pz_boxed *chip, uint32_t model,
                                  enum pz_effort effort, double limit_s, struct pz_evaluation *out,
                                  struct pz_error *err) {
  struct evaluation_args x = {e, worker, chip, model, effort, limit_s, out};
  return pz_border(run_evaluate, &x, err);
}
