/* phaze fields: lists the fields of the files that phaze reads (chip.json, cluster.json, space.json)
 * and of the JSON that it prints, as tables that doc/fields.md contains.
 *
 * Fields of files come from the tables of their readers (pz_file_fields()), fields of results from
 * the records that write them (report/records.h). */
#include <string.h>

#include "cli/command.h"
#include "core/alloc.h"
#include "core/text.h"
#include "report/records.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
};

static const struct settings defaults;

static const struct pz_option option_table[] = {PZ_COMMON_OPTIONS(struct settings)};

/* ---- files that are read -------------------------------------------------------------------- */

/* Returns the text of a member of a field, or "" if the field has no such member. */
static const char *field_text(const json_t *field, const char *key) {
  const char *text = json_string_value(json_object_get(field, key));
  return text ? text : "";
}

/* Prints the fields of a kind of file as a Markdown table. */
static void print_file_fields(struct pz_call *call, const char *file, bool as_json) {
  static const char *const heads[] = {"| field",   "| unit",      "| accepted",
                                      "| default", "| meaning |", NULL};
  char *text = NULL;
  json_t *field;
  size_t i;
  pz_must(call, pz_file_fields(file, &text, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  json_t *root = pz_json_read(call, file, text, strlen(text));
  if (as_json) {
    pz_command_print_json(call, json_incref(root));
    return;
  }
  struct pz_table *table = pz_table_with(call, heads);
  for (int k = 0; heads[k]; k++) pz_table_cell(table, "%s", heads[k + 1] ? "|---" : "|---|");
  json_array_foreach(json_object_get(root, "fields"), i, field) {
    pz_table_cell(table, "| `%s`", field_text(field, "field"));
    pz_table_cell(table, "| %s", field_text(field, "unit"));
    pz_table_cell(table, "| %s", field_text(field, "accepted"));
    /* The cell states the default, that the field is required, or the meaning of its absence. */
    const json_t *value = json_object_get(field, "default");
    if (json_is_number(value))
      pz_table_cell(table, "| %.15g", json_number_value(value));
    else if (json_is_boolean(value))
      pz_table_cell(table, "| %s", json_is_true(value) ? "true" : "false");
    else if (value)
      pz_table_cell(table, "| \"\"");
    else if (json_is_true(json_object_get(field, "required")))
      pz_table_cell(table, "| required");
    else
      pz_table_cell(table, "| %s", field_text(field, "absent"));
    pz_table_cell(table, "| %s |", field_text(field, "meaning"));
  }
  pz_table_print(table, 0, stdout);
}

/* ---- results that are printed ------------------------------------------------------------------ */

/* Prints the fields of a result as a Markdown table. */
static void print_schema(struct pz_call *call, struct pz_schema schema, bool as_json) {
  static const char *const heads[] = {"| field", "| type", "| unit", "| meaning |", NULL};
  if (as_json) {
    pz_command_print_json(call, pz_record_json(&pz_schema_record, &schema));
    return;
  }
  struct pz_table *table = pz_table_with(call, heads);
  for (int k = 0; heads[k]; k++) pz_table_cell(table, "%s", heads[k + 1] ? "|---" : "|---|");
  for (uint32_t i = 0; i < schema.n_rows; i++) {
    const struct pz_schema_row *row = &schema.rows[i];
    pz_table_cell(table, "| `%s`%s", row->path, row->optional ? " ?" : "");
    pz_table_cell(table, "| %s", row->type);
    pz_table_cell(table, "| %s", row->unit);
    pz_table_cell(table, "| %s |", row->meaning);
  }
  pz_table_print(table, 0, stdout);
}

/* Prints the names of all files and results. */
static void print_names(struct pz_call *call) {
  struct pz_table *files = pz_table_new(call, "file|what it describes");
  struct pz_table *results = pz_table_new(call, "result|what it describes");
  for (size_t i = 0; pz_file_names[i]; i++)
    pz_table_cells(files, "%s|%s.json", pz_file_names[i], pz_file_names[i]);
  pz_table_cells(results, "%s|%s", "plan", "Training plan: part of plan files and of results");
  for (size_t i = 0; pz_named_record_at(i); i++)
    pz_table_cells(results, "%s|%s", pz_named_record_at(i)->name, pz_named_record_at(i)->meaning);
  pz_table_print(files, 0, stdout);
  putchar('\n');
  pz_table_print(results, 0, stdout);
}

/* Returns name i of the files, then of "plan" and the results, or NULL after the last one. */
static const char *name_at(const void *ctx, size_t i) {
  (void)ctx;
  for (size_t k = 0; pz_file_names[k]; k++, i--)
    if (i == 0) return pz_file_names[k];
  if (i == 0) return "plan";
  const struct pz_named_record *record = pz_named_record_at(i - 1);
  return record ? record->name : NULL;
}

/* Prints the fields of the file or result that the argument names, or all names without one. */
static void list_fields(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *name = invocation->args[0];
  bool as_json = settings.common.json;
  if (invocation->n_args > 1) pz_command_refuse(call, invocation, "expected one NAME");
  if (invocation->n_args == 0) {
    if (as_json) pz_command_refuse(call, invocation, "--json requires a NAME");
    print_names(call);
    return;
  }
  for (size_t i = 0; pz_file_names[i]; i++) {
    if (strcmp(pz_file_names[i], name) != 0) continue;
    print_file_fields(call, name, as_json);
    return;
  }
  bool is_plan = strcmp(name, "plan") == 0;
  const struct pz_record *record = NULL;
  for (size_t i = 0; pz_named_record_at(i); i++)
    if (strcmp(pz_named_record_at(i)->name, name) == 0) record = pz_named_record_at(i)->record;
  if (is_plan || record) {
    print_schema(call, is_plan ? pz_plan_schema(call) : pz_record_schema(call, record), as_json);
    return;
  }
  char meant[160];
  pz_raise(call, PZ_BAD_USE,
           "there is no file or result '%.40s'%s; accepted: a name that 'phaze fields' lists", name,
           pz_text_meant(meant, sizeof meant, name, name_at, NULL));
}

const struct pz_command pz_cmd_fields = {
    .name = "fields",
    .synopsis = "[NAME] [--json]",
    .summary = "List the fields of files and of JSON results",
    .detail =
        "NAME is a file (chip, cluster, space) or a result; without it the names are listed.\n"
        "A field of a file has its unit, the accepted values, its default and its meaning.\n"
        "A field of a result has its type, its unit and its meaning; a question mark means\n"
        "that the field is left out where it says nothing.\n"
        "\n"
        "Examples:\n"
        "  phaze fields\n"
        "  phaze fields chip\n"
        "  phaze fields prediction\n"
        "  phaze fields plan --json\n",
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .body = list_fields,
};
