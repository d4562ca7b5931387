#include "launch/rehearsal.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "core/alloc.h"
#include "core/text.h"

/* Frameworks whose ranks start alone, and the variable of their folder. */
static const struct {
  const char *name, *folder;
} rehearsed[] = {{"torchtitan", "TORCHTITAN_PATH"}, {"megatron", "MEGATRON_PATH"}};
enum { REHEARSED = sizeof rehearsed / sizeof *rehearsed };

static int rehearsed_find(int framework) {
  for (int i = 0; i < REHEARSED; i++)
    if (pz_framework_find(rehearsed[i].name) == framework) return i;
  return -1;
}

enum pz_status pz_rehearsal_check(int framework, struct pz_error *err) {
  if (rehearsed_find(framework) >= 0) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE,
                 "a plan of %s cannot be rehearsed; accepted: plans of torchtitan and megatron",
                 framework >= 0 ? pz_framework_names[framework] : "no framework");
}

/* Returns a sentence about what is untested in rehearsals of such a plan, or NULL. */
static const char *rehearsal_limit(const struct pz_plan *p) {
  if (p->pp > 1 && (p->pipeline == PZ_PIPELINE_ZB_V || p->pipeline == PZ_PIPELINE_DUALPIPE_V))
    return "V-shaped schedules are untested in rehearsals: a rank that cannot run alone is "
           "reported as failed";
  return NULL;
}

/* ---- texts in a shell script ------------------------------------------------------------------ */

/* Does a line of the text consist of this word? */
static bool has_line(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *at = text; at; at = strchr(at, '\n')) {
    at += *at == '\n';
    if (strncmp(at, word, n) == 0 && (!at[n] || at[n] == '\n')) return true;
  }
  return false;
}

/* Lets the script write a file, by a here-document whose delimiter is not a line of the text. */
static void put_file(FILE *out, const char *name, const char *text) {
  char end[32] = "END_OF_FILE";
  for (int i = 2; has_line(text, end); i++) snprintf(end, sizeof end, "END_OF_FILE_%d", i);
  size_t n = strlen(text);
  fprintf(out, "cat >\"$WORK/%s\" <<'%s'\n%s%s%s\n\n", name, end, text,
          n && text[n - 1] == '\n' ? "" : "\n", end);
}

static void put_quoted(FILE *out, const char *text) {
  fputc('\'', out);
  for (; *text; text++) fputs(*text == '\'' ? "'\\''" : (const char[]){*text, '\0'}, out);
  fputc('\'', out);
}

/* Checks the values of the script's variables, with which phaze read it. */
static enum pz_status check_set(const char *const *set, struct pz_error *err) {
  for (; set && *set; set++) {
    const char *at = *set;
    while (isalnum((unsigned char)*at) || *at == '_') at++;
    if (*at != '=' || at == *set || isdigit((unsigned char)**set))
      return pz_fail(err, PZ_BAD_USE, "--set %.80s; accepted: NAME=VALUE of a shell variable",
                     *set);
  }
  return PZ_OK;
}

static void put_set(FILE *out, const char *const *set) {
  for (; set && *set; set++) {
    size_t n = strcspn(*set, "=") + 1;
    fprintf(out, "export %.*s", (int)n, *set);
    put_quoted(out, *set + n);
    fputc('\n', out);
  }
}

/* ---- the script ------------------------------------------------------------------------------- */

static void put_head(const struct pz_rehearsal_job *j, FILE *out) {
  const struct pz_plan *p = j->plan;
  const char *limit = rehearsal_limit(p);
  char text[PZ_PLAN_LINE_MOST], model[400];
  pz_text_plain(pz_text_copy(model, sizeof model, j->model));
  fprintf(out,
          "#!/usr/bin/env bash\n# Rehearsal of %s on %" PRId64
          " GPU%s: it runs %d rank%s of the job "
          "alone on one GPU and prints CSV.\n# %s\n#\n",
          model, p->devices, pz_text_s((double)p->devices), j->n_stages,
          pz_text_s((double)j->n_stages), pz_plan_line(p, true, text, sizeof text));
  for (int i = 0; i < j->n_stages; i++)
    fprintf(out, "# Rank %" PRId64 ", of stage %" PRId64 ": %s.\n",
            pz_rehearsal_rank(p, j->stages[i]), j->stages[i] + 1, j->reasons[i]);
  if (limit) fprintf(out, "# Caution: %s.\n", limit);
  fprintf(
      out,
      "#\n# Run it on a machine with one GPU of the kind that the plan is for:\n"
      "#   %sbash rehearsal.sh >results.csv\n"
      "# STEPS is the number of steps of each rank, SECONDS_PER_RANK the time that each may use, "
      "and PYTHON the interpreter.\n"
      "set -uo pipefail\n\n",
      j->emitted
          ? (rehearsed_find(p->framework) ? "MEGATRON_PATH=FOLDER " : "TORCHTITAN_PATH=FOLDER ")
          : "");
}

/* Environment of the job: no cluster and no data, and checkpoints go to the folder of the rehearsal. */
static void put_environment(const struct pz_rehearsal_job *j, FILE *out) {
  const struct pz_plan *p = j->plan;
  const char *folder = rehearsed[rehearsed_find(p->framework)].folder;
  if (j->emitted)
    fprintf(out, "export %s=${%s:?set it to the folder of %s}\n", folder, folder,
            pz_framework_names[p->framework]);
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
          j->digest, pz_framework_names[p->framework], p->devices);
  if (j->vocab) fprintf(out, "export REHEARSE_VOCAB=%" PRId64 "\n", j->vocab);
  put_set(out, j->set);
  fputc('\n', out);
}

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

static void put_script(const struct pz_rehearsal_job *j, FILE *out) {
  const char *limit = rehearsal_limit(j->plan);
  put_head(j, out);
  put_environment(j, out);
  put_file(out, "rehearse.py", pz_embedded_text(pz_embedded_harness, "rehearse"));
  put_file(out, "launch.sh", j->launch);
  fputs(run_ranks, out);
  if (limit) fprintf(out, "echo \"phaze: %s\" >&2\n", limit);
  fputs("echo " PZ_REHEARSAL_COLUMNS "\n", out);
  for (int i = 0; i < j->n_stages; i++)
    fprintf(out, "rehearse %" PRId64 " %" PRId64 "\n", pz_rehearsal_rank(j->plan, j->stages[i]),
            j->stages[i]);
  fputs("exit $failed\n", out);
}

enum pz_status pz_rehearsal_write(const struct pz_rehearsal_job *job, char **text,
                                  struct pz_error *err) {
  struct pz_buffer b = {0};
  enum pz_status status = pz_rehearsal_check(job->plan->framework, err);
  if (status == PZ_OK) status = check_set(job->set, err);
  if (status != PZ_OK) return status;
  FILE *out = pz_buffer_stream(&b);
  if (out) put_script(job, out);
  if (!out || !pz_buffer_close(out)) {
    pz_free(b.text);
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the rehearsal");
  }
  *text = b.text;
  return PZ_OK;
}
