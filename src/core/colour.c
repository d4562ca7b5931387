#include "core/colour.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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
