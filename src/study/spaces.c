/* Design spaces and the fields of files, for users of the library: opens a space, describes it as
 * JSON with the number of its chips, and lists the fields that chip, cluster and space files
 * accept. */
#include <string.h>

#include "core/call.h"
#include "core/json.h"
#include "search/search.h"

struct space_opening {
  const char *name; /* name of the space, or with `from_text` of the text in messages */
  bool from_text;
  const char *text;
  size_t bytes;
  struct pz_space **out;
};

/* Reads a space by name, or from a text, into an object of its own. */
static void open_space(struct pz_call *call, void *ctx) {
  struct space_opening *opening = ctx;
  struct pz_call own;
  pz_require(call, opening->name, opening->from_text ? "name" : "space");
  if (opening->from_text) pz_require(call, opening->text, "text");
  pz_require(call, opening->out, "out");
  struct pz_space *space = pz_object_new(call, sizeof *space, &own);
  if (opening->from_text)
    pz_space_read(call, opening->name, opening->text, opening->bytes, space);
  else
    pz_space_read_named(call, opening->name, space);
  *opening->out = pz_object_keep(call, space);
}

enum pz_status pz_space_open(const char *space, struct pz_space **out, struct pz_error *err) {
  struct space_opening opening = {.name = space, .out = out};
  return pz_border(open_space, &opening, err);
}

enum pz_status pz_space_open_text(const char *name, const char *text, size_t bytes,
                                  struct pz_space **out, struct pz_error *err) {
  struct space_opening opening = {name, true, text, bytes, out};
  return pz_border(open_space, &opening, err);
}

void pz_space_close(struct pz_space *space) { pz_object_free(space); }

struct space_description {
  const struct pz_space *space;
  const char *budget;
  char **text;
};

/* Returns the JSON of a space with its number of chips and, if listable, of those in budget. */
static void describe_space(struct pz_call *call, void *ctx) {
  struct space_description *description = ctx;
  struct pz_limits limits = {.mm2 = 0};
  pz_require(call, description->space, "space");
  pz_require(call, description->text, "text");
  json_t *object = pz_json_built(call, pz_space_json(description->space));
  int64_t n_chips = pz_space_chips(description->space);
  json_object_set_new(object, "chips", json_integer(n_chips));
  pz_limits_apply_budget(call, description->space, description->budget, NULL, &limits);
  if (n_chips <= PZ_SPACE_MOST_LISTED) {
    struct pz_call work = pz_scratch(call);
    uint32_t n_within = 0;
    (void)pz_space_list_within(&work, description->space, &limits, &n_within);
    pz_scratch_end(&work);
    json_object_set_new(object, "within", json_integer(n_within));
    json_object_set_new(object, "limit_mm2", json_real(limits.mm2));
  }
  *description->text = pz_json_take(call, object);
}

enum pz_status pz_space_describe(const struct pz_space *space, const char *budget, char **text,
                                 struct pz_error *err) {
  struct space_description description = {space, budget, text};
  return pz_border(describe_space, &description, err);
}

/* ---- fields of files ------------------------------------------------------------------------ */

const char *const pz_file_names[] = {"chip", "cluster", "space", NULL};

struct field_listing {
  const char *file;
  char **text;
};

/* Lists the fields of a kind of file, one of pz_file_names. */
static void list_file_fields(struct pz_call *call, void *ctx) {
  static void (*const describe[])(json_t *) = {pz_chip_fields, pz_cluster_fields, pz_space_fields};
  struct field_listing *listing = ctx;
  pz_require(call, listing->file, "file");
  pz_require(call, listing->text, "text");
  size_t i = 0;
  while (pz_file_names[i] && strcmp(pz_file_names[i], listing->file) != 0) i++;
  if (!pz_file_names[i])
    pz_raise(call, PZ_BAD_USE, "file '%.40s'; accepted: chip, cluster or space", listing->file);
  json_t *object = pz_json_built(call, json_pack("{s:[]}", "fields"));
  describe[i](json_object_get(object, "fields"));
  *listing->text = pz_json_take(call, object);
}

enum pz_status pz_file_fields(const char *file, char **text, struct pz_error *err) {
  struct field_listing listing = {file, text};
  return pz_border(list_file_fields, &listing, err);
}
