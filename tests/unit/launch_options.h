/* Options of the training frameworks, tests/data/launch_options.csv (made by scripts/launch-options from their sources): every
 * flag, key, field and keyword of a launch script must be one of them, in all releases that the script says it is for. */
#ifndef PZ_TESTS_LAUNCH_OPTIONS_H
#define PZ_TESTS_LAUNCH_OPTIONS_H

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/testing.h"

/* A name, and the releases that have it: "0.14" is 14, and dates or one release are 0. */
struct option {
  const char *framework, *name;
  int first, last;
};

struct options {
  char *text;
  size_t n;
  struct option at[8192];
};

static int compare_options(const void *a, const void *b) {
  const struct option *x = a, *y = b;
  int order = strcmp(x->framework, y->framework);
  return order ? order : strcmp(x->name, y->name);
}

static int release_of(const char *text) {
  int n = 0;
  return sscanf(text, "0.%d", &n) == 1 ? n : 0;
}

static struct options *load_options(void) {
  struct options *o = calloc(1, sizeof *o);
  FILE *in = fopen(PHAZE_TEST_DATA "/launch_options.csv", "rb");
  enum { MOST = 1 << 20 };
  assert_true(o && in && (o->text = calloc(1, MOST)));
  assert_true(fread(o->text, 1, MOST - 1, in) > 0 && fclose(in) == 0);
  char *save, *words;
  for (char *line = strtok_r(o->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char *cell[4] = {line};
    for (int i = 1; i < 4; i++) {
      cell[i] = strchr(cell[i - 1], ',');
      assert_non_null(cell[i]);
      *cell[i]++ = '\0';
    }
    for (char *word = strtok_r(cell[3], " ", &words); word; word = strtok_r(NULL, " ", &words)) {
      assert_true(o->n < sizeof o->at / sizeof *o->at);
      o->at[o->n++] = (struct option){cell[0], word, release_of(cell[1]), release_of(cell[2])};
    }
  }
  qsort(o->at, o->n, sizeof *o->at, compare_options);
  return o;
}

static void free_options(struct options *o) {
  free(o->text);
  free(o);
}

/* Fails where the framework has no such option, or not in all releases from `least` to `most`. */
static void check_option(const struct options *o, const char *framework, const char *name,
                         int least, int most) {
  struct option key = {framework, name, 0, 0};
  const struct option *x = bsearch(&key, o->at, o->n, sizeof key, compare_options);
  if (!x) fail_msg("%s has no option %s", framework, name);
  if (x->first > least || x->last < most)
    fail_msg("%s has %s in releases 0.%d to 0.%d, and the script is for 0.%d to 0.%d", framework,
             name, x->first, x->last, least, most);
}

/* Is there an option "CLASS.name"? */
static bool has_class(const struct options *o, const char *framework, const char *called) {
  size_t n = strlen(called);
  for (size_t i = 0; i < o->n; i++)
    if (strcmp(o->at[i].framework, framework) == 0 && strncmp(o->at[i].name, called, n) == 0 &&
        o->at[i].name[n] == '.')
      return true;
  return false;
}

/* The releases in the head of a script, "(core 0.14 to 0.20)". */
static void find_releases(const char *text, const char *before, int *least, int *most) {
  const char *at = strstr(text, before);
  assert_non_null(at);
  assert_int_equal(sscanf(at + strlen(before), "0.%d to 0.%d", least, most), 2);
}

/* All words with two dashes between the first list of arguments and torchrun. */
static void check_arguments(const struct options *o, const char *framework, const char *text,
                            int least, int most) {
  const char *at = strstr(text, "_ARGS=("), *end = strstr(text, "\nexec torchrun ");
  assert_true(at && end);
  for (; (at = strstr(at, "--")) && at < end; at += 2) {
    char name[80];
    size_t n = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (at[-1] != ' ' && at[-1] != '(') continue;
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    check_option(o, framework, name, least, most);
  }
}

/* Names of JSON, of the sections that have a class of their own behind the section's. */
static void check_json(const struct options *o, json_t *j, const char *section, int least,
                       int most) {
  const char *key;
  json_t *value;
  json_object_foreach(j, key, value) {
    char name[120];
    bool own =
        strcmp(section, "zero_optimization") == 0 || strcmp(section, "offload_optimizer") == 0;
    snprintf(name, sizeof name, "%s%s%s", own ? section : "", own ? "." : "", key);
    check_option(o, "deepspeed", name, least, most);
    if (json_is_object(value)) check_json(o, value, key, least, most);
  }
}

/* What a program sets: keywords of calls of classes and functions that the table has, and fields of its objects. */
struct program {
  const struct options *o;
  const char *framework;
  int least, most;
  char model[80]; /* the class of `model` */
  char call[16][80];
  int depth;
};

static void check_keyword(const struct program *p, const char *called, const char *name) {
  char option[200];
  snprintf(option, sizeof option, "%s.%s", called, name);
  check_option(p->o, p->framework, option, p->least, p->most);
}

static void check_assigned(const struct program *p, const char *word) {
  const char *const objects[][2] = {{"model", p->model},
                                    {"precision", "MixedPrecisionConfig"},
                                    {"optimizer", "OptimizerConfig"},
                                    {"ddp", "DistributedDataParallelConfig"}};
  const char *dot = strchr(word, '.');
  for (size_t i = 0; dot && i < sizeof objects / sizeof *objects; i++)
    if (strncmp(objects[i][0], word, (size_t)(dot - word)) == 0 && !objects[i][0][dot - word] &&
        objects[i][1][0])
      check_keyword(p, objects[i][1], dot + 1);
}

static void enter_call(struct program *p, const char *word) {
  const char *dot = strrchr(word, '.'), *name = dot ? dot + 1 : word;
  size_t n = strlen(name);
  bool known = *name && has_class(p->o, p->framework, name);
  bool needed =
      n > 6 && (strcmp(name + n - 6, "Config") == 0 || strcmp(name + n - 4, "Args") == 0 ||
                (n > 8 && strcmp(name + n - 8, "Provider") == 0));
  if (needed && !known && !dot) fail_msg("%s has no class %s", p->framework, name);
  if (n > 8 && strcmp(name + n - 8, "Provider") == 0)
    snprintf(p->model, sizeof p->model, "%s", name);
  assert_true(++p->depth < 16);
  snprintf(p->call[p->depth], sizeof p->call[0], "%s", known ? name : "");
}

static void check_program(const struct options *o, const char *framework, const char *text,
                          int least, int most) {
  struct program p = {.o = o, .framework = framework, .least = least, .most = most};
  for (const char *at = text; *at;) {
    char word[80];
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || (n && at[n] == '.')) n++;
    if (n && !isdigit((unsigned char)*at)) {
      snprintf(word, sizeof word, "%.*s", (int)n, at);
      bool first = at == text || at[-1] == '\n';
      for (at += n; *at == ' ';) at++;
      bool assigns = *at == '=' && at[1] != '=';
      if (assigns && p.depth && p.call[p.depth][0]) check_keyword(&p, p.call[p.depth], word);
      if (assigns && !p.depth && first) check_assigned(&p, word);
      if (*at == '(') enter_call(&p, word), at++;
      continue;
    }
    if (*at == '"') at = strchr(at + 1, '"');
    if (*at == '#') at = strchr(at, '\n');
    if (strchr("([{", *at)) enter_call(&p, "");
    if (strchr(")]}", *at)) assert_true(p.depth-- > 0);
    at += n ? n : 1;
  }
  assert_int_equal(p.depth, 0);
}

#endif
