/* Log: messages go to a sink the program chooses; the library itself never prints. */
#ifndef PZ_CORE_LOG_H
#define PZ_CORE_LOG_H

#include "core/status.h"

enum pz_log_level { PZ_LOG_ERROR, PZ_LOG_WARNING, PZ_LOG_INFO, PZ_LOG_DEBUG };

struct pz_log {
  enum pz_log_level level; /* the most talkative that is passed on */
  void (*sink)(void *ctx, enum pz_log_level level, const char *line);
  void *ctx;
};

/* One line, cut at 1 KiB, control characters as '?'.  `log` may be NULL. */
void pz_log(const struct pz_log *log, enum pz_log_level level, const char *format, ...)
    PZ_PRINTF(3, 4);

/* Sink for FILE *ctx: "phaze: warning: ..."; information without the middle part. */
void pz_log_to_file(void *ctx, enum pz_log_level level, const char *line);

#endif
