/* A chip as JSON, read and written by the table of its fields. */
#include "chip/chip.h"
#include "chip/cold.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/num.h"
#include "core/text.h"

enum type {
  INT = PZ_KEY_INT,
  REAL = PZ_KEY_REAL,
  FLAG = PZ_KEY_FLAG,
  TEXT = PZ_KEY_TEXT,
  TECH = PZ_KEY_OTHER,
  EXECUTION,
  CALIBRATION,
  CALIBRATED_BY,
  PRECISIONS
};
_Static_assert((int)INT == PZ_CHIP_INTEGER && (int)TEXT == PZ_CHIP_WORD,
               "begins as enum pz_chip_kind");
enum written { ALWAYS, SET, KNOWN }; /* KNOWN: 0 is null */
enum { MUST = PZ_KEY_MUST };

static const struct field {
  struct pz_key row;
  enum written written;
} fields[] = {
#define FIELD(name, type, member, min, max, absent, written, unit, ...)                            \
  {PZ_KEY(name, type, offsetof(struct pz_chip, member), min, max, absent, unit, __VA_ARGS__),      \
   written},
#include "chip/chip_fields.def"
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* What is accepted where that is no range. */
static const char EXECUTIONS[] = "scheduled, stream or serial", CALIBRATED[] = "operators or runs",
                  PRECISION_WORDS[] = "words among bf16, fp8, fp16 and nvfp4 with a space between";

/* ---- reading -------------------------------------------------------------------------------- */

static void read_tech(struct pz_fields *f, const char *key, const char *absent,
                      enum pz_tech *tech) {
  char names[64], accepted[80];
  const char *name = pz_fields_text_or(f, key, absent);
  for (*tech = 0; *tech < PZ_TECHS; (*tech)++)
    if (strcmp(pz_tech_at(*tech)->name, name) == 0) return;
  *tech = PZ_TECH_22NM;
  snprintf(accepted, sizeof accepted, "one of %s",
           pz_text_join(names, sizeof names, pz_tech_name_at, NULL));
  pz_fields_refuse(f, key, accepted);
}

/* The place of a word in a list that ends with NULL; absent: 0. */
static int read_choice(struct pz_fields *f, const char *key, const char *const *names,
                       const char *accepted) {
  const char *name = pz_fields_text_or(f, key, names[0]);
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0) return i;
  pz_fields_refuse(f, key, accepted);
  return 0;
}

/* "fp16 bf16": words with a space between. */
static void read_precisions(struct pz_fields *f, struct pz_chip *c) {
  const char *at = pz_fields_text_or(f, "precisions", "");
  c->precisions = 0;
  while (*(at += strspn(at, " "))) {
    size_t n = strcspn(at, " ");
    int i = 0;
    while (i < PZ_PRECISIONS &&
           (strlen(pz_precision_names[i]) != n || strncmp(pz_precision_names[i], at, n) != 0))
      i++;
    if (i < PZ_PRECISIONS)
      c->precisions |= 1 << i;
    else
      pz_fields_refuse(f, "precisions", PRECISION_WORDS);
    at += n;
  }
}

static void read_field(struct pz_fields *f, const struct pz_key *x, struct pz_chip *c) {
  void *at = (char *)c + x->offset;
  switch ((enum type)x->type) {
  case INT:
  case REAL:
  case FLAG:
  case TEXT: pz_fields_read(f, x, c); break;
  case TECH: read_tech(f, x->key, x->absent == MUST ? "" : pz_tech_at(c->tech)->name, at); break;
  case EXECUTION:
    c->execution =
        (enum pz_chip_execution)read_choice(f, x->key, pz_chip_execution_names, EXECUTIONS);
    break;
  case CALIBRATION: pz_calibration_read(f, c->glb_bytes, at); break;
  case CALIBRATED_BY:
    c->calibrated_by =
        (enum pz_calibrated_by)read_choice(f, x->key, pz_calibrated_by_names, CALIBRATED);
    break;
  case PRECISIONS: read_precisions(f, c); break;
  }
}

/* What one core can draw; all of them together can draw everything. */
static void check_core_rate(struct pz_fields *f, const char *key, const struct pz_chip *c,
                            double rate, double core_rate) {
  char accepted[80];
  double least = rate / (double)pz_min(c->tensor.cores, c->vector.cores);
  bool given = f->status == PZ_OK && pz_fields_value(f, key);
  snprintf(accepted, sizeof accepted, "a number from %g to %g", least, 1e18);
  if (given && core_rate < least) pz_fields_refuse(f, key, accepted);
}

static void read_chip(struct pz_fields *f, struct pz_chip *c) {
  /* where numbers are from; what 'phaze chip --json' says besides */
  static const char *const words[] = {"sources", "derived",  "area",    "known",
                                      "bill",    "area_mm2", "dollars", "ranges"};
  (void)pz_fields_value(f, "name"); /* messages list these four first */
  (void)pz_fields_value(f, "about");
  (void)pz_fields_value(f, "tech");
  (void)pz_fields_value(f, "execution");
  for (size_t i = 0; i < FIELDS; i++) read_field(f, &fields[i].row, c);
  if (!c->vector.local_bytes) c->vector.local_bytes = pz_max(16 * c->vector.lanes, 1024);
  check_core_rate(f, "glb.core_bytes_per_s", c, c->glb_bytes_per_s, c->glb_core_bytes_per_s);
  check_core_rate(f, "hbm.core_bytes_per_s", c, pz_chip_hbm_bytes_per_s(c),
                  c->hbm.core_bytes_per_s);
  if (c->package.io_dies && pz_tech_is_library(pz_tech_at(c->package.io_tech)))
    pz_fields_refuse(f, "package.io_tech", "16nm, 7nm, 5nm or 3nm where there are I/O dies");
  pz_fields_allow(f, words, sizeof words / sizeof *words);
  bool library = f->status == PZ_OK && pz_tech_is_library(pz_tech_at(pz_chip_bill_tech(c)));
  if (f->status == PZ_OK && !library && !json_object_get(f->root, "calibration"))
    f->status = pz_chip_set_class(c, NULL, f->err);
}

/* Refuses a power limit that leaves nothing for computing on a chip whose clock follows from it (a cold chip).  The margin
 * above the static power is chosen: it covers the clock network at the lowest clock. */
static void check_watts(struct pz_fields *f, const struct pz_chip *c) {
  static const double MARGIN = 1.1;
  if (f->status != PZ_OK || !c->cold || !(c->watts > 0)) return;
  double rest = pz_chip_bill(c, PZ_BILL_LIKELY).area_mm2 * pz_tech_at(c->tech)->static_w_per_mm2;
  char accepted[80];
  snprintf(accepted, sizeof accepted, "at least %.3g, more than its area draws at rest",
           MARGIN * rest);
  if (c->watts < MARGIN * rest) pz_fields_refuse(f, "watts", accepted);
}

static void check_least(struct pz_fields *f, const char *key, int64_t value, int64_t least,
                        const char *of) {
  char accepted[80];
  snprintf(accepted, sizeof accepted, "at least the %" PRId64 " %s", least, of);
  if (f->status == PZ_OK && value < least) pz_fields_refuse(f, key, accepted);
}

static void check_buffers(struct pz_fields *f, const struct pz_chip *c) {
  const struct pz_calibration *lib = &c->calibration;
  if (f->status != PZ_OK) return;
  check_least(f, "tensor.local_bytes", c->tensor.local_bytes, pz_chip_least_local_bytes(c),
              "bytes of the smallest tile");
  check_least(f, "glb.bytes", c->glb_bytes, pz_chip_least_glb_bytes(c),
              "bytes of the smallest tile");
  check_least(f, "tensor.register_bytes", c->tensor.register_bytes,
              pz_max(c->rules.operand_bytes, c->rules.sum_bytes), "bytes of one value");
  if (lib->n_tiles)
    check_least(f, "calibration.most_tile_values", lib->most_tile_values,
                lib->tiles[0] * lib->tiles[0], "values of the smallest tile");
}

static uint64_t chip_digest(const struct pz_chip *c) {
  return pz_hash_key(c, offsetof(struct pz_chip, checked));
}

enum pz_status pz_chip_read_text(const char *name, const char *text, size_t bytes,
                                 struct pz_chip *out, struct pz_error *err) {
  return pz_chip_read_text_units(name, text, bytes, false, out, err);
}

enum pz_status pz_chip_read_text_units(const char *name, const char *text, size_t bytes,
                                       bool any_units, struct pz_chip *out, struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_need_each(err, {name, "name"}, {text, "text"});
  if (status == PZ_OK) status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields f = {.name = name, .root = root, .err = err};
  f.any_units = any_units || json_is_true(json_object_get(root, "any_units"));
  struct pz_chip chip = {0};
  read_chip(&f, &chip);
  check_buffers(&f, &chip);
  check_watts(&f, &chip);
  status = pz_fields_finish(&f);
  json_decref(root);
  if (status != PZ_OK) return status;
  *out = chip;
  out->checked = chip_digest(out);
  return PZ_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

static json_t *precisions_json(const struct pz_chip *c) {
  char text[40] = "";
  for (int i = 0; i < PZ_PRECISIONS; i++) {
    size_t n = strlen(text);
    if (c->precisions >> i & 1)
      snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", pz_precision_names[i]);
  }
  return json_string(text);
}

static json_t *field_json(const struct pz_key *x, const struct pz_chip *c) {
  const void *at = (const char *)c + x->offset;
  switch ((enum type)x->type) {
  case INT: return json_integer(*(const int64_t *)at);
  case REAL: return json_real(*(const double *)at);
  case FLAG: return json_boolean(*(const bool *)at);
  case TEXT: return json_string(at);
  case TECH: return json_string(pz_tech_at(*(const enum pz_tech *)at)->name);
  case EXECUTION: return json_string(pz_chip_execution_names[c->execution]);
  case CALIBRATION: return pz_calibration_json(at);
  case CALIBRATED_BY: return json_string(pz_calibrated_by_names[c->calibrated_by]);
  case PRECISIONS: return precisions_json(c);
  }
  return NULL;
}

/* Is the field, or all of the object it is in, left out? */
static bool is_unset(const struct field *field, const struct pz_chip *c) {
  const struct pz_key *x = &field->row;
  const void *at = (const char *)c + x->offset;
  if (strncmp(x->key, "link.", 5) == 0 && !(c->link_bytes_per_s > 0)) return true;
  if (strncmp(x->key, "package.", 8) == 0 && !c->package.dies) return true;
  if (c->cold && (x->type == CALIBRATION || x->type == CALIBRATED_BY)) return true;
  if (field->written != SET) return false;
  if (x->type == FLAG) return !*(const bool *)at;
  return x->type == REAL ? !(*(const double *)at > 0) : !*(const int *)at;
}

/* Field "a.b" into the object a.  Takes over the value.  False: out of memory. */
static bool put_field(json_t *o, const char *key, json_t *value) {
  for (const char *dot; (dot = strchr(key, '.')); key = dot + 1) {
    char group[32];
    snprintf(group, sizeof group, "%.*s", (int)(dot - key), key);
    if (!json_object_get(o, group)) json_object_set_new(o, group, json_object());
    o = json_object_get(o, group);
  }
  return json_object_set_new(o, key, value) == 0;
}

json_t *pz_chip_json(const struct pz_chip *c) {
  json_t *o = json_object();
  for (size_t i = 0; i < FIELDS; i++)
    if (!is_unset(&fields[i], c)) {
      json_t *value = field_json(&fields[i].row, c);
      if (fields[i].written == KNOWN && json_number_value(value) == 0) {
        json_decref(value);
        value = json_null();
      }
      put_field(o, fields[i].row.key, value);
    }
  return o;
}

static json_t *level_json(const struct pz_level *l) {
  json_t *o = json_pack("{s:s,s:I,s:f,s:f}", "name", l->name, "devices", (json_int_t)l->devices,
                        "bytes_per_s", l->bytes_per_s, "latency_s", l->latency_s);
  const struct pz_collective_facts *f = &l->collectives;
  if (f->efficiency > 0) json_object_set_new(o, "efficiency", json_real(f->efficiency));
  if (f->startup_s > 0) json_object_set_new(o, "startup_s", json_real(f->startup_s));
  if (f->switch_efficiency > 0)
    json_object_set_new(o, "switch_efficiency", json_real(f->switch_efficiency));
  if (l->mesh) json_object_set_new(o, "mesh", json_true());
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
  if (c->any_units) json_object_set_new(o, "any_units", json_true());
  if (*c->calibrated) json_object_set_new(o, "calibrated", json_string(c->calibrated));
  if (c->calibration_error > 0)
    json_object_set_new(o, "calibration_error", json_real(c->calibration_error));
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

enum pz_status pz_chip_check(const struct pz_chip *c, struct pz_error *err) {
  enum pz_status status = pz_need(c, "chip", err);
  if (status != PZ_OK || c->checked == chip_digest(c)) return status;
  struct pz_chip copy = *c, read;
  copy.about[0] = copy.name[0] = '\0'; /* any text will do */
  char *text = text_of(pz_chip_json(&copy));
  status = text ? pz_chip_read_text_units("chip", text, strlen(text), true, &read, err)
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

/* ---- fields for people ------------------------------------------------------------------------ */

void pz_chip_fields(json_t *list) {
  static const struct pz_key unread[] = {
      PZ_KEY("sources", PZ_KEY_OTHER, 0, 0, 0, 0, "",
             "Where the numbers are from; not read; absent: none"),
      PZ_KEY(
          "derived", PZ_KEY_OTHER, 0, 0, 0, 0, "",
          "As area, area_mm2, bill, dollars, known and ranges: printed by `phaze chip --json`, not "
          "read; absent: none"),
  };
  char techs[80];
  pz_text_join(techs, sizeof techs, pz_tech_name_at, NULL);
  for (size_t i = 0; i < FIELDS; i++) {
    const struct pz_key *x = &fields[i].row;
    pz_key_describe(x,
                    x->type == TECH            ? techs
                    : x->type == EXECUTION     ? EXECUTIONS
                    : x->type == CALIBRATION   ? "an object"
                    : x->type == CALIBRATED_BY ? CALIBRATED
                    : x->type == PRECISIONS    ? PRECISION_WORDS
                                               : NULL,
                    list);
  }
  pz_calibration_fields(list);
  for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
    pz_key_describe(&unread[i], "anything", list);
}

/* ---- single fields ---------------------------------------------------------------------------- */

/* Names as pz_chip_field lists them: the table without the calibration, then the calibration's. */
static bool field_at(size_t i, struct field *out) {
  size_t n;
  const struct pz_key *list = pz_calibration_constants(&n);
  for (size_t k = 0; k < FIELDS; k++) {
    if (fields[k].row.type == CALIBRATION || i-- > 0) continue;
    *out = fields[k];
    return true;
  }
  if (i >= n) return false;
  *out = (struct field){list[i], ALWAYS};
  out->row.offset += offsetof(struct pz_chip, calibration);
  out->row.absent = MUST;
  return true;
}

/* "calibration.kernels.KERNEL.NUMBER". */
static bool kernel_field(const struct pz_chip *c, const char *name, struct field *out) {
  static const char within[] = "calibration.kernels.";
  const char *number = strrchr(name, '.');
  char kind[sizeof c->calibration.kernels->kind];
  size_t n, begin = sizeof within - 1;
  const struct pz_key *list = pz_kernel_constants(&n);
  if (strncmp(name, within, begin) != 0 || number < name + begin ||
      number >= name + begin + sizeof kind)
    return false;
  snprintf(kind, sizeof kind, "%.*s", (int)(number - name - (ptrdiff_t)begin), name + begin);
  const struct pz_kernel *k = pz_chip_kernel(c, kind);
  for (size_t i = 0; k && i < n; i++) {
    if (strcmp(list[i].key, number + 1) != 0) continue;
    *out = (struct field){list[i], ALWAYS};
    out->row.key = name;
    out->row.offset += (size_t)((const char *)k - (const char *)c);
    out->row.absent = MUST;
    return true;
  }
  return false;
}

const char *pz_chip_field(size_t i, enum pz_chip_kind *kind) {
  struct field x;
  if (!field_at(i, &x)) return NULL;
  if (kind) *kind = x.row.type < TEXT ? (enum pz_chip_kind)x.row.type : PZ_CHIP_WORD;
  return x.row.key;
}

/* As a pz_name_at: the words or the numbers. */
static const char *name_at(const void *word, size_t i) {
  enum pz_chip_kind kind;
  const char *name;
  for (size_t k = 0; (name = pz_chip_field(k, &kind)); k++)
    if ((kind == PZ_CHIP_WORD) == *(const bool *)word && i-- == 0) return name;
  return NULL;
}

static enum pz_status find_field(const struct pz_chip *c, const char *name, bool word,
                                 struct field *out, struct pz_error *err) {
  char meant[240], all[700];
  if (!word && kernel_field(c, name, out)) return PZ_OK;
  for (size_t i = 0; field_at(i, out); i++)
    if (strcmp(out->row.key, name) == 0 && word == (out->row.type >= TEXT)) return PZ_OK;
  return pz_fail(err, PZ_BAD_INPUT, "%s: no %s '%.60s'%s; accepted: %s", c->name,
                 word ? "word" : "number", name,
                 pz_text_meant(meant, sizeof meant, name, name_at, &word),
                 pz_text_join(all, sizeof all, name_at, &word));
}

/* As the reader of files takes it.  Takes over the value; NULL: there was no memory for it. */
static enum pz_status set_field(struct pz_chip *c, const struct pz_key *x, json_t *value,
                                struct pz_error *err) {
  json_t *root = json_object();
  struct pz_fields f = {.name = c->name, .root = root, .err = err, .any_units = c->any_units};
  struct pz_chip changed = *c;
  if (!put_field(root, x->key, value))
    f.status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the chip");
  read_field(&f, x, &changed);
  json_decref(root);
  if (f.status == PZ_OK) *c = changed;
  return f.status;
}

enum pz_status pz_chip_number(const struct pz_chip *c, const char *field, double *value,
                              struct pz_error *err) {
  struct field x;
  enum pz_status status = pz_need_each(err, {c, "chip"}, {field, "field"}, {value, "value"});
  if (status == PZ_OK) status = find_field(c, field, false, &x, err);
  if (status != PZ_OK) return status;
  const void *at = (const char *)c + x.row.offset;
  *value = x.row.type == INT    ? (double)*(const int64_t *)at
           : x.row.type == REAL ? *(const double *)at
                                : *(const bool *)at;
  return PZ_OK;
}

enum pz_status pz_chip_set_number(struct pz_chip *c, const char *field, double value,
                                  struct pz_error *err) {
  struct field x;
  enum pz_status status = pz_need_each(err, {c, "chip"}, {field, "field"});
  if (status == PZ_OK) status = find_field(c, field, false, &x, err);
  if (status != PZ_OK) return status;
  if (!isfinite(value))
    return pz_fail(err, PZ_BAD_INPUT, "%s: field '%s' is %g; accepted: a finite number", c->name,
                   field, value);
  if (x.written == SET && value == 0)
    return set_field(c, &x.row, json_null(), err); /* as if absent */
  bool whole = fabs(value) < 0x1p53 && value == floor(value);
  json_t *v = x.row.type == FLAG && (value == 0 || value == 1) ? json_boolean(value == 1)
              : x.row.type == INT && whole                     ? json_integer((json_int_t)value)
                                                               : json_real(value);
  return set_field(c, &x.row, v, err);
}

enum pz_status pz_chip_word(const struct pz_chip *c, const char *field, char **word,
                            struct pz_error *err) {
  struct field x;
  enum pz_status status = pz_need_each(err, {c, "chip"}, {field, "field"}, {word, "word"});
  if (status == PZ_OK) status = find_field(c, field, true, &x, err);
  if (status != PZ_OK) return status;
  json_t *v = field_json(&x.row, c);
  char *text = v ? pz_strdup(json_string_value(v)) : NULL;
  json_decref(v);
  if (!text) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the chip");
  *word = text;
  return PZ_OK;
}

enum pz_status pz_chip_set_word(struct pz_chip *c, const char *field, const char *word,
                                struct pz_error *err) {
  struct field x;
  enum pz_status status = pz_need_each(err, {c, "chip"}, {field, "field"}, {word, "word"});
  if (status == PZ_OK) status = find_field(c, field, true, &x, err);
  if (status == PZ_OK && word[pz_text_utf8(word, strlen(word))])
    status = pz_fail(err, PZ_BAD_INPUT, "%s: field '%s' is no UTF-8", c->name, field);
  return status == PZ_OK ? set_field(c, &x.row, json_string(word), err) : status;
}
