#include "core/progress.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/colour.h"
#include "core/text.h"

static const double LINE_EVERY_S = 5.0, BAR_EVERY_S = 0.1;
enum { BAR_WIDTH = 24 };

double pz_clock_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum pz_progress_style pz_progress_style_of(FILE *out) {
  return isatty(fileno(out)) ? PZ_PROGRESS_BAR : PZ_PROGRESS_LINES;
}

void pz_progress_start(struct pz_progress *p, FILE *out, enum pz_progress_style style,
                       const char *label, const char *unit, uint64_t total) {
  *p = (struct pz_progress){.out = out,
                            .style = style,
                            .label = label,
                            .unit = unit,
                            .total = total,
                            .now_s = pz_clock_s};
  p->start_s = p->shown_s = p->now_s();
}

static void bar_text(double fraction, char bar[BAR_WIDTH + 4]) {
  int full = (int)(fraction * BAR_WIDTH);
  memset(bar, '.', BAR_WIDTH + 2);
  memset(bar + 1, '#', (size_t)full);
  bar[0] = '[';
  bar[BAR_WIDTH + 1] = ']';
  bar[BAR_WIDTH + 2] = '\0';
}

static void show(struct pz_progress *p, double now, const char *note) {
  double fraction = p->total ? (double)p->done / (double)p->total : 1, spent = now - p->start_s;
  if (fraction > 1) fraction = 1;
  double rate = spent > 0 ? (double)p->done / spent : 0;
  char left[32], bar[BAR_WIDTH + 4], per_second[48] = "", line[600];
  pz_text_duration(left, sizeof left, rate > 0 ? (double)(p->total - p->done) / rate : -1);
  if (rate >= 1) { /* a slower one says nothing that the time left does not */
    char si[32];
    snprintf(per_second, sizeof per_second, "%s%s/s, ", pz_text_si(si, sizeof si, rate, ""),
             p->unit);
  }
  bool one_line = p->style == PZ_PROGRESS_BAR;
  bar_text(fraction, bar);
  snprintf(line, sizeof line, "%s%s%s %" PRIu64 " of %" PRIu64 " %s (%.0f%%), %s%s left%s%s",
           p->label, one_line ? " " : ":", one_line ? bar : "", p->done, p->total, p->unit,
           100 * fraction, per_second, left, note ? ", " : "", note ? note : "");
  /* a bar that wraps could not be drawn over */
  size_t columns = (size_t)pz_terminal_columns(p->out);
  if (one_line && strlen(line) >= columns) line[columns - 1] = '\0';
  fprintf(p->out, one_line ? "\r\033[K%s" : "%s\n", line);
  fflush(p->out);
  p->shown_s = now;
  p->shown = true;
}

void pz_progress_update(struct pz_progress *p, uint64_t done, const char *note) {
  p->done = done < p->total ? done : p->total;
  if (p->style == PZ_PROGRESS_SILENT) return;
  double now = p->now_s(), every = p->style == PZ_PROGRESS_BAR ? BAR_EVERY_S : LINE_EVERY_S;
  if (now - p->shown_s >= every) show(p, now, note);
}

void pz_progress_finish(struct pz_progress *p, const char *note) {
  if (p->style == PZ_PROGRESS_SILENT || !p->shown) return;
  show(p, p->now_s(), note);
  if (p->style == PZ_PROGRESS_BAR) fputc('\n', p->out);
}
