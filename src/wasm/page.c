/* The functions that the page of `phaze explore` calls in WebAssembly: it writes files in memory,
 * runs commands of phaze on them, and reads results.  A command writes to stdout and stderr, which
 * the page's script receives (src/report/html/worker.js).  Parts of phaze that the module does not
 * contain are replaced at the end of this file. */
#include <jansson.h>
#include <string.h>

#include "cli/command.h"
#include "cli/place_model.h"
#include "core/alloc.h"
#include "core/call.h"
#include "core/file.h"
#include "onnx/import.h"
#include "report/page.h"
#include "schedule/ilp/ilp.h"
#include "wasm/files.h"

#define PAGE_CALL(name) __attribute__((export_name(name)))

enum { MOST_WORDS = 128 };

/* ---- calls ---------------------------------------------------------------------------------- */

PAGE_CALL("allocate") void *pz_page_allocate(size_t bytes);
void *pz_page_allocate(size_t bytes) { return pz_malloc(bytes); }

PAGE_CALL("release") void pz_page_release(void *block);
void pz_page_release(void *block) { pz_free(block); }

struct page_file {
  const char *name, *text;
  size_t bytes;
};

/* Stores a struct page_file; the call of pz_page_put() catches its errors. */
static void save_file(struct pz_call *call, void *ctx) {
  const struct page_file *file = ctx;
  pz_file_save(call, file->name, file->text, file->bytes);
}

/* Writes a file.  Returns 0, or an exit status after an error. */
PAGE_CALL("put") int pz_page_put(const char *name, const char *text, size_t bytes);
int pz_page_put(const char *name, const char *text, size_t bytes) {
  struct page_file file = {name, text, bytes};
  struct pz_error err = {0};
  return pz_border(save_file, &file, &err) == PZ_OK ? 0 : (int)pz_command_fail(&err);
}

/* Return the text of a file, or NULL if there is no such file, and its size. */
PAGE_CALL("text") const char *pz_page_text_of(const char *name);
const char *pz_page_text_of(const char *name) {
  size_t bytes;
  return pz_memory_file(name, &bytes);
}

PAGE_CALL("bytes") size_t pz_page_bytes_of(const char *name);
size_t pz_page_bytes_of(const char *name) {
  size_t bytes;
  pz_memory_file(name, &bytes);
  return bytes;
}

/* Returns a text by which the command recognizes a module of its own version. */
PAGE_CALL("version") const char *pz_page_version(void);
const char *pz_page_version(void) { return "phaze page " PZ_VERSION; }

/* A command of the page: its words, each of which ends with a NUL, and its exit status. */
struct page_command {
  char *words;
  size_t bytes;
  enum pz_exit code;
};

/* Splits the words of a command and runs it. */
static void run_command(struct pz_call *call, void *ctx) {
  struct page_command *request = ctx;
  char *argv[MOST_WORDS + 1] = {NULL};
  int argc = 0;
  for (size_t position = 0; position < request->bytes;
       position += strlen(request->words + position) + 1) {
    if (argc == MOST_WORDS) pz_raise(call, PZ_LIMIT, "more than %d words in a command", MOST_WORDS);
    argv[argc++] = request->words + position;
  }
  for (size_t i = 0; argc && pz_command_at(i); i++) {
    const struct pz_command *command = pz_command_at(i);
    if (strcmp(command->name, argv[0]) != 0) continue;
    request->code = pz_command_invoke(command, argc, argv);
    return;
  }
  pz_raise(call, PZ_BAD_USE,
           "unknown command '%s'; accepted: chip, chips, estimate, place, predict",
           argc ? argv[0] : "");
}

/* Runs a command and returns its exit status. */
PAGE_CALL("run") int pz_page_run(char *words, size_t bytes);
int pz_page_run(char *words, size_t bytes) {
  struct page_command command = {words, bytes, 0};
  struct pz_error err = {0};
  json_set_alloc_funcs(pz_json_alloc, pz_free);
  pz_json_lost_set(false); /* an earlier command may have run out of memory */
  if (pz_border(run_command, &command, &err) != PZ_OK) command.code = pz_command_fail(&err);
  return (int)command.code;
}

/* ---- replacements for parts that the module does not contain -------------------------------- */

const struct pz_command *pz_command_at(size_t i) {
  static const struct pz_command *const table[] = {&pz_cmd_chip, &pz_cmd_chips, &pz_cmd_estimate,
                                                   &pz_cmd_place, &pz_cmd_predict};
  return i < sizeof table / sizeof *table ? table[i] : NULL;
}

/* A report (`--report`) is its data only, because the page has the charts and the style. */
const struct pz_embedded pz_embedded_html[] = {{"scaling_page", "{{document}}"}, {NULL, NULL}};

struct pz_workload *pz_onnx_load(struct pz_call *call, const char *path,
                                 const struct pz_workload_options *options) {
  (void)options;
  pz_raise(call, PZ_BAD_USE, "%s: a page reads no ONNX files; accepted: a config.json", path);
}

enum pz_stop pz_ilp_search(struct pz_call *call, struct pz_context *context,
                           const struct pz_solve_options *options) {
  (void)context, (void)options;
  pz_raise(call, PZ_BAD_USE, "a page has no integer programs; accepted: the solver exact");
}

void pz_ilp_write(struct pz_call *call, const struct pz_problem *problem, const char *path) {
  (void)problem, (void)path;
  pz_raise(call, PZ_BAD_USE, "a page has no integer programs");
}

void pz_place_partition(struct pz_call *call, struct pz_place_settings *settings, const char *model,
                        bool first_stage, bool check, bool json) {
  (void)settings, (void)model, (void)first_stage, (void)check, (void)json;
  pz_raise(call, PZ_BAD_USE, "a page plans with --semantics training alone");
}

const char *const pz_file_names[] = {"chip", "cluster", "space", NULL};

enum pz_status pz_file_fields(const char *file, char **text, struct pz_error *err) {
  (void)file;
  (void)text;
  return pz_fail(err, PZ_BAD_USE, "a page has no fields of files");
}
