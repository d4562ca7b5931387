/* What a search over boxes leaves behind, in a folder: result.json, which has its inputs, boxes.csv, every box of the
 * space with how it was closed, and the best chip and its cluster for other commands, chip.json and cluster.json. */
#ifndef PZ_BOX_CERTIFICATE_H
#define PZ_BOX_CERTIFICATE_H

#include "box/box_search.h"
#include "core/json.h"

/* A search: its space and what was asked. */
struct pz_box_inputs {
  struct pz_range_space space;
  struct pz_box_options options; /* texts in the arena */
};

/* As JSON: {models, space, devices, ...}.  New reference, the caller's; NULL: out of memory. */
json_t *pz_box_inputs_json(const struct pz_range_space *s, const struct pz_box_options *o);

/* Its text, for a journal, to be given back with pz_free. */
PZ_NODISCARD enum pz_status pz_box_inputs_text(const struct pz_range_space *s,
                                               const struct pz_box_options *o, char **text,
                                               struct pz_error *err);

/* From a JSON value; unknown keys and numbers out of range are PZ_BAD_INPUT. */
PZ_NODISCARD enum pz_status pz_box_inputs_read(const char *name, const json_t *json,
                                               struct pz_arena *arena, struct pz_box_inputs *out,
                                               struct pz_error *err);

/* The result: best chip, reference, certificate, inputs.  New reference; NULL: out of memory. */
json_t *pz_box_result_json(const struct pz_range_space *s, const struct pz_box_options *o,
                           const struct pz_box_result *r);

/* The text of boxes.csv, to be given back with pz_free; NULL: out of memory. */
char *pz_boxes_text(const struct pz_box_result *r);

struct pz_boxes {
  struct pz_closed_box *list; /* in the arena */
  uint32_t n;
};

PZ_NODISCARD enum pz_status pz_boxes_parse(const char *name, const char *text, size_t bytes,
                                           const struct pz_range_space *s, struct pz_arena *arena,
                                           struct pz_boxes *out, struct pz_error *err);

/* Is every chip of the space in exactly one box?  The list is put into another order. */
bool pz_boxes_cover(const struct pz_range_space *s, struct pz_boxes *b);

/* Does a folder hold such a search? */
bool pz_box_is_run(const char *dir);

/* Write all of them; the folder is made where there is none. */
PZ_NODISCARD enum pz_status pz_box_save(const char *dir, const struct pz_range_space *s,
                                        const struct pz_box_options *o,
                                        const struct pz_box_result *r, struct pz_error *err);

/* Recompute and compare: the cover, the best chip, and of `sample` boxes drawn at random the limits that they break,
 * their bounds, and the value of one of their chips. */
PZ_NODISCARD enum pz_status pz_box_verify(const char *dir, const struct pz_verify_options *o,
                                          bool *holds, struct pz_error *err);

#endif
