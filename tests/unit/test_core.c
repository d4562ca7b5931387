/* The small parts of core: arena, vector, map, text, files, JSON, errors, log, progress. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/call.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/json.h"
#include "core/map.h"
#include "core/num.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/vec.h"
#include "unit/vec_push.h"

static void arena_aligns_zeroes_and_refuses_overflow(void **state) {
  (void)state;
  struct pz_arena a;
  pz_arena_init(&a);
  for (size_t n = 0; n < 5000; n += 7) {
    unsigned char *p = pz_arena_alloc(&a, n, 3);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
    for (size_t i = 0; i < 3 * n; i++) assert_int_equal(p[i], 0);
    memset(p, 0xff, 3 * n);
  }
  assert_null(pz_arena_alloc(&a, SIZE_MAX, 2));
  assert_null(pz_arena_alloc(&a, SIZE_MAX, 1));
  assert_string_equal(pz_arena_printf(&a, "%d-%s", 7, "x"), "7-x");
  pz_arena_release(&a);
  assert_int_equal(a.total_bytes, 0);
  pz_arena_release(NULL);
}

static void vector_keeps_what_is_pushed(void **state) {
  (void)state;
  struct pz_arena a;
  struct pz_vec v;
  pz_arena_init(&a);
  pz_vec_init(&v, &a, sizeof(uint64_t));
  for (uint64_t i = 0; i < 10000; i++) assert_non_null(vec_push(&v, &i));
  for (uint32_t i = 0; i < 10000; i++) assert_int_equal(*pz_vec_at(&v, uint64_t, i), i);
  assert_int_equal(*(uint64_t *)vec_push(&v, NULL), 0);
  pz_arena_release(&a);
}

static void fill_map(struct pz_call *call, void *ctx) {
  struct pz_map m;
  char key[32];
  (void)ctx;
  pz_map_init(&m, call->arena);
  assert_int_equal(pz_map_get(&m, "x", 1), PZ_NONE);
  for (uint32_t i = 0; i < 5000; i++) {
    int n = snprintf(key, sizeof key, "key%u", i);
    pz_map_set(call, &m, key, (size_t)n, i);
    pz_map_set(call, &m, key, (size_t)n, i + 1);
  }
  assert_int_equal(m.n, 5000);
  for (uint32_t i = 0; i < 5000; i++) {
    int n = snprintf(key, sizeof key, "key%u", i);
    assert_int_equal(pz_map_get(&m, key, (size_t)n), i + 1);
  }
  assert_int_equal(pz_map_get(&m, "key5000", 7), PZ_NONE);
  pz_map_set(call, &m, "", 0, 9);
  assert_int_equal(pz_map_get(&m, "", 0), 9);
}

static void map_finds_all_keys_and_only_those(void **state) {
  (void)state;
  assert_int_equal(pz_border(fill_map, NULL, NULL), PZ_OK);
}

static void numbers_do_not_wrap(void **state) {
  (void)state;
  int64_t v = INT64_MAX / 2;
  assert_true(pz_mul(&v, 2));
  assert_false(pz_mul(&v, 2));
  assert_int_equal(v, INT64_MAX - 1);
  assert_true(pz_add(&v, 1));
  assert_false(pz_add(&v, 1));
  assert_int_equal(pz_ceil_div(7, 2), 4);
  assert_int_equal(pz_ceil_div(8, 2), 4);
}

static void text_for_people(void **state) {
  (void)state;
  static const char *const words[] = {"gpt2", "gpt2-xl", "bert-large", NULL};
  char buf[64];
  static const struct {
    int64_t value;
    const char *text;
  } count[] = {{0, "0"}, {999, "999"}, {1000, "1,000"}, {-1234567, "-1,234,567"}, {-123, "-123"}};
  for (size_t i = 0; i < sizeof count / sizeof *count; i++)
    assert_string_equal(pz_text_count(buf, sizeof buf, count[i].value), count[i].text);
  static const struct {
    double value;
    const char *text;
  } si[] = {{0, "0 B"},         {999, "999 B"},       {999.6, "1.00 kB"}, {12345, "12.3 kB"},
            {123456, "123 kB"}, {9.996e6, "10.0 MB"}, {5e21, "5000 EB"}};
  for (size_t i = 0; i < sizeof si / sizeof *si; i++)
    assert_string_equal(pz_text_si(buf, sizeof buf, si[i].value, "B"), si[i].text);
  assert_string_equal(pz_text_duration(buf, sizeof buf, 48), "48 s");
  assert_string_equal(pz_text_duration(buf, sizeof buf, 125), "2 min 05 s");
  assert_string_equal(pz_text_duration(buf, sizeof buf, 12000), "3 h 20 min");
  assert_string_equal(pz_text_duration(buf, sizeof buf, -1), "?");
  assert_string_equal(pz_text_nearest("bert-lage", pz_name_in_list, words), "bert-large");
  assert_null(pz_text_nearest("llama", pz_name_in_list, words));
  assert_string_equal(pz_text_join(buf, sizeof buf, pz_name_in_list, words),
                      "gpt2, gpt2-xl, bert-large");
  assert_string_equal(pz_text_join(buf, 12, pz_name_in_list, words), "gpt2, gp...");
}

/* UTF-8 stays, C0, delete and C1 do not. */
static void control_characters_are_replaced(void **state) {
  (void)state;
  struct pz_error err = {0};
  char text[] = "\x1b[31mr\xc3\xa9-d\n\x7f \xc2\x9b"
                "2J \xc2\xa9 \xc2";
  assert_false(pz_text_is_plain(text));
  assert_string_equal(pz_text_plain(text), "?[31mr\xc3\xa9-"
                                           "d?? ?2J \xc2\xa9 ?");
  assert_true(pz_text_is_plain(text));
  char hostile[] = "a\x9b"
                   "b\xe2\x80\xae"
                   "c\xe2\x81\xa6"
                   "d\xe2\x80\xa8"
                   "e\xc3\xa9\xff\xe2\x82\xac\xe2\x82";
  assert_false(pz_text_is_plain("\x9b"));
  assert_false(pz_text_is_plain("a\xe2\x80\xae"));
  assert_string_equal(pz_text_plain(hostile), "a?b?c?d?e\xc3\xa9?\xe2\x82\xac??");
  assert_true(pz_text_is_plain(hostile));
  assert_null(pz_text_plain(NULL));
  pz_fail(&err, PZ_BAD_INPUT, "%s", "a\tb");
  assert_string_equal(err.message, "a?b");
}

static void what_was_meant_is_listed(void **state) {
  (void)state;
  static const char *const chips[] = {"a100-40", "a100-80",    "h100", "h200",
                                      "tpuv4",   "tpuv4-real", NULL};
  static const struct {
    const char *word, *meant;
  } want[] = {{"a100", " (did you mean a100-40, a100-80?)"},
              {"A100", " (did you mean a100-40, a100-80?)"},
              {"v4", " (did you mean tpuv4, tpuv4-real?)"},
              {"REAL", " (did you mean tpuv4-real?)"},
              {"h20", " (did you mean h200?)"},
              {"h300", " (did you mean h100?)"},
              {"tpu-v4", " (did you mean tpuv4?)"},
              {"h100-sxm5", " (did you mean h100?)"},
              {"a100-40", " (did you mean a100-40?)"},
              {"0", ""},
              {"", ""},
              {"moon", ""}};
  char buf[80];
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    assert_string_equal(pz_text_meant(buf, sizeof buf, want[i].word, pz_name_in_list, chips),
                        want[i].meant);
  pz_text_meant(buf, 24, "a100", pz_name_in_list, chips);
  assert_int_equal(strlen(buf), 23);
}

static void keys_that_nobody_asked_for_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"{\"size\": 3, \"part\": {\"rows\": 1, \"cols\": 2}, \"note\": {\"any\": 1}}", NULL},
      {"{\"size\": 3, \"lenght\": 2}", "f: unknown key 'lenght'; did you mean 'length'?"},
      {"{\"size\": 3, \"colour\": 2}",
       "f: unknown key 'colour'; accepted: size, length, long, part, note"},
      {"{\"size\": 3, \"part\": {\"row\": 2}}",
       "f: unknown key 'part.row'; did you mean 'part.rows'?"},
      {"{\"size\": 3, \"part\": {\"depth\": null}}",
       "f: unknown key 'part.depth'; accepted in part: rows, cols"},
      {"{\"sise\": 3}", "f: unknown key 'sise'; did you mean 'size'?"}, /* not: missing */
      {"{\"size\": -1, \"lenght\": 2}", "f: field 'size' is -1; accepted: "},
      {"{\"length\": 3}", "f: field 'size' is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_error err = {0};
    static const char *const words[] = {"note"};
    struct pz_fields f = {.name = "f", .err = &err};
    json_t *root = NULL;
    assert_int_equal(pz_json_parse("f", cases[i].text, strlen(cases[i].text), &root, &err), PZ_OK);
    f.root = root;
    pz_fields_int(&f, "size", (struct pz_range){0, 9});
    pz_fields_int_or(&f, "length|long", (struct pz_range){0, 9}, 0);
    pz_fields_int_or(&f, "part.rows", (struct pz_range){0, 9}, 0);
    pz_fields_int_or(&f, "part.cols", (struct pz_range){0, 9}, 0);
    pz_fields_allow(&f, words, 1);
    assert_int_equal(pz_fields_finish(&f), cases[i].message ? PZ_BAD_INPUT : PZ_OK);
    if (cases[i].message && strncmp(err.message, cases[i].message, strlen(cases[i].message)) != 0)
      fail_msg("'%s', want '%s'", err.message, cases[i].message);
    json_decref(root);
  }
}

static void errors_keep_the_first(void **state) {
  (void)state;
  struct pz_error err = {0};
  assert_int_equal(pz_fail(&err, PZ_LIMIT, "first %d", 1), PZ_LIMIT);
  assert_int_equal(pz_fail(&err, PZ_IO, "second"), PZ_IO);
  assert_string_equal(err.message, "first 1");
  assert_int_equal(err.status, PZ_LIMIT);
  assert_true(err.origin_line > 0);
  assert_int_equal(pz_fail(NULL, PZ_IO, "nobody listens"), PZ_IO);
}

static void json_errors_have_a_place(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } bad[] = {{"", "f:1:0: not valid JSON"},
             {"{\"a\": 1,\n \"a\": 2}", "f:2:"},
             {"{\"a\": }", "f:1:"},
             {"[1]", "f: found an array at the top; accepted: a JSON object"},
             {"{} x", "f:1:"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct pz_error err = {0};
    json_t *out = NULL;
    assert_int_equal(pz_json_parse("f", bad[i].text, strlen(bad[i].text), &out, &err),
                     PZ_BAD_INPUT);
    assert_null(out);
    if (strncmp(err.message, bad[i].message, strlen(bad[i].message)) != 0)
      fail_msg("'%s' does not begin with '%s'", err.message, bad[i].message);
  }
}

static void deep_json_is_refused(void **state) {
  (void)state;
  enum { DEPTH = 100000 };
  char *text = malloc(DEPTH + 8);
  assert_non_null(text);
  memcpy(text, "{\"a\":", 5);
  memset(text + 5, '[', DEPTH);
  struct pz_error err = {0};
  json_t *out = NULL;
  assert_int_equal(pz_json_parse("f", text, DEPTH + 5, &out, &err), PZ_BAD_INPUT);
  free(text);
}

static void json_text_is_stable(void **state) {
  (void)state;
  json_t *o = json_object();
  json_object_set_new(o, "b", json_integer(1));
  json_object_set_new(o, "a", json_real(0.1));
  char *text = NULL;
  assert_int_equal(pz_json_text(o, &text, NULL), PZ_OK);
  assert_string_equal(text, "{\n \"b\": 1,\n \"a\": 0.10000000000000001\n}\n");
  free(text);
  char brief[8];
  assert_string_equal(pz_json_brief(o, brief, sizeof brief), "{\"b\"...");
  json_decref(o);
}

static void files_are_read_within_limits_and_replaced_whole(void **state) {
  (void)state;
  char path[] = "/tmp/phaze-test-XXXXXX", *text = NULL;
  size_t bytes = 0;
  struct pz_error err = {0};
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(pz_file_write(path, "hello", 5, &err), PZ_OK);
  assert_int_equal(pz_file_read(path, 5, &text, &bytes, &err), PZ_OK);
  assert_string_equal(text, "hello");
  assert_int_equal(bytes, 5);
  free(text);
  assert_int_equal(pz_file_read(path, 4, &text, &bytes, &err), PZ_LIMIT);
  unlink(path);
  err = (struct pz_error){0};
  assert_int_equal(pz_file_read(path, 4, &text, &bytes, &err), PZ_IO);
  assert_non_null(strstr(err.message, "No such file"));
  err = (struct pz_error){0};
  assert_int_equal(pz_file_read("/tmp", 4, &text, &bytes, &err), PZ_IO);
  assert_non_null(strstr(err.message, "is a directory"));
  assert_int_equal(pz_file_write("/nonexistent/x", "y", 1, NULL), PZ_IO);
  assert_int_equal(pz_file_writable("/nonexistent/x", NULL), PZ_IO);
  assert_int_equal(pz_file_writable(path, NULL), PZ_OK);
  assert_int_equal(access(path, F_OK), -1);
}

/* ---- writing through links ------------------------------------------------------------------ */

static char playground[] = "/tmp/phaze-links-XXXXXX";
static int before; /* the directory the tests began in */

/* An empty directory, and in it. */
static int enter_playground(void **state) {
  (void)state;
  memcpy(playground + sizeof playground - 7, "XXXXXX", 6);
  before = open(".", O_RDONLY | O_DIRECTORY);
  return before < 0 || !mkdtemp(playground) || chdir(playground) != 0;
}

static int leave_playground(void **state) {
  (void)state;
  char remove[128];
  bool back = fchdir(before) == 0;
  close(before);
  snprintf(remove, sizeof remove, "chmod -R u+rwx %s; rm -rf %s", playground, playground);
  return !(back && system(remove) == 0);
}

static void expect_text(const char *path, const char *want) {
  char *text = NULL;
  size_t bytes = 0;
  struct pz_error err = {0};
  if (pz_file_read(path, 100, &text, &bytes, &err) != PZ_OK) fail_msg("%s", err.message);
  assert_string_equal(text, want);
  free(text);
}

static void put(const char *path, const char *text) {
  struct pz_error err = {0};
  if (pz_file_writable(path, &err) != PZ_OK ||
      pz_file_write(path, text, strlen(text), &err) != PZ_OK)
    fail_msg("%s", err.message);
}

static void expect_link(const char *path, const char *want) {
  char to[64] = "";
  assert_int_equal(readlink(path, to, sizeof to - 1), strlen(want));
  assert_string_equal(to, want);
}

static void expect_refusal(const char *path, const char *says) {
  struct pz_error err = {0}, asked = {0};
  assert_int_equal(pz_file_write(path, "new", 3, &err), PZ_IO);
  assert_int_equal(pz_file_writable(path, &asked), PZ_IO);
  if (!strstr(err.message, says)) fail_msg("'%s' lacks '%s'", err.message, says);
}

static void links_are_followed_and_stay(void **state) {
  (void)state;
  put("file", "old");
  assert_int_equal(mkdir("dir", 0777), 0);
  assert_int_equal(symlink("file", "to-file"), 0);
  assert_int_equal(symlink("../file", "dir/up"), 0);
  assert_int_equal(symlink("dir/up", "twice"), 0);
  assert_int_equal(symlink("dir/made", "dangling"), 0);
  assert_int_equal(symlink("around", "loop"), 0);
  assert_int_equal(symlink("loop", "around"), 0);
  assert_int_equal(symlink("dir", "to-dir"), 0);
  put("to-file", "one");
  expect_link("to-file", "file");
  expect_text("file", "one");
  put("twice", "two");
  expect_link("twice", "dir/up");
  expect_link("dir/up", "../file");
  expect_text("file", "two");
  put("dangling", "three");
  expect_link("dangling", "dir/made");
  expect_text("dir/made", "three");
  expect_refusal("loop", "Too many levels of symbolic links");
  expect_link("loop", "around");
  expect_refusal("to-dir",
                 "to-dir: is a directory; accepted: a file, a pipe or a character device");
  assert_int_equal(system("test -z \"$(find . -name '*.part*')\""), 0);
}

static void mode_and_owner_stay(void **state) {
  (void)state;
  struct stat st;
  mode_t mask = umask(022);
  put("secret", "old");
  assert_int_equal(chmod("secret", 0600), 0);
  bool root = geteuid() == 0;
  if (root) assert_int_equal(chown("secret", 12, 34), 0);
  put("secret", "new");
  assert_int_equal(stat("secret", &st), 0);
  assert_int_equal(st.st_mode & 07777, 0600);
  if (root) assert_true(st.st_uid == 12 && st.st_gid == 34);
  put("fresh", "x");
  assert_int_equal(stat("fresh", &st), 0);
  assert_int_equal(st.st_mode & 07777, 0644);
  umask(mask);
}

/* Run as somebody whom permissions bind. */
static void as_nobody(void (*check)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    check();
    _exit(0);
  }
  int code = -1;
  assert_int_equal(waitpid(child, &code, 0), child);
  assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

static void write_where_permitted(void) {
  if (pz_file_writable("closed/open", NULL) != PZ_OK ||
      pz_file_write("closed/open", "new", 3, NULL) != PZ_OK)
    _exit(3);
  if (pz_file_writable("protected", NULL) != PZ_IO ||
      pz_file_write("protected", "new", 3, NULL) != PZ_IO)
    _exit(4);
  if (pz_file_write("closed/other", "new", 3, NULL) != PZ_IO) _exit(5);
}

static void permissions_are_kept_to(void **state) {
  (void)state;
  struct stat was, is;
  assert_int_equal(chmod(".", 0777), 0);
  assert_int_equal(mkdir("closed", 0777), 0);
  put("closed/open", "a longer text");
  put("protected", "old");
  assert_int_equal(chmod("closed/open", 0666), 0);
  assert_int_equal(chmod("protected", 0444), 0);
  assert_int_equal(stat("closed/open", &was), 0);
  assert_int_equal(chmod("closed", 0555), 0);
  as_nobody(write_where_permitted);
  expect_text("closed/open", "new");
  expect_text("protected", "old");
  assert_int_equal(stat("closed/open", &is), 0);
  assert_true(is.st_ino == was.st_ino);
}

static void pipes_and_devices_are_written_to(void **state) {
  (void)state;
  struct stat st;
  char got[8] = "", name[64];
  assert_int_equal(mkfifo("fifo", 0666), 0);
  assert_int_equal(symlink("fifo", "link"), 0);
  int end = open("fifo", O_RDONLY | O_NONBLOCK);
  put("link", "piped");
  assert_int_equal(read(end, got, sizeof got), 5);
  assert_string_equal(got, "piped");
  close(end);
  assert_true(lstat("fifo", &st) == 0 && S_ISFIFO(st.st_mode));
  assert_int_equal(symlink("/dev/null", "nowhere"), 0);
  put("nowhere", "x");
  expect_link("nowhere", "/dev/null");
  assert_true(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
  struct pz_error err = {0};
  assert_int_equal(symlink("/dev/full", "full"), 0);
  assert_int_equal(pz_file_write("full", "x", 1, &err), PZ_IO);
  assert_non_null(strstr(err.message, "full: cannot write: No space left on device"));
  struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
  close(s);
  expect_refusal("socket", "is a socket");
  /* A descriptor keeps its place in a file: what it wrote before and writes after stays. */
  int fd = open("out", O_RDWR | O_CREAT, 0666);
  assert_int_equal(write(fd, "a", 1), 1);
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  assert_int_equal(symlink(name, "standard"), 0);
  put("standard", "b");
  assert_int_equal(write(fd, "c", 1), 1);
  close(fd);
  expect_text("out", "abc");
  expect_link("standard", name);
  expect_refusal("standard", "No such file");
  int reader = open("out", O_RDONLY);
  snprintf(name, sizeof name, "/dev/fd/%d", reader);
  expect_refusal(name, "Bad file descriptor");
  close(reader);
}

static void one_file_has_many_names(void **state) {
  (void)state;
  put("file", "x");
  put("other", "x");
  assert_int_equal(symlink("file", "link"), 0);
  assert_true(pz_file_same("file", "link") && pz_file_same("./file", "file"));
  assert_true(pz_file_same("absent", "absent"));
  assert_false(pz_file_same("file", "other") || pz_file_same("file", "absent"));
}

/* Results do not replace what a command reads, nor what a link leads to. */
static void inputs_are_not_overwritten(void **state) {
  (void)state;
  static const char *const inputs[] = {"file", "other"};
  static const struct {
    const char *path, *message; /* NULL: it is accepted */
  } cases[] = {{"file", "file would be overwritten, and is read"},
               {"./other", "./other would be overwritten, and is read"},
               {"link", "link would be overwritten, and is read"},
               {"hard", "hard would be overwritten, and is read"},
               {"foreign", "foreign is a link; accepted: a new file or one to replace"},
               {"nowhere", "nowhere is a link"},
               {"third", NULL},
               {"fourth", NULL},
               {"/dev/null", NULL}};
  put("file", "x");
  put("other", "x");
  put("third", "x");
  assert_int_equal(symlink("file", "link") | link("file", "hard"), 0);
  assert_int_equal(symlink("third", "foreign") | symlink("fifth", "nowhere"), 0);
  assert_true(pz_file_is_regular("link") && !pz_file_is_regular("nowhere"));
  assert_false(pz_file_is_regular(".") || pz_file_is_regular("/dev/null"));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct pz_error err = {0};
    enum pz_status status = pz_file_output(cases[i].path, inputs, 2, &err);
    assert_int_equal(status, cases[i].message ? PZ_IO : PZ_OK);
    if (cases[i].message && !strstr(err.message, cases[i].message)) fail_msg("%s", err.message);
  }
}

static double fake_now;
static double fake_clock(void) { return fake_now; }

static void progress_shows_rate_and_time_left(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct pz_progress p;
  pz_progress_start(&p, out, PZ_PROGRESS_LINES, "search", "chips", 100);
  p.now_s = fake_clock;
  p.start_s = p.shown_s = fake_now = 0;
  fake_now = 1;
  pz_progress_update(&p, 10, NULL);
  fflush(out);
  assert_int_equal(size, 0);
  fake_now = 10;
  pz_progress_update(&p, 50, "best 3x");
  pz_progress_finish(&p, NULL);
  fclose(out);
  assert_non_null(strstr(text, "search: 50 of 100 chips (50%), 5 chips/s, 10 s left, best 3x\n"));
  free(text);
}

/* A search is shown by what it proved: closed chips do not say how long the others take. */
static void progress_of_a_search_is_its_gap(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct pz_progress p;
  struct pz_progress_state s = {.phase = "gpt2",
                                .unit = "chips",
                                .note = "3 boxes open",
                                .total = 75712,
                                .gap = HUGE_VAL,
                                .target = 0.05};
  pz_progress_start(&p, out, PZ_PROGRESS_LINES, "models", "models", 1);
  p.now_s = fake_clock;
  p.shown_s = fake_now = 0;
  pz_progress_follow(&p, &s);
  fake_now = 10;
  pz_progress_follow(&p, &s); /* nothing is done, and the phase goes on */
  fake_now = 20;
  s.done = 75542;
  s.gap = 0.123;
  pz_progress_follow(&p, &s);
  s.done = s.total;
  s.gap = 0.0432;
  s.ended = true;
  pz_progress_follow(&p, &s);
  fclose(out);
  assert_string_equal(text, "gpt2: no gap yet, target 5%, 75712 chips left, 10 s, 3 boxes open\n"
                            "gpt2: gap 12.3%, target 5%, 170 chips left, 20 s, 3 boxes open\n"
                            "gpt2: gap 4.32%, target 5%, took 20 s, 3 boxes open\n");
  free(text);
}

static void progress_bar_redraws_one_line(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct pz_progress p;
  pz_progress_start(&p, out, PZ_PROGRESS_BAR, "x", "u", 4);
  p.now_s = fake_clock;
  p.start_s = p.shown_s = fake_now = 0;
  fake_now = 1;
  pz_progress_update(&p, 2, NULL);
  pz_progress_update(&p, 9, NULL);
  pz_progress_finish(&p, NULL);
  fclose(out);
  assert_non_null(strstr(text, "\r\033[Kx [############............] 50%, 1 s left, 2 of 4 u"));
  assert_non_null(strstr(text, "[########################] 100%, took 1 s, 4 of 4 u"));
  assert_int_equal(text[size - 1], '\n');
  free(text);
}

/* What a bar is drawn with; the caller frees it. */
static char *bar_text(int columns, const char *label) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct pz_progress p;
  pz_progress_start(&p, out, PZ_PROGRESS_BAR, label, "chips", 29360);
  p.now_s = fake_clock;
  p.columns = columns;
  p.start_s = p.shown_s = fake_now = 0;
  fake_now = 100;
  pz_progress_update(&p, 2936, "best 15.8 with 8x256x128-32x128-16M: 38 stages x 26, tensor 1");
  fclose(out);
  return text;
}

/* The bar shrinks, rate and count go, the label is shortened; percentage and time left stay. */
static void progress_fits_every_terminal(void **state) {
  (void)state;
  static const int columns[] = {30, 40, 60, 80, 120, 200};
  static const char *const labels[] = {"gpt2", "megatron-8.3b, open schedules",
                                       "models/a-name-that-nobody-has-any-room-for/config.json"};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    for (size_t k = 0; k < sizeof labels / sizeof *labels; k++) {
      char *text = bar_text(columns[i], labels[k]);
      const char *line = strrchr(text, 'K') ? text + strlen("\r\033[K") : "";
      assert_true((int)strlen(line) < columns[i]);
      assert_non_null(strstr(line, "10%, 15 min 00 s left"));
      assert_true(strncmp(line, labels[k], 2) == 0);
      free(text);
    }
  char *wide = bar_text(200, "gpt2");
  assert_non_null(strstr(wide, "gpt2 [##......................] 10%, 15 min 00 s left, 2936 of "
                               "29360 chips, 29 chips/s, best 15.8 with"));
  free(wide);
  char *narrow = bar_text(40, "megatron-8.3b");
  assert_string_equal(narrow, "\r\033[Kmegatron-8.3b 10%, 15 min 00 s left");
  free(narrow);
}

/* Another total, phases, and threads that count. */
static void progress_does_not_fall(void **state) {
  (void)state;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  struct pz_progress p;
  pz_progress_start(&p, out, PZ_PROGRESS_LINES, "bounds", "chips", 10);
  p.now_s = fake_clock;
  p.start_s = p.shown_s = fake_now = 0;
  fake_now = 10;
  pz_progress_add(&p, 5);
  fake_now = 20;
  pz_progress_set(&p, 6, 60, "a\033b"); /* no text steers the terminal */
  pz_progress_next(&p, "search", "chips", 4);
  fake_now = 30;
  pz_progress_add(&p, 1);
  fake_now = 40;
  pz_progress_set(&p, 2, 2, NULL);
  pz_progress_finish(&p, NULL);
  pz_progress_next(NULL, "nobody", "looks", 1);
  pz_progress_add(NULL, 1);
  pz_progress_finish(NULL, NULL);
  fclose(out);
  assert_string_equal(text, "bounds: 5 of 10 chips (50%), 10 s left\n"
                            "bounds: 6 of 60 chips (50%), 3 min 00 s left, a?b\n"
                            "search: 1 of 4 chips (25%), 30 s left\n"
                            "search: 2 of 2 chips (100%), 0 s left\n"
                            "search: 2 of 2 chips (100%), took 20 s\n");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_aligns_zeroes_and_refuses_overflow),
      cmocka_unit_test(vector_keeps_what_is_pushed),
      cmocka_unit_test(map_finds_all_keys_and_only_those),
      cmocka_unit_test(numbers_do_not_wrap),
      cmocka_unit_test(text_for_people),
      cmocka_unit_test(control_characters_are_replaced),
      cmocka_unit_test(what_was_meant_is_listed),
      cmocka_unit_test(keys_that_nobody_asked_for_are_refused),
      cmocka_unit_test(errors_keep_the_first),
      cmocka_unit_test(json_errors_have_a_place),
      cmocka_unit_test(deep_json_is_refused),
      cmocka_unit_test(json_text_is_stable),
      cmocka_unit_test(files_are_read_within_limits_and_replaced_whole),
      cmocka_unit_test_setup_teardown(links_are_followed_and_stay, enter_playground,
                                      leave_playground),
      cmocka_unit_test_setup_teardown(mode_and_owner_stay, enter_playground, leave_playground),
      cmocka_unit_test_setup_teardown(permissions_are_kept_to, enter_playground, leave_playground),
      cmocka_unit_test_setup_teardown(pipes_and_devices_are_written_to, enter_playground,
                                      leave_playground),
      cmocka_unit_test_setup_teardown(one_file_has_many_names, enter_playground, leave_playground),
      cmocka_unit_test_setup_teardown(inputs_are_not_overwritten, enter_playground,
                                      leave_playground),
      cmocka_unit_test(progress_shows_rate_and_time_left),
      cmocka_unit_test(progress_of_a_search_is_its_gap),
      cmocka_unit_test(progress_bar_redraws_one_line),
      cmocka_unit_test(progress_fits_every_terminal),
      cmocka_unit_test(progress_does_not_fall),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
