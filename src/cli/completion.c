/* The completion script is made from the tables of options.  It completes the value of an option (a
 * case for each "COMMAND:OPTION"), then the options of a command, then its arguments.  To complete
 * names of models and chips, the script runs the program. */
#include <string.h>

#include "cli/command.h"
#include "core/text.h"

static const char script_begin[] =
    "# bash completion of phaze; made by phaze --completion bash.\n"
    "_phaze_models() { phaze models 2>/dev/null | awk 'NR > 1 {print $1}'; }\n"
    "_phaze_chips() { phaze chips 2>/dev/null | awk '!NF {end = 1} NR > 1 && !end {print $1}'; }\n"
    "_phaze() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
    "command=${COMP_WORDS[1]} words= options=\n"
    "  COMPREPLY=()\n"
    "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "    COMPREPLY=($(compgen -W '";

static const char before_options[] = "  esac\n"
                                     "  if [ -n \"$words\" ]; then\n"
                                     "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                                     "    return\n"
                                     "  fi\n"
                                     "  case $command in\n";

static const char script_end[] =
    "  esac\n"
    "  case $cur in\n"
    "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
    "    *) case $command in\n"
    "      graph | estimate | schedule | place | predict | search | compare)\n"
    "        COMPREPLY=($(compgen -W \"$(_phaze_models)\" -- \"$cur\")) ;;\n"
    "      report | verify) compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n"
    "      chip) COMPREPLY=($(compgen -W \"$(_phaze_chips)\" -- \"$cur\")) ;;\n"
    "    esac ;;\n"
    "  esac\n"
    "}\n"
    "complete -o default -F _phaze phaze\n";

static const char *cluster_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_cluster_preset_name(i);
}

static const char *space_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_space_preset_name(i);
}

static const char *choice_name(const void *ctx, size_t i) {
  const struct pz_option *o = ctx;
  return o->choices[i];
}

static void print_words(pz_name_at *name, const void *ctx, FILE *out) {
  fputs("words='", out);
  for (size_t i = 0; name(ctx, i); i++) fprintf(out, i ? " %s" : "%s", name(ctx, i));
  fputs("' ;;\n", out);
}

/* Prints a case of the script for each option that has a value.  If the accepted words are not
 * known, the shell completes file names. */
static void print_value_cases(const struct pz_command *c, FILE *out) {
  for (size_t i = 0; i < c->table.n; i++) {
    const struct pz_option *o = &c->table.options[i];
    char name[64];
    if (o->type == PZ_OPTION_FLAG || o->type == PZ_OPTION_SWITCH || o->hidden) continue;
    fprintf(out, "    %s:--%s", c->name, pz_option_name(o, name, sizeof name));
    if (o->letter) fprintf(out, " | %s:-%c", c->name, o->letter);
    fputs(") ", out);
    if (o->type == PZ_OPTION_CHOICE || o->type == PZ_OPTION_SET)
      print_words(choice_name, o, out);
    else if (strcmp(o->name, "cluster") == 0)
      print_words(cluster_name, NULL, out);
    else if (strcmp(o->name, "space") == 0)
      print_words(space_name, NULL, out);
    else if (strcmp(o->name, "chip") == 0 || strcmp(o->name, "budget") == 0)
      fputs("words=$(_phaze_chips) ;;\n", out);
    else
      fputs("return ;;\n", out);
  }
}

static void print_options_case(const struct pz_command *c, FILE *out) {
  fprintf(out, "    %s) options='", c->name);
  for (size_t i = 0; i < c->table.n; i++) {
    const struct pz_option *o = &c->table.options[i];
    char name[64];
    if (o->hidden) continue;
    fprintf(out, i ? " --%s" : "--%s", pz_option_name(o, name, sizeof name));
    if (o->type == PZ_OPTION_SWITCH) fprintf(out, " --no-%s", name);
  }
  fputs("' ;;\n", out);
}

void pz_completion_print(FILE *out) {
  fputs(script_begin, out);
  for (size_t i = 0; pz_command_at(i); i++) fprintf(out, i ? " %s" : "%s", pz_command_at(i)->name);
  fputs(" --help --version --man --completion' -- \"$cur\"))\n    return\n  fi\n", out);
  fputs("  case $command:$prev in\n    --completion:*) words=bash ;;\n", out);
  for (size_t i = 0; pz_command_at(i); i++) print_value_cases(pz_command_at(i), out);
  fputs(before_options, out);
  for (size_t i = 0; pz_command_at(i); i++) print_options_case(pz_command_at(i), out);
  fputs(script_end, out);
}
