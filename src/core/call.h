/* A call: what one use of the library owns while it runs.
 *
 * An error is raised where it is found and caught at the border of the call, so that the code in
 * between reads as if nothing could fail: pz_raise() does not return, and pz_alloc() never returns
 * NULL.  The border, pz_border(), runs a function and returns its status.  Public functions, tasks
 * of the thread pool, subcommands and tests have one.  When the function ends, normally or by an
 * error, the border closes what was deferred, newest first, and releases the memory of the call.
 *
 *     static void load(struct pz_call *call, void *path) {
 *       FILE *in = fopen(path, "r");
 *       if (!in) pz_raise(call, PZ_IO, "%s: %s", (char *)path, strerror(errno));
 *       pz_defer(call, close_file, in);
 *       ...
 *     }
 *     enum pz_status pz_load(char *path, struct pz_error *err) {
 *       return pz_border(load, path, err);
 *     }
 *
 * A struct pz_call is a small value that names a border and an arena.  Functions take it as their
 * first parameter and allocate in its arena.  pz_call_in() and pz_scratch() return a call with
 * another arena, for results that live longer and for intermediate data.
 *
 * Three rules keep the jumps safe.  No error crosses a foreign frame: a callback of jansson,
 * SQLite, CBC, qsort or cffi runs its own border, stores the error, and the caller raises it again
 * after the foreign function has returned.  No error crosses a thread: each task has a border
 * (core/pool.h).  No long-lived object stores a struct pz_call, because the call ends before the
 * object.  Raising past an inner border is asserted not to happen.
 *
 * The method is that of PostgreSQL (elog.h, memory contexts) and Lua (protected calls);
 * doc/errors.md has more. */
#ifndef PZ_CORE_CALL_H
#define PZ_CORE_CALL_H

#include "core/arena.h"

struct pz_border;

struct pz_call {
  struct pz_border *border; /* receives errors and deferred functions */
  struct pz_arena *arena;   /* pz_alloc() allocates in it */
};

/* ---- borders -------------------------------------------------------------------------------- */

typedef void pz_call_fn(struct pz_call *call, void *ctx);

/* Runs fn(call, ctx) and returns PZ_OK, or the status of the error that was raised.  The error is
 * copied to *err, unless err is NULL or already holds an earlier error. */
PZ_NODISCARD enum pz_status pz_border(pz_call_fn *fn, void *ctx, struct pz_error *err);

/* ---- errors --------------------------------------------------------------------------------- */

/* Ends the call with an error: a status and a formatted message. */
#define pz_raise(call, status, ...)                                                                \
  pz_raise_from((call), (status), &(struct pz_origin){__FILE__, __LINE__, NULL, 0, 0}, __VA_ARGS__)

/* Like pz_raise(), and stores the place of the error in the input; rows, columns count from 1. */
#define pz_raise_at(call, status, input, row, column, ...)                                         \
  pz_raise_from((call), (status),                                                                  \
                &(struct pz_origin){__FILE__, __LINE__, (input), (row), (column)}, __VA_ARGS__)

/* The source line that raises an error, and the place in the input that the error is about. */
struct pz_origin {
  const char *file;
  int line;
  const char *input; /* the file that the error is about, or NULL */
  int row, column;
};
_Noreturn void pz_raise_from(struct pz_call *call, enum pz_status status,
                             const struct pz_origin *origin, const char *format, ...)
    PZ_PRINTF(4, 5);

/* Ends the call with an error that an inner border or a foreign callback stored. */
_Noreturn void pz_raise_again(struct pz_call *call, const struct pz_error *error);

/* Ends the call because memory has run out; the message names the purpose unless it is NULL. */
_Noreturn void pz_raise_memory(struct pz_call *call, const char *purpose);

/* Ends the call if an inner border has caught the error that memory ran out.  For code that
 * continues after other errors, whose result would otherwise depend on the machine's memory. */
void pz_raise_if_memory(struct pz_call *call, const struct pz_error *error);

/* Returns the error record of the call, for functions that report errors through a struct pz_error:
 * pz_must(call, pz_load(path, &model, pz_call_error(call))); */
struct pz_error *pz_call_error(struct pz_call *call);

/* Ends the call if the status is an error, which the function has stored in pz_call_error(). */
void pz_must(struct pz_call *call, enum pz_status status);

/* ---- memory --------------------------------------------------------------------------------- */

/* Returns zeroed memory for n items of `bytes` each, aligned for any type; never NULL. */
void *pz_alloc(struct pz_call *call, size_t n, size_t bytes) __attribute__((returns_nonnull));

/* Return a copy of an array or of a string, or a formatted string, in the memory of the call. */
void *pz_copy(struct pz_call *call, const void *items, size_t n, size_t bytes)
    __attribute__((returns_nonnull));
char *pz_copy_text(struct pz_call *call, const char *text) __attribute__((returns_nonnull));
char *pz_format(struct pz_call *call, const char *format, ...) PZ_PRINTF(2, 3)
    __attribute__((returns_nonnull));

/* Returns the same call with another arena, which its owner releases. */
struct pz_call pz_call_in(const struct pz_call *call, struct pz_arena *arena);

/* Returns the call with a new arena for intermediate data, which pz_scratch_end() releases. */
struct pz_call pz_scratch(struct pz_call *call);
void pz_scratch_end(struct pz_call *scratch);

/* ---- deferred functions --------------------------------------------------------------------- */

typedef void pz_close_fn(void *resource);

/* Registers fn(resource) to be called when the call ends, normally or by an error.  fn must not
 * raise.  The resource must not be a local variable, because its function has ended by then.  If
 * there is no memory to register it, fn(resource) is called at once and the error is raised. */
void pz_defer(struct pz_call *call, pz_close_fn *fn, void *resource);

/* Calls the function that was deferred for a resource now. */
void pz_close(struct pz_call *call, void *resource);

/* Drops and returns the function that was deferred for a resource, which then outlives the call. */
pz_close_fn *pz_undefer(struct pz_call *call, const void *resource);

/* ---- objects that outlive the call ---------------------------------------------------------- */

/* Returns a zeroed object with an arena of its own.  *own allocates in that arena.  The object
 * is freed when the call ends, unless pz_object_keep() hands it to the caller of the public
 * function, who frees it with pz_object_free(). */
void *pz_object_new(struct pz_call *call, size_t bytes, struct pz_call *own)
    __attribute__((returns_nonnull));
void *pz_object_keep(struct pz_call *call, void *object);
void pz_object_free(void *object); /* accepts NULL */

/* ---- arguments of public functions ---------------------------------------------------------- */

/* Raises PZ_BAD_USE if the argument `name` of a public function is NULL. */
void pz_require(struct pz_call *call, const void *given, const char *name);

/* Raises PZ_BAD_USE unless min <= value <= max. */
void pz_require_range(struct pz_call *call, const char *name, int64_t value, int64_t min,
                      int64_t max);

/* Copies the options of a caller over the defaults in *own, unless they are NULL.  Options begin
 * with their size, so that a program built with an older header, whose struct is shorter, gets
 * the defaults for the members that it does not know.  Raises PZ_BAD_USE for a struct without a
 * size or longer than own_bytes; `default_fn` names the function that returns the defaults. */
void pz_require_options(struct pz_call *call, void *own, size_t own_bytes, const void *given,
                        const char *default_fn);

#endif
