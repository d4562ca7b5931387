/* Progress of long work: on a terminal a bar with the remaining time and the rate, elsewhere a line
 * every few seconds, or calls of a function.
 *
 * Long work has phases, one after the other on the same stream.  Each has a total of its own, which
 * may change while it runs.  The fraction that is shown never falls within a phase. */
#ifndef PZ_CORE_PROGRESS_H
#define PZ_CORE_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "phaze/phaze.h"

enum pz_progress_style {
  PZ_PROGRESS_SILENT,
  PZ_PROGRESS_LINES,
  PZ_PROGRESS_BAR,
  PZ_PROGRESS_CALL /* calls a function instead of printing */
};

struct pz_progress {
  FILE *out;
  enum pz_progress_style style;
  char label[96], note[256];
  const char *unit;
  _Atomic uint64_t total, done; /* items */
  double gap, target;    /* see pz_progress_gap(); target is negative if the phase has no gap */
  double start_s;        /* when the phase began */
  double shown_s;        /* when the last report was made, in any phase */
  double fraction;       /* the largest fraction that was shown */
  double (*now_s)(void); /* replaceable in tests */
  int columns;           /* of the line; 0 means those of the terminal; replaceable in tests */
  bool shown;            /* this phase has been reported */
  atomic_bool printing;  /* a thread is reporting */
  /* With PZ_PROGRESS_CALL, the function, and the flag that is set when it returns false. */
  pz_progress_fn *call;
  void *ctx;
  atomic_bool *stop;
};

/* Returns the style for a stream: a bar on a terminal, lines elsewhere. */
enum pz_progress_style pz_progress_style_of(FILE *out);

/* Starts the first phase.  The label is copied, the unit is not. */
void pz_progress_start(struct pz_progress *progress, FILE *out, enum pz_progress_style style,
                       const char *label, const char *unit, uint64_t total);

/* Reports to a function at the beginning and end of every phase and from time to time between them,
 * by one thread at a time.  When the function returns false, *stop is set. */
void pz_progress_start_call(struct pz_progress *progress, pz_progress_fn *fn, void *ctx,
                            atomic_bool *stop);

/* Starts the next phase after the last one has been finished.  Does nothing if progress is NULL. */
void pz_progress_next(struct pz_progress *progress, const char *label, const char *unit,
                      uint64_t total);

/* Reports that `done` items of the total are done, with a note; NULL keeps the last note.  This is
 * cheap when no report is due.  No other thread may report at the same time. */
void pz_progress_update(struct pz_progress *progress, uint64_t done, const char *note);

/* Like pz_progress_update(), with another total. */
void pz_progress_set(struct pz_progress *progress, uint64_t done, uint64_t total, const char *note);

/* Like pz_progress_set(), for a search that ends when its gap reaches the target: gap = {the gap,
 * the target}.  Shows the time spent instead of the remaining time, which cannot be predicted. */
void pz_progress_gap(struct pz_progress *progress, uint64_t done, uint64_t total,
                     const double gap[2], const char *note);

/* Reports the state that another progress has passed to its function (PZ_PROGRESS_CALL). */
void pz_progress_follow(struct pz_progress *progress, const struct pz_progress_state *state);

/* Reports `more` further items as done, from any thread.  Does nothing if progress is NULL. */
void pz_progress_add(struct pz_progress *progress, uint64_t more);

/* Ends the phase with a last report.  A bar that was visible for less than half a second is erased
 * instead.  Does nothing if progress is NULL. */
void pz_progress_finish(struct pz_progress *progress, const char *note);

/* Ends the phase of a struct pz_progress without a note; for pz_defer(). */
static inline void pz_progress_close(void *progress) { pz_progress_finish(progress, NULL); }

/* Returns whether the work has been cancelled.  False if progress is NULL. */
static inline bool pz_progress_stopped(const struct pz_progress *progress) {
  return progress && progress->stop && atomic_load(progress->stop);
}

/* Returns the seconds of a monotonic clock. */
double pz_clock_s(void);

/* The conditions under which long work ends early. */
struct pz_ending {
  struct pz_progress *progress; /* the work ends when this is cancelled; may be NULL */
  double end_s; /* pz_clock_s() when the work ends, or 0; changes only between rounds of work */
};

/* Returns whether the work is to end.  Reports progress from time to time, so that the work can be
 * cancelled.  False if ending is NULL. */
static inline bool pz_ending_is_here(const struct pz_ending *ending) {
  if (!ending) return false;
  pz_progress_add(ending->progress, 0);
  bool is_late = ending->end_s > 0 && pz_clock_s() > ending->end_s;
  return is_late || pz_progress_stopped(ending->progress);
}

/* ---- terminals: emphasis (not with NO_COLOR, no-color.org, or TERM=dumb) and columns --------- */

enum pz_colour { PZ_PLAIN, PZ_BOLD, PZ_RED, PZ_GREEN };

/* Returns the escape sequence of a colour, or "" if `out` is no terminal on which it is wanted. */
const char *pz_colour(FILE *out, enum pz_colour colour);

/* Returns the columns of the terminal, or a large number if `out` is not a terminal. */
int pz_terminal_columns(FILE *out);

#endif
