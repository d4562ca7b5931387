/* Calls (see core/call.h).  A border has a jump buffer, an arena, the error, and a list of
 * deferred functions.  Raising stores the error in the border and jumps to it; close_border()
 * then runs what was deferred, as after a normal end. */
#include "core/call.h"

#include <assert.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

/* A function to call when the border ends.  Nodes are in the arena of the border and reused. */
struct deferred {
  struct deferred *older;
  pz_close_fn *fn;
  void *resource;
};

struct pz_border {
  jmp_buf jump;
  bool raised;
  struct pz_border *outer; /* the border that this one is nested in, in the same thread */
  struct pz_error *err;    /* where the caller wants the error, or NULL */
  struct pz_error error;
  struct pz_arena arena;
  struct deferred *newest, *unused;
};

/* The header of an object, directly before its data. */
union object_head {
  struct pz_arena arena;
  max_align_t align;
};

/* The border that an error of this thread must be raised to. */
static _Thread_local struct pz_border *innermost;

/* Ends a call: runs the deferred functions, releases the memory, and returns the status. */
static enum pz_status close_border(struct pz_border *border) {
  while (border->newest) {
    struct deferred *deferred = border->newest;
    border->newest = deferred->older;
    deferred->fn(deferred->resource);
  }
  pz_arena_release(&border->arena);
  innermost = border->outer;
  enum pz_status status = border->raised ? border->error.status : PZ_OK;
  if (status != PZ_OK && border->err && border->err->status == PZ_OK) *border->err = border->error;
  return status;
}

/* Runs fn(call, ctx) and returns PZ_OK or the status of the error that it raised.  After a jump,
 * local variables that have changed since setjmp() are undefined; here none does. */
enum pz_status pz_border(pz_call_fn *fn, void *ctx, struct pz_error *err) {
  struct pz_border border;
  struct pz_call call = {&border, &border.arena};
  border.raised = false;
  border.outer = innermost;
  border.err = err;
  border.newest = border.unused = NULL;
  memset(&border.error, 0, sizeof border.error);
  pz_arena_init(&border.arena);
  innermost = &border;
  if (setjmp(border.jump) == 0) fn(&call, ctx);
  return close_border(&border);
}

/* Ends the call with an error, whose place in the source and the input is `origin`. */
_Noreturn void pz_raise_from(struct pz_call *call, enum pz_status status,
                             const struct pz_origin *origin, const char *format, ...) {
  struct pz_error *error = &call->border->error;
  va_list args;
  error->status = PZ_OK; /* an error that the caller tolerated may have been stored before */
  pz_error_at(error, origin->input, origin->row, origin->column);
  va_start(args, format);
  pz_error_setv(error, status, origin->file, origin->line, format, args);
  va_end(args);
  pz_raise_again(call, error);
}

/* Ends the call with an error, which may be stored in the border already. */
_Noreturn void pz_raise_again(struct pz_call *call, const struct pz_error *error) {
  struct pz_border *border = call->border;
  assert(error->status != PZ_OK);
  assert(border == innermost && "an error may not cross an inner border");
  if (error != &border->error) border->error = *error;
  border->raised = true;
  longjmp(border->jump, 1);
}

struct pz_error *pz_call_error(struct pz_call *call) {
  return &call->border->error;
}

/* Ends the call if a function has returned an error, which is in pz_call_error(). */
void pz_must(struct pz_call *call, enum pz_status status) {
  if (status == PZ_OK) return;
  if (call->border->error.status == PZ_OK) pz_raise(call, status, "%s", pz_status_name(status));
  pz_raise_again(call, &call->border->error);
}

_Noreturn void pz_raise_memory(struct pz_call *call, const char *purpose) {
  pz_raise(call, PZ_NO_MEMORY, "out of memory%s%s", purpose ? " for " : "", purpose ? purpose : "");
}

void pz_raise_if_memory(struct pz_call *call, const struct pz_error *error) {
  if (error->status == PZ_NO_MEMORY) pz_raise_again(call, error);
}

void *pz_alloc(struct pz_call *call, size_t n, size_t bytes) {
  void *block = pz_arena_alloc(call->arena, n, bytes);
  if (!block) pz_raise_memory(call, NULL);
  return block;
}

void *pz_copy(struct pz_call *call, const void *items, size_t n, size_t bytes) {
  void *copy = pz_alloc(call, n, bytes);
  if (n && bytes) memcpy(copy, items, n * bytes);
  return copy;
}

char *pz_copy_text(struct pz_call *call, const char *text) {
  return pz_copy(call, text, strlen(text) + 1, 1);
}

char *pz_format(struct pz_call *call, const char *format, ...) {
  va_list args, args_copy;
  va_start(args, format);
  va_copy(args_copy, args);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = pz_arena_alloc(call->arena, (size_t)(n < 0 ? 0 : n) + 1, 1);
  if (text && n >= 0) vsnprintf(text, (size_t)n + 1, format, args_copy);
  va_end(args_copy);
  if (!text) pz_raise_memory(call, NULL);
  return text;
}

struct pz_call pz_call_in(const struct pz_call *call, struct pz_arena *arena) {
  return (struct pz_call){call->border, arena};
}

/* Returns the call with a new arena for intermediate data, until pz_scratch_end(). */
struct pz_call pz_scratch(struct pz_call *call) {
  struct pz_call scratch;
  pz_object_new(call, 0, &scratch);
  return scratch;
}

/* Releases the arena of a call that pz_scratch() has returned. */
void pz_scratch_end(struct pz_call *scratch) {
  /* The head of an object begins with its arena, and its contents follow the head. */
  struct pz_call call = *scratch;
  void *object = (union object_head *)(void *)scratch->arena + 1;
  pz_close(&call, object);
}

/* Registers fn(resource) to be called when the call ends. */
void pz_defer(struct pz_call *call, pz_close_fn *fn, void *resource) {
  struct pz_border *border = call->border;
  struct deferred *deferred = border->unused;
  if (deferred)
    border->unused = deferred->older;
  else
    deferred = pz_arena_alloc(&border->arena, 1, sizeof *deferred);
  if (!deferred) {
    fn(resource);
    pz_raise_memory(call, NULL);
  }
  *deferred = (struct deferred){border->newest, fn, resource};
  border->newest = deferred;
}

/* Calls the function that was deferred for a resource now, and no more when the call ends. */
void pz_close(struct pz_call *call, void *resource) {
  pz_close_fn *fn = pz_undefer(call, resource);
  if (fn) fn(resource);
}

/* Removes the newest deferred function of a resource from the list and returns it. */
pz_close_fn *pz_undefer(struct pz_call *call, const void *resource) {
  struct pz_border *border = call->border;
  struct deferred **link = &border->newest;
  while (*link && (*link)->resource != resource) link = &(*link)->older;
  struct deferred *deferred = *link;
  assert(deferred && "a resource that is closed was deferred before");
  if (!deferred) return NULL;
  *link = deferred->older;
  deferred->older = border->unused;
  border->unused = deferred;
  return deferred->fn;
}

/* Returns a zeroed object whose arena is that of *own.  It is freed when the call ends. */
void *pz_object_new(struct pz_call *call, size_t bytes, struct pz_call *own) {
  union object_head *head = pz_calloc(1, sizeof *head + bytes);
  if (!head) pz_raise_memory(call, "an object");
  pz_arena_init(&head->arena);
  pz_defer(call, pz_object_free, head + 1);
  *own = pz_call_in(call, &head->arena);
  return head + 1;
}

/* Returns the object, which now outlives the call and must be freed with pz_object_free(). */
void *pz_object_keep(struct pz_call *call, void *object) {
  pz_undefer(call, object);
  return object;
}

void pz_object_free(void *object) {
  if (!object) return;
  union object_head *head = (union object_head *)object - 1;
  pz_arena_release(&head->arena);
  pz_free(head);
}

void pz_require(struct pz_call *call, const void *given, const char *name) {
  if (!given) pz_raise(call, PZ_BAD_USE, "%s is NULL", name);
}

void pz_require_range(struct pz_call *call, const char *name, int64_t value, int64_t min,
                      int64_t max) {
  if (value < min || value > max)
    pz_raise(call, PZ_BAD_USE, "%s %" PRId64 "; accepted: %" PRId64 " to %" PRId64, name, value,
             min, max);
}

/* Copies the options of a caller, which begin with their size, over the defaults in *own. */
void pz_require_options(struct pz_call *call, void *own, size_t own_bytes, const void *given,
                        const char *default_fn) {
  size_t bytes;
  if (!given) return;
  memcpy(&bytes, given, sizeof bytes);
  if (bytes < sizeof bytes || bytes > own_bytes)
    pz_raise(call, PZ_BAD_USE,
             "options of %zu bytes; accepted: those that begin as %s(), at most %zu bytes", bytes,
             default_fn, own_bytes);
  memcpy(own, given, bytes);
  memcpy(own, &own_bytes, sizeof own_bytes);
}
