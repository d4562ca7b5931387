/* Design spaces: pz_space_read() reads the kinds of chips (read_texts, read_array_products) and the
 * axes (read_axis), and fills what is missing from the base chip.  pz_space_chip() turns a point into
 * a chip: the base chip resized, or a plain chip, with the values of the axes. */
#include "space/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/embedded.h"
#include "core/fields.h"
#include "core/num.h"
#include "core/text.h"

/* A stack has 1,024 data lines, at 3.6 Gb/s (JEDEC JESD235D), 6.4 Gb/s (JESD238), and 7.8 Gb/s
 * (HBM3E, as B200 runs it). Its bytes are those of products: A100 80 GB, H100 and B200. */
const struct pz_hbm_generation pz_hbm_generations[PZ_HBM_GENERATIONS] = {
    {"hbm2e", 460e9, INT64_C(16) << 30},
    {"hbm3", 819e9, INT64_C(16) << 30},
    {"hbm3e", 1000e9, INT64_C(24) << 30},
};

#define AXIS(name, most, unit, about)                                                              \
  { name, "axes." name "|" name, most, unit, about }
static const struct axis {
  const char *name, *key; /* `key` is the path in files, in "axes" or beside it */
  int32_t most;
  const char *unit, *about; /* see struct pz_key */
} axes[PZ_AXES] = {
    AXIS("tensor_cores", 1 << 20, "", "Tensor cores"),
    AXIS("local_kib", 1 << 20, "KiB", "Buffer of one tensor core"),
    AXIS("vector_cores", 1 << 20, "", "Vector cores"),
    AXIS("lanes", 1 << 20, "",
         "Lanes of one vector core; with a base also \"columns\": those of the array"),
    AXIS("glb_mib", 1 << 20, "MiB", "Global buffer"),
    AXIS("glb_bytes_per_cycle", 1 << 24, "B/cycle", "Rate of the global buffer"),
    AXIS("clock_mhz", 100000, "MHz", "Clock"),
    AXIS("hbm_stacks", 1024, "", "Stacks of HBM"),
    AXIS("link_gb_per_s", 1 << 20, "1e9 B/s",
         "Rate to other devices of the node in one direction")};

const char *pz_axis_name(enum pz_axis axis) {
  return (size_t)axis < PZ_AXES ? axes[axis].name : NULL;
}

/* ---- reading axes --------------------------------------------------------------------------- */

/* A list of increasing integers from 1 to `most`. */
struct values {
  int32_t *list;
  int n;
  int32_t most;
};

/* Appends a value.  Returns false if it is out of range or not increasing, or if the list is full. */
static bool add_value(struct values *values, int64_t value) {
  int64_t least = values->n ? values->list[values->n - 1] + 1 : 1;
  if (values->n == PZ_SPACE_MOST_VALUES || value < least || value > values->most) return false;
  values->list[values->n] = (int32_t)value;
  values->n++;
  return true;
}

/* Reads the values of an axis from a range or a list, and refuses the field if they are not valid. */
static void read_values(struct pz_fields *fields, const char *key, const json_t *json,
                        struct values *values) {
  char accepted[160];
  size_t n = json_array_size(json); /* 0 if it is not an array */
  bool valid = n > 0;
  if (json_is_object(json)) {
    const json_t *from = json_object_get(json, "from"), *to = json_object_get(json, "to"),
                 *step = json_object_get(json, "step");
    int64_t first = json_integer_value(from), last = json_integer_value(to),
            by = json_integer_value(step); /* 0 if it is not an integer */
    bool has_integers = json_is_integer(from) && json_is_integer(to) && json_is_integer(step);
    bool in_range = first >= 1 && last >= first && last <= values->most;
    bool step_in_range = by >= 1 && by <= values->most;
    valid = has_integers && json_object_size(json) == 3 && in_range && step_in_range;
    for (int64_t value = first; valid && value <= last; value += by)
      valid = add_value(values, value);
  }
  for (size_t i = 0; i < n && valid; i++) {
    const json_t *item = json_array_get(json, i);
    valid = json_is_integer(item) && add_value(values, json_integer_value(item));
  }
  if (valid) return;
  snprintf(accepted, sizeof accepted,
           "1 to %d increasing integers from 1 to %d, or {\"from\", \"to\", \"step\"}",
           PZ_SPACE_MOST_VALUES, values->most);
  pz_fields_refuse(fields, key, accepted);
}

/* Reads the values of one axis.  With a base chip, it may be absent; lanes may be "columns", those
 * of the array, as also if they are absent and the axes are beside the other keys. */
static void read_axis(struct pz_fields *fields, struct pz_space *space, enum pz_axis axis) {
  const json_t *json = pz_fields_value(fields, axes[axis].key);
  const char *word = json_string_value(json);
  bool is_columns = word && strcmp(word, "columns") == 0;
  if (!json) is_columns = !json_object_get(fields->root, "axes");
  bool as_columns = is_columns && space->has_base && axis == PZ_AXIS_LANES;
  bool as_base = space->has_base && !json;
  if (as_columns || as_base) {
    space->n[axis] = 1;
    space->value[axis][0] = as_columns ? PZ_SPACE_AS_COLUMNS : PZ_SPACE_OF_BASE;
    return;
  }
  struct values values = {space->value[axis], 0, axes[axis].most};
  read_values(fields, axes[axis].key, json, &values);
  space->n[axis] = values.n;
}

/* ---- reading kinds -------------------------------------------------------------------------- */

enum { LARGEST_SIDE = 1 << 14 }; /* maximum number of rows or columns of an array */

/* Adds a technology.  Returns false if it is unknown or given twice. */
static bool add_node(struct pz_space *space, const char *name) {
  for (enum pz_tech tech = 0; name && tech < PZ_TECHS; tech++) {
    if (strcmp(pz_tech_at(tech)->name, name) != 0) continue;
    for (int i = 0; i < space->n_nodes; i++)
      if (space->node[i] == tech) return false;
    space->node[space->n_nodes++] = tech;
    return true;
  }
  return false;
}

/* Adds an array like "64x128".  Returns false if it is not valid or given twice. */
static bool add_array(struct pz_space *space, const char *text) {
  char *end;
  if (!text || *text < '1' || *text > '9' || space->n_arrays == PZ_SPACE_MOST_ARRAYS) return false;
  int64_t rows = strtol(text, &end, 10);
  if (*end != 'x' || end[1] < '1' || end[1] > '9') return false;
  int64_t cols = strtol(end + 1, &end, 10);
  if (*end || rows > LARGEST_SIDE || cols > LARGEST_SIDE) return false;
  for (int i = 0; i < space->n_arrays; i++)
    if (space->array[i].rows == rows && space->array[i].cols == cols) return false;
  space->array[space->n_arrays++] = (struct pz_array_shape){rows, cols};
  return true;
}

/* Adds a generation of HBM.  Returns false if it is unknown or given twice. */
static bool add_hbm(struct pz_space *space, const char *name) {
  for (int generation = 0; name && generation < PZ_HBM_GENERATIONS; generation++) {
    if (strcmp(pz_hbm_generations[generation].name, name) != 0) continue;
    for (int i = 0; i < space->n_hbm; i++)
      if (space->hbm[i] == generation) return false;
    space->hbm[space->n_hbm++] = generation;
    return true;
  }
  return false;
}

/* Reads a list of texts, and adds each to the space with `add`, which returns false for an invalid
 * one.  In a space with a base chip, the list may be absent. */
static void read_texts(struct pz_fields *fields, const char *key, const char *accepted,
                       struct pz_space *space, bool (*add)(struct pz_space *, const char *)) {
  const json_t *list = pz_fields_value(fields, key);
  if (space->has_base && !list) return;
  size_t n = json_array_size(list);
  bool valid = n > 0 && n <= PZ_SPACE_MOST_ARRAYS;
  for (size_t i = 0; i < n && valid; i++)
    valid = add(space, json_string_value(json_array_get(list, i)));
  if (!valid) pz_fields_refuse(fields, key, accepted);
}

/* Compares two arrays for qsort() by their units, so that neighbours in the list differ little. */
static int compare_arrays(const void *a, const void *b) {
  const struct pz_array_shape *first = a, *second = b;
  int64_t first_units = first->rows * first->cols, second_units = second->rows * second->cols;
  if (first_units != second_units) return first_units < second_units ? -1 : 1;
  return (first->rows > second->rows) - (first->rows < second->rows);
}

/* Reads axes "rows" and "cols", all products of which are arrays.  Returns false without them. */
static bool read_array_products(struct pz_fields *fields, struct pz_space *space) {
  static const char rows_key[] = "axes.rows|rows", cols_key[] = "axes.cols|cols";
  const json_t *rows_json = pz_fields_value(fields, rows_key),
               *cols_json = pz_fields_value(fields, cols_key);
  int32_t row_list[PZ_SPACE_MOST_VALUES], col_list[PZ_SPACE_MOST_VALUES];
  struct values rows = {row_list, 0, LARGEST_SIDE}, cols = {col_list, 0, LARGEST_SIDE};
  if (!rows_json && !cols_json) return false;
  read_values(fields, rows_key, rows_json, &rows);
  read_values(fields, cols_key, cols_json, &cols);
  if (rows.n * cols.n > PZ_SPACE_MOST_ARRAYS) {
    pz_fields_refuse(fields, rows_key, "at most 256 products of rows and cols");
    return true;
  }
  for (int row = 0; row < rows.n; row++)
    for (int col = 0; col < cols.n; col++)
      space->array[space->n_arrays++] = (struct pz_array_shape){rows.list[row], cols.list[col]};
  qsort(space->array, (size_t)space->n_arrays, sizeof *space->array, compare_arrays);
  return true;
}

/* ---- reading files -------------------------------------------------------------------------- */

/* Reads all fields of a space file but the base chip, which is read only when the rest is valid. */
static void read_space_fields(struct pz_fields *fields, struct pz_space *space) {
  static const char *const ignored[] = {"sources"}; /* documentation for the reader of the file */
  char names[80], nodes_accepted[160];
  json_t *axes_given = json_object_get(fields->root, "axes"), *value;
  const char *key;
  if (axes_given && !json_is_object(axes_given))
    pz_fields_refuse(fields, "axes", "an object of axes");
  /* an axis may be in "axes" or beside the other keys, but not in both places */
  json_object_foreach(axes_given, key, value) {
    if (fields->status != PZ_OK || !json_object_get(fields->root, key)) continue;
    pz_fields_refuse(fields, key, "it in \"axes\" alone, where it is given too");
  }
  pz_text_plain(pz_text_copy(space->name, sizeof space->name,
                             pz_fields_text_or(fields, "name", fields->name)));
  pz_text_copy(space->about, sizeof space->about, pz_fields_text_or(fields, "about", ""));
  /* a file with its axes beside the other keys always has a base, if only by default */
  bool has_axes_beside_keys = json_object_get(fields->root, "tensor_cores") != NULL;
  space->has_base = pz_fields_value(fields, "base") || has_axes_beside_keys;
  space->least_part = pz_fields_real_or(fields, "least_part", 0, 1, 0);
  snprintf(nodes_accepted, sizeof nodes_accepted, "a list of different ones of %s",
           pz_text_join(names, sizeof names, pz_tech_name_at, NULL));
  read_texts(fields, "nodes", nodes_accepted, space, add_node);
  read_texts(fields, "hbm", "a list of different ones of hbm2e, hbm3, hbm3e", space, add_hbm);
  if (!read_array_products(fields, space))
    read_texts(fields, "arrays", "a list of different shapes like \"64x128\", rows x columns",
               space, add_array);
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) read_axis(fields, space, axis);
  pz_fields_allow(fields, ignored, sizeof ignored / sizeof *ignored);
}

/* Reads the text of a space file into *out.  Raises an error if the space has too many chips, or no
 * buffers that are large enough for one of its arrays. */
void pz_space_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                   struct pz_space *out) {
  struct pz_fields fields = pz_fields_of(call, name, pz_json_read(call, name, text, bytes));
  struct pz_space *space = pz_alloc(call, 1, sizeof *space);
  read_space_fields(&fields, space);
  pz_fields_end(call, &fields);
  if (space->has_base) { /* what the file does not list is as in the base chip */
    pz_chip_read_base(call, &fields, "tpuv4", &space->base);
    if (!space->n_nodes) space->node[space->n_nodes++] = space->base.tech;
    if (!space->n_arrays)
      space->array[space->n_arrays++] =
          (struct pz_array_shape){space->base.tensor.rows, space->base.tensor.cols};
    if (!space->n_hbm) space->hbm[space->n_hbm++] = PZ_SPACE_OF_BASE;
  }
  double n_chips = pz_space_kinds(space); /* a double, because the product may overflow integers */
  struct pz_point largest = {0};          /* the highest value on every axis */
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
    n_chips *= space->n[axis];
    largest.at[axis] = (uint8_t)(space->n[axis] - 1);
  }
  if (!(n_chips <= 0x1p62))
    pz_raise(call, PZ_LIMIT, "%s: %.3g chips; accepted: at most 2^62", name, n_chips);
  for (; largest.kind < pz_space_kinds(space); largest.kind++) {
    /* the largest buffers must hold a tile of every array */
    struct pz_chip chip;
    pz_space_chip(space, &largest, &chip);
    int64_t local = pz_chip_least_local_bytes(&chip), glb = pz_chip_least_glb_bytes(&chip);
    if (chip.tensor.local_bytes < local || chip.glb_bytes < glb)
      pz_raise(call, PZ_BAD_INPUT,
               "%s: no buffer of the space holds a tile of an array of %lld x %lld; accepted: "
               "local_kib of %lld and glb_mib of %lld or more",
               name, (long long)chip.tensor.rows, (long long)chip.tensor.cols,
               (long long)pz_ceil_div(local, 1 << 10), (long long)pz_ceil_div(glb, 1 << 20));
  }
  *out = *space;
}

const char *pz_space_preset_name(size_t i) { return pz_embedded_name(pz_embedded_spaces, i); }

void pz_space_read_named(struct pz_call *call, const char *name, struct pz_space *out) {
  size_t bytes = 0;
  const char *text = pz_embedded_load(call, pz_embedded_spaces, "space",
                                      "a name listed by 'phaze spaces'", name, &bytes);
  pz_space_read(call, name, text, bytes, out);
}

/* Restricts the space to one of its technologies. */
void pz_space_choose_node(struct pz_call *call, struct pz_space *space, const char *node) {
  char names[120] = "";
  for (int i = 0; i < space->n_nodes; i++) {
    const char *name = pz_tech_at(space->node[i])->name;
    if (strcmp(name, node) == 0) {
      space->node[0] = space->node[i];
      space->n_nodes = 1;
      return;
    }
    size_t n = strlen(names);
    snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", name);
  }
  pz_raise(call, PZ_BAD_USE, "--node %.40s; accepted: those of the space %s, %s", node, space->name,
           names);
}

/* ---- chips ---------------------------------------------------------------------------------- */

uint32_t pz_space_kinds(const struct pz_space *space) {
  return (uint32_t)(space->n_nodes * space->n_arrays * space->n_hbm);
}

int64_t pz_space_kind_chips(const struct pz_space *space) {
  int64_t n = 1;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) n *= space->n[axis];
  return n;
}

int64_t pz_space_chips(const struct pz_space *space) {
  return pz_space_kind_chips(space) * pz_space_kinds(space);
}

/* Returns the indices of technology, array and HBM of a kind of chips. */
struct pz_kind pz_space_kind(const struct pz_space *space, uint32_t kind) {
  int k = (int)kind, node_and_array = k / space->n_hbm;
  return (struct pz_kind){node_and_array / space->n_arrays, node_and_array % space->n_arrays,
                          k % space->n_hbm};
}

/* Returns the number of a chip in the space: its kind and its indices as digits. */
uint64_t pz_space_id(const struct pz_space *space, const struct pz_point *point) {
  uint64_t id = point->kind;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++)
    id = id * (uint64_t)space->n[axis] + point->at[axis];
  return id;
}

/* Returns the chip with a number from pz_space_id(). */
struct pz_point pz_space_point(const struct pz_space *space, uint64_t id) {
  struct pz_point point = {0};
  for (int axis = PZ_AXES - 1; axis >= 0; axis--) {
    point.at[axis] = (uint8_t)(id % (uint64_t)space->n[axis]);
    id /= (uint64_t)space->n[axis];
  }
  point.kind = (uint32_t)id;
  return point;
}

/* Returns a chip of a space without a base chip, before its sizes on the axes are set. */
static struct pz_chip plain_chip(const int64_t value[PZ_AXES]) {
  enum { LANE_BYTES = 16, LEAST_LOCAL_BYTES = 1024, REGISTER_BYTES = 32 }; /* assumed */
  struct pz_chip chip = {.link_latency_s = 1e-6};
  chip.clock_hz = (double)value[PZ_AXIS_CLOCK_MHZ] * 1e6;
  chip.tensor.register_bytes = REGISTER_BYTES;
  chip.vector.local_bytes = pz_max(LANE_BYTES * value[PZ_AXIS_LANES], LEAST_LOCAL_BYTES);
  chip.rules = (struct pz_rules){.fill = true,
                                 .double_buffer = true,
                                 .vector_memory = true,
                                 .operand_bytes = 2,
                                 .sum_bytes = 4};
  return chip;
}

/* Returns the base chip with this array, these lanes and this clock.  Its buffers keep their
 * bytes per unit, and their rates keep their bytes per cycle. */
static struct pz_chip resized_base(const struct pz_space *space, const struct pz_array_shape *array,
                                   const int64_t value[PZ_AXES]) {
  struct pz_chip_size size = {
      space->base.tensor.cores, array->rows,          array->cols, space->base.vector.cores,
      space->base.vector.lanes, space->base.glb_bytes};
  struct pz_chip chip;
  if (value[PZ_AXIS_LANES] != PZ_SPACE_OF_BASE) size.lanes = value[PZ_AXIS_LANES];
  pz_chip_resize(&space->base, &size, &chip);
  if (value[PZ_AXIS_CLOCK_MHZ] > 0) chip.clock_hz = (double)value[PZ_AXIS_CLOCK_MHZ] * 1e6;
  double speedup = chip.clock_hz / space->base.clock_hz;
  chip.glb_bytes_per_s *= speedup;
  chip.glb_core_bytes_per_s *= speedup;
  chip.tensor.local_bytes_per_s *= speedup;
  chip.tensor.local_total_bytes_per_s *= speedup;
  return chip;
}

/* Sets *out to the chip at a point of the space: the base chip or a plain one, with the values of
 * the axes.  Its name is like "4x128x128-16x128-32M": tensor cores x rows x columns, vector cores x
 * lanes, and MiB of global buffer.  If the space chooses HBM or links, "-2xhbm3-100" follows. */
void pz_space_chip(const struct pz_space *space, const struct pz_point *point,
                   struct pz_chip *out) {
  int64_t value[PZ_AXES];
  struct pz_kind kind = pz_space_kind(space, point->kind);
  const struct pz_array_shape *array = &space->array[kind.array];
  const struct pz_hbm_generation *hbm =
      space->hbm[kind.hbm] == PZ_SPACE_OF_BASE ? NULL : &pz_hbm_generations[space->hbm[kind.hbm]];
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++)
    value[axis] = space->value[axis][point->at[axis]];
  if (value[PZ_AXIS_LANES] == PZ_SPACE_AS_COLUMNS) value[PZ_AXIS_LANES] = array->cols;
  struct pz_chip chip = space->has_base ? resized_base(space, array, value) : plain_chip(value);
  /* set the values of the axes; special values such as PZ_SPACE_OF_BASE are negative */
  chip.tech = space->node[kind.node];
  chip.tensor.rows = array->rows;
  chip.tensor.cols = array->cols;
  if (value[PZ_AXIS_TENSOR_CORES] > 0) chip.tensor.cores = value[PZ_AXIS_TENSOR_CORES];
  if (value[PZ_AXIS_LOCAL_KIB] > 0) chip.tensor.local_bytes = value[PZ_AXIS_LOCAL_KIB] << 10;
  if (value[PZ_AXIS_VECTOR_CORES] > 0) chip.vector.cores = value[PZ_AXIS_VECTOR_CORES];
  if (value[PZ_AXIS_LANES] > 0) chip.vector.lanes = value[PZ_AXIS_LANES];
  if (value[PZ_AXIS_GLB_MIB] > 0) chip.glb_bytes = value[PZ_AXIS_GLB_MIB] << 20;
  if (value[PZ_AXIS_GLB_BYTES_PER_CYCLE] > 0)
    chip.glb_bytes_per_s = (double)value[PZ_AXIS_GLB_BYTES_PER_CYCLE] * chip.clock_hz;
  if (value[PZ_AXIS_HBM_STACKS] > 0) chip.hbm.stacks = value[PZ_AXIS_HBM_STACKS];
  if (hbm) {
    chip.hbm.bytes_per_stack = hbm->bytes;
    chip.hbm.bytes_per_s_per_stack = hbm->bytes_per_s;
  }
  if (value[PZ_AXIS_LINK_GB_PER_S] > 0)
    chip.link_bytes_per_s = (double)value[PZ_AXIS_LINK_GB_PER_S] * 1e9;
  if (space->compiled || !space->has_base) { /* the chip runs compiled programs */
    chip.execution = PZ_CHIP_SCHEDULED;
    chip.rules.nested_mapping = true;
    chip.rules.rate_levels = true;
  }
  /* measurements of the base hold for chips of the space only if they run as the base does */
  if (space->compiled || !space->has_base || space->base.cold) {
    pz_calibration_none(chip.glb_bytes, &chip.calibration);
    chip.cold = false;
    if (space->cold) {
      chip.watts = space->watts;
      (void)pz_chip_try_class(&chip, space->constants); /* fails only without memory */
    }
  }
  int n = snprintf(chip.name, sizeof chip.name, "%lldx%lldx%lld-%lldx%lld-%lldM",
                   (long long)chip.tensor.cores, (long long)chip.tensor.rows,
                   (long long)chip.tensor.cols, (long long)chip.vector.cores,
                   (long long)chip.vector.lanes, (long long)(chip.glb_bytes >> 20));
  int64_t link_gb_per_s = value[PZ_AXIS_LINK_GB_PER_S];  /* negative: that of the base */
  bool is_cut = n <= 0 || (size_t)n >= sizeof chip.name; /* the name has no room for more */
  if (!is_cut && (hbm || link_gb_per_s > 0)) {           /* the space chooses HBM or links */
    if (link_gb_per_s <= 0) link_gb_per_s = (int64_t)(chip.link_bytes_per_s / 1e9);
    snprintf(chip.name + n, sizeof chip.name - (size_t)n, "-%lldx%s-%lld",
             (long long)chip.hbm.stacks, hbm ? hbm->name : "hbm", (long long)link_gb_per_s);
  }
  snprintf(chip.about, sizeof chip.about, "a chip of the space %s", space->name);
  *out = chip;
}

/* ---- documentation of fields ------------------------------------------------------------------ */

/* Appends the documentation of each field of a space file to the list. */
void pz_space_fields(json_t *list) {
  enum { OTHER = PZ_KEY_OTHER, MUST = PZ_KEY_MUST };
  static const struct {
    struct pz_key row;
    const char *accepted;
  } rows[] = {
      {PZ_KEY("name", PZ_KEY_TEXT, 0, 0, 0, 0, "", "Name in results; absent: the file's path"),
       NULL},
      {PZ_KEY("about", PZ_KEY_TEXT, 0, 0, 0, 0, "", "One line about the space"), NULL},
      {PZ_KEY("base", OTHER, 0, 0, 0, 0, "",
              "Chip that has what the space does not list; its area is the limit unless another is "
              "asked for; absent: none, everything is listed; with the axes beside name: tpuv4"),
       "a chip's name or file, or an object as in chip.json"},
      {PZ_KEY("least_part", PZ_KEY_REAL, 0, 0, 1, 0, "ratio",
              "Chips with several cores of both kinds take at least this part of the area limit"),
       NULL},
      {PZ_KEY("nodes", OTHER, 0, 0, 0, MUST, "",
              "Technology nodes; absent: the base's, without one required"),
       "a list of 45nm, 22nm, 16nm, 7nm, 5nm, 3nm"},
      {PZ_KEY("hbm", OTHER, 0, 0, 0, MUST, "",
              "Generations of HBM: bytes and rate of a stack; absent: the base's, without one "
              "required"),
       "a list of hbm2e, hbm3, hbm3e"},
      {PZ_KEY("arrays", OTHER, 0, 0, 0, MUST, "",
              "Shapes of the tensor cores' arrays, rows x columns; absent: rows and cols, else the "
              "base's, without one required"),
       "a list of shapes like \"64x128\""},
      {PZ_KEY("axes", OTHER, 0, 0, 0, 0, "",
              "The axes below; absent: with a base they may stand beside name"),
       "an object"},
      {PZ_KEY("axes.rows", OTHER, 0, 0, 0, 0, "",
              "In the place of arrays: all products of rows and cols; absent: arrays"),
       "VALUES to 16384"},
      {PZ_KEY("axes.cols", OTHER, 0, 0, 0, 0, "", "Columns of these arrays; absent: arrays"),
       "VALUES to 16384"},
  };
  static const struct pz_key sources =
      PZ_KEY("sources", OTHER, 0, 0, 0, 0, "", "Where the values are from; not read; absent: none");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    pz_key_describe(&rows[i].row, rows[i].accepted, list);
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    char key[40], accepted[40], about[120];
    snprintf(key, sizeof key, "axes.%s", axes[a].name);
    snprintf(accepted, sizeof accepted, "VALUES to %d", (int)axes[a].most);
    snprintf(about, sizeof about, "%s; absent: the base's, without one required", axes[a].about);
    struct pz_key x = PZ_KEY(key, OTHER, 0, 0, 0, MUST, axes[a].unit, about);
    pz_key_describe(&x, accepted, list);
  }
  pz_key_describe(&sources, "anything", list);
}

/* ---- writing -------------------------------------------------------------------------------- */

const char *pz_space_hbm_name(const struct pz_space *space, int i) {
  return space->hbm[i] == PZ_SPACE_OF_BASE ? "of the base" : pz_hbm_generations[space->hbm[i]].name;
}

/* Returns the space as JSON in the form of its file, or NULL if memory is exhausted.  Axes with the
 * value of the base chip are left out. */
json_t *pz_space_json(const struct pz_space *space) {
  json_t *nodes = json_array(), *arrays = json_array(), *hbm = json_array(),
         *axis_values = json_object();
  char text[48];
  for (int i = 0; i < space->n_nodes; i++)
    json_array_append_new(nodes, json_string(pz_tech_at(space->node[i])->name));
  for (int i = 0; i < space->n_arrays; i++) {
    snprintf(text, sizeof text, "%lldx%lld", (long long)space->array[i].rows,
             (long long)space->array[i].cols);
    json_array_append_new(arrays, json_string(text));
  }
  for (int i = 0; i < space->n_hbm; i++)
    json_array_append_new(hbm, json_string(pz_space_hbm_name(space, i)));
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++) {
    int32_t first = space->value[axis][0];
    if (first == PZ_SPACE_OF_BASE) continue;
    bool has_numbers = first != PZ_SPACE_AS_COLUMNS;
    json_t *list = has_numbers ? json_array() : json_string("columns");
    for (int i = 0; i < space->n[axis] && has_numbers; i++)
      json_array_append_new(list, json_integer(space->value[axis][i]));
    json_object_set_new(axis_values, axes[axis].name, list);
  }
  json_t *all = json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "name", space->name, "about", space->about,
                          "nodes", nodes, "arrays", arrays, "hbm", hbm, "axes", axis_values);
  int failed = all ? 0 : -1;
  if (space->hbm[0] == PZ_SPACE_OF_BASE) json_object_del(all, "hbm");
  if (space->least_part > 0)
    failed |= json_object_set_new(all, "least_part", json_real(space->least_part));
  if (space->has_base) failed |= json_object_set_new(all, "base", pz_chip_json(&space->base));
  if (!failed) return all;
  json_decref(all);
  return NULL;
}
