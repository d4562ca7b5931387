/* phaze explore: one HTML page that computes predictions and plans by itself. */

/* readlink is of POSIX. */
#define _POSIX_C_SOURCE 200809L /* NOLINT(bugprone-reserved-identifier) */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/machine_options.h"
#include "core/file.h"
#include "core/text.h"

enum { MOST_MODELS = 64 };

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, batch, seq, tp, pp, vpp, dp, cp, ep, mbs; /* 0: not pinned */
  int recompute, zero, precision, fp8_recipe;                /* of their names; NOT_GIVEN */
  int offload;                                               /* a set of pz_offload_names */
  const char *framework, *peft, *out, *wasm;
};

enum { NOT_GIVEN = -1 };
static const struct settings defaults = {.recompute = NOT_GIVEN,
                                         .zero = NOT_GIVEN,
                                         .precision = NOT_GIVEN,
                                         .fp8_recipe = NOT_GIVEN,
                                         .out = "explore.html"};
static const char *const zero_names[] = {"0", "1", "2", "3", NULL};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_MACHINE_OPTIONS(struct settings, machine),
    {.name = "devices", .type = PZ_OPTION_INT, .offset = AT(devices), .arg = "N", .min = 1, .max = 1 << 24, .help = "Number of devices to begin with (default: 64)"},
    {.name = "batch", .type = PZ_OPTION_INT, .offset = AT(batch), .arg = "B", .min = 1, .max = 1 << 24, .help = "Global batch size to begin with, samples (default: 512)"},
    {.name = "seq", .type = PZ_OPTION_INT, .offset = AT(seq), .arg = "S", .min = 1, .max = 1 << 24, .help = "Sequence length to begin with, tokens per sample (default: the model's, at most 8192)"},
    {.name = "tp", .type = PZ_OPTION_INT, .offset = AT(tp), .arg = "N", .min = 1, .max = 1 << 20, .help = "Begin with this tensor-parallel degree pinned (default: searched)"},
    {.name = "pp", .type = PZ_OPTION_INT, .offset = AT(pp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for pipeline stages"},
    {.name = "vpp", .type = PZ_OPTION_INT, .offset = AT(vpp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for chunks of layers per stage"},
    {.name = "dp", .type = PZ_OPTION_INT, .offset = AT(dp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for data-parallel replicas"},
    {.name = "cp", .type = PZ_OPTION_INT, .offset = AT(cp), .arg = "N", .min = 1, .max = 1 << 20, .help = "The same for the context-parallel degree"},
    {.name = "ep", .type = PZ_OPTION_INT, .offset = AT(ep), .arg = "N", .min = 1, .max = 1 << 16, .help = "The same for the expert-parallel degree"},
    {.name = "mbs", .type = PZ_OPTION_INT, .offset = AT(mbs), .arg = "B", .min = 1, .max = 1 << 20, .help = "The same for the microbatch size, samples"},
    {.name = "recompute", .type = PZ_OPTION_CHOICE, .offset = AT(recompute), .choices = pz_recomputation_names, .help = "The same for recomputation of activations"},
    {.name = "zero", .type = PZ_OPTION_CHOICE, .offset = AT(zero), .choices = zero_names, .help = "The same for the ZeRO stage"},
    {.name = "precision", .type = PZ_OPTION_CHOICE, .offset = AT(precision), .choices = pz_precision_names, .help = "Precision of the layers' GEMMs (default: bf16; fp16 on chips without it)"},
    {.name = "fp8-recipe", .type = PZ_OPTION_CHOICE, .offset = AT(fp8_recipe), .choices = pz_fp8_recipe_names, .help = "With precision fp8: scales of the operands, as for 'phaze predict'"},
    {.name = "peft", .type = PZ_OPTION_TEXT, .offset = AT(peft), .arg = "TEXT", .help = "Fine-tuning with frozen weights: lora:RANK:MODULES, as for 'phaze predict'"},
    {.name = "offload", .type = PZ_OPTION_SET, .offset = AT(offload), .choices = pz_offload_names, .help = "What may be kept on the host, as for 'phaze place'"},
    {.name = "framework", .type = PZ_OPTION_TEXT, .offset = AT(framework), .arg = "NAME", .help = "Training framework, as for 'phaze predict'"},
    {.name = "output", .letter = 'o', .type = PZ_OPTION_TEXT, .offset = AT(out), .arg = "PAGE.html", .help = "Where to write the page"},
    {.name = "wasm", .type = PZ_OPTION_TEXT, .offset = AT(wasm), .arg = "FILE.wasm", .help = "WebAssembly of the page (default: explore.wasm of the installation)"},
};
/* clang-format on */

/* ---- the command ---------------------------------------------------------------------------- */

/* The path of share/phaze/NAME of the installation that this program stands in, or of wasm/NAME in the build folder.
 * False: there is none. */
static bool shared_file(const char *name, char *path, size_t size) {
  /* from the folder of the program: bin/phaze, or build/release/src/phaze */
  static const char *const places[] = {"../share/phaze", "../wasm", "../../wasm"};
  char program[2048];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return false;
  program[n] = '\0';
  char *slash = strrchr(program, '/');
  if (!slash) return false;
  *slash = '\0';
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    int bytes = snprintf(path, size, "%s/%s/%s", program, places[i], name);
    if (bytes > 0 && (size_t)bytes < size && access(path, R_OK) == 0) return true;
  }
  return false;
}

static enum pz_status find_wasm(const struct settings *s, char *path, size_t size,
                                struct pz_error *err) {
  if (s->wasm) return pz_text_copy(path, size, s->wasm), PZ_OK;
  if (shared_file("explore.wasm", path, size)) return PZ_OK;
  return pz_fail(err, PZ_IO,
                 "explore.wasm, the WebAssembly of the page, is not installed; build it with "
                 "'cmake --preset wasm && cmake --build --preset wasm' (Debian's emscripten), or "
                 "name one with --wasm FILE");
}

static const char *framework_name(const void *unused, size_t i) {
  (void)unused;
  return pz_framework_names[i];
}

static enum pz_status set_plan(const struct settings *s, struct pz_plan *p, struct pz_error *err) {
  if (s->devices) p->devices = s->devices;
  if (s->batch) p->batch = s->batch;
  p->seq = s->seq;
  p->tp = s->tp;
  p->pp = s->pp;
  p->vpp = s->vpp;
  p->dp = s->dp;
  p->cp = s->cp;
  p->ep = s->ep;
  p->mbs = s->mbs;
  p->recompute = s->recompute;
  p->zero = s->zero;
  p->precision = s->precision;
  p->fp8_recipe = s->fp8_recipe;
  p->peft = s->peft;
  p->offload = s->offload;
  p->framework = pz_framework_find(s->framework);
  if (!s->framework || p->framework >= 0) return PZ_OK;
  char names[400];
  return pz_fail(err, PZ_BAD_USE, "--framework '%.60s'; accepted: %s", s->framework,
                 pz_text_join(names, sizeof names, framework_name, NULL));
}

static enum pz_status explore(const struct settings *s, char **models, struct pz_error *err) {
  struct pz_explore_options o = pz_explore_options_default();
  struct pz_machine machine;
  struct pz_machine_use use = {"devices", s->devices ? s->devices : 1, s->common.quiet, false};
  char *text = NULL, wasm[4096];
  size_t bytes = 0;
  o.models = (const char *const *)models;
  o.chip = s->machine.chip;
  o.cluster = s->machine.cluster;
  o.wasm = wasm;
  enum pz_status status = pz_machine_load(&s->machine, use, &machine, err);
  if (status == PZ_OK) status = set_plan(s, &o.plan, err);
  if (status == PZ_OK) status = pz_file_output(s->out, NULL, 0, err);
  if (status == PZ_OK) status = find_wasm(s, wasm, sizeof wasm, err);
  if (status == PZ_OK) status = pz_explore_page(&o, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(s->out, text, bytes, err);
  if (status == PZ_OK && !s->common.quiet)
    pz_command_say("wrote %s, %.1f MB; it opens offline", s->out, (double)bytes / 1e6);
  pz_text_free(text);
  return status;
}

static const char *misuse(const struct settings *s, char **models, int n) {
  if (n < 1 || n > MOST_MODELS) return "expected 1 to 64 MODELs";
  if (!s->machine.chip) return "--chip is required";
  if (s->common.json) return "--json does not apply: the page has its answers as JSON";
  for (int i = 0; i < n; i++)
    if (pz_file_same(s->out, models[i])) return "--output would overwrite the input file";
  if (pz_machine_reads(&s->machine, s->out) || (s->wasm && pz_file_same(s->out, s->wasm)))
    return "--output would overwrite the input file";
  return NULL;
}

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_long_call call;
  if (!pz_call_begin(&call, &pz_cmd_explore, argc, argv, &s)) return call.code;
  const char *wrong = misuse(&s, argv + 1, call.n_args);
  if (wrong) return pz_command_misuse(&pz_cmd_explore, wrong);
  argv[1 + call.n_args] = NULL;
  return pz_call_end(&call, explore(&s, argv + 1, &call.err));
}

const struct pz_command pz_cmd_explore = {
    .name = "explore",
    .synopsis = "MODEL... --chip CHIP [--cluster NET] [options] [-o PAGE.html]",
    .summary = "Write a page that finds plans by itself while chip and run are changed",
    .detail =
        "The page opens offline in a browser and computes with phaze itself, compiled to\n"
        "WebAssembly: sliders for the chip, its network and the run, pins for the plan.\n"
        "The best plan, its time, memory and pipeline follow. Each answer has the command\n"
        "line that prints the same numbers, and the address of the page keeps the\n"
        "settings. The options are what it begins with.\n"
        "\n"
        "Examples:\n"
        "  phaze explore llama3-70b --chip h100 --cluster dgx-h100 --devices 1024 --batch 2048\n"
        "  phaze explore llama3-8b mixtral-8x7b --chip ./mine.json -o mine.html\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .n_args = -1,
    .argument = "MODEL",
    .run = run,
};
