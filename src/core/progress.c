/* parts_of() and gap_parts() make the parts of a line, bar_line() and plain_line() join as many of them as there is room for, and
 * show_if_due() decides whether it is time to report. */
#include "core/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "core/text.h"

static const double LINE_EVERY_S = 5.0, BAR_EVERY_S = 0.1, CALL_EVERY_S = 0.05;
static const double HARDLY_SEEN_S = 0.5;
enum { MOST_BAR = 24, LEAST_BAR = 8 };

double pz_clock_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum pz_progress_style pz_progress_style_of(FILE *out) {
  return isatty(fileno(out)) ? PZ_PROGRESS_BAR : PZ_PROGRESS_LINES;
}

bool pz_colour_on(FILE *out) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  if ((no && *no) || (term && strcmp(term, "dumb") == 0)) return false;
  return isatty(fileno(out));
}

const char *pz_colour(FILE *out, enum pz_colour c) {
  static const char *const codes[] = {"\033[0m", "\033[1m", "\033[31m", "\033[32m"};
  return pz_colour_on(out) ? codes[c] : "";
}

int pz_terminal_columns(FILE *out) {
  enum { MANY = 1 << 20 };
  struct winsize w = {0};
  bool known = ioctl(fileno(out), TIOCGWINSZ, &w) == 0 && w.ws_col > 0;
  return known ? w.ws_col : MANY;
}

/* ---- one line ------------------------------------------------------------------------------- */

/* The parts of a progress line.  Label, percentage and time are always shown. */
struct parts {
  char label[96], percent[16], time[48], count[96], rate[64];
  const char *note;
  double fraction;
};

static void bar_text(double fraction, int width, char *bar) {
  int full = (int)(fraction * width);
  *bar = '\0';
  if (width < 1) return;
  bar[0] = '[';
  memset(bar + 1, '#', (size_t)full);
  memset(bar + 1 + full, '.', (size_t)(width - full));
  memcpy(bar + 1 + width, "] ", 3);
}

/* Shortens a text to a number of columns, of which the last two become dots. */
static void shorten(char *text, int columns) {
  int n = 0;
  if (pz_text_columns(text) <= columns) return;
  for (char *at = text; *at; at++) {
    if (((unsigned char)*at & 0xC0) != 0x80 && n++ == columns - 2) {
      memcpy(at, "..", 3); /* at least two more columns follow, so there is room */
      return;
    }
  }
}

/* Appends ", clause" if there is room for it. */
static bool add_clause(char *line, size_t size, const char *text, size_t n, int room) {
  char clause[128];
  snprintf(clause, sizeof clause, ", %.*s", (int)n, text);
  size_t at = strlen(line), more = strlen(clause);
  if (pz_text_columns(line) + pz_text_columns(clause) > room || at + more >= size) return false;
  memcpy(line + at, clause, more + 1);
  return true;
}

static void add_note(char *line, size_t size, const char *note, int room) {
  bool fits = true;
  while (note && *note && fits) {
    const char *end = strstr(note, ", ");
    size_t n = end ? (size_t)(end - note) : strlen(note);
    fits = add_clause(line, size, note, n, room);
    note = end ? end + 2 : NULL;
  }
}

/* Makes the line for a terminal, in at most `room` columns.  If room is scarce, the note is dropped first, then the bar shrinks,
 * then rate and count are dropped, then the bar; the label is shortened last. */
static void bar_line(struct parts *p, int room, char *line, size_t size) {
  char bar[MOST_BAR + 4];
  int always =
      pz_text_columns(p->label) + 1 + pz_text_columns(p->percent) + 2 + pz_text_columns(p->time);
  int count = 2 + pz_text_columns(p->count), rate = *p->rate ? 2 + pz_text_columns(p->rate) : 0;
  int least = always + LEAST_BAR + 3;
  bool has_rate = rate && least + count + rate <= room, has_count = least + count <= room;
  int left = room - always - 3 - (has_rate ? rate : 0) - (has_count ? count : 0);
  int width = left > MOST_BAR ? MOST_BAR : left < LEAST_BAR ? 0 : left;
  if (always > room) shorten(p->label, room - (always - pz_text_columns(p->label)));
  bar_text(p->fraction, p->fraction < 0 ? 0 : width, bar);
  snprintf(line, size, "%s %s%s, %s", p->label, bar, p->percent, p->time);
  if (has_count) add_clause(line, size, p->count, strlen(p->count), room);
  if (has_rate) add_clause(line, size, p->rate, strlen(p->rate), room);
  if (has_count && (has_rate || !rate)) add_note(line, size, p->note, room);
  shorten(line, room);
}

static void plain_line(const struct parts *p, bool counts, char *line, size_t size) {
  if (counts)
    snprintf(line, size, "%s: %s (%s)%s%s, %s%s%s", p->label, p->count, p->percent,
             *p->rate ? ", " : "", p->rate, p->time, *p->note ? ", " : "", p->note);
  else
    snprintf(line, size, "%s: %s, %s, %s%s%s%s%s", p->label, p->percent, p->count, p->time,
             *p->rate ? ", " : "", p->rate, *p->note ? ", " : "", p->note);
}

/* ---- showing -------------------------------------------------------------------------------- */

static struct parts parts_of(struct pz_progress *p, double now, bool ended) {
  uint64_t total = p->total, done = p->done < total ? p->done : total;
  double spent = now - p->start_s, rate = spent > 0 ? (double)done / spent : 0;
  double fraction = total ? (double)done / (double)total : 1;
  struct parts x = {.note = p->note};
  char text[32];
  if (fraction > p->fraction) p->fraction = fraction;
  x.fraction = p->fraction;
  memcpy(x.label, p->label, sizeof x.label);
  snprintf(x.percent, sizeof x.percent, "%d%%",
           (int)(100 * x.fraction + 1e-9)); /* 100 only when all items are done */
  snprintf(x.count, sizeof x.count, "%" PRIu64 " of %" PRIu64 " %s", done, total, p->unit);
  if (ended && done == total)
    snprintf(x.time, sizeof x.time, "took %s", pz_text_duration(text, sizeof text, spent));
  else
    snprintf(x.time, sizeof x.time, "%s left",
             pz_text_duration(text, sizeof text, rate > 0 ? (double)(total - done) / rate : -1));
  if (rate >= 1) /* a lower rate adds nothing to the remaining time */
    snprintf(x.rate, sizeof x.rate, "%s%s/s", pz_text_si(text, sizeof text, rate, ""), p->unit);
  return x;
}

/* The parts of a line that shows the gap instead of a percentage: "perf: gap 12.3%, 170 chips left, target 5%, 8 s, a note". */
static struct parts gap_parts(const struct pz_progress *p, double now, bool ended) {
  uint64_t left = p->total - p->done;
  struct parts x = {.note = p->note, .fraction = -1}; /* no bar */
  char text[32], spent[32];
  memcpy(x.label, p->label, sizeof x.label);
  pz_text_duration(spent, sizeof spent, now - p->start_s);
  if (p->gap < HUGE_VAL)
    snprintf(x.percent, sizeof x.percent, "gap %.*f%%", p->gap < 0.1 ? 2 : 1, 100 * p->gap);
  else
    snprintf(x.percent, sizeof x.percent, "no gap yet");
  if (ended && left == 0)
    snprintf(x.time, sizeof x.time, "took %s", spent);
  else if (left < 1000000)
    snprintf(x.time, sizeof x.time, "%" PRIu64 " %s left", left, p->unit);
  else
    snprintf(x.time, sizeof x.time, "%s%s left", pz_text_si(text, sizeof text, (double)left, ""),
             p->unit);
  snprintf(x.count, sizeof x.count, "target %.3g%%", 100 * p->target);
  if (left) snprintf(x.rate, sizeof x.rate, "%s", spent);
  return x;
}

static void print_line(struct pz_progress *p, double now, bool ended) {
  struct parts x = p->target < 0 ? parts_of(p, now, ended) : gap_parts(p, now, ended);
  char line[600];
  bool bar = p->style == PZ_PROGRESS_BAR;
  /* a bar in the last column might wrap, and then it could not be redrawn in place */
  int room = (p->columns ? p->columns : pz_terminal_columns(p->out)) - 1;
  if (bar)
    bar_line(&x, room, line, sizeof line);
  else
    plain_line(&x, p->target < 0, line, sizeof line);
  fprintf(p->out, bar ? "\r\033[K%s" : "%s\n", line);
  fflush(p->out);
  p->shown_s = now;
  p->shown = true;
}

static void call_back(struct pz_progress *p, double now, bool ended) {
  struct pz_progress_state s = {.phase = p->label,
                                .unit = p->unit,
                                .note = p->note,
                                .done = p->done,
                                .total = p->total,
                                .ended = ended,
                                .gap = p->gap,
                                .target = p->target};
  if (!p->call(p->ctx, &s)) atomic_store(p->stop, true);
  p->shown_s = now;
  p->shown = true;
}

static double interval_s(enum pz_progress_style style) {
  if (style == PZ_PROGRESS_CALL) return CALL_EVERY_S;
  return style == PZ_PROGRESS_BAR ? BAR_EVERY_S : LINE_EVERY_S;
}

/* Reports if it is time to.  One thread reports at a time, and the others do not wait for it. */
static void show_if_due(struct pz_progress *p) {
  if (p->style == PZ_PROGRESS_SILENT || atomic_exchange(&p->printing, true)) return;
  double now = p->now_s();
  if (now - p->shown_s >= interval_s(p->style)) {
    if (p->style == PZ_PROGRESS_CALL)
      call_back(p, now, false);
    else
      print_line(p, now, false);
  }
  atomic_store(&p->printing, false);
}

/* ---- phases --------------------------------------------------------------------------------- */

static void begin_phase(struct pz_progress *p, const char *label, const char *unit,
                        uint64_t total) {
  pz_text_plain(pz_text_copy(p->label, sizeof p->label, label));
  p->note[0] = '\0';
  p->unit = unit;
  p->total = total;
  p->done = 0;
  p->fraction = 0;
  p->target = -1;
  p->shown = false;
  p->start_s = p->now_s();
}

void pz_progress_start(struct pz_progress *p, FILE *out, enum pz_progress_style style,
                       const char *label, const char *unit, uint64_t total) {
  *p = (struct pz_progress){.out = out, .style = style, .now_s = pz_clock_s};
  begin_phase(p, label, unit, total);
  p->shown_s = p->start_s;
}

void pz_progress_start_call(struct pz_progress *p, pz_progress_fn *fn, void *ctx,
                            atomic_bool *stop) {
  *p = (struct pz_progress){
      .style = PZ_PROGRESS_CALL, .now_s = pz_clock_s, .call = fn, .ctx = ctx, .stop = stop};
}

void pz_progress_next(struct pz_progress *p, const char *label, const char *unit, uint64_t total) {
  if (!p) return;
  begin_phase(p, label, unit, total);
  if (p->style == PZ_PROGRESS_CALL) call_back(p, p->start_s, false);
  if (p->style == PZ_PROGRESS_BAR) show_if_due(p);
}

void pz_progress_update(struct pz_progress *p, uint64_t done, const char *note) {
  p->done = done < p->total ? done : p->total;
  if (note) pz_text_plain(pz_text_copy(p->note, sizeof p->note, note));
  show_if_due(p);
}

void pz_progress_set(struct pz_progress *p, uint64_t done, uint64_t total, const char *note) {
  p->total = total;
  pz_progress_update(p, done, note);
}

void pz_progress_gap(struct pz_progress *p, uint64_t done, uint64_t total, const double gap[2],
                     const char *note) {
  p->gap = gap[0];
  p->target = gap[1];
  pz_progress_set(p, done, total, note);
}

void pz_progress_follow(struct pz_progress *p, const struct pz_progress_state *s) {
  if (s->done == 0 && !s->ended && strcmp(p->label, s->phase) != 0)
    pz_progress_next(p, s->phase, s->unit, s->total);
  else if (s->target >= 0)
    pz_progress_gap(p, s->done, s->total, (const double[]){s->gap, s->target}, s->note);
  else
    pz_progress_set(p, s->done, s->total, s->note);
  if (!s->ended) return;
  pz_progress_finish(p, NULL);
  p->label[0] = '\0'; /* the next phase may have the same label */
}

void pz_progress_add(struct pz_progress *p, uint64_t more) {
  if (!p) return;
  atomic_fetch_add(&p->done, more);
  show_if_due(p);
}

void pz_progress_finish(struct pz_progress *p, const char *note) {
  if (!p || p->style == PZ_PROGRESS_SILENT || !p->shown) return;
  double now = p->now_s();
  bool bar = p->style == PZ_PROGRESS_BAR;
  if (note) pz_text_plain(pz_text_copy(p->note, sizeof p->note, note));
  if (p->style == PZ_PROGRESS_CALL) {
    call_back(p, now, true);
  } else if (bar && now - p->start_s < HARDLY_SEEN_S) {
    fputs("\r\033[K", p->out);
    fflush(p->out);
  } else {
    print_line(p, now, true);
    if (bar) fputc('\n', p->out);
  }
  p->shown = false;
}
