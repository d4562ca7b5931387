#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/text.h"

void pz_log(const struct pz_log *log, enum pz_log_level level, const char *format, ...) {
  if (!log || !log->sink || level > log->level) return;
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  log->sink(log->ctx, level, pz_text_plain(line));
}

void pz_log_to_file(void *ctx, enum pz_log_level level, const char *line) {
  static const char *const mark[] = {"error: ", "warning: ", "", "debug: "};
  fprintf(ctx, "phaze: %s%s\n", mark[level], line);
}
