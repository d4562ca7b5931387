/* Variants of a model, as two lists ask for them: each tensor-parallel degree with each microbatch
 * size.  Some cannot be; here is kept why, so that the others are used and the user is told. */
#ifndef PZ_WORKLOAD_VARIANTS_H
#define PZ_WORKLOAD_VARIANTS_H

#include "core/options.h"
#include "core/vec.h"

/* A sentence the user should see. */
struct pz_note {
  unsigned lists; /* enum pz_list: concerns entries of these; 0: in any case */
  const char *text;
};

/* A model at a microbatch size and a tensor-parallel degree. */
struct pz_variant {
  uint32_t model; /* of a list of models */
  int64_t mbs, tp, microbatches;
  struct pz_workload *w;
};

/* What variants are made of. */
struct pz_variant_choices {
  const struct pz_choices *mbs, *tp;
  int64_t batch, devices; /* a microbatch and a width are at most these */
};

struct pz_variants {
  const struct pz_choices *tp, *mbs; /* the caller's */
  struct pz_arena *arena;
  const char **why;      /* by degree, then microbatch size: why it cannot be; NULL: it can */
  enum pz_status status; /* of the first that cannot be */
};

/* All of them possible.  The arena holds the reasons. */
PZ_NODISCARD enum pz_status pz_variants_init(struct pz_variants *v, const struct pz_choices *tp,
                                             const struct pz_choices *mbs, struct pz_arena *arena,
                                             struct pz_error *err);

/* Entry t of the degrees with entry m of the microbatch sizes failed with `why`.  Ok if that is a
 * matter of the variant; errors that are not, such as a lack of memory, are passed on to `err`. */
PZ_NODISCARD enum pz_status pz_variants_refuse(struct pz_variants *v, int t, int m,
                                               const struct pz_error *why, struct pz_error *err);

/* An error if none is possible; else a note for each degree, microbatch size or pair that is
 * not. */
PZ_NODISCARD enum pz_status pz_variants_conclude(const struct pz_variants *v, struct pz_vec *notes,
                                                 struct pz_error *err);

/* Build every possible variant of a model, by width and then microbatch size, into `list`, which
 * has room for all; *n counts them.  Those left out are told in `notes` (struct pz_note, with an
 * arena); none possible is an error.  On errors too, the *n workloads are the caller's to free. */
PZ_NODISCARD enum pz_status pz_variants_load(const char *model, const struct pz_variant_choices *c,
                                             const struct pz_workload_options *how,
                                             struct pz_vec *notes, struct pz_variant *list,
                                             uint32_t *n, struct pz_error *err);

/* Append to `notes` (struct pz_note, with an arena) a copy of the text, unless it is there. */
PZ_NODISCARD enum pz_status pz_note_add(struct pz_vec *notes, unsigned lists, const char *text,
                                        struct pz_error *err);

#endif
