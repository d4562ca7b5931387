#include "cli/kept_run.h"

#include <string.h>

#include "core/alloc.h"
#include "store/chips.h"

enum { HOW = JSON_INDENT(1) | JSON_PRESERVE_ORDER };

enum pz_status pz_kept_run_open(const char *dir, const struct pz_study *s, bool fresh,
                                struct pz_run_file **out, struct pz_error *err) {
  json_t *inputs = pz_study_inputs(s);
  char *text = inputs ? pz_json_dump(inputs, HOW) : NULL;
  enum pz_status status = text ? pz_run_file_open(dir, text, fresh, out, err)
                               : pz_fail(err, PZ_NO_MEMORY, "out of memory for the run");
  pz_free(text);
  json_decref(inputs);
  return status;
}

typedef enum pz_status keep_text(struct pz_run_file *f, const char *text, struct pz_error *err);

static enum pz_status keep_json(struct pz_run_file *f, keep_text *keep, const json_t *value,
                                struct pz_error *err) {
  char *text = pz_json_dump(value, HOW);
  enum pz_status status =
      text ? keep(f, text, err) : pz_fail(err, PZ_NO_MEMORY, "out of memory for the result");
  pz_free(text);
  return status;
}

static enum pz_status keep_chips(struct pz_run_file *f, const struct pz_study *s,
                                 struct pz_error *err) {
  struct pz_run_chip *rows = pz_calloc(s->n_points, sizeof *rows);
  char(*names)[PZ_RUN_CHIP_NAME] = pz_calloc(s->n_points, sizeof *names);
  for (uint32_t i = 0; rows && names && i < s->n_points; i++)
    rows[i] = pz_run_chip_of(s, i, names[i]);
  enum pz_status status = rows && names ? pz_run_file_chips(f, rows, s->n_points, err)
                                        : pz_fail(err, PZ_NO_MEMORY, "out of memory");
  pz_free(rows);
  pz_free(names);
  return status;
}

static enum pz_status keep_chip_statuses(struct pz_run_file *f, const struct pz_study *s,
                                         struct pz_error *err) {
  uint32_t *ids = pz_calloc(s->n_points, sizeof *ids);
  enum pz_status status = ids ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory");
  for (uint32_t i = 0; i < s->n_points && ids; i++) ids[i] = s->points[i].id;
  for (uint32_t c = 0; c < s->n_runs && status == PZ_OK; c++)
    status = pz_run_file_chip_statuses(f, pz_study_run_name(s, c), ids,
                                       s->objective_run[c].chip_status, s->n_points, err);
  pz_free(ids);
  return status;
}

enum pz_status pz_kept_run_finish(struct pz_run_file *f, const struct pz_study *s,
                                  const json_t *result, const json_t *timing,
                                  struct pz_error *err) {
  const char *what;
  json_t *seconds;
  enum pz_status status = keep_chips(f, s, err);
  if (status == PZ_OK) status = keep_chip_statuses(f, s, err);
  json_object_foreach((json_t *)(uintptr_t)timing, what, seconds) if (status == PZ_OK) status =
      pz_run_file_set_timing(f, what, json_number_value(seconds), err);
  return status == PZ_OK ? keep_json(f, pz_run_file_finish, result, err) : status;
}

enum pz_status pz_kept_run_compared(struct pz_run_file *f, const json_t *comparison,
                                    struct pz_error *err) {
  return keep_json(f, pz_run_file_compared, comparison, err);
}
