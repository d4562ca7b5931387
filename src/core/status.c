/* Records of errors, and the names of statuses. */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/text.h"

enum pz_status pz_error_set(struct pz_error *err, enum pz_status status, const char *file, int line,
                            const char *format, ...) {
  va_list args;
  va_start(args, format);
  status = pz_error_setv(err, status, file, line, format, args);
  va_end(args);
  return status;
}

/* Records an error in *err, unless it is NULL or holds one, and returns the status. */
enum pz_status pz_error_setv(struct pz_error *err, enum pz_status status, const char *file,
                             int line, const char *format, va_list args) {
  if (!err || err->status != PZ_OK) return status;
  /* After jansson has run out of memory, the apparent error may be data that it has lost. */
  bool no_memory = status != PZ_NO_MEMORY && pz_json_lost();
  if (no_memory) status = PZ_NO_MEMORY;
  if (status == PZ_NO_MEMORY) pz_json_lost_set(false);
  err->status = status;
  err->origin_file = file;
  err->origin_line = line;
  int n = no_memory ? snprintf(err->message, sizeof err->message, "out of memory; then: ") : 0;
  vsnprintf(err->message + n, sizeof err->message - (size_t)n, format, args);
  pz_text_plain(err->message);
  return status;
}

/* Stores the input that an error is about, and the place in it. */
void pz_error_at(struct pz_error *err, const char *input, int line, int column) {
  if (!err) return;
  snprintf(err->input, sizeof err->input, "%s", input ? input : "");
  err->line = line;
  err->column = column;
}

const char *pz_status_name(enum pz_status status) {
  static const char *const names[] = {
      [PZ_OK] = "ok",           [PZ_BAD_INPUT] = "bad input",     [PZ_BAD_USE] = "bad use",
      [PZ_IO] = "input/output", [PZ_NO_MEMORY] = "out of memory", [PZ_LIMIT] = "limit",
      [PZ_STOPPED] = "stopped", [PZ_NO_ANSWER] = "no answer",     [PZ_INTERNAL] = "internal"};
  return (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

const char *pz_version(void) { return PZ_VERSION; }
