/* A design space: chips on a grid of ordered axes, for each technology, array shape and generation
 * of HBM.  A space has at most 2^62 chips.  Its file:
 *     {"name", "about", "nodes": ["5nm"], "arrays": ["64x64"], "hbm": ["hbm3e"],
 *      "axes": {"tensor_cores": VALUES, ...}}
 * VALUES are a list of increasing integers, or {"from", "to", "step"}.  Instead of "arrays" there
 * may be axes "rows" and "cols": the arrays are all their products.
 *
 * Everything that is left out is as in the "base", a chip; local buffers keep its bytes per unit, and
 * "lanes" may be "columns": as many as the array has.  The area is then limited to that of the base,
 * unless another limit is given; with "least_part", chips with several cores of both kinds use at
 * least this fraction of it.  The axes may also be beside the other keys, without "axes"; then lanes
 * that are left out are as many as the columns. */
#ifndef PZ_SPACE_SPACE_H
#define PZ_SPACE_SPACE_H

#include "chip/chip.h"
#include "chip/cold.h"
#include "core/json.h"

enum pz_axis {
  PZ_AXIS_TENSOR_CORES,
  PZ_AXIS_LOCAL_KIB, /* local buffer of a tensor core */
  PZ_AXIS_VECTOR_CORES,
  PZ_AXIS_LANES,
  PZ_AXIS_GLB_MIB,
  PZ_AXIS_GLB_BYTES_PER_CYCLE,
  PZ_AXIS_CLOCK_MHZ,
  PZ_AXIS_HBM_STACKS,
  PZ_AXIS_LINK_GB_PER_S, /* rate of a link in one direction, 1e9 B/s */
  PZ_AXES
};

enum {
  PZ_SPACE_MOST_VALUES = 250,
  PZ_SPACE_MOST_ARRAYS = 256,
  PZ_SPACE_MOST_LISTED = 1 << 20 /* most chips of a space of which all are listed */
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
  int hbm[PZ_HBM_GENERATIONS]; /* indices in pz_hbm_generations, or PZ_SPACE_OF_BASE */
  int n[PZ_AXES];              /* number of values of each axis */
  /* The values of each axis, ascending.  The only value of an axis may be PZ_SPACE_OF_BASE or
   * PZ_SPACE_AS_COLUMNS. */
  int32_t value[PZ_AXES][PZ_SPACE_MOST_VALUES];
  bool has_base;
  struct pz_chip base;
  double least_part; /* least area of chips with several cores / the area limit, or 0 if none */
  bool compiled;     /* chips are unmeasured and run compiled programs, whatever the base says */
  bool cold;         /* chips run at the rates of their class, not of their description */
  double watts;      /* power limit of a chip, or 0 if none */
  const struct pz_cold *constants; /* constants of the chip class, or NULL for the default */
};

/* Special values of an axis: that of the base chip, and as many lanes as array columns. */
enum { PZ_SPACE_OF_BASE = -1, PZ_SPACE_AS_COLUMNS = -2 };

/* A chip of a space. */
struct pz_point {
  uint32_t kind;       /* number of its kind: technology, array and HBM (pz_space_kind) */
  uint8_t at[PZ_AXES]; /* the index of the value on each axis */
};

/* Returns the name of an axis in files, or NULL after the last. */
const char *pz_axis_name(enum pz_axis axis);

/* Return the number of kinds of chips of a space, the number of its chips, and the number of chips
 * of each kind.  A kind is a combination of technology, array and HBM generation; kinds are
 * numbered so that the HBM generation varies fastest. */
uint32_t pz_space_kinds(const struct pz_space *space);
int64_t pz_space_chips(const struct pz_space *space);
int64_t pz_space_kind_chips(const struct pz_space *space);

/* Indices of the technology, array and HBM of a kind in the space. */
struct pz_kind {
  int node, array, hbm;
};
struct pz_kind pz_space_kind(const struct pz_space *space, uint32_t kind);

/* Returns the number of a chip in the space, and the chip with a number. */
uint64_t pz_space_id(const struct pz_space *space, const struct pz_point *point);
struct pz_point pz_space_point(const struct pz_space *space, uint64_t id);

/* Sets *out to the chip at a point, which is named after its sizes: 4x128x128-16x128-32M. */
void pz_space_chip(const struct pz_space *space, const struct pz_point *point, struct pz_chip *out);

/* Reads the text of a space file.  `name` is the file's name in error messages. */
void pz_space_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                   struct pz_space *out);

/* Reads a built-in space or a file. */
void pz_space_read_named(struct pz_call *call, const char *name, struct pz_space *out);

/* Restricts the space to one of its technologies.  Raises PZ_BAD_USE if the space lacks it. */
void pz_space_choose_node(struct pz_call *call, struct pz_space *space, const char *node);

/* Returns a new reference to the space as JSON of its file, or NULL if out of memory. */
json_t *pz_space_json(const struct pz_space *space);

/* Appends the documentation of each field of a space file (pz_key_describe) for doc/fields.md. */
void pz_space_fields(json_t *list);

/* Returns the name of HBM generation i of the space, for people. */
const char *pz_space_hbm_name(const struct pz_space *space, int i);

#endif
