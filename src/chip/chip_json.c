/* A chip as JSON, in the layout that pz_chip_parse reads. */
#include "chip/chip_json.h"
#include "chip/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/calibration.h"
#include "chip/chip.h"
#include "chip/tech.h"
#include "core/alloc.h"

static json_t *tensor_json(const struct pz_tensor_cores *t) {
  return json_pack("{s:I,s:I,s:I,s:I,s:I}", "cores", (json_int_t)t->cores, "rows",
                   (json_int_t)t->rows, "cols", (json_int_t)t->cols, "local_bytes",
                   (json_int_t)t->local_bytes, "register_bytes", (json_int_t)t->register_bytes);
}

static json_t *rules_json(const struct pz_rules *r) {
  return json_pack("{s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:I,s:I}", "fill", r->fill, "duplex", r->duplex,
                   "partitioned", r->partitioned, "double_buffer", r->double_buffer,
                   "nested_mapping", r->nested_mapping, "rate_levels", r->rate_levels,
                   "vector_memory", r->vector_memory, "operand_bytes", (json_int_t)r->operand_bytes,
                   "sum_bytes", (json_int_t)r->sum_bytes);
}

static json_t *package_json(const struct pz_package *p) {
  return json_pack("{s:I,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:f}", "dies", (json_int_t)p->dies,
                   "io_dies", (json_int_t)p->io_dies, "tech", pz_tech_at(p->tech)->name, "io_tech",
                   pz_tech_at(p->io_tech)->name, "cores", (json_int_t)p->cores, "vector_cores",
                   (json_int_t)p->vector_cores, "core_bytes", (json_int_t)p->core_bytes,
                   "fp64_units", (json_int_t)p->fp64_units, "sram_bytes", (json_int_t)p->sram_bytes,
                   "stacks", (json_int_t)p->stacks, "die_bytes_per_s", p->die_bytes_per_s);
}

/* A limit that there may be. */
static void set_limit(json_t *o, const char *group, const char *key, double limit) {
  if (limit > 0) json_object_set_new(json_object_get(o, group), key, json_real(limit));
}

static json_t *precisions_json(const struct pz_chip *c) {
  char text[40] = "";
  for (int i = 0; i < PZ_PRECISIONS; i++) {
    size_t n = strlen(text);
    if (c->precisions >> i & 1)
      snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", pz_precision_names[i]);
  }
  return json_string(text);
}

json_t *pz_chip_json(const struct pz_chip *c) {
  json_t *o = json_pack("{s:s,s:s,s:s,s:f}", "name", c->name, "about", c->about, "tech",
                        pz_tech_at(c->tech)->name, "clock_hz", c->clock_hz);
  /* files without it are of scheduled chips */
  if (c->execution == PZ_CHIP_STREAM)
    json_object_set_new(o, "execution", json_string(pz_chip_execution_names[c->execution]));
  json_object_set_new(o, "tensor", tensor_json(&c->tensor));
  json_object_set_new(o, "vector",
                      json_pack("{s:I,s:I,s:I}", "cores", (json_int_t)c->vector.cores, "lanes",
                                (json_int_t)c->vector.lanes, "local_bytes",
                                (json_int_t)c->vector.local_bytes));
  json_object_set_new(
      o, "glb",
      json_pack("{s:I,s:f}", "bytes", (json_int_t)c->glb_bytes, "bytes_per_s", c->glb_bytes_per_s));
  json_object_set_new(o, "hbm",
                      json_pack("{s:I,s:I,s:f}", "stacks", (json_int_t)c->hbm.stacks,
                                "bytes_per_stack", (json_int_t)c->hbm.bytes_per_stack,
                                "bytes_per_s_per_stack", c->hbm.bytes_per_s_per_stack));
  set_limit(o, "tensor", "local_bytes_per_s", c->tensor.local_bytes_per_s);
  set_limit(o, "tensor", "local_total_bytes_per_s", c->tensor.local_total_bytes_per_s);
  set_limit(o, "glb", "core_bytes_per_s", c->glb_core_bytes_per_s);
  set_limit(o, "hbm", "core_bytes_per_s", c->hbm.core_bytes_per_s);
  json_object_set_new(o, "watts", json_real(c->watts));
  if (c->link_bytes_per_s > 0)
    json_object_set_new(
        o, "link",
        json_pack("{s:f,s:f}", "bytes_per_s", c->link_bytes_per_s, "latency_s", c->link_latency_s));
  set_limit(o, "link", "efficiency", c->collectives.efficiency);
  set_limit(o, "link", "startup_s", c->collectives.startup_s);
  set_limit(o, "link", "switch_efficiency", c->collectives.switch_efficiency);
  json_object_set_new(o, "rules", rules_json(&c->rules));
  json_object_set_new(o, "calibration", pz_calibration_json(&c->calibration));
  if (c->precisions) json_object_set_new(o, "precisions", precisions_json(c));
  if (c->package.dies) json_object_set_new(o, "package", package_json(&c->package));
  return o;
}

static json_t *level_json(const struct pz_level *l) {
  json_t *o = json_pack("{s:s,s:I,s:f,s:f}", "name", l->name, "devices", (json_int_t)l->devices,
                        "bytes_per_s", l->bytes_per_s, "latency_s", l->latency_s);
  if (!l->n_axes) return o;
  json_t *axes = json_array();
  for (int i = 0; i < l->n_axes; i++) json_array_append_new(axes, json_integer(l->axis[i]));
  json_object_set_new(o, "torus", axes);
  json_object_set_new(o, "wrap", json_integer(l->wrap));
  return o;
}

json_t *pz_cluster_json(const struct pz_cluster *c) {
  json_t *levels = json_array();
  for (int i = 0; i < c->n_levels; i++) json_array_append_new(levels, level_json(&c->level[i]));
  json_t *o = json_pack("{s:s,s:s,s:I,s:b}", "name", c->name, "about", c->about, "devices",
                        (json_int_t)c->devices, "scales", c->scales);
  if (*c->chips) json_object_set_new(o, "chips", json_string(c->chips));
  if (c->standard) json_object_set_new(o, "standard", json_true());
  json_object_set_new(o, "levels", levels);
  return o;
}

/* ---- checks of what programs pass ----------------------------------------------------------- */

/* Takes over the reference. */
static char *text_of(json_t *o) {
  char *text = o ? pz_json_dump(o, JSON_COMPACT) : NULL;
  json_decref(o);
  return text;
}

/* What has to hold so that it can be written as JSON. */
static bool is_finite(const struct pz_chip *c) {
  const double v[] = {c->clock_hz,
                      c->glb_bytes_per_s,
                      c->glb_core_bytes_per_s,
                      c->hbm.bytes_per_s_per_stack,
                      c->hbm.core_bytes_per_s,
                      c->tensor.local_bytes_per_s,
                      c->tensor.local_total_bytes_per_s,
                      c->watts,
                      c->link_bytes_per_s,
                      c->link_latency_s,
                      c->collectives.efficiency,
                      c->collectives.startup_s,
                      c->collectives.switch_efficiency,
                      c->package.die_bytes_per_s};
  for (size_t i = 0; i < sizeof v / sizeof *v; i++)
    if (!isfinite(v[i])) return false;
  return (size_t)c->tech < PZ_TECHS && (size_t)c->execution < PZ_CHIP_EXECUTIONS &&
         (size_t)c->package.tech < PZ_TECHS && (size_t)c->package.io_tech < PZ_TECHS &&
         memchr(c->name, 0, sizeof c->name) && pz_calibration_is_finite(&c->calibration);
}

enum pz_status pz_chip_check(const struct pz_chip *c, struct pz_error *err) {
  enum pz_status status = pz_need(c, "chip", err);
  if (status != PZ_OK) return status;
  if (!is_finite(c))
    return pz_fail(err, PZ_BAD_INPUT,
                   "chip: tech, a name, a list or a number is not valid; accepted: a chip made by "
                   "pz_chip_load, with fields changed");
  struct pz_chip copy = *c, read;
  copy.about[0] = copy.name[0] = '\0'; /* any text will do */
  char *text = text_of(pz_chip_json(&copy));
  status = text ? pz_chip_parse("chip", text, strlen(text), &read, err)
                : pz_fail(err, PZ_NO_MEMORY, "out of memory for the chip");
  pz_free(text);
  return status;
}

enum pz_status pz_chip_text(const struct pz_chip *c, char **text, struct pz_error *err) {
  enum pz_status status = pz_need(text, "text", err);
  if (status == PZ_OK) status = pz_chip_check(c, err);
  if (status != PZ_OK) return status;
  json_t *o = pz_chip_json(c);
  status = pz_json_text(o, text, err);
  json_decref(o);
  return status;
}

enum pz_status pz_cluster_text(const struct pz_cluster *c, char **text, struct pz_error *err) {
  enum pz_status status = pz_need(text, "text", err);
  if (status == PZ_OK) status = pz_cluster_check(c, err);
  if (status != PZ_OK) return status;
  json_t *o = pz_cluster_json(c);
  status = pz_json_text(o, text, err);
  json_decref(o);
  return status;
}
