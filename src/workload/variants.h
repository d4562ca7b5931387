/* Variants of a model: all pairs of a tensor-parallel degree and a microbatch size of two lists.
 * The reasons why some pairs are not possible are stored, so that the user is told and the other
 * pairs are used. */
#ifndef PZ_WORKLOAD_VARIANTS_H
#define PZ_WORKLOAD_VARIANTS_H

#include "core/options.h"
#include "core/vec.h"

/* A message for the user. */
struct pz_note {
  unsigned lists; /* set of enum pz_list: lists whose entries the message is about, or 0 for none */
  const char *text;
};

/* Appends a copy of the text to `notes`, a vector of struct pz_note, unless the vector contains
 * it. */
void pz_note_add(struct pz_call *call, struct pz_vec *notes, unsigned lists, const char *text);

/* A model built for a microbatch size and a tensor-parallel degree. */
struct pz_variant {
  uint32_t model; /* index in a list of models */
  int64_t mbs, tp, microbatches;
  struct pz_workload *w;
};

/* The lists of microbatch sizes and tensor-parallel degrees, and their upper limits. */
struct pz_variant_choices {
  const struct pz_choices *mbs, *tp;
  int64_t batch, devices; /* global batch size and number of devices, the limits of mbs and tp */
};

/* Whether each variant is possible.  Degrees and microbatch sizes are identified by their index in
 * the lists. */
struct pz_variants {
  const struct pz_choices *tp, *mbs; /* lists that the caller owns */
  /* by degree, then microbatch size: why the variant is not possible, or NULL */
  const char **reason;
  enum pz_status status; /* error status of the first variant that is not possible */
};

/* Returns a variant for each degree and microbatch size, in the memory of the call.  None of them
 * is marked as impossible yet. */
struct pz_variants *pz_variants_new(struct pz_call *call, const struct pz_choices *tp,
                                    const struct pz_choices *mbs);

/* Stores an error as the reason why the variant with these list indices is not possible.  An error
 * that is not about the variant, such as a lack of memory, is raised. */
void pz_variants_refuse(struct pz_call *call, struct pz_variants *variants, int tp, int mbs,
                        const struct pz_error *error);

/* Raises an error if no variant is possible.  Otherwise adds a note to `notes` for each degree,
 * microbatch size or pair that is not. */
void pz_variants_conclude(struct pz_call *call, const struct pz_variants *variants,
                          struct pz_vec *notes);

/* Builds every possible variant of a model into `list`, by degree and then microbatch size, and
 * returns their number.  `list` has room for all, and the caller frees the workloads.  `notes`
 * receives the variants that are left out.  If no variant is possible, an error is raised and
 * nothing is built. */
uint32_t pz_variants_load(struct pz_call *call, const char *model,
                          const struct pz_variant_choices *choices,
                          const struct pz_workload_options *options, struct pz_vec *notes,
                          struct pz_variant *list);

#endif
