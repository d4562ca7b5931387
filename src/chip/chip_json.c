/* chip.json, read and written by the table of its fields (chip_fields.def), and single fields by
 * name.
 *
 * pz_chip_read_json() reads all fields, checks what several fields together must satisfy, and
 * stores a digest of the chip, by which pz_chip_check() recognizes chips that nobody has changed
 * since. Programs read or change one field with pz_chip_number(), pz_chip_word() and their
 * setters. */
#include "chip/chip.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/cold.h"
#include "core/alloc.h"
#include "core/map.h"
#include "core/num.h"
#include "core/text.h"

/* Types of fields, beginning with those of core/fields.h and of the public enum pz_chip_kind. */
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

/* How a field is written: always, only if it is not 0, or always with null instead of 0. */
enum written { ALWAYS, SET, KNOWN };
enum { MUST = PZ_KEY_MUST };

struct chip_field {
  struct pz_key row;
  enum written written;
};

static const struct chip_field chip_fields[] = {
#define FIELD(name, type, member, min, max, absent, written, unit, ...)                            \
  {PZ_KEY(name, type, offsetof(struct pz_chip, member), min, max, absent, unit, __VA_ARGS__),      \
   written},
#include "chip/chip_fields.def"
};
enum { N_FIELDS = sizeof chip_fields / sizeof *chip_fields };

/* Accepted values of fields without a range. */
static const char EXECUTIONS[] = "scheduled, stream or serial", CALIBRATED[] = "operators or runs",
                  PRECISION_WORDS[] = "words among bf16, fp8, fp16 and nvfp4 with a space between";

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the name of a technology into *tech; refuses the field if the name is unknown. */
static void read_tech(struct pz_fields *file, const char *key, const char *absent,
                      enum pz_tech *tech) {
  char names[64], accepted[80];
  const char *name = pz_fields_text_or(file, key, absent);
  for (*tech = 0; *tech < PZ_TECHS; (*tech)++)
    if (strcmp(pz_tech_at(*tech)->name, name) == 0) return;
  *tech = PZ_TECH_22NM;
  snprintf(accepted, sizeof accepted, "one of %s",
           pz_text_join(names, sizeof names, pz_tech_name_at, NULL));
  pz_fields_refuse(file, key, accepted);
}

/* Returns the index of a field's word in a list that ends with NULL, or 0 if it is absent. */
static int read_choice(struct pz_fields *file, const char *key, const char *const *names,
                       const char *accepted) {
  const char *name = pz_fields_text_or(file, key, names[0]);
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0) return i;
  pz_fields_refuse(file, key, accepted);
  return 0;
}

/* Returns the set of precisions in a text like "fp16 bf16". */
static int read_precisions(struct pz_fields *file, const char *key) {
  const char *word = pz_fields_text_or(file, key, "");
  int precisions = 0;
  for (word += strspn(word, " "); *word; word += strspn(word, " ")) {
    size_t length = strcspn(word, " ");
    int i = 0;
    while (i < PZ_PRECISIONS && (strlen(pz_precision_names[i]) != length ||
                                 strncmp(pz_precision_names[i], word, length) != 0))
      i++;
    if (i < PZ_PRECISIONS)
      precisions |= 1 << i;
    else
      pz_fields_refuse(file, key, PRECISION_WORDS);
    word += length;
  }
  return precisions;
}

/* Reads one field by the type in its row of the table. */
static void read_field(struct pz_fields *file, const struct pz_key *row, struct pz_chip *chip) {
  void *member = (char *)chip + row->offset;
  const char *key = row->key;
  switch ((enum type)row->type) {
  case INT:
  case REAL:
  case FLAG:
  case TEXT: pz_fields_read(file, row, chip); break;
  case TECH:
    read_tech(file, key, row->absent == MUST ? "" : pz_tech_at(chip->tech)->name, member);
    break;
  case EXECUTION:
    chip->execution =
        (enum pz_chip_execution)read_choice(file, key, pz_chip_execution_names, EXECUTIONS);
    break;
  case CALIBRATION: pz_calibration_read(file, chip->glb_bytes, member); break;
  case CALIBRATED_BY:
    chip->calibrated_by =
        (enum pz_calibrated_by)read_choice(file, key, pz_calibrated_by_names, CALIBRATED);
    break;
  case PRECISIONS: chip->precisions = read_precisions(file, key); break;
  }
}

/* Refuses a field whose value is less than `least`, which messages call least_name. */
static void check_least(struct pz_fields *file, const char *key, int64_t value, int64_t least,
                        const char *least_name) {
  char accepted[80];
  snprintf(accepted, sizeof accepted, "at least the %" PRId64 " %s", least, least_name);
  if (file->status == PZ_OK && value < least) pz_fields_refuse(file, key, accepted);
}

/* Refuses buffers that are too small for any tile of a GEMM, and a power limit of an unmeasured
 * ("cold") chip that its static power exhausts.  The clock of such a chip follows from the limit, and
 * the margin covers the power of the clock network at the lowest clock. */
static void check_sizes(struct pz_fields *file, const struct pz_chip *chip) {
  static const double WATTS_MARGIN = 1.1;
  const struct pz_calibration *calibration = &chip->calibration;
  if (file->status != PZ_OK) return;
  check_least(file, "tensor.local_bytes", chip->tensor.local_bytes, pz_chip_least_local_bytes(chip),
              "bytes of the smallest tile");
  check_least(file, "glb.bytes", chip->glb_bytes, pz_chip_least_glb_bytes(chip),
              "bytes of the smallest tile");
  check_least(file, "tensor.register_bytes", chip->tensor.register_bytes,
              pz_max(chip->rules.operand_bytes, chip->rules.sum_bytes), "bytes of one value");
  if (calibration->n_tiles)
    check_least(file, "calibration.most_tile_values", calibration->most_tile_values,
                calibration->tiles[0] * calibration->tiles[0], "values of the smallest tile");
  if (file->status != PZ_OK || !chip->cold || !(chip->watts > 0)) return;
  double static_watts =
      pz_chip_bill(chip, PZ_BILL_LIKELY).area_mm2 * pz_tech_at(chip->tech)->static_w_per_mm2;
  char accepted[80];
  snprintf(accepted, sizeof accepted, "at least %.3g, more than its area draws at rest",
           WATTS_MARGIN * static_watts);
  if (chip->watts < WATTS_MARGIN * static_watts) pz_fields_refuse(file, "watts", accepted);
}

/* Reads a chip from JSON, and leaves *out unchanged if the object is not a valid chip. */
void pz_chip_read_json(struct pz_call *call, const char *name, const json_t *object, bool any_units,
                       struct pz_chip *out) {
  /* Sources of the numbers, and the fields that `phaze chip --json` adds, are not read. */
  static const char *const ignored[] = {"sources",  "derived", "area",   "known",       "bill",
                                        "area_mm2", "dollars", "ranges", "json_version"};
  static const char *const listed_first[] = {"name", "about", "tech", "execution"};
  struct pz_fields file = pz_fields_of(call, name, object);
  file.any_units = any_units || json_is_true(json_object_get(object, "any_units"));
  struct pz_chip chip = {0};
  char accepted[80];
  /* Messages list the accepted fields in the order of their first use: these four, then the table. */
  for (size_t i = 0; i < sizeof listed_first / sizeof *listed_first; i++)
    (void)pz_fields_value(&file, listed_first[i]);
  for (size_t i = 0; i < N_FIELDS; i++) read_field(&file, &chip_fields[i].row, &chip);
  /* By default, the buffer of a vector core has 16 bytes for each lane. */
  if (!chip.vector.local_bytes) chip.vector.local_bytes = pz_max(16 * chip.vector.lanes, 1024);
  /* Check: all cores together must be able to draw the full rates of the global buffer and of HBM. */
  const struct {
    const char *key;
    double rate, core_rate;
  } rates[] = {{"glb.core_bytes_per_s", chip.glb_bytes_per_s, chip.glb_core_bytes_per_s},
               {"hbm.core_bytes_per_s", pz_chip_hbm_bytes_per_s(&chip), chip.hbm.core_bytes_per_s}};
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    double least = rates[i].rate / (double)pz_min(chip.tensor.cores, chip.vector.cores);
    bool is_given = file.status == PZ_OK && pz_fields_value(&file, rates[i].key);
    snprintf(accepted, sizeof accepted, "a number from %g to %g", least, 1e18);
    if (is_given && rates[i].core_rate < least) pz_fields_refuse(&file, rates[i].key, accepted);
  }
  if (chip.package.io_dies && pz_tech_is_library(pz_tech_at(chip.package.io_tech)))
    pz_fields_refuse(&file, "package.io_tech", "16nm, 7nm, 5nm or 3nm where there are I/O dies");
  pz_fields_allow(&file, ignored, sizeof ignored / sizeof *ignored);
  /* A chip of a real technology without a calibration is unmeasured ("cold"): its class gives one. */
  bool is_library = pz_tech_is_library(pz_tech_at(pz_chip_bill_tech(&chip)));
  bool is_cold = file.status == PZ_OK && !is_library && !json_object_get(file.root, "calibration");
  if (is_cold) pz_chip_set_class(call, &chip, NULL);
  check_sizes(&file, &chip);
  pz_fields_end(call, &file);
  *out = chip;
  out->checked = pz_hash_key(out, offsetof(struct pz_chip, checked));
}

void pz_chip_read_text(struct pz_call *call, const char *name, const char *text, size_t bytes,
                       bool any_units, struct pz_chip *out) {
  pz_require(call, name, "name");
  pz_require(call, text, "text");
  json_t *object = pz_json_read(call, name, text, bytes);
  pz_chip_read_json(call, name, object, any_units, out);
  pz_close(call, object);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns the value of one field as JSON. */
static json_t *field_json(const struct pz_key *row, const struct pz_chip *chip) {
  const void *member = (const char *)chip + row->offset;
  char precisions[40] = ""; /* a text like "fp16 bf16" */
  size_t used = 0;
  for (int i = 0; i < PZ_PRECISIONS && row->type == PRECISIONS; i++)
    if (chip->precisions >> i & 1)
      used += (size_t)snprintf(precisions + used, sizeof precisions - used, "%s%s", used ? " " : "",
                               pz_precision_names[i]);
  switch ((enum type)row->type) {
  case INT: return json_integer(*(const int64_t *)member);
  case REAL: return json_real(*(const double *)member);
  case FLAG: return json_boolean(*(const bool *)member);
  case TEXT: return json_string(member);
  case TECH: return json_string(pz_tech_at(*(const enum pz_tech *)member)->name);
  case EXECUTION: return json_string(pz_chip_execution_names[chip->execution]);
  case CALIBRATION: return pz_calibration_json(member);
  case CALIBRATED_BY: return json_string(pz_calibrated_by_names[chip->calibrated_by]);
  case PRECISIONS: return json_string(precisions);
  }
  return NULL;
}

/* Sets field "a.b" in the object "a" of `object`.  Steals the reference to the value. */
static void set_field_json(json_t *object, const char *key, json_t *value) {
  for (const char *dot = strchr(key, '.'); dot; dot = strchr(key, '.')) {
    char group[32];
    snprintf(group, sizeof group, "%.*s", (int)(dot - key), key);
    if (!json_object_get(object, group)) json_object_set_new(object, group, json_object());
    object = json_object_get(object, group);
    key = dot + 1;
  }
  json_object_set_new(object, key, value);
}

/* Returns a chip without fields that do not apply to it and optional fields without a value. */
json_t *pz_chip_json(const struct pz_chip *chip) {
  json_t *object = json_object();
  for (size_t i = 0; i < N_FIELDS; i++) {
    const struct pz_key *row = &chip_fields[i].row;
    bool is_calibration = row->type == CALIBRATION || row->type == CALIBRATED_BY;
    bool is_link = strncmp(row->key, "link.", 5) == 0;
    bool is_package = strncmp(row->key, "package.", 8) == 0;
    if (is_link && !(chip->link_bytes_per_s > 0)) continue;
    if ((is_package && !chip->package.dies) || (is_calibration && chip->cold)) continue;
    if (chip_fields[i].written == SET) {
      const void *member = (const char *)chip + row->offset;
      bool has_value = false;
      if (row->type == FLAG)
        has_value = *(const bool *)member;
      else if (row->type == REAL)
        has_value = *(const double *)member > 0;
      else if (row->type == INT)
        has_value = *(const int64_t *)member != 0;
      else
        has_value = *(const int *)member != 0; /* an enum whose first value is the default */
      if (!has_value) continue;
    }
    json_t *value = field_json(row, chip);
    if (chip_fields[i].written == KNOWN && json_number_value(value) == 0) {
      json_decref(value);
      value = json_null();
    }
    set_field_json(object, row->key, value);
  }
  return object;
}

/* Checks a chip that a program may have changed, which its digest shows.  A changed chip is written
 * as JSON and read again, which applies the rules of files. */
void pz_chip_check(struct pz_call *call, const struct pz_chip *chip) {
  pz_require(call, chip, "chip");
  if (chip->checked == pz_hash_key(chip, offsetof(struct pz_chip, checked))) return;
  struct pz_chip copy = *chip, read;
  copy.name[0] = '\0'; /* name and description may be any text */
  copy.about[0] = '\0';
  json_t *object = pz_json_built(call, pz_chip_json(&copy));
  pz_chip_read_json(call, "chip", object, true, &read);
  pz_close(call, object);
}

/* Arguments of the functions that return a description as text. */
struct text_arguments {
  enum { CHIP, BILL, CLUSTER } content; /* `chip`, its cost breakdown, or `cluster` */
  const struct pz_chip *chip;
  const struct pz_cluster *cluster;
  char **text;
};

/* Writes a description as JSON (a callback of pz_border).  Chips and clusters are checked
 * before. */
static void write_text(struct pz_call *call, void *ctx) {
  const struct text_arguments *args = ctx;
  if (args->content == BILL) pz_require(call, args->chip, "chip");
  pz_require(call, args->text, "text");
  if (args->content == CHIP) pz_chip_check(call, args->chip);
  if (args->content == CLUSTER) pz_cluster_check(call, args->cluster);
  json_t *object = NULL;
  switch (args->content) {
  case CHIP: object = pz_chip_json(args->chip); break;
  case BILL: object = pz_bill_json(args->chip); break;
  case CLUSTER: object = pz_cluster_json(args->cluster); break;
  }
  struct pz_buffer *buffer = pz_buffer_new(call);
  pz_json_print(call, buffer, pz_json_built(call, object));
  *args->text = pz_buffer_take(call, buffer);
}

/* Sets *text to a chip as JSON, which the caller frees.  pz_border() runs write_text() and returns
 * the status of an error that it raises. */
enum pz_status pz_chip_text(const struct pz_chip *chip, char **text, struct pz_error *err) {
  struct text_arguments args = {.content = CHIP, .chip = chip, .text = text};
  return pz_border(write_text, &args, err);
}

/* Like pz_chip_text(), but with the cost breakdown of the chip. */
enum pz_status pz_bill_text(const struct pz_chip *chip, char **text, struct pz_error *err) {
  struct text_arguments args = {.content = BILL, .chip = chip, .text = text};
  return pz_border(write_text, &args, err);
}

/* Like pz_chip_text(), but with a cluster. */
enum pz_status pz_cluster_text(const struct pz_cluster *cluster, char **text,
                               struct pz_error *err) {
  struct text_arguments args = {.content = CLUSTER, .cluster = cluster, .text = text};
  return pz_border(write_text, &args, err);
}

/* Describes every field of chip.json for doc/fields.md, including those that are not read. */
void pz_chip_fields(json_t *list) {
  static const struct pz_key unread[] = {
      PZ_KEY("sources", PZ_KEY_OTHER, 0, 0, 0, 0, "",
             "Where the numbers are from; not read; absent: none"),
      PZ_KEY("derived", PZ_KEY_OTHER, 0, 0, 0, 0, "",
             "As area, area_mm2, bill, dollars, json_version, known and ranges: printed by `phaze "
             "chip --json`, not read; absent: none"),
  };
  char techs[80];
  pz_text_join(techs, sizeof techs, pz_tech_name_at, NULL);
  const char *const accepted[] = {[TECH] = techs,
                                  [EXECUTION] = EXECUTIONS,
                                  [CALIBRATION] = "an object",
                                  [CALIBRATED_BY] = CALIBRATED,
                                  [PRECISIONS] = PRECISION_WORDS};
  for (size_t i = 0; i < N_FIELDS; i++)
    pz_key_describe(&chip_fields[i].row, accepted[chip_fields[i].row.type], list);
  pz_calibration_fields(list);
  for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
    pz_key_describe(&unread[i], "anything", list);
}

/* ---- single fields --------------------------------------------------------------------------- */

/* Finds the field with index i of those that programs can read and change: first the fields of the
 * table without the calibration, then the numbers of the calibration.  Returns false after the
 * last. */
static bool field_at(size_t i, struct chip_field *out) {
  size_t n_calibration, counted = 0;
  const struct pz_key *calibration = pz_calibration_constants(&n_calibration);
  for (size_t k = 0; k < N_FIELDS; k++) {
    if (chip_fields[k].row.type == CALIBRATION) continue;
    if (counted == i) {
      *out = chip_fields[k];
      return true;
    }
    counted++;
  }
  if (i - counted >= n_calibration) return false;
  *out = (struct chip_field){calibration[i - counted], ALWAYS};
  out->row.offset += offsetof(struct pz_chip, calibration);
  out->row.absent = MUST;
  return true;
}

/* Finds a field such as "calibration.kernels.softmax.row_s" of a chip that has this kernel. */
static bool find_kernel_field(const struct pz_chip *chip, const char *name,
                              struct chip_field *out) {
  static const char prefix[] = "calibration.kernels.";
  char kind[sizeof chip->calibration.kernels->kind];
  size_t n_numbers, prefix_length = sizeof prefix - 1;
  const struct pz_key *numbers = pz_kernel_constants(&n_numbers);
  const char *dot = strrchr(name, '.'), *kernel_name = name + prefix_length;
  bool has_prefix = strncmp(name, prefix, prefix_length) == 0;
  if (!has_prefix || dot < kernel_name || dot >= kernel_name + sizeof kind) return false;
  snprintf(kind, sizeof kind, "%.*s", (int)(dot - kernel_name), kernel_name);
  const struct pz_kernel *kernel = pz_chip_kernel(chip, kind);
  for (size_t i = 0; kernel && i < n_numbers; i++) {
    if (strcmp(numbers[i].key, dot + 1) != 0) continue;
    *out = (struct chip_field){numbers[i], ALWAYS};
    out->row.key = name;
    out->row.offset += (size_t)((const char *)kernel - (const char *)chip);
    out->row.absent = MUST;
    return true;
  }
  return false;
}

/* Returns the name of field i that programs can read and change, or NULL after the last one. */
const char *pz_chip_field(size_t i, enum pz_chip_kind *kind) {
  struct chip_field field;
  if (!field_at(i, &field)) return NULL;
  if (kind) *kind = field.row.type < TEXT ? (enum pz_chip_kind)field.row.type : PZ_CHIP_WORD;
  return field.row.key;
}

/* Returns the name of the field with index i among those that have a word as their value, or a number
 * if *is_word is false (a pz_name_at).  Returns NULL after the last. */
static const char *name_at(const void *is_word, size_t i) {
  enum pz_chip_kind kind;
  const char *name = pz_chip_field(0, &kind);
  size_t n_matches = 0;
  for (size_t k = 1; name; k++) {
    bool matches = (kind == PZ_CHIP_WORD) == *(const bool *)is_word;
    if (matches && n_matches == i) return name;
    n_matches += matches;
    name = pz_chip_field(k, &kind);
  }
  return NULL;
}

/* Arguments of the functions by which a program reads or changes one field. */
struct field_arguments {
  const struct pz_chip *chip;
  struct pz_chip *changed; /* the same chip, or NULL if the field is only read */
  const char *name;        /* of the field, such as "tensor.cores" */
  bool is_word;            /* the field is a word and not a number */
  const char *word;        /* new value of a word */
  double number;           /* new value of a number */
  char **word_out;         /* receives the value of a word */
  double *number_out;      /* receives the value of a number */
};

/* Returns the field that args->name names, or raises an error that lists all words or numbers. */
static struct chip_field find_field(struct pz_call *call, const struct field_arguments *args) {
  bool is_word = args->is_word;
  struct chip_field field;
  char suggestion[240], names[700];
  pz_require(call, args->chip, "chip");
  pz_require(call, args->name, "field");
  if (!is_word && find_kernel_field(args->chip, args->name, &field)) return field;
  for (size_t i = 0; field_at(i, &field); i++)
    if (strcmp(field.row.key, args->name) == 0 && is_word == (field.row.type >= TEXT)) return field;
  pz_raise(call, PZ_BAD_INPUT, "%s: no %s '%.60s'%s; accepted: %s", args->chip->name,
           is_word ? "word" : "number", args->name,
           pz_text_meant(suggestion, sizeof suggestion, args->name, name_at, &is_word),
           pz_text_join(names, sizeof names, name_at, &is_word));
}

/* Returns the value of a field (a callback of pz_border). */
static void get_field(struct pz_call *call, void *ctx) {
  const struct field_arguments *args = ctx;
  if (args->is_word)
    pz_require(call, args->word_out, "word");
  else
    pz_require(call, args->number_out, "value");
  struct chip_field field = find_field(call, args);
  const void *member = (const char *)args->chip + field.row.offset;
  if (args->is_word) {
    const json_t *value = pz_json_built(call, field_json(&field.row, args->chip));
    char *word = pz_strdup(json_string_value(value));
    if (!word) pz_raise_memory(call, "the chip");
    *args->word_out = word;
  } else if (field.row.type == INT) {
    *args->number_out = (double)*(const int64_t *)member;
  } else if (field.row.type == REAL) {
    *args->number_out = *(const double *)member;
  } else {
    *args->number_out = *(const bool *)member;
  }
}

/* Sets *value to a number of a chip by the name of its field, unless get_field() raises an error,
 * whose status pz_border() returns. */
enum pz_status pz_chip_number(const struct pz_chip *chip, const char *field, double *value,
                              struct pz_error *err) {
  struct field_arguments args = {.chip = chip, .name = field, .number_out = value};
  return pz_border(get_field, &args, err);
}

/* Like pz_chip_number(), but the field is a word, which the caller frees. */
enum pz_status pz_chip_word(const struct pz_chip *chip, const char *field, char **word,
                            struct pz_error *err) {
  struct field_arguments args = {.chip = chip, .name = field, .is_word = true, .word_out = word};
  return pz_border(get_field, &args, err);
}

/* Sets a field to a value, which is checked like that of a file (a callback of pz_border).  In an
 * optional field, the number 0 stands for its absence. */
static void set_field(struct pz_call *call, void *ctx) {
  const struct field_arguments *args = ctx;
  double number = args->number;
  if (args->is_word) pz_require(call, args->word, "word");
  struct chip_field field = find_field(call, args);
  if (args->is_word && args->word[pz_text_utf8(args->word, strlen(args->word))])
    pz_raise(call, PZ_BAD_INPUT, "%s: field '%s' is no UTF-8", args->chip->name, args->name);
  if (!isfinite(number))
    pz_raise(call, PZ_BAD_INPUT, "%s: field '%s' is %g; accepted: a finite number",
             args->chip->name, args->name, number);
  bool is_whole = fabs(number) < 0x1p53 && number == floor(number);
  json_t *value = NULL;
  if (args->is_word)
    value = json_string(args->word);
  else if (field.written == SET && number == 0)
    value = json_null();
  else if (field.row.type == FLAG && (number == 0 || number == 1))
    value = json_boolean(number == 1);
  else if (field.row.type == INT && is_whole)
    value = json_integer((json_int_t)number);
  else
    value = json_real(number);
  json_t *root = json_object();
  set_field_json(root, field.row.key, value);
  struct pz_fields file = pz_fields_of(call, args->chip->name, pz_json_built(call, root));
  file.any_units = args->chip->any_units;
  struct pz_chip changed = *args->chip;
  read_field(&file, &field.row, &changed);
  pz_must(call, file.status);
  *args->changed = changed;
}

/* Changes a number of a chip by the name of its field.  pz_border() runs set_field() and returns
 * PZ_OK, or the status of an error that set_field() raises, which leaves the chip unchanged.  The
 * arguments hold the chip twice: to be read, as in pz_chip_number(), and to be changed. */
enum pz_status pz_chip_set_number(struct pz_chip *chip, const char *field, double value,
                                  struct pz_error *err) {
  struct field_arguments args = {.chip = chip, .changed = chip, .name = field, .number = value};
  return pz_border(set_field, &args, err);
}

/* Like pz_chip_set_number(), but the field is a word. */
enum pz_status pz_chip_set_word(struct pz_chip *chip, const char *field, const char *word,
                                struct pz_error *err) {
  struct field_arguments args = {
      .chip = chip, .changed = chip, .name = field, .is_word = true, .word = word};
  return pz_border(set_field, &args, err);
}
