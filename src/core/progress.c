/* percent_parts() and gap_parts() make the parts of a line, print_line() joins as many as there
 * is room for, and show_if_due() decides whether it is time to report. */
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
static const double HARDLY_SEEN_S = 0.5; /* a bar that ends earlier is erased */
enum { MOST_BAR = 24, LEAST_BAR = 8 };   /* columns of a bar */

double pz_clock_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

enum pz_progress_style pz_progress_style_of(FILE *out) {
  return isatty(fileno(out)) ? PZ_PROGRESS_BAR : PZ_PROGRESS_LINES;
}

/* Returns the escape sequence of a colour, or "" if the stream is not to be coloured. */
const char *pz_colour(FILE *out, enum pz_colour colour) {
  static const char *const codes[] = {"\033[0m", "\033[1m", "\033[31m", "\033[32m"};
  const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
  if ((no_color && *no_color) || (term && strcmp(term, "dumb") == 0)) return "";
  return isatty(fileno(out)) ? codes[colour] : "";
}

/* Returns the columns of a terminal, or a large number for another stream. */
int pz_terminal_columns(FILE *out) {
  enum { MANY = 1 << 20 };
  struct winsize size = {0};
  bool is_terminal = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_terminal ? size.ws_col : MANY;
}

/* The texts of a progress line, of which label, percentage and time are always shown. */
struct parts {
  char label[96], percent[16], time[48], count[96], rate[64];
  const char *note;
  double fraction;
};

/* Shortens a text to a number of columns, of which the last two become dots. */
static void shorten(char *text, int columns) {
  int column = 0;
  if (pz_text_columns(text) <= columns) return;
  for (char *at = text; *at; at++) {
    bool begins_character = ((unsigned char)*at & 0xC0) != 0x80;
    if (begins_character && column == columns - 2) {
      memcpy(at, "..", 3); /* at least two more columns follow, so there is room */
      return;
    }
    column += begins_character;
  }
}

/* Appends ", " and n bytes of a text to a line, or returns false if there is no room for them. */
static bool add_clause(char *line, size_t size, const char *text, size_t n, int room) {
  char clause[128];
  snprintf(clause, sizeof clause, ", %.*s", (int)n, text);
  size_t used = strlen(line), more = strlen(clause);
  if (pz_text_columns(line) + pz_text_columns(clause) > room || used + more >= size) return false;
  memcpy(line + used, clause, more + 1);
  return true;
}

/* Makes the line for a terminal, in at most `room` columns.  If room is scarce, the note, parts
 * of the bar, the rate, the count, the bar and the end of the label are dropped, in this order. */
static void bar_line(struct parts *parts, int room, char *line, size_t size) {
  char bar[MOST_BAR + 4];
  int required = pz_text_columns(parts->label) + 1 + pz_text_columns(parts->percent) + 2 +
                 pz_text_columns(parts->time);
  int count_columns = 2 + pz_text_columns(parts->count);
  int rate = *parts->rate ? 2 + pz_text_columns(parts->rate) : 0;
  int least_with_bar = required + LEAST_BAR + 3; /* with the brackets and a space */
  bool has_rate = rate && least_with_bar + count_columns + rate <= room;
  bool has_count = least_with_bar + count_columns <= room;
  int bar_room = room - required - 3 - (has_rate ? rate : 0) - (has_count ? count_columns : 0);
  int bar_columns = bar_room > MOST_BAR ? MOST_BAR : bar_room;
  if (bar_columns < LEAST_BAR) bar_columns = 0;
  if (required > room) shorten(parts->label, room - (required - pz_text_columns(parts->label)));
  bar[0] = '\0';
  if (bar_columns > 0 && parts->fraction >= 0) { /* "[###...] " */
    int filled = (int)(parts->fraction * bar_columns);
    bar[0] = '[';
    memset(bar + 1, '#', (size_t)filled);
    memset(bar + 1 + filled, '.', (size_t)(bar_columns - filled));
    memcpy(bar + 1 + bar_columns, "] ", 3);
  }
  snprintf(line, size, "%s %s%s, %s", parts->label, bar, parts->percent, parts->time);
  if (has_count) add_clause(line, size, parts->count, strlen(parts->count), room);
  if (has_rate) add_clause(line, size, parts->rate, strlen(parts->rate), room);
  /* append as many clauses of the note as there is room for */
  const char *note = has_count && (has_rate || !rate) ? parts->note : NULL;
  while (note && *note) {
    const char *end = strstr(note, ", ");
    size_t n = end ? (size_t)(end - note) : strlen(note);
    bool fits = add_clause(line, size, note, n, room);
    note = end && fits ? end + 2 : NULL;
  }
  shorten(line, room);
}

/* Returns the parts of a line that shows a percentage and the remaining time. */
static struct parts percent_parts(struct pz_progress *progress, double now, bool ended) {
  uint64_t total = progress->total, done = progress->done < total ? progress->done : total;
  double spent_s = now - progress->start_s, rate = spent_s > 0 ? (double)done / spent_s : 0;
  double fraction = total ? (double)done / (double)total : 1;
  struct parts parts = {.note = progress->note};
  char text[32];
  if (fraction > progress->fraction) progress->fraction = fraction;
  parts.fraction = progress->fraction;
  memcpy(parts.label, progress->label, sizeof parts.label);
  snprintf(parts.percent, sizeof parts.percent, "%d%%",
           (int)(100 * parts.fraction + 1e-9)); /* 100 only when all items are done */
  snprintf(parts.count, sizeof parts.count, "%" PRIu64 " of %" PRIu64 " %s", done, total,
           progress->unit);
  if (ended && done == total)
    snprintf(parts.time, sizeof parts.time, "took %s",
             pz_text_duration(text, sizeof text, spent_s));
  else
    snprintf(parts.time, sizeof parts.time, "%s left",
             pz_text_duration(text, sizeof text, rate > 0 ? (double)(total - done) / rate : -1));
  if (rate >= 1) /* a lower rate adds nothing to the remaining time */
    snprintf(parts.rate, sizeof parts.rate, "%s%s/s", pz_text_si(text, sizeof text, rate, ""),
             progress->unit);
  return parts;
}

/* Returns the parts of a line that shows the gap instead of a percentage: "perf: gap 12.3%, 170
 * chips left, target 5%, 8 s, a note". */
static struct parts gap_parts(const struct pz_progress *progress, double now, bool ended) {
  uint64_t left = progress->total - progress->done;
  struct parts parts = {.note = progress->note, .fraction = -1}; /* no bar */
  char text[32], spent[32];
  memcpy(parts.label, progress->label, sizeof parts.label);
  pz_text_duration(spent, sizeof spent, now - progress->start_s);
  if (progress->gap < HUGE_VAL)
    snprintf(parts.percent, sizeof parts.percent, "gap %.*f%%", progress->gap < 0.1 ? 2 : 1,
             100 * progress->gap);
  else
    snprintf(parts.percent, sizeof parts.percent, "no gap yet");
  if (ended && left == 0)
    snprintf(parts.time, sizeof parts.time, "took %s", spent);
  else if (left < 1000000)
    snprintf(parts.time, sizeof parts.time, "%" PRIu64 " %s left", left, progress->unit);
  else
    snprintf(parts.time, sizeof parts.time, "%s%s left",
             pz_text_si(text, sizeof text, (double)left, ""), progress->unit);
  snprintf(parts.count, sizeof parts.count, "target %.3g%%", 100 * progress->target);
  if (left) snprintf(parts.rate, sizeof parts.rate, "%s", spent);
  return parts;
}

/* Prints the current state: a bar in place of the last one, or a new line. */
static void print_line(struct pz_progress *progress, double now, bool ended) {
  bool has_gap = progress->target >= 0;
  struct parts parts =
      has_gap ? gap_parts(progress, now, ended) : percent_parts(progress, now, ended);
  char line[600];
  bool is_bar = progress->style == PZ_PROGRESS_BAR;
  /* a bar in the last column might wrap, and then it could not be redrawn in place */
  int room = (progress->columns ? progress->columns : pz_terminal_columns(progress->out)) - 1;
  const char *rate_comma = *parts.rate ? ", " : "", *note_comma = *parts.note ? ", " : "";
  if (is_bar)
    bar_line(&parts, room, line, sizeof line);
  else if (has_gap)
    snprintf(line, sizeof line, "%s: %s, %s, %s%s%s%s%s", parts.label, parts.percent, parts.count,
             parts.time, rate_comma, parts.rate, note_comma, parts.note);
  else
    snprintf(line, sizeof line, "%s: %s (%s)%s%s, %s%s%s", parts.label, parts.count, parts.percent,
             rate_comma, parts.rate, parts.time, note_comma, parts.note);
  fprintf(progress->out, is_bar ? "\r\033[K%s" : "%s\n", line);
  fflush(progress->out);
  progress->shown_s = now;
  progress->shown = true;
}

/* Reports to the function of PZ_PROGRESS_CALL. */
static void report_to_function(struct pz_progress *progress, double now, bool ended) {
  struct pz_progress_state state = {.phase = progress->label,
                                    .unit = progress->unit,
                                    .note = progress->note,
                                    .done = progress->done,
                                    .total = progress->total,
                                    .ended = ended,
                                    .gap = progress->gap,
                                    .target = progress->target};
  if (!progress->call(progress->ctx, &state)) atomic_store(progress->stop, true);
  progress->shown_s = now;
  progress->shown = true;
}

/* Reports if a report is due.  One thread reports at a time, and the others do not wait for it. */
static void show_if_due(struct pz_progress *progress) {
  if (progress->style == PZ_PROGRESS_SILENT || atomic_exchange(&progress->printing, true)) return;
  double now = progress->now_s(), interval_s = LINE_EVERY_S;
  if (progress->style == PZ_PROGRESS_BAR) interval_s = BAR_EVERY_S;
  if (progress->style == PZ_PROGRESS_CALL) interval_s = CALL_EVERY_S;
  if (now - progress->shown_s >= interval_s) {
    if (progress->style == PZ_PROGRESS_CALL)
      report_to_function(progress, now, false);
    else
      print_line(progress, now, false);
  }
  atomic_store(&progress->printing, false);
}

/* Resets the state for a phase that counts to `total` in `unit`. */
static void begin_phase(struct pz_progress *progress, const char *label, const char *unit,
                        uint64_t total) {
  pz_text_plain(pz_text_copy(progress->label, sizeof progress->label, label));
  progress->note[0] = '\0';
  progress->unit = unit;
  progress->total = total;
  progress->done = 0;
  progress->fraction = 0;
  progress->target = -1;
  progress->shown = false;
  progress->start_s = progress->now_s();
}

void pz_progress_start(struct pz_progress *progress, FILE *out, enum pz_progress_style style,
                       const char *label, const char *unit, uint64_t total) {
  *progress = (struct pz_progress){.out = out, .style = style, .now_s = pz_clock_s};
  begin_phase(progress, label, unit, total);
  progress->shown_s = progress->start_s;
}

void pz_progress_start_call(struct pz_progress *progress, pz_progress_fn *fn, void *ctx,
                            atomic_bool *stop) {
  *progress = (struct pz_progress){
      .style = PZ_PROGRESS_CALL, .now_s = pz_clock_s, .call = fn, .ctx = ctx, .stop = stop};
}

/* Starts the next phase after the last one was finished. */
void pz_progress_next(struct pz_progress *progress, const char *label, const char *unit,
                      uint64_t total) {
  if (!progress) return;
  begin_phase(progress, label, unit, total);
  if (progress->style == PZ_PROGRESS_CALL) report_to_function(progress, progress->start_s, false);
  if (progress->style == PZ_PROGRESS_BAR) show_if_due(progress);
}

/* Reports that `done` items of the total are done; a NULL note keeps the last one. */
void pz_progress_update(struct pz_progress *progress, uint64_t done, const char *note) {
  progress->done = done < progress->total ? done : progress->total;
  if (note) pz_text_plain(pz_text_copy(progress->note, sizeof progress->note, note));
  show_if_due(progress);
}

void pz_progress_set(struct pz_progress *progress, uint64_t done, uint64_t total,
                     const char *note) {
  progress->total = total;
  pz_progress_update(progress, done, note);
}

/* Reports a search whose gap to the optimum is gap[0], and whose target is gap[1]. */
void pz_progress_gap(struct pz_progress *progress, uint64_t done, uint64_t total,
                     const double gap[2], const char *note) {
  progress->gap = gap[0];
  progress->target = gap[1];
  pz_progress_set(progress, done, total, note);
}

/* Reports the state of another progress, whose phase begins with done == 0. */
void pz_progress_follow(struct pz_progress *progress, const struct pz_progress_state *state) {
  if (state->done == 0 && !state->ended && strcmp(progress->label, state->phase) != 0)
    pz_progress_next(progress, state->phase, state->unit, state->total);
  else if (state->target >= 0)
    pz_progress_gap(progress, state->done, state->total,
                    (const double[]){state->gap, state->target}, state->note);
  else
    pz_progress_set(progress, state->done, state->total, state->note);
  if (!state->ended) return;
  pz_progress_finish(progress, NULL);
  progress->label[0] = '\0'; /* the next phase may have the same label */
}

void pz_progress_add(struct pz_progress *progress, uint64_t more) {
  if (!progress) return;
  atomic_fetch_add(&progress->done, more);
  show_if_due(progress);
}

/* Ends the phase with a last report; `note` replaces the last note unless it is NULL. */
void pz_progress_finish(struct pz_progress *progress, const char *note) {
  if (!progress || progress->style == PZ_PROGRESS_SILENT || !progress->shown) return;
  double now = progress->now_s();
  bool is_bar = progress->style == PZ_PROGRESS_BAR;
  if (note) pz_text_plain(pz_text_copy(progress->note, sizeof progress->note, note));
  if (progress->style == PZ_PROGRESS_CALL) {
    report_to_function(progress, now, true);
  } else if (is_bar && now - progress->start_s < HARDLY_SEEN_S) {
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
  } else {
    print_line(progress, now, true);
    if (is_bar) fputc('\n', progress->out);
  }
  progress->shown = false;
}
