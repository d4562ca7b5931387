#include "workload/context.h"

#include <inttypes.h>

#include "core/num.h"

/* ---- which can be --------------------------------------------------------------------------- */

static enum pz_status check_heads(const char *name, const struct pz_arch *a,
                                  const struct pz_workload_options *o, struct pz_error *err) {
  const struct {
    const char *what;
    int64_t n;
  } list[] = {{"attention heads", a->heads / o->tp}, {"key/value heads", a->kv_heads / o->tp}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].n % o->cp)
      return pz_fail(err, PZ_BAD_USE,
                     "context-parallel degree %" PRId64
                     " in form all-to-all does not divide the %" PRId64
                     " %s that a device has of %s; accepted: a divisor, or form ring",
                     o->cp, list[i].n, list[i].what, name);
  return PZ_OK;
}

enum pz_status pz_context_check(const char *name, const struct pz_arch *a,
                                const struct pz_workload_options *o, struct pz_error *err) {
  if (o->cp == 1) return PZ_OK;
  if (o->attention != PZ_ATTENTION_FLASH)
    return pz_fail(err, PZ_BAD_USE,
                   "context-parallel degree %" PRId64 " with standard attention; accepted: flash",
                   o->cp);
  if (o->seq % (2 * o->cp))
    return pz_fail(err, PZ_BAD_USE,
                   "context-parallel degree %" PRId64 " with %" PRId64
                   " tokens; accepted: degrees of which twice divides them",
                   o->cp, o->seq);
  return o->cp_form == PZ_CONTEXT_ALL_TO_ALL ? check_heads(name, a, o, err) : PZ_OK;
}

bool pz_context_by_heads(const struct pz_builder *b) {
  return b->options->cp > 1 && b->options->cp_form == PZ_CONTEXT_ALL_TO_ALL;
}

int64_t pz_context_parts(const struct pz_builder *b) {
  return b->options->cp > 1 && !pz_context_by_heads(b) ? b->options->cp : 1;
}

/* ---- what it reads -------------------------------------------------------------------------- */

/* Keys of its chunk before a piece, of both pieces of a device, on average over devices. */
static int64_t chunk_keys(int64_t seq, int64_t cp, int64_t chunk) {
  int64_t sum = 0, piece = seq / (2 * cp);
  for (int64_t i = 0; i < 2 * cp; i++) sum += i * piece % chunk;
  return pz_ceil_div(sum, cp);
}

int64_t pz_context_keys(const struct pz_builder *b, const struct pz_arch *a) {
  int64_t seq = b->options->seq, more = seq;
  if (a->chunk && a->chunk < seq)
    more = chunk_keys(seq, b->options->cp, a->chunk);
  else if (a->window && a->window < seq)
    more = 2 * (a->window - 1);
  return pz_min(seq, b->part + more);
}

/* ---- operators ------------------------------------------------------------------------------ */

static uint32_t join(struct pz_builder *b, int kind, const char *name, uint32_t x,
                     struct pz_shape shape) {
  return pz_build_op(b, &(struct pz_emit){.kind = kind,
                                          .name = name,
                                          .in = {x, PZ_NONE},
                                          .shape = shape,
                                          .peers = PZ_PEERS_CONTEXT});
}

static int64_t row_width(const struct pz_builder *b, uint32_t x) {
  return pz_graph_tensor(b->graph, x)->elems / b->tokens;
}

/* Parts of other devices pass: memory holds one beside the own. */
static uint32_t gather(struct pz_builder *b, const char *name, uint32_t x, int64_t keys) {
  if (b->status != PZ_OK || x == PZ_NONE) return PZ_NONE;
  int64_t width = row_width(b, x);
  uint32_t y = join(b, PZ_OP_ALL_GATHER, name, x, PZ_SHAPE(b->options->mbs * keys, width));
  if (y == PZ_NONE) return y;
  pz_graph_tensor(b->graph, y)->held = b->options->mbs * pz_min(b->part, keys - b->part) * width;
  return y;
}

static uint32_t exchange(struct pz_builder *b, const char *name, uint32_t x, bool to_heads) {
  if (b->status != PZ_OK || x == PZ_NONE) return PZ_NONE;
  int64_t c = b->options->cp, width = row_width(b, x);
  struct pz_shape shape =
      to_heads ? PZ_SHAPE(b->tokens * c, width / c) : PZ_SHAPE(b->tokens, width);
  return join(b, PZ_OP_ALL_TO_ALL, name, x, shape);
}

void pz_context_enter(struct pz_builder *b, const struct pz_arch *a, uint32_t qkv[3]) {
  static const char *const rings[] = {"ring.query", "ring.key", "ring.value"},
                           *const heads[] = {"to_heads.query", "to_heads.key", "to_heads.value"};
  if (b->options->cp <= 1) return;
  int64_t keys = pz_context_keys(b, a);
  for (int i = 0; i < 3; i++) {
    if (pz_context_by_heads(b))
      qkv[i] = exchange(b, heads[i], qkv[i], true);
    else if (i > 0 && keys > b->part)
      qkv[i] = gather(b, rings[i], qkv[i], keys);
  }
}

uint32_t pz_context_leave(struct pz_builder *b, uint32_t context) {
  return pz_context_by_heads(b) ? exchange(b, "to_tokens.context", context, false) : context;
}
