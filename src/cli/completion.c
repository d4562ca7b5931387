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

/* Prints a case of the script for each option that has a value.  If the accepted words are not
 * known, the shell completes file names. */
static void print_value_cases(const struct pz_command *command, FILE *out) {
  for (size_t i = 0; i < command->table.n; i++) {
    const struct pz_option *option = &command->table.options[i];
    char name[64];
    bool has_value = option->type != PZ_OPTION_FLAG && option->type != PZ_OPTION_SWITCH;
    if (!has_value || option->hidden) continue;
    fprintf(out, "    %s:--%s", command->name, pz_option_name(option->name, name, sizeof name));
    if (option->letter) fprintf(out, " | %s:-%c", command->name, option->letter);
    fputs(") ", out);
    bool is_choice = option->type == PZ_OPTION_CHOICE || option->type == PZ_OPTION_SET;
    bool is_cluster = strcmp(option->name, "cluster") == 0;
    if (is_choice || is_cluster || strcmp(option->name, "space") == 0) {
      fputs("words='", out);
      for (size_t k = 0;; k++) {
        const char *preset = is_cluster ? pz_cluster_preset_name(k) : pz_space_preset_name(k);
        const char *word = is_choice ? option->choices[k] : preset;
        if (!word) break;
        fprintf(out, k ? " %s" : "%s", word);
      }
      fputs("' ;;\n", out);
    } else if (strcmp(option->name, "chip") == 0 || strcmp(option->name, "budget") == 0) {
      fputs("words=$(_phaze_chips) ;;\n", out);
    } else {
      fputs("return ;;\n", out);
    }
  }
}

/* Prints the cases for option values, then those that list the options of each subcommand. */
void pz_completion_print(FILE *out) {
  fputs(script_begin, out);
  for (size_t i = 0; pz_command_at(i); i++) fprintf(out, i ? " %s" : "%s", pz_command_at(i)->name);
  fputs(" --help --version --man --completion' -- \"$cur\"))\n    return\n  fi\n", out);
  fputs("  case $command:$prev in\n    --completion:*) words=bash ;;\n", out);
  for (size_t i = 0; pz_command_at(i); i++) print_value_cases(pz_command_at(i), out);
  fputs(before_options, out);
  for (size_t i = 0; pz_command_at(i); i++) {
    const struct pz_command *command = pz_command_at(i);
    fprintf(out, "    %s) options='", command->name);
    for (size_t k = 0; k < command->table.n; k++) {
      const struct pz_option *option = &command->table.options[k];
      char name[64];
      if (option->hidden) continue;
      fprintf(out, k ? " --%s" : "--%s", pz_option_name(option->name, name, sizeof name));
      if (option->type == PZ_OPTION_SWITCH) fprintf(out, " --no-%s", name);
    }
    fputs("' ;;\n", out);
  }
  fputs(script_end, out);
}
