/* Variants of a model: each tensor-parallel degree of a list with each microbatch size of another
 * list.  Some are not possible; the reasons are stored, so that the others are used and the user is
 * told. */
#ifndef PZ_WORKLOAD_VARIANTS_H
#define PZ_WORKLOAD_VARIANTS_H

#include "core/options.h"
#include "core/vec.h"

/* A sentence that the user should see. */
struct pz_note {
  unsigned lists; /* the lists whose entries it is about, a set of enum pz_list; 0 for none */
  const char *text;
};

/* Appends a copy of the text to `notes`, a vector of struct pz_note, unless it is there already. */
void pz_note_add(struct pz_call *call, struct pz_vec *notes, unsigned lists, const char *text);

/* A model at a microbatch size and a tensor-parallel degree. */
struct pz_variant {
  uint32_t model; /* index in a list of models */
  int64_t mbs, tp, microbatches;
  struct pz_workload *w;
};

struct pz_variant_choices {
  const struct pz_choices *mbs, *tp;
  int64_t batch, devices; /* the largest possible microbatch and tensor-parallel degree */
};

/* Which variants are possible.  Degrees and microbatch sizes are identified by their place in the
 * lists. */
struct pz_variants {
  const struct pz_choices *tp, *mbs; /* the lists, which belong to the caller */
  const char **reason;   /* by degree, then microbatch size: why it is not possible, or NULL */
  enum pz_status status; /* of the first variant that is not possible */
};

/* Returns variants that are all possible, in the memory of the call. */
struct pz_variants *pz_variants_new(struct pz_call *call, const struct pz_choices *choices,
                                    const struct pz_choices *mbs);

/* Stores the error of the variant with these places in the lists as the reason why it is not
 * possible.  An error that is not about the variant, such as a lack of memory, is raised. */
void pz_variants_refuse(struct pz_call *call, struct pz_variants *variants, int tp, int mbs,
                        const struct pz_error *error);

/* Raises an error if no variant is possible.  Otherwise it adds a note for each degree, microbatch
 * size or pair that is not.  `notes` is a vector of struct pz_note. */
void pz_variants_conclude(struct pz_call *call, const struct pz_variants *variants,
                          struct pz_vec *notes);

/* Builds every possible variant of a model, by degree and then microbatch size, into `list`, which
 * has room for all, and returns their number.  The workloads are freed by the caller.  `notes`
 * tells which variants were left out.  If none is possible, an error is raised, and nothing is
 * built. */
uint32_t pz_variants_load(struct pz_call *call, const char *model,
                          const struct pz_variant_choices *choices,
                          const struct pz_workload_options *options, struct pz_vec *notes,
                          struct pz_variant *list);

#endif
