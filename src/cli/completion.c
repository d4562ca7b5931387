#include "cli/completion.h"

#include "cli/command.h"

/* Names that only the program knows; commands that take MODELs complete these too. */
static const char head[] =
    "# bash completion of phaze; made by phaze --completion bash.\n"
    "_phaze_models() { phaze models 2>/dev/null | awk 'NR > 1 {print $1}'; }\n"
    "_phaze_chips() { phaze chips 2>/dev/null | awk 'NR > 1 {print $1}'; }\n"
    "_phaze() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
    "command=${COMP_WORDS[1]} words= options=\n"
    "  COMPREPLY=()\n"
    "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "    COMPREPLY=($(compgen -W '";

static const char tail[] = "    *:--chip) words=$(_phaze_chips) ;;\n"
                           "  esac\n"
                           "  if [ -n \"$words\" ]; then\n"
                           "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                           "    return\n"
                           "  fi\n"
                           "  case $command in\n";

static const char end[] =
    "  esac\n"
    "  case $cur in\n"
    "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
    "    *) case $command in\n"
    "      graph | estimate | schedule | place | search | compare)\n"
    "        COMPREPLY=($(compgen -W \"$(_phaze_models)\" -- \"$cur\")) ;;\n"
    "      report | verify) COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n"
    "      chip) COMPREPLY=($(compgen -W \"$(_phaze_chips)\" -- \"$cur\")) ;;\n"
    "    esac ;;\n"
    "  esac\n"
    "}\n"
    "complete -o default -F _phaze phaze\n";

static void put_choices(const struct pz_command *c, FILE *out) {
  for (size_t i = 0; i < c->table.n; i++) {
    const struct pz_option *o = &c->table.options[i];
    if (o->type != PZ_OPTION_CHOICE) continue;
    fprintf(out, "    %s:--%s) words='", c->name, o->name);
    for (int k = 0; o->choices[k]; k++) fprintf(out, k ? " %s" : "%s", o->choices[k]);
    fputs("' ;;\n", out);
  }
}

static void put_options(const struct pz_command *c, FILE *out) {
  fprintf(out, "    %s) options='", c->name);
  for (size_t i = 0; i < c->table.n; i++)
    fprintf(out, i ? " --%s" : "--%s", c->table.options[i].name);
  fputs("' ;;\n", out);
}

void pz_completion_print(FILE *out) {
  fputs(head, out);
  for (size_t i = 0; pz_command_at(i); i++) fprintf(out, i ? " %s" : "%s", pz_command_at(i)->name);
  fputs("' -- \"$cur\"))\n    return\n  fi\n  case $command:$prev in\n", out);
  for (size_t i = 0; pz_command_at(i); i++) put_choices(pz_command_at(i), out);
  fputs(tail, out);
  for (size_t i = 0; pz_command_at(i); i++) put_options(pz_command_at(i), out);
  fputs(end, out);
}
