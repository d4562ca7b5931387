#include "chip/resize.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/text.h"

static int64_t local_bytes(int64_t units, int64_t base_bytes, int64_t base_units) {
  enum { LEAST = 1024 };
  int64_t bytes = (int64_t)((double)base_bytes * (double)units / (double)base_units);
  return bytes > LEAST ? bytes : LEAST;
}

void pz_chip_resize(const struct pz_chip *base, const struct pz_chip_size *size,
                    struct pz_chip *out) {
  struct pz_chip c = *base;
  c.tensor.cores = size->tensor_cores;
  c.tensor.rows = size->rows;
  c.tensor.cols = size->cols;
  c.tensor.local_bytes = local_bytes(size->rows * size->cols, base->tensor.local_bytes,
                                     base->tensor.rows * base->tensor.cols);
  int64_t least = pz_chip_least_local_bytes(&c);
  if (c.tensor.local_bytes < least) c.tensor.local_bytes = least;
  c.vector.cores = size->vector_cores;
  c.vector.lanes = size->lanes;
  c.vector.local_bytes = local_bytes(size->lanes, base->vector.local_bytes, base->vector.lanes);
  c.glb_bytes = size->glb_bytes;
  c.watts = 0;
  c.package = (struct pz_package){.dies = 0}; /* that of the real chip holds its cores */
  *out = c;
}

void pz_chip_read_base(struct pz_fields *f, const char *usual, struct pz_chip *base) {
  const json_t *own = pz_fields_value(f, "base");
  if (!json_is_object(own)) {
    const char *name = pz_fields_text_or(f, "base", usual);
    struct pz_error why = {0};
    if (f->status == PZ_OK && (f->status = pz_chip_load(name, base, &why)) != PZ_OK)
      pz_fail(f->err, f->status, "%s: base: %s", f->name, why.message);
    return;
  }
  char *text = pz_json_dump(own, JSON_COMPACT), where[300];
  snprintf(where, sizeof where, "%.200s: base", f->name);
  if (!text)
    f->status = pz_fail(f->err, PZ_NO_MEMORY, "%s: out of memory", f->name);
  else if (f->status == PZ_OK)
    f->status = pz_chip_parse(where, text, strlen(text), base, f->err);
  if (!json_object_get(own, "name")) pz_text_copy(base->name, sizeof base->name, "base");
  pz_free(text);
}
