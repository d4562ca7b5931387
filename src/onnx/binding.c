#include "onnx/binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size that --dim gives to a name; 0: none. */
static int64_t asked(const struct pz_workload_options *o, const char *name) {
  size_t n = strlen(name);
  for (int i = 0; i < PZ_MOST_DIMS && o->dims[i]; i++)
    if (strncmp(o->dims[i], name, n) == 0 && o->dims[i][n] == '=')
      return strtoll(o->dims[i] + n + 1, NULL, 10);
  return 0;
}

static enum pz_status check_asked(const struct pz_onnx_graph *g,
                                  const struct pz_workload_options *o) {
  for (int i = 0; i < PZ_MOST_DIMS && o->dims[i]; i++) {
    const char *eq = strrchr(o->dims[i], '=');
    char *end = NULL;
    long long v = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || eq == o->dims[i] || end == eq + 1 || *end || v < 1 || v > PZ_ONNX_MOST_DIM)
      return pz_fail(g->err, PZ_BAD_USE,
                     "dimension '%.100s'; accepted: NAME=SIZE, the name of a symbolic dimension "
                     "or INPUT:AXIS, and an integer from 1",
                     o->dims[i]);
  }
  return PZ_OK;
}

static bool is_index(int type) {
  return type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
         type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
}

/* Size of symbolic dimension i of input v: as asked; the first one the microbatch, the second one
 * of token ids the sequence. */
static enum pz_status bind_dim(struct pz_onnx_graph *g, const struct pz_workload_options *o,
                               struct pz_onnx_value *v, int i) {
  const char *name = v->symbols[i];
  char place[256];
  snprintf(place, sizeof place, "%.200s:%d", v->name, i);
  int64_t size = asked(o, place);
  if (!size) size = asked(o, name);
  bool batch =
      o->batch_dim ? strcmp(o->batch_dim, name) == 0 || strcmp(o->batch_dim, place) == 0 : i == 0;
  if (!size && batch) size = o->mbs;
  if (!size && i == 1 && v->rank == 2 && is_index(v->type)) size = o->seq;
  if (!size)
    return pz_fail(g->err, PZ_BAD_INPUT,
                   "%s: input '%.120s' has a symbolic dimension '%.80s' (axis %d); accepted with "
                   "--dim %.80s=SIZE%s",
                   g->file, v->name, name, i, name[0] == '?' ? place : name,
                   i == 1 && v->rank == 2 ? " or --seq" : "");
  v->dim[i] = size;
  return PZ_OK;
}

/* Is the name before '=' one of an input's symbolic dimensions? */
static bool names_dim(const struct pz_onnx_graph *g, const char *text) {
  size_t n = strcspn(text, "=");
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    const struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i));
    for (int d = 0; d < v->rank && v->symbols; d++) {
      char place[256];
      if (!v->symbols[d]) continue;
      snprintf(place, sizeof place, "%.200s:%d", v->name, d);
      if (strlen(v->symbols[d]) == n && strncmp(text, v->symbols[d], n) == 0) return true;
      if (strlen(place) == n && strncmp(text, place, n) == 0) return true;
    }
  }
  return false;
}

static enum pz_status check_names(const struct pz_onnx_graph *g,
                                  const struct pz_workload_options *o) {
  for (int i = 0; i < PZ_MOST_DIMS && o->dims[i]; i++)
    if (!names_dim(g, o->dims[i]))
      return pz_fail(g->err, PZ_BAD_USE,
                     "--dim %.100s: no input of %s has a symbolic dimension of this name",
                     o->dims[i], g->file);
  return PZ_OK;
}

static enum pz_status bind_inputs(struct pz_onnx_graph *g, const struct pz_workload_options *o) {
  for (uint32_t i = 0; i < g->inputs.n; i++) {
    struct pz_onnx_value *v = pz_onnx_value(g, *pz_vec_at(&g->inputs, uint32_t, i));
    for (int d = 0; d < v->rank && !v->init; d++) {
      if (v->dim[d] >= 0) continue;
      enum pz_status status = bind_dim(g, o, v, d);
      if (status != PZ_OK) return status;
    }
    v->given = true;
  }
  return PZ_OK;
}

enum pz_status pz_onnx_bind(struct pz_onnx_graph *g, const struct pz_workload_options *o) {
  enum pz_status status = check_asked(g, o);
  if (status == PZ_OK) status = check_names(g, o);
  return status == PZ_OK ? bind_inputs(g, o) : status;
}
