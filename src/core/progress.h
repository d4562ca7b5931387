/* Progress on stderr: a live bar with time left and rate on a terminal, a plain line every few
 * seconds elsewhere.  The clock only decides when to print, never what is computed.
 *
 * Long work has phases, one after the other on the same stream; each counts its own total, which
 * may fall while it runs.  The fraction shown never falls within a phase. */
#ifndef PZ_CORE_PROGRESS_H
#define PZ_CORE_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

enum pz_progress_style {
  PZ_PROGRESS_SILENT,
  PZ_PROGRESS_LINES,
  PZ_PROGRESS_BAR,
  PZ_PROGRESS_CALL /* nothing is printed: a function is called */
};

struct pz_progress {
  FILE *out;
  enum pz_progress_style style;
  char label[96], note[256];
  const char *unit;
  _Atomic uint64_t total, done;
  double gap, target;      /* as pz_progress_gap has them; target below 0: the phase has none */
  double start_s, shown_s; /* of the phase; of the last print, in whichever phase */
  double fraction;         /* the largest that was shown */
  double (*now_s)(void);   /* replaceable in tests */
  int columns;             /* 0: those of the terminal; replaceable in tests */
  bool shown;              /* something of this phase was */
  atomic_bool printing;    /* a thread is */
  pz_progress_fn *call;    /* of PZ_PROGRESS_CALL, ... */
  void *ctx;
  atomic_bool *stop; /* ... and what is set when it returns false */
};

/* Style for a stream: a bar on a terminal, lines elsewhere. */
enum pz_progress_style pz_progress_style_of(FILE *out);

/* The label is copied, the unit is not. */
void pz_progress_start(struct pz_progress *p, FILE *out, enum pz_progress_style style,
                       const char *label, const char *unit, uint64_t total);

/* Call a function at the beginning and end of every phase, and from time to time between them, by
 * one thread at a time.  When it returns false, *stop is set. */
void pz_progress_start_call(struct pz_progress *p, pz_progress_fn *call, void *ctx,
                            atomic_bool *stop);

/* The next phase on the same stream; the one before has been finished.  NULL: nothing to do. */
void pz_progress_next(struct pz_progress *p, const char *label, const char *unit, uint64_t total);

/* `done` of the total are done; `note` (NULL: as before) is shown behind, as many of its clauses as
 * there is room for.  Cheap when nothing is due.  No other thread may report meanwhile. */
void pz_progress_update(struct pz_progress *p, uint64_t done, const char *note);

/* The same with another total. */
void pz_progress_set(struct pz_progress *p, uint64_t done, uint64_t total, const char *note);

/* The same in a search that goes on until its gap is the target: the gap, what is left and the time
 * spent are shown, no time left, which its pace does not say. */
void pz_progress_gap(struct pz_progress *p, uint64_t done, uint64_t total, const double gap[2],
                     const char *note);

/* What a function of PZ_PROGRESS_CALL was told. */
void pz_progress_follow(struct pz_progress *p, const struct pz_progress_state *s);

/* So many more are done; any thread may say so.  NULL: nothing to do. */
void pz_progress_add(struct pz_progress *p, uint64_t more);

/* Show the last state and leave the line; a bar that was hardly seen is wiped out instead.  NULL:
 * nothing to do. */
void pz_progress_finish(struct pz_progress *p, const char *note);

/* Was the work cancelled?  NULL: never. */
static inline bool pz_progress_stopped(const struct pz_progress *p) {
  return p && p->stop && atomic_load(p->stop);
}

/* Seconds of a monotonic clock. */
double pz_clock_s(void);

/* When work is to end that others watch. */
struct pz_ending {
  struct pz_progress *progress; /* NULL: none; the work ends when it is cancelled */
  double
      end_s; /* of pz_clock_s: the time is over then; 0: never; it changes while no thread works */
};

/* NULL: never.  Whoever cancels the work is asked too, from time to time. */
static inline bool pz_ending_is_here(const struct pz_ending *e) {
  if (!e) return false;
  pz_progress_add(e->progress, 0);
  return pz_progress_stopped(e->progress) || (e->end_s > 0 && pz_clock_s() > e->end_s);
}

/* ---- terminals: emphasis (not with NO_COLOR, no-color.org, or TERM=dumb) and columns --------- */

enum pz_colour { PZ_PLAIN, PZ_BOLD, PZ_RED, PZ_GREEN };

/* Is `out` a terminal that shall have colour? */
bool pz_colour_on(FILE *out);

/* What switches to a colour on `out`, or "". */
const char *pz_colour(FILE *out, enum pz_colour c);

/* Columns of the terminal; many where `out` is none. */
int pz_terminal_columns(FILE *out);

#endif
