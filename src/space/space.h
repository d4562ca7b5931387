/* A design space: chips on a grid of ordered axes, for each technology, array shape and generation of HBM.  Sized for 2^62
 * chips.  Its file:
 *     {"name", "about", "nodes": ["5nm"], "arrays": ["64x64"], "hbm": ["hbm3e"], "axes": {"tensor_cores": VALUES, ...}}
 * VALUES are a list of increasing integers, or {"from", "to", "step"}.  In the place of "arrays" there may be axes "rows"
 * and "cols": all their products.
 *
 * With a "base", a chip, what is left out is as that chip has it, local buffers with as many bytes for each unit; "lanes"
 * may be "columns": as many as the array has.  The limit of area is then the base's, unless another is asked for; with
 * "least_part" chips with several cores of both kinds take at least this part of it.  Axes may also stand beside the other
 * keys, without "axes"; then lanes that are left out are as many as columns. */
#ifndef PZ_SPACE_SPACE_H
#define PZ_SPACE_SPACE_H

#include "chip/chip.h"
#include "chip/cold.h"
#include "core/json.h"

enum pz_axis {
  PZ_AXIS_TENSOR_CORES,
  PZ_AXIS_LOCAL_KIB, /* of a tensor core */
  PZ_AXIS_VECTOR_CORES,
  PZ_AXIS_LANES,
  PZ_AXIS_GLB_MIB,
  PZ_AXIS_GLB_BYTES_PER_CYCLE,
  PZ_AXIS_CLOCK_MHZ,
  PZ_AXIS_HBM_STACKS,
  PZ_AXIS_LINK_GB_PER_S, /* one direction, 1e9 B/s */
  PZ_AXES
};

enum {
  PZ_SPACE_MOST_VALUES = 250,
  PZ_SPACE_MOST_ARRAYS = 256,
  PZ_SPACE_MOST_BYTES = 1 << 20, /* of a file */
  PZ_SPACE_MOST_LISTED = 1 << 20
};

/* A generation of HBM: one stack. */
struct pz_hbm_generation {
  const char *name;
  double bytes_per_s;
  int64_t bytes;
};

enum { PZ_HBM_GENERATIONS = 3 };
extern const struct pz_hbm_generation pz_hbm_generations[PZ_HBM_GENERATIONS];

struct pz_array_shape {
  int64_t rows, cols;
};

struct pz_space {
  char name[48], about[200];
  int n_nodes, n_arrays, n_hbm;
  enum pz_tech node[PZ_TECHS];
  struct pz_array_shape array[PZ_SPACE_MOST_ARRAYS];
  int hbm[PZ_HBM_GENERATIONS]; /* of pz_hbm_generations; PZ_SPACE_OF_BASE: the base's */
  int n[PZ_AXES];
  int32_t value[PZ_AXES][PZ_SPACE_MOST_VALUES]; /* or one that is none: */
  bool has_base;
  struct pz_chip base;
  double least_part; /* of the limit of area; 0: none */
  bool compiled; /* chips are taken as a compiler runs them, unmeasured, whatever the base says */
  /* of a search whose chips run as their class does, not at the rates of their description */
  bool cold;
  double watts;                    /* that a chip may take; 0: any */
  const struct pz_cold *constants; /* of the class; NULL: as usual */
};

/* As the base chip has it; as many as the array has columns. */
enum { PZ_SPACE_OF_BASE = -1, PZ_SPACE_AS_COLUMNS = -2 };

/* A chip: which technology, array and HBM, and for each axis which value. */
struct pz_point {
  uint32_t kind; /* of pz_space_kinds */
  uint8_t at[PZ_AXES];
};

const char *pz_axis_name(enum pz_axis a); /* NULL after the last */

/* Combinations of technology, array and HBM, the last running fastest; chips in all, and of each. */
uint32_t pz_space_kinds(const struct pz_space *s);
int64_t pz_space_chips(const struct pz_space *s);
int64_t pz_space_kind_chips(const struct pz_space *s);

/* The parts of a kind. */
struct pz_kind {
  int node, array, hbm;
};
struct pz_kind pz_space_kind(const struct pz_space *s, uint32_t kind);

/* The number of a chip in the space, and back. */
uint64_t pz_space_id(const struct pz_space *s, const struct pz_point *p);
struct pz_point pz_space_point(const struct pz_space *s, uint64_t id);

/* The chip, named after its numbers: 4x128x128-16x128-32M. */
void pz_space_chip(const struct pz_space *s, const struct pz_point *p, struct pz_chip *out);

/* PZ_BAD_INPUT with what is accepted. */
PZ_NODISCARD enum pz_status pz_space_parse(const char *name, const char *text, size_t bytes,
                                           struct pz_space *out, struct pz_error *err);

/* A built-in space or the path of a file. */
PZ_NODISCARD enum pz_status pz_space_load(const char *space, struct pz_space *out,
                                          struct pz_error *err);

/* As pz_space_parse reads it.  New reference, the caller's; NULL: out of memory. */
json_t *pz_space_json(const struct pz_space *s);

/* Append what doc/fields.md says of each field of space.json (pz_key_describe).  VALUES: see above. */
void pz_space_fields(json_t *list);

/* Of generation i of the space's HBM; for people. */
const char *pz_space_hbm_name(const struct pz_space *s, int i);

/* Keep one technology of the space: PZ_BAD_USE where it has none of that name. */
PZ_NODISCARD enum pz_status pz_space_set_node(struct pz_space *s, const char *node,
                                              struct pz_error *err);

#endif
