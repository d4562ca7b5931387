/* Functions of src/store for tests that check a status. */
#ifndef PZ_TESTS_STORE_BORDERS_H
#define PZ_TESTS_STORE_BORDERS_H

#include "core/alloc.h"
#include "store/run_file.h"
/* Arguments and results of all functions below; each uses some of them. */
struct run_file_args {
  struct pz_run_file *file;
  const struct pz_run_file *first, *second;
  const char *dir, *inputs, *text;
  const struct pz_run_tables *tables;
  double seconds;
  enum pz_part part;
  bool fresh, same;
  char *text_found;
};

static inline void open_for_writing_in_border(struct pz_call *call, void *ctx) {
  struct run_file_args *x = ctx;
  x->file = pz_run_file_open_for_writing(call, x->dir, x->inputs, x->fresh);
}

static inline enum pz_status pz_run_file_open(const char *dir, const char *inputs, bool fresh,
                                              struct pz_run_file **out, struct pz_error *err) {
  struct run_file_args x = {.dir = dir, .inputs = inputs, .fresh = fresh};
  enum pz_status status = pz_border(open_for_writing_in_border, &x, err);
  if (status == PZ_OK) *out = x.file;
  return status;
}

static inline void open_in_memory_in_border(struct pz_call *call, void *ctx) {
  struct run_file_args *x = ctx;
  x->file = pz_run_file_open_in_memory(call, x->inputs);
}

static inline enum pz_status pz_run_file_in_memory(const char *inputs, struct pz_run_file **out,
                                                   struct pz_error *err) {
  struct run_file_args x = {.inputs = inputs};
  enum pz_status status = pz_border(open_in_memory_in_border, &x, err);
  if (status == PZ_OK) *out = x.file;
  return status;
}

static inline void open_for_reading_in_border(struct pz_call *call, void *ctx) {
  struct run_file_args *x = ctx;
  x->file = pz_run_file_open_for_reading(call, x->dir);
}

static inline enum pz_status pz_run_file_look(const char *dir, struct pz_run_file **out,
                                              struct pz_error *err) {
  struct run_file_args x = {.dir = dir};
  enum pz_status status = pz_border(open_for_reading_in_border, &x, err);
  if (status == PZ_OK) *out = x.file;
  return status;
}

static inline void verify_in_border(struct pz_call *call, void *ctx) {
  pz_run_file_verify(call, ((struct run_file_args *)ctx)->file);
}

static inline enum pz_status pz_run_file_check(struct pz_run_file *f, struct pz_error *err) {
  struct run_file_args x = {.file = f};
  return pz_border(verify_in_border, &x, err);
}

static inline void has_same_part_in_border(struct pz_call *call, void *ctx) {
  struct run_file_args *x = ctx;
  x->same = pz_run_file_has_same_part(call, x->first, x->second, x->part);
}

static inline enum pz_status pz_run_file_same(const struct pz_run_file *f,
                                              const struct pz_run_file *g, enum pz_part part,
                                              bool *same, struct pz_error *err) {
  struct run_file_args x = {.first = f, .second = g, .part = part};
  enum pz_status status = pz_border(has_same_part_in_border, &x, err);
  *same = x.same;
  return status;
}

static inline void write_tables_in_border(struct pz_call *call, void *ctx) {
  const struct run_file_args *x = ctx;
  pz_run_file_write_tables(call, x->file, x->tables);
}

static inline enum pz_status
pz_run_file_set_tables(struct pz_run_file *f, const struct pz_run_tables *t, struct pz_error *err) {
  struct run_file_args x = {.file = f, .tables = t};
  return pz_border(write_tables_in_border, &x, err);
}

static inline void write_timing_in_border(struct pz_call *call, void *ctx) {
  const struct run_file_args *x = ctx;
  pz_run_file_write_timing(call, x->file, x->text, x->seconds);
}

static inline enum pz_status pz_run_file_set_timing(struct pz_run_file *f, const char *what,
                                                    double seconds, struct pz_error *err) {
  struct run_file_args x = {.file = f, .text = what, .seconds = seconds};
  return pz_border(write_timing_in_border, &x, err);
}

static inline void write_text_in_border(struct pz_call *call, void *ctx) {
  const struct run_file_args *x = ctx;
  pz_run_file_write_text(call, x->file, x->part, x->text);
}

static inline enum pz_status pz_run_file_set_text(struct pz_run_file *f, enum pz_part part,
                                                  const char *text, struct pz_error *err) {
  struct run_file_args x = {.file = f, .part = part, .text = text};
  return pz_border(write_text_in_border, &x, err);
}

static inline void read_text_in_border(struct pz_call *call, void *ctx) {
  struct run_file_args *x = ctx;
  const char *text = pz_run_file_read_text(call, x->file, x->part);
  x->text_found = text ? pz_strdup(text) : NULL;
}

static inline enum pz_status pz_run_file_text(struct pz_run_file *f, enum pz_part part, char **text,
                                              struct pz_error *err) {
  struct run_file_args x = {.file = f, .part = part};
  enum pz_status status = pz_border(read_text_in_border, &x, err);
  if (status == PZ_OK) *text = x.text_found;
  return status;
}

/* ---- rounds of a store ---- */

struct round_args {
  const struct pz_round_store *store;
  uint32_t run, round;
  struct pz_buffer *read;
  const struct pz_buffer *written;
};

static inline void read_round_in_border(struct pz_call *call, void *ctx) {
  const struct round_args *x = ctx;
  x->store->read(call, x->store->ctx, x->run, x->round, x->read);
}

static inline enum pz_status read_stored_round(const struct pz_round_store *store, uint32_t run,
                                               uint32_t round, struct pz_buffer *bytes,
                                               struct pz_error *err) {
  struct round_args x = {.store = store, .run = run, .round = round, .read = bytes};
  return pz_border(read_round_in_border, &x, err);
}

static inline void write_round_in_border(struct pz_call *call, void *ctx) {
  const struct round_args *x = ctx;
  x->store->write(call, x->store->ctx, x->run, x->round, x->written);
}

static inline enum pz_status write_stored_round(const struct pz_round_store *store, uint32_t run,
                                                uint32_t round, const struct pz_buffer *bytes,
                                                struct pz_error *err) {
  struct round_args x = {.store = store, .run = run, .round = round, .written = bytes};
  return pz_border(write_round_in_border, &x, err);
}

#endif
