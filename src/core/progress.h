/* Progress on stderr: a live bar with rate and time left on a terminal, a plain line every few
 * seconds elsewhere.  The clock only decides when to print, never what is computed. */
#ifndef PZ_CORE_PROGRESS_H
#define PZ_CORE_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

enum pz_progress_style { PZ_PROGRESS_SILENT, PZ_PROGRESS_LINES, PZ_PROGRESS_BAR };

struct pz_progress {
  FILE *out;
  enum pz_progress_style style;
  const char *label, *unit;
  uint64_t total, done;
  double start_s, shown_s;
  double (*now_s)(void); /* replaceable in tests */
  bool shown;
};

/* Style for a stream: a bar on a terminal, lines elsewhere. */
enum pz_progress_style pz_progress_style_of(FILE *out);

void pz_progress_start(struct pz_progress *p, FILE *out, enum pz_progress_style style,
                       const char *label, const char *unit, uint64_t total);

/* `done` of the total are done; `note` (may be NULL) is shown behind.  Cheap when nothing is due.
 */
void pz_progress_update(struct pz_progress *p, uint64_t done, const char *note);

/* Show the last state and leave the line. */
void pz_progress_finish(struct pz_progress *p, const char *note);

/* Seconds of a monotonic clock. */
double pz_clock_s(void);

#endif
