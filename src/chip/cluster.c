/* Networks between chips: cluster.json, its checks, and the network that a plan on some devices of
 * a chip uses.
 *
 * A cluster is a list of levels from the chip outward, each of which joins groups of the level
 * inside it. find_level_fault() has the rules that a level must keep, for files and for clusters
 * that programs make. pz_network_find() chooses the cluster of a chip if the user names none. */
#include "chip/chip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chip/embedded.h"
#include "core/num.h"
#include "core/text.h"

static const struct pz_range DEVICES = {1, 1LL << 32};

enum {
  INT = PZ_KEY_INT,
  REAL = PZ_KEY_REAL,
  FLAG = PZ_KEY_FLAG,
  TEXT = PZ_KEY_TEXT,
  MUST = PZ_KEY_MUST
};
static const struct pz_key cluster_fields[] = {
#define FIELD(name, type, member, min, max, absent, unit, ...)                                     \
  PZ_KEY(name, type, offsetof(struct pz_cluster, member), min, max, absent, unit, __VA_ARGS__),
#include "chip/cluster_fields.def"
};
static const struct pz_key level_fields[] = {
#define LEVEL(name, type, member, min, max, absent, unit, ...)                                     \
  PZ_KEY(name, type, offsetof(struct pz_level, member), min, max, absent, unit, __VA_ARGS__),
#include "chip/cluster_fields.def"
};
enum { N_CLUSTER_FIELDS = sizeof cluster_fields / sizeof *cluster_fields };
enum { N_LEVEL_FIELDS = sizeof level_fields / sizeof *level_fields };

/* ---- rules ----------------------------------------------------------------------------------- */

/* Checks level i of a cluster.  Returns the name of the first field that breaks a rule, with its
 * accepted values in `accepted`, or NULL if all are valid.  Only the innermost level can be a torus
 * or a mesh, or have switches that sum.  Each outer level joins groups of the level inside it. */
static const char *find_level_fault(const struct pz_cluster *cluster, int i, char *accepted,
                                    size_t size) {
  const struct pz_level *level = &cluster->level[i], *inner = i ? level - 1 : NULL;
  const struct pz_collective_facts *facts = &level->collectives;
  pz_text_copy(accepted, size, "a number from 1 to 1e18");
  if (!(level->bytes_per_s >= 1 && level->bytes_per_s <= 1e18)) return "bytes_per_s";
  pz_text_copy(accepted, size, "a number from 0 to 1");
  if (!(level->latency_s >= 0 && level->latency_s <= 1)) return "latency_s";
  if (!(facts->efficiency >= 0 && facts->efficiency <= 1)) return "efficiency";
  if (!(facts->startup_s >= 0 && facts->startup_s <= 1)) return "startup_s";
  if (!(facts->switch_efficiency >= 0 && facts->switch_efficiency <= 1)) return "switch_efficiency";
  pz_text_copy(accepted, size, "an integer from 1 to 4294967296");
  if (level->devices < DEVICES.min || level->devices > DEVICES.max) return "devices";
  if (level->n_axes && (level->wrap < 1 || level->wrap > DEVICES.max)) return "wrap";

  int64_t product = 1; /* of the lengths of the axes, or 0 after an invalid length */
  for (int k = 0; k < level->n_axes && k < PZ_CLUSTER_MOST_AXES; k++) {
    bool fits = level->axis[k] >= 2 && level->axis[k] <= level->devices / pz_max(product, 1);
    product = fits ? product * level->axis[k] : 0;
  }
  bool is_torus_valid = level->n_axes >= 0 && level->n_axes <= PZ_CLUSTER_MOST_AXES &&
                        (!level->n_axes || product == level->devices);
  snprintf(accepted, size, "1 to %d lengths whose product is the %" PRId64 " devices",
           PZ_CLUSTER_MOST_AXES, level->devices);
  if (!is_torus_valid) return "torus";
  pz_text_copy(accepted, size, "without \"torus\"");
  if (level->mesh && level->n_axes) return "mesh";

  if (!inner) return NULL;
  pz_text_copy(accepted, size, "on the innermost level only");
  if (level->n_axes || level->mesh) return level->mesh ? "mesh" : "torus";
  if (facts->switch_efficiency > 0) return "switch_efficiency";
  pz_text_copy(accepted, size, "more than the level inside it has");
  if (level->devices <= inner->devices) return "devices";
  snprintf(accepted, size, "a multiple of the %" PRId64 " of the level inside it", inner->devices);
  if (level->devices % inner->devices) return "devices";
  snprintf(accepted, size, "at most the %g of the level inside it", inner->bytes_per_s);
  return level->bytes_per_s > inner->bytes_per_s ? "bytes_per_s" : NULL;
}

/* Refuses an inconsistent cluster.  Programs can fill in the struct themselves, so its texts may
 * lack the terminating NUL. */
void pz_cluster_check(struct pz_call *call, const struct pz_cluster *cluster) {
  pz_require(call, cluster, "cluster");
  pz_require_range(call, "levels of the cluster", cluster->n_levels, 1, PZ_CLUSTER_MOST_LEVELS);
  bool texts_end = memchr(cluster->name, 0, sizeof cluster->name) &&
                   memchr(cluster->about, 0, sizeof cluster->about) &&
                   memchr(cluster->chips, 0, sizeof cluster->chips) &&
                   memchr(cluster->calibrated, 0, sizeof cluster->calibrated);
  if (!texts_end)
    pz_raise(call, PZ_BAD_INPUT,
             "cluster: accepted: name, about, chips and calibrated that end with NUL");
  if (!(cluster->calibration_error >= 0 && cluster->calibration_error <= 10))
    pz_raise(call, PZ_BAD_INPUT, "cluster: calibration_error; accepted: 0 to 10");
  for (int i = 0; i < cluster->n_levels; i++) {
    char accepted[80];
    const char *field = find_level_fault(cluster, i, accepted, sizeof accepted);
    if (field)
      pz_raise(call, PZ_BAD_INPUT, "cluster: levels[%d]: %s; accepted: %s", i, field, accepted);
  }
  if (cluster->devices < 1 || cluster->devices > cluster->level[cluster->n_levels - 1].devices)
    pz_raise(call, PZ_BAD_INPUT,
             "cluster: %" PRId64 " devices; accepted: 1 to the devices of the last level",
             cluster->devices);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the next level from an entry of the list "levels". */
static void read_level(struct pz_fields *file, const json_t *object, struct pz_cluster *cluster) {
  char name[300], accepted[80];
  snprintf(name, sizeof name, "%.200s: levels[%d]", file->name, cluster->n_levels);
  struct pz_fields fields = {.name = name,
                             .root = object,
                             .err = file->err,
                             .status = file->status,
                             .any_units = file->any_units};
  struct pz_level *level = &cluster->level[cluster->n_levels];
  for (size_t i = 0; i < N_LEVEL_FIELDS; i++) pz_fields_read(&fields, &level_fields[i], level);
  if (!pz_fields_value(&fields, "name")) pz_text_copy(level->name, sizeof level->name, "link");
  const json_t *axes = pz_fields_value(&fields, "torus");
  size_t n_axes = json_array_size(axes);
  for (size_t i = 0; i < n_axes && i < PZ_CLUSTER_MOST_AXES; i++)
    level->axis[i] = json_integer_value(json_array_get(axes, i));
  if (axes) {
    enum { INVALID = -1 }; /* refused by find_level_fault(), which knows the accepted lengths */
    bool is_valid = n_axes >= 1 && n_axes <= PZ_CLUSTER_MOST_AXES;
    level->n_axes = is_valid ? (int)n_axes : INVALID;
  }
  if (fields.status == PZ_OK) {
    const char *fault = find_level_fault(cluster, cluster->n_levels, accepted, sizeof accepted);
    if (fault) pz_fields_refuse(&fields, fault, accepted);
  }
  cluster->n_levels++;
  file->status = pz_fields_finish(&fields);
}

/* Reads the text of a cluster.json, and checks its levels one by one.  A number far outside of the
 * usual range of its field is refused as a likely mistake of unit, unless `any_units` or the field
 * "any_units" of the file is true.  The result keeps this choice, so that it is written with
 * the cluster. */
static void read_cluster(struct pz_call *call, const char *name, const char *text, size_t bytes,
                         bool any_units, struct pz_cluster *out) {
  static const char *const ignored[] = {"sources"};
  pz_require(call, name, "name");
  pz_require(call, text, "text");
  pz_require(call, out, "out");
  json_t *root = pz_json_read(call, name, text, bytes);
  struct pz_fields file = pz_fields_of(call, name, root);
  file.any_units = any_units || json_is_true(json_object_get(root, "any_units"));
  struct pz_cluster cluster = {0};
  for (size_t i = 0; i < N_CLUSTER_FIELDS; i++) pz_fields_read(&file, &cluster_fields[i], &cluster);
  cluster.stated_devices = cluster.devices;
  cluster.any_units = file.any_units;
  pz_fields_allow(&file, ignored, 1);
  const json_t *levels = pz_fields_value(&file, "levels");
  size_t n_levels = json_array_size(levels);
  if (n_levels < 1 || n_levels > PZ_CLUSTER_MOST_LEVELS) {
    char accepted[64];
    snprintf(accepted, sizeof accepted, "an array of 1 to %d levels", PZ_CLUSTER_MOST_LEVELS);
    pz_fields_refuse(&file, "levels", accepted);
    n_levels = 0;
  }
  for (size_t i = 0; i < n_levels && file.status == PZ_OK; i++)
    read_level(&file, json_array_get(levels, i), &cluster);
  if (file.status == PZ_OK && cluster.level[cluster.n_levels - 1].devices < cluster.devices)
    pz_fields_refuse(&file, "devices", "at most the devices of the last level");
  pz_fields_end(call, &file);
  *out = cluster;
  pz_close(call, root);
}

/* Reads a preset or a file.  With any_units, numbers outside of their usual range are accepted. */
void pz_cluster_read_units(struct pz_call *call, const char *cluster, bool any_units,
                           struct pz_cluster *out) {
  size_t bytes;
  pz_require(call, cluster, "cluster");
  pz_require(call, out, "out");
  const char *text = pz_embedded_load(call, pz_embedded_clusters, "cluster", NULL, cluster, &bytes);
  read_cluster(call, cluster, text, bytes, any_units, out);
}

/* Arguments of pz_cluster_parse() and pz_cluster_load(). */
struct read_arguments {
  bool is_text; /* `text` is a cluster.json; otherwise `name` is a preset or a file */
  const char *name, *text;
  size_t bytes;
  struct pz_cluster *out;
};

/* Reads a cluster from a text, or from a preset or file (a callback of pz_border). */
static void read_in_border(struct pz_call *call, void *ctx) {
  const struct read_arguments *args = ctx;
  if (args->is_text)
    read_cluster(call, args->name, args->text, args->bytes, false, args->out);
  else
    pz_cluster_read_units(call, args->name, false, args->out);
}

enum pz_status pz_cluster_parse(const char *name, const char *text, size_t bytes,
                                struct pz_cluster *out, struct pz_error *err) {
  struct read_arguments args = {true, name, text, bytes, out};
  return pz_border(read_in_border, &args, err);
}

enum pz_status pz_cluster_load(const char *cluster, struct pz_cluster *out, struct pz_error *err) {
  struct read_arguments args = {.name = cluster, .out = out};
  return pz_border(read_in_border, &args, err);
}

/* Returns a cluster without optional fields that have no value. */
json_t *pz_cluster_json(const struct pz_cluster *cluster) {
  json_t *levels = json_array();
  for (int i = 0; i < cluster->n_levels; i++) {
    const struct pz_level *level = &cluster->level[i];
    const struct pz_collective_facts *facts = &level->collectives;
    json_t *entry =
        json_pack("{s:s,s:I,s:f,s:f}", "name", level->name, "devices", (json_int_t)level->devices,
                  "bytes_per_s", level->bytes_per_s, "latency_s", level->latency_s);
    if (facts->efficiency > 0)
      json_object_set_new(entry, "efficiency", json_real(facts->efficiency));
    if (facts->startup_s > 0) json_object_set_new(entry, "startup_s", json_real(facts->startup_s));
    if (facts->switch_efficiency > 0)
      json_object_set_new(entry, "switch_efficiency", json_real(facts->switch_efficiency));
    if (level->mesh) json_object_set_new(entry, "mesh", json_true());
    if (level->n_axes) {
      json_t *axes = json_array();
      for (int k = 0; k < level->n_axes; k++)
        json_array_append_new(axes, json_integer(level->axis[k]));
      json_object_set_new(entry, "torus", axes);
      json_object_set_new(entry, "wrap", json_integer(level->wrap));
    }
    json_array_append_new(levels, entry);
  }
  json_t *object = json_pack("{s:s,s:s,s:I,s:b}", "name", cluster->name, "about", cluster->about,
                             "devices", (json_int_t)cluster->devices, "scales", cluster->scales);
  if (*cluster->chips) json_object_set_new(object, "chips", json_string(cluster->chips));
  if (cluster->standard) json_object_set_new(object, "standard", json_true());
  if (cluster->any_units) json_object_set_new(object, "any_units", json_true());
  if (*cluster->calibrated)
    json_object_set_new(object, "calibrated", json_string(cluster->calibrated));
  if (cluster->calibration_error > 0)
    json_object_set_new(object, "calibration_error", json_real(cluster->calibration_error));
  json_object_set_new(object, "levels", levels);
  return object;
}

/* Describes every field of cluster.json for doc/fields.md. */
void pz_cluster_fields(json_t *list) {
  enum { OTHER = PZ_KEY_OTHER };
  static const struct pz_key
      levels = PZ_KEY(
          "levels", OTHER, 0, 0, 0, MUST, "",
          "The network, from the chip outward; each level joins groups of the one inside it"),
      torus = PZ_KEY("levels[].torus", OTHER, 0, 0, 0, 0, "",
                     "Innermost level: lengths of the axes of a torus, two links an axis; absent: "
                     "any device reaches any other"),
      sources = PZ_KEY("sources", OTHER, 0, 0, 0, 0, "",
                       "Where the numbers are from; not read; absent: none");
  for (size_t i = 0; i < N_CLUSTER_FIELDS; i++) pz_key_describe(&cluster_fields[i], NULL, list);
  pz_key_describe(&levels, "a list of 1 to 8 objects", list);
  for (size_t i = 0; i < N_LEVEL_FIELDS; i++) {
    struct pz_key row = level_fields[i];
    char key[40];
    snprintf(key, sizeof key, "levels[].%s", row.key);
    row.key = key;
    pz_key_describe(&row, NULL, list);
  }
  pz_key_describe(&torus, "a list of 1 to 4 lengths of 2 or more whose product is devices", list);
  pz_key_describe(&sources, "anything", list);
}

/* Arguments of pz_cluster_reach(). */
struct reach_arguments {
  struct pz_cluster *cluster;
  int64_t devices;
  const char *option; /* name of `devices` in messages, or NULL for "devices" */
};

/* Raises the number of devices of a cluster that scales (also a callback of pz_border).  The last
 * level then joins as many whole groups of the level inside it as needed. */
static void reach_devices(struct pz_call *call, void *ctx) {
  const struct reach_arguments *args = ctx;
  struct pz_cluster *cluster = args->cluster;
  int64_t devices = args->devices;
  pz_require(call, cluster, "cluster");
  pz_require_range(call, "levels of the cluster", cluster->n_levels, 1, PZ_CLUSTER_MOST_LEVELS);
  pz_require_range(call, "devices", devices, 1, DEVICES.max);
  if (devices <= cluster->devices) return;
  if (!cluster->scales)
    pz_raise(call, PZ_BAD_USE,
             "%s %" PRId64 ": cluster %s has %" PRId64 " device%s; accepted: at most %" PRId64
             ", or a cluster.json with \"scales\": true",
             args->option ? args->option : "devices", devices, cluster->name, cluster->devices,
             pz_text_s((double)cluster->devices), cluster->devices);
  struct pz_level *last = &cluster->level[cluster->n_levels - 1];
  int64_t group = cluster->n_levels > 1 ? last[-1].devices : 1; /* devices of the level inside it */
  if (last->devices < devices) last->devices = pz_ceil_div(devices, group) * group;
  cluster->devices = devices;
}

enum pz_status pz_cluster_reach(struct pz_cluster *cluster, int64_t devices, const char *option,
                                struct pz_error *err) {
  struct reach_arguments args = {cluster, devices, option};
  return pz_border(reach_devices, &args, err);
}

/* Extends a copy of a network to at least `devices` devices.  That of the caller stays
 * unchanged. */
const struct pz_cluster *pz_cluster_widen(struct pz_call *call, const struct pz_cluster *net,
                                          int64_t devices, struct pz_cluster *wide) {
  if (!net) return NULL;
  pz_cluster_check(call, net);
  *wide = *net;
  reach_devices(call, &(struct reach_arguments){wide, devices, "devices"});
  return wide;
}

/* Returns the innermost level that joins the devices.  Levels are sorted from the inside
 * outward. */
const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices) {
  int i = 0;
  while (i + 1 < net->n_levels && net->level[i].devices < devices) i++;
  return net->n_levels ? &net->level[i] : NULL;
}

/* Returns the number of devices of a node: the devices of the innermost level, or of the largest
 * level that is not the last and has at most PZ_SERVER_DEVICES of them. */
int64_t pz_cluster_node(const struct pz_cluster *cluster) {
  int n_levels =
      cluster->n_levels < PZ_CLUSTER_MOST_LEVELS ? cluster->n_levels : PZ_CLUSTER_MOST_LEVELS;
  int64_t node = cluster->level[0].devices;
  for (int i = 1; i + 1 < n_levels && cluster->level[i].devices <= PZ_SERVER_DEVICES; i++)
    node = cluster->level[i].devices;
  return node;
}

/* Returns whether a job of `devices` devices depends on the cluster, because one innermost level, for
 * which the chip's own link stands, is not enough.  On a torus or mesh, even two devices depend on it,
 * because their positions matter. */
bool pz_cluster_needed(const struct pz_cluster *cluster, int64_t devices) {
  const struct pz_level *level = &cluster->level[0];
  bool has_topology = level->n_axes || level->mesh;
  return devices > (has_topology ? 1 : level->devices);
}

/* Joins the innermost levels while they have the same rate and latency and act as one: the inner one
 * is no torus or mesh, and the outer one has no measured efficiency of its own. */
void pz_cluster_join_equal(struct pz_cluster *net) {
  struct pz_level *inner = &net->level[0], *outer = &net->level[1];
  bool has_topology = inner->n_axes || inner->mesh;
  while (net->n_levels > 1 && !has_topology) {
    bool equal = inner->bytes_per_s == outer->bytes_per_s && inner->latency_s == outer->latency_s;
    bool is_measured = outer->collectives.efficiency > 0;
    if (!equal || is_measured) return;
    inner->devices = outer->devices;
    net->n_levels--;
    memmove(outer, outer + 1, (size_t)(net->n_levels - 1) * sizeof *outer);
  }
}

/* Slows all links down.  The correction is above 1 if collectives take longer than calibrated. */
void pz_cluster_correct(struct pz_cluster *net, const struct pz_correction *correction) {
  double factor = pz_corrected(correction->collectives);
  for (int i = 0; i < net->n_levels; i++) {
    net->level[i].bytes_per_s /= factor;
    net->level[i].latency_s *= factor;
    net->level[i].collectives.startup_s *= factor;
  }
}

/* Returns facts of collectives.  Values of the chip replace values of the cluster that are 0. */
struct pz_collective_facts pz_cluster_facts(const struct pz_cluster *net,
                                            const struct pz_collective_facts *chip) {
  struct pz_collective_facts facts = net->level[0].collectives;
  if (!(facts.efficiency > 0)) facts.efficiency = chip->efficiency;
  if (!(facts.startup_s > 0)) facts.startup_s = chip->startup_s;
  if (!(facts.switch_efficiency > 0)) facts.switch_efficiency = chip->switch_efficiency;
  return facts;
}

/* ---- the cluster of a chip ------------------------------------------------------------------- */

const char *pz_cluster_preset_name(size_t i) { return pz_embedded_name(pz_embedded_clusters, i); }

/* Returns whether a cluster lists a chip.  The chips of a cluster are separated by blanks, and an
 * empty text accepts every chip. */
bool pz_cluster_has_chip(const struct pz_cluster *cluster, const char *chip) {
  char name[sizeof((struct pz_chip *)0)->name];
  pz_text_copy(name, sizeof name, chip);
  name[strcspn(name, ",")] = '\0'; /* "h100, calibrated with ..." is an h100 */
  const char *word = cluster->chips + strspn(cluster->chips, " ");
  while (*word) {
    size_t length = strcspn(word, " ");
    if (pz_text_is(word, length, name)) return true;
    word += length;
    word += strspn(word, " ");
  }
  return !*cluster->chips;
}

/* Returns the preset that is marked as standard and lists the chip. */
bool pz_cluster_standard(const char *chip, struct pz_cluster *out) {
  for (size_t i = 0; pz_cluster_preset_name(i); i++) {
    struct pz_cluster cluster;
    if (pz_cluster_load(pz_cluster_preset_name(i), &cluster, NULL) != PZ_OK) continue;
    if (!cluster.standard || !pz_cluster_has_chip(&cluster, chip)) continue;
    *out = cluster;
    return true;
  }
  return false;
}

/* Arguments of pz_network_find(). */
struct network_arguments {
  const struct pz_chip *chip;
  const struct pz_cluster *named; /* the cluster that the user named, or NULL */
  int64_t devices;
  const char *option; /* name of `devices` in messages */
  struct pz_network *out;
};

/* Finds the network between the devices of a job (a callback of pz_border): the cluster that the user
 * named, otherwise the standard cluster of the chip (a preset) if the job is larger than its innermost
 * level, otherwise the chip's own link.  A cluster is extended to the number of devices. */
static void find_network(struct pz_call *call, void *ctx) {
  const struct network_arguments *args = ctx;
  struct pz_network network = {.own_link = false};
  pz_chip_check(call, args->chip);
  pz_require(call, args->out, "out");
  const struct pz_chip *chip = args->chip;
  long long devices = (long long)args->devices;
  bool has_standard = false;
  if (args->named) {
    pz_cluster_check(call, args->named);
    network.cluster = *args->named;
  } else {
    has_standard = pz_cluster_standard(chip->name, &network.cluster);
    network.standard = has_standard && pz_cluster_needed(&network.cluster, args->devices);
    network.own_link = !network.standard;
  }
  if (network.own_link && devices > 1 && !(chip->link_bytes_per_s > 0)) {
    char list[400];
    pz_raise(call, PZ_BAD_USE,
             "%lld devices: %s has no link and stands in no known cluster; accepted: "
             "--cluster with one of %s, or the path of a cluster.json",
             devices, chip->name,
             pz_text_join(list, sizeof list, pz_embedded_name, pz_embedded_clusters));
  }
  /* Warnings: an own link stands for a large network, or the cluster has other chips. */
  bool is_unknown = network.own_link && !has_standard;
  if (is_unknown && pz_chip_built(chip) && devices > PZ_SERVER_DEVICES)
    snprintf(network.warning, sizeof network.warning,
             "no --cluster, and none is known for %s: all %lld devices are linked at the chip's "
             "own rate",
             chip->name, devices);
  if (!network.own_link) {
    reach_devices(call, &(struct reach_arguments){&network.cluster, args->devices, args->option});
    if (!pz_cluster_has_chip(&network.cluster, chip->name))
      snprintf(network.warning, sizeof network.warning, "%.60s in cluster %s, which has %s",
               chip->name, network.cluster.name, network.cluster.chips);
  }
  *args->out = network;
}

/* Finds the network between `devices` chips: the cluster `named`, or one that suits the chip if it
 * is NULL (find_network).  `option` is the name of `devices` in messages, such as that of an option
 * of the command line, or NULL for "devices". */
enum pz_status pz_network_find(const struct pz_chip *chip, const struct pz_cluster *named,
                               int64_t devices, const char *option, struct pz_network *out,
                               struct pz_error *err) {
  struct network_arguments args = {chip, named, devices, option, out};
  return pz_border(find_network, &args, err);
}

/* Makes all transfers between devices take no time.  A chip's own link is replaced by a cluster of
 * one level, because only clusters can be marked as instant. */
void pz_network_make_instant(struct pz_network *network, const struct pz_chip *chip,
                             int64_t devices) {
  struct pz_cluster *cluster = &network->cluster;
  if (network->own_link) {
    *cluster = (struct pz_cluster){.name = "link", .n_levels = 1};
    cluster->devices = pz_max(devices, 1);
    cluster->stated_devices = cluster->devices;
    cluster->level[0] = (struct pz_level){.name = "link",
                                          .devices = cluster->devices,
                                          .bytes_per_s = pz_fmax(1, chip->link_bytes_per_s)};
  }
  cluster->instant = true;
  network->warning[0] = '\0';
}
