/* Chips of a design space that are made from a base chip. */
#ifndef PZ_CHIP_RESIZE_H
#define PZ_CHIP_RESIZE_H

#include "chip/chip.h"
#include "core/fields.h"

struct pz_chip_size {
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
};

/* The base with other numbers of cores, array, lanes and global buffer.  A core's buffer grows with its units, as many
 * bytes each as in the base; that of a tensor core holds a tile at least.  What a data sheet says of the base's power does
 * not hold for it. */
void pz_chip_resize(const struct pz_chip *base, const struct pz_chip_size *size,
                    struct pz_chip *out);

/* Field "base" of a space.json: a chip's name or file, or the chip itself; absent: `usual`. */
void pz_chip_read_base(struct pz_fields *f, const char *usual, struct pz_chip *base);

#endif
