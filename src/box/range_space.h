/* A design space too large to list: chips on a grid of ordered axes, more of any of which is never slower and never
 * smaller, for each technology, array shape and generation of HBM.  Sized for 2^62 chips.
 *
 * A space.json of this kind has "axes":
 *     {"name", "about", "nodes": ["5nm"], "arrays": ["64x64"], "hbm": ["hbm3e"], "axes": {"tensor_cores": VALUES, ...}}
 * VALUES are a list of increasing integers, or {"from", "to", "step"}.
 *
 * With a "base", a chip, what is left out is as that chip has it, local buffers with as many bytes for each unit; "lanes"
 * may be "columns": as many as the array has.  A space of listed chips (phaze.h: struct pz_space) is of this kind too. */
#ifndef PZ_BOX_RANGE_SPACE_H
#define PZ_BOX_RANGE_SPACE_H

#include "chip/chip.h"

enum pz_range_axis {
  PZ_RANGE_TENSOR_CORES,
  PZ_RANGE_LOCAL_KIB, /* of a tensor core */
  PZ_RANGE_VECTOR_CORES,
  PZ_RANGE_LANES,
  PZ_RANGE_GLB_MIB,
  PZ_RANGE_GLB_BYTES_PER_CYCLE,
  PZ_RANGE_CLOCK_MHZ,
  PZ_RANGE_HBM_STACKS,
  PZ_RANGE_LINK_GB_PER_S, /* one direction, 1e9 B/s */
  PZ_RANGE_AXES
};

enum {
  PZ_RANGE_MOST_VALUES = 250,
  PZ_RANGE_MOST_ARRAYS = 64,
  PZ_RANGE_MOST_BYTES = 1 << 20 /* of a file */
};

/* A generation of HBM: one stack. */
struct pz_hbm_generation {
  const char *name;
  double bytes_per_s;
  int64_t bytes;
};

enum { PZ_HBM_GENERATIONS = 3 };
extern const struct pz_hbm_generation pz_hbm_generations[PZ_HBM_GENERATIONS];

struct pz_range_space {
  char name[48], about[160];
  int n_nodes, n_arrays, n_hbm;
  enum pz_tech node[PZ_TECHS];
  struct pz_array_shape {
    int64_t rows, cols;
  } array[PZ_RANGE_MOST_ARRAYS];
  int hbm[PZ_HBM_GENERATIONS]; /* of pz_hbm_generations; PZ_RANGE_OF_BASE: the base's */
  int n[PZ_RANGE_AXES];
  int32_t value[PZ_RANGE_AXES][PZ_RANGE_MOST_VALUES]; /* or one that is none: */
  bool has_base;
  struct pz_chip base;
};

/* As the base chip has it; as many as the array has columns. */
enum { PZ_RANGE_OF_BASE = -1, PZ_RANGE_AS_COLUMNS = -2 };

/* A chip: which technology, array and HBM, and for each axis which value. */
struct pz_range_point {
  uint32_t kind; /* of pz_range_kinds */
  uint8_t at[PZ_RANGE_AXES];
};

const char *pz_range_axis_name(enum pz_range_axis a); /* NULL after the last */

/* Combinations of technology, array and HBM; chips in all, and of each. */
uint32_t pz_range_kinds(const struct pz_range_space *s);
int64_t pz_range_chips(const struct pz_range_space *s);
int64_t pz_range_kind_chips(const struct pz_range_space *s);

/* The chip, named after its numbers. */
void pz_range_chip(const struct pz_range_space *s, const struct pz_range_point *p,
                   struct pz_chip *out);

/* Of these texts: is it a space of ranges (it has "axes")?  False also where it is no JSON. */
bool pz_range_is(const char *text, size_t bytes);

/* PZ_BAD_INPUT with what is accepted. */
PZ_NODISCARD enum pz_status pz_range_parse(const char *name, const char *text, size_t bytes,
                                           struct pz_range_space *out, struct pz_error *err);

/* The chips of a space of listed ones, without its budget.  PZ_LIMIT where it has too many arrays. */
PZ_NODISCARD enum pz_status pz_range_from_space(const struct pz_space *listed,
                                                struct pz_range_space *out, struct pz_error *err);

/* As pz_range_parse reads it.  New reference, the caller's; NULL: out of memory. */
json_t *pz_range_json(const struct pz_range_space *s);

/* Of generation i of the space's HBM; for people. */
const char *pz_range_hbm_name(const struct pz_range_space *s, int i);

/* Names of the built-in ones, NULL after the last. */
const char *pz_range_preset_name(size_t i);

/* A built-in space or a file.  *is: false where the name is neither, nor a space of this kind: another reader may know
 * it. */
PZ_NODISCARD enum pz_status pz_range_load(const char *space, struct pz_range_space *out, bool *is,
                                          struct pz_error *err);

/* Keep one technology of the space: PZ_BAD_USE where it has none of that name. */
PZ_NODISCARD enum pz_status pz_range_set_node(struct pz_range_space *s, const char *node,
                                              struct pz_error *err);

#endif
