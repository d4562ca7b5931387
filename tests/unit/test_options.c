/* The option table: parsing, ranges, help and man page. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <stdio.h>

#include "core/options.h"

struct settings {
  bool flag;
  int64_t n;
  double x;
  int mode;
  const char *path;
  int level, parts, turbo;
  int64_t secret;
};

static const char *const modes[] = {"slow", "fast", NULL};
static const char *const parts[] = {"grad", "param", "tp", NULL};
static const struct pz_option rows[] = {
    {.name = "flag",
     .letter = 'f',
     .type = PZ_OPTION_FLAG,
     .offset = offsetof(struct settings, flag),
     .help = "A flag"},
    {.name = "n",
     .type = PZ_OPTION_INT,
     .offset = offsetof(struct settings, n),
     .arg = "N",
     .min = 1,
     .max = 10,
     .help = "A number"},
    {.name = "x",
     .type = PZ_OPTION_REAL,
     .offset = offsetof(struct settings, x),
     .arg = "X",
     .min = 0,
     .max = 1,
     .help = "A real"},
    {.name = "mode",
     .type = PZ_OPTION_CHOICE,
     .offset = offsetof(struct settings, mode),
     .choices = modes,
     .help = "A choice"},
    {.name = "path",
     .letter = 'o',
     .type = PZ_OPTION_TEXT,
     .offset = offsetof(struct settings, path),
     .arg = "FILE",
     .help = "A path"},
    {.name = "log_level",
     .type = PZ_OPTION_NUMBER,
     .offset = offsetof(struct settings, level),
     .max = 3,
     .help = "An int"},
    {.name = "parts",
     .type = PZ_OPTION_SET,
     .offset = offsetof(struct settings, parts),
     .choices = parts,
     .help = "A set"},
    {.name = "turbo_mode",
     .type = PZ_OPTION_SWITCH,
     .offset = offsetof(struct settings, turbo),
     .help = "On or off"},
    {.name = "secret",
     .letter = 's',
     .type = PZ_OPTION_INT,
     .offset = offsetof(struct settings, secret),
     .max = 9,
     .help = "No option",
     .hidden = true},
};
static const struct pz_option_table table = {rows, sizeof rows / sizeof *rows};

/* Split `line` at spaces and parse it. */
static enum pz_status parse(const char *line, struct settings *s, char *args,
                            struct pz_error *err) {
  static char copy[256];
  char *argv[32] = {(char *)(uintptr_t) "cmd"};
  int argc = 1, n_args = 0;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *w = strtok(copy, " "); w && argc < 32; w = strtok(NULL, " ")) argv[argc++] = w;
  enum pz_status status = pz_options_parse(&table, s, argc, argv, &n_args, err);
  args[0] = '\0';
  for (int i = 0; i < n_args; i++) strcat(strcat(args, i ? " " : ""), argv[1 + i]);
  return status;
}

static void good_lines(void **state) {
  (void)state;
  char args[256];
  struct pz_error err = {0};
  struct settings s = {.n = 2};
  assert_int_equal(
      parse("a --flag --n=7 b --x 0.5 --mode fast -o out.txt -- --c -", &s, args, &err), PZ_OK);
  assert_true(s.flag);
  assert_int_equal(s.n, 7);
  assert_true(s.x == 0.5);
  assert_int_equal(s.mode, 1);
  assert_string_equal(s.path, "out.txt");
  assert_string_equal(args, "a b --c -");
}

static void numbers_sets_and_switches(void **state) {
  (void)state;
  static const struct {
    const char *line;
    int level, parts, turbo;
  } good[] = {{"", -1, -1, -1},
              {"--log-level 3", 3, -1, -1},
              {"--log-level=0 --turbo-mode", 0, -1, 1},
              {"--turbo-mode --no-turbo-mode", -1, -1, 0},
              {"--no-turbo-mode --turbo-mode", -1, -1, 1},
              {"--parts grad", -1, 1, -1},
              {"--parts tp,grad,tp", -1, 5, -1},
              {"--parts=none", -1, 0, -1},
              {"--parts all", -1, 7, -1},
              {"--parts all --parts param", -1, 2, -1}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    char args[256];
    struct pz_error err = {0};
    struct settings s = {.level = -1, .parts = -1, .turbo = -1, .secret = 4};
    if (parse(good[i].line, &s, args, &err) != PZ_OK) fail_msg("%s", err.message);
    assert_int_equal(s.level, good[i].level);
    assert_int_equal(s.parts, good[i].parts);
    assert_int_equal(s.turbo, good[i].turbo);
    assert_int_equal(s.secret, 4);
    assert_string_equal(args, "");
  }
}

static void options_that_were_set_are_known(void **state) {
  (void)state;
  char args[256];
  struct settings none = {.n = 2, .mode = 1}, s = none;
  assert_int_equal(parse("a --n 2 --x 0.5 -o out", &s, args, NULL), PZ_OK);
  const bool same[] = {true, true, false, true, false, true, true, true, true};
  for (size_t i = 0; i < table.n; i++)
    assert_int_equal(pz_option_same(&rows[i], &s, &none), same[i]);
  assert_int_equal(
      parse("--flag --n 3 --mode slow --log-level 2 --parts tp --turbo-mode", &s, args, NULL),
      PZ_OK);
  for (size_t i = 0; i < table.n; i++)
    assert_int_equal(pz_option_same(&rows[i], &s, &none), rows[i].hidden);
}

static void bad_lines_say_what_is_accepted(void **state) {
  (void)state;
  static const struct {
    const char *line, *message;
  } bad[] = {
      {"--n 11", "--n: '11'; accepted: an integer from 1 to 10"},
      {"--n 0", "--n: '0'; accepted: an integer from 1 to 10"},
      {"--n 3x", "--n: '3x'; accepted: an integer from 1 to 10"},
      {"--n 99999999999999999999", "accepted: an integer from 1 to 10"},
      {"--x nan", "--x: 'nan'; accepted: a number from 0 to 1"},
      {"--mode quick", "--mode: 'quick'; accepted: slow, fast"},
      {"--mod fast", "unknown option '--mod'; did you mean --mode?"},
      {"--zebra", "unknown option '--zebra' (--help lists all)"},
      {"-z", "unknown option '-z'"},
      {"-fo", "unknown option '-fo'"},
      {"--flag=1", "--flag takes no value; found '1'"},
      {"--n", "--n needs a value: --n N"},
      {"--log-level 4", "--log-level: '4'; accepted: an integer from 0 to 3"},
      {"--log-level -1", "--log-level: '-1'; accepted: an integer from 0 to 3"},
      {"--log-level 4294967296", "--log-level: '4294967296'; accepted: an integer from 0 to 3"},
      {"--log-level", "--log-level needs a value: --log-level N"},
      {"--log_level 1", "unknown option '--log_level'; did you mean --log-level?"},
      {"--log-leve 1", "unknown option '--log-leve'; did you mean --log-level?"},
      {"--parts gard", "--parts: 'gard'; accepted: none, all, or a list of grad, param, tp"},
      {"--parts grad,", "--parts: ''; accepted: none, all, or a list of grad, param, tp"},
      {"--parts grad,none", "--parts: 'none'; accepted: none, all, or a list of grad, param, tp"},
      {"--parts", "--parts needs a value: --parts LIST"},
      {"--turbo-mode=on", "--turbo-mode takes no value; found 'on'"},
      {"--no-turbo-mode=1", "--no-turbo-mode takes no value; found '1'"},
      {"--no-flag", "unknown option '--no-flag'"},
      {"--no-parts", "unknown option '--no-parts'"},
      {"--secret 1", "unknown option '--secret' (--help lists all)"},
      {"--secre 1", "unknown option '--secre' (--help lists all)"},
      {"-s 1", "unknown option '-s' (--help lists all)"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char args[256];
    struct pz_error err = {0};
    struct settings s = {.n = 2};
    assert_int_equal(parse(bad[i].line, &s, args, &err), PZ_BAD_USE);
    if (!strstr(err.message, bad[i].message))
      fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
  }
}

static void help_and_man_have_every_option(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct settings s = {.n = 2};
  pz_options_help(&table, &s, out);
  pz_options_man(&table, &s, out);
  fclose(out);
  assert_non_null(strstr(text, "  -f, --flag                  A flag\n"));
  assert_non_null(strstr(text, "      --n N                   A number (default 2)\n"));
  assert_non_null(strstr(text, "--mode slow|fast        A choice (default slow)\n"));
  assert_non_null(strstr(text, "      --log-level N           An int\n"));
  assert_non_null(strstr(text, "      --parts LIST            A set\n"));
  assert_non_null(strstr(text, "--turbo-mode, --no-turbo-mode\n"));
  assert_null(strstr(text, "secret"));
  assert_null(strstr(text, "log_level"));
  assert_non_null(strstr(text, ".TP\n\\fB\\-o\\fR, \\fB\\-\\-path FILE\\fR\nA path.\n"));
  free(text);
}

static void long_help_is_wrapped(void **state) {
  (void)state;
  const struct pz_option row = {
      .name = "mode",
      .type = PZ_OPTION_CHOICE,
      .offset = offsetof(struct settings, mode),
      .choices = (const char *const[]){"the-first-long-word", "second", NULL},
      .help = "A choice whose description is longer than what a line of eighty characters holds"};
  const struct settings none = {.mode = -1}; /* no default is shown */
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  pz_options_help(&(struct pz_option_table){&row, 1}, &none, out);
  fclose(out);
  assert_string_equal(
      text, "      --mode the-first-long-word|second\n"
            "                              A choice whose description is longer than what a\n"
            "                              line of eighty characters holds\n");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(good_lines),
      cmocka_unit_test(numbers_sets_and_switches),
      cmocka_unit_test(options_that_were_set_are_known),
      cmocka_unit_test(bad_lines_say_what_is_accepted),
      cmocka_unit_test(help_and_man_have_every_option),
      cmocka_unit_test(long_help_is_wrapped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
