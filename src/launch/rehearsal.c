/* Writer of rehearsal scripts.  pz_write_rehearsal() writes, in order, the comments at the head of
 * the script, the environment of the job, the harness and the launch script as files, and a call
 * for each rank that is run. */
#include "launch/rehearsal.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "core/text.h"

/* Returns the variable of launch scripts with the folder of a framework that can be rehearsed. */
const char *pz_require_rehearsable(struct pz_call *call, int framework) {
  static const char *const rehearsed[][2] = {{"torchtitan", "TORCHTITAN_PATH"},
                                             {"megatron", "MEGATRON_PATH"}};
  for (size_t i = 0; i < sizeof rehearsed / sizeof *rehearsed; i++)
    if (pz_framework_find(rehearsed[i][0]) == framework) return rehearsed[i][1];
  pz_raise(call, PZ_BAD_USE,
           "a plan of %s cannot be rehearsed; accepted: plans of torchtitan and megatron",
           framework >= 0 ? pz_framework_names[framework] : "no framework");
}

/* Returns whether a line of the text consists of this word. */
static bool has_line(const char *text, const char *word) {
  size_t n = strlen(word);
  while (text) {
    if (strncmp(text, word, n) == 0 && (!text[n] || text[n] == '\n')) return true;
    text = strchr(text, '\n');
    if (text) text++;
  }
  return false;
}

/* Writes a here-document that creates a file, with a delimiter that is not a line of the text. */
static void write_file(FILE *out, const char *name, const char *text) {
  char delimiter[32] = "END_OF_FILE";
  for (int i = 2; has_line(text, delimiter); i++)
    snprintf(delimiter, sizeof delimiter, "END_OF_FILE_%d", i);
  size_t n = strlen(text);
  bool ends_line = n && text[n - 1] == '\n';
  fprintf(out, "cat >\"$WORK/%s\" <<'%s'\n%s%s%s\n\n", name, delimiter, text, ends_line ? "" : "\n",
          delimiter);
}

/* Writes comments that say which ranks the script runs, why, and how to use it.  `folder`
 * is the variable with the framework's folder, and `limit` says what is untested, or is NULL. */
static void write_head(const struct pz_rehearsal_job *job, const char *folder, const char *limit,
                       FILE *out) {
  const struct pz_plan *plan = job->plan;
  char text[PZ_PLAN_LINE_MOST], model[400], variable[80] = "";
  pz_text_plain(pz_text_copy(model, sizeof model, job->model));
  fprintf(out,
          "#!/usr/bin/env bash\n# Rehearsal of %s on %" PRId64
          " GPU%s: it runs %d rank%s of the job "
          "alone on one GPU and prints CSV.\n# %s\n#\n",
          model, plan->devices, pz_text_s((double)plan->devices), job->n_stages,
          pz_text_s((double)job->n_stages), pz_plan_line(plan, true, text, sizeof text));
  for (int i = 0; i < job->n_stages; i++)
    fprintf(out, "# Rank %" PRId64 ", of stage %" PRId64 ": %s.\n",
            pz_rehearsal_rank(plan, job->stages[i]), job->stages[i] + 1, job->reasons[i]);
  if (limit) fprintf(out, "# Caution: %s.\n", limit);
  if (job->emitted) snprintf(variable, sizeof variable, "%s=FOLDER ", folder);
  fprintf(
      out,
      "#\n# Run it on a machine with one GPU of the kind that the plan is for:\n"
      "#   %sbash rehearsal.sh >results.csv\n"
      "# STEPS is the number of steps of each rank, SECONDS_PER_RANK the time that each may use, "
      "and PYTHON the interpreter.\n"
      "set -uo pipefail\n\n",
      variable);
}

/* Writes the job's environment: one node, generated data, checkpoints in the script's folder. */
static void write_environment(const struct pz_rehearsal_job *job, const char *folder, FILE *out) {
  const struct pz_plan *plan = job->plan;
  if (job->emitted)
    fprintf(out, "export %s=${%s:?set it to the folder of %s}\n", folder, folder,
            pz_framework_names[plan->framework]);
  fputs("WORK=$(mktemp -d \"${TMPDIR:-/tmp}/phaze-rehearsal-XXXXXX\") || exit 1\n"
        "mkdir \"$WORK/bin\" \"$WORK/data\" \"$WORK/checkpoints\"\n"
        "cat >\"$WORK/bin/torchrun\" <<END_OF_FILE\n"
        "#!/usr/bin/env bash\n"
        "exec \"\\${PYTHON:-python3}\" $(printf %q \"$WORK/rehearse.py\") \"\\$@\"\n"
        "END_OF_FILE\n"
        "chmod +x \"$WORK/bin/torchrun\"\n"
        "unset \"${!SLURM_@}\"\n"
        "export PATH=$WORK/bin:$PATH NODE_RANK=0 MASTER_ADDR=127.0.0.1 "
        "MASTER_PORT=${MASTER_PORT:-29500}\n"
        "export MOCK_DATA=1 DATA_PATH=${DATA_PATH:-$WORK/data} TOKENIZER=${TOKENIZER:-$WORK/data}\n"
        "export CHECKPOINT_PATH=$WORK/checkpoints "
        "PRETRAINED_CHECKPOINT=${PRETRAINED_CHECKPOINT:-$WORK/data}\n"
        "export TRAIN_ITERS=100 TRAIN_STEPS=100 WARMUP_STEPS=10\n",
        out);
  fprintf(out,
          "export REHEARSE_PLAN=%s REHEARSE_FRAMEWORK=%s REHEARSE_DEVICES=%" PRId64 "\n"
          "export REHEARSE_STEPS=${STEPS:-5} REHEARSE_SECONDS=${SECONDS_PER_RANK:-150}\n",
          job->digest, pz_framework_names[plan->framework], plan->devices);
  if (job->vocab) fprintf(out, "export REHEARSE_VOCAB=%" PRId64 "\n", job->vocab);
  /* the user's variables, quoted for the shell: export NAME='VALUE' */
  for (const char *const *variable = job->set; variable && *variable; variable++) {
    size_t n = strcspn(*variable, "=") + 1;
    fprintf(out, "export %.*s'", (int)n, *variable);
    for (const char *c = *variable + n; *c; c++) {
      if (*c == '\'')
        fputs("'\\''", out);
      else
        fputc(*c, out);
    }
    fputs("'\n", out);
  }
  fputc('\n', out);
}

/* A shell function that runs one rank with a limit of time and prints its line of CSV. */
static const char run_ranks[] =
    "failed=0\n"
    "rehearse() { # RANK STAGE\n"
    "  local log=$WORK/rank-$1.log most_s=$((REHEARSE_SECONDS + 60)) row why\n"
    "  echo \"phaze: rank $1 runs, its log is $log\" >&2\n"
    "  REHEARSE_RANK=$1 REHEARSE_STAGE=$2 timeout -k 10 $most_s bash \"$WORK/launch.sh\" "
    ">\"$log\" 2>&1 </dev/null\n"
    "  why=\"no result; exit status $?\"\n"
    "  [[ $why != *\\ 124 ]] || why=\"no result within $most_s s\"\n"
    "  row=$(grep -a '^RESULT ' \"$log\" | tail -n 1)\n"
    "  row=${row#RESULT }\n"
    "  [[ -n $row ]] || row=\"$REHEARSE_PLAN,$REHEARSE_FRAMEWORK,,,,$1,$2,failed,,,,,,,,$why\"\n"
    "  if [[ $row == *,failed,* ]]; then\n"
    "    failed=1\n"
    "    echo \"phaze: rank $1 failed; the last lines of its log:\" >&2\n"
    "    tail -n 20 \"$log\" >&2\n"
    "  fi\n"
    "  echo \"$row\"\n"
    "}\n\n";

/* Returns the script that runs some ranks of a job one after another on one GPU. */
struct pz_buffer *pz_write_rehearsal(struct pz_call *call, const struct pz_rehearsal_job *job) {
  int pipeline = job->plan->pipeline;
  bool is_v_shaped = pipeline == PZ_PIPELINE_ZB_V || pipeline == PZ_PIPELINE_DUALPIPE_V;
  const char *limit = NULL;
  if (job->plan->pp > 1 && is_v_shaped)
    limit = "V-shaped schedules are untested in rehearsals: a rank that cannot run alone is "
            "reported as failed";
  const char *folder = pz_require_rehearsable(call, job->plan->framework);
  for (const char *const *variable = job->set; variable && *variable; variable++) {
    const char *name = *variable, *end = name;
    while (isalnum((unsigned char)*end) || *end == '_') end++;
    if (*end != '=' || end == name || isdigit((unsigned char)*name))
      pz_raise(call, PZ_BAD_USE, "--set %.80s; accepted: NAME=VALUE of a shell variable", name);
  }
  struct pz_buffer *script = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, script);
  write_head(job, folder, limit, out);
  write_environment(job, folder, out);
  write_file(out, "rehearse.py", pz_embedded_text(pz_embedded_harness, "rehearse"));
  write_file(out, "launch.sh", job->launch);
  fputs(run_ranks, out);
  if (limit) fprintf(out, "echo \"phaze: %s\" >&2\n", limit);
  fputs("echo " PZ_REHEARSAL_COLUMNS "\n", out);
  for (int i = 0; i < job->n_stages; i++)
    fprintf(out, "rehearse %" PRId64 " %" PRId64 "\n", pz_rehearsal_rank(job->plan, job->stages[i]),
            job->stages[i]);
  fputs("exit $failed\n", out);
  pz_buffer_flush(call, out);
  return script;
}
