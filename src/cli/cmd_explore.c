/* phaze explore: writes one HTML page that computes predictions and plans by itself (report/explore_page.c).  The options are
 * the settings that the page begins with. */

/* readlink is of POSIX. */
#define _POSIX_C_SOURCE 200809L /* NOLINT(bugprone-reserved-identifier) */

#include <string.h>
#include <unistd.h>

#include "cli/machine_options.h"
#include "cli/owned.h"
#include "core/file.h"
#include "core/text.h"

enum { MOST_MODELS = 64 };

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  int64_t devices, batch, seq, tp, pp, vpp, dp, cp, ep, mbs; /* 0 if not pinned */
  int recompute, zero, precision, fp8_recipe; /* indices of their names, or NOT_GIVEN */
  int offload;                                /* a set of pz_offload_names */
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

/* Returns the path of share/phaze/NAME in the installation of this program, or of wasm/NAME in its build folder, or NULL. */
static const char *find_shared_file(struct pz_call *call, const char *name) {
  /* relative to the folder of the program: bin/phaze, or build/release/src/phaze */
  static const char *const folders[] = {"../share/phaze", "../wasm", "../../wasm"};
  char program[2048];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n <= 0) return NULL;
  program[n] = '\0';
  char *slash = strrchr(program, '/');
  if (!slash) return NULL;
  *slash = '\0';
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    const char *path = pz_format(call, "%s/%s/%s", program, folders[i], name);
    if (access(path, R_OK) == 0) return path;
  }
  return NULL;
}

static const char *framework_name(const void *unused, size_t i) {
  (void)unused;
  return pz_framework_names[i];
}

static void set_plan(struct pz_call *call, const struct settings *s, struct pz_plan *p) {
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
  char names[400];
  if (s->framework && p->framework < 0)
    pz_raise(call, PZ_BAD_USE, "--framework '%.60s'; accepted: %s", s->framework,
             pz_text_join(names, sizeof names, framework_name, NULL));
}

/* Returns an error message if the arguments are inconsistent, otherwise NULL. */
static const char *explore_misuse(const struct settings *s, char **models, int n) {
  if (n < 1 || n > MOST_MODELS) return "expected 1 to 64 MODELs";
  if (!s->machine.chip) return "--chip is required";
  if (s->common.json) return "--json does not apply: the page has its answers as JSON";
  bool overwrites = pz_machine_reads(&s->machine, s->out);
  if (s->wasm && pz_file_same(s->out, s->wasm)) overwrites = true;
  for (int i = 0; i < n; i++)
    if (pz_file_same(s->out, models[i])) overwrites = true;
  return overwrites ? "--output would overwrite the input file" : NULL;
}

static void explore(struct pz_call *call, struct pz_invocation *in) {
  struct settings s = defaults;
  char *text = NULL;
  size_t bytes = 0;
  if (!pz_command_options(call, in, &s)) return;
  const char *wrong = explore_misuse(&s, in->args, in->n_args);
  if (wrong) pz_command_refuse(call, in, wrong);
  in->args[in->n_args] = NULL; /* ends the list of models */
  struct pz_explore_options o = pz_explore_options_default();
  struct pz_machine_use use = {"devices", s.devices ? s.devices : 1, s.common.quiet, false};
  pz_machine_open(call, &s.machine, use); /* checks chip and cluster, and warns */
  set_plan(call, &s, &o.plan);
  pz_file_require_output(call, s.out, NULL, 0);
  o.models = (const char *const *)in->args;
  o.chip = s.machine.chip;
  o.cluster = s.machine.cluster;
  o.wasm = s.wasm ? s.wasm : find_shared_file(call, "explore.wasm");
  if (!o.wasm)
    pz_raise(call, PZ_IO,
             "explore.wasm, the WebAssembly of the page, is not installed; build it with "
             "'cmake --preset wasm && cmake --build --preset wasm' (Debian's emscripten), or "
             "name one with --wasm FILE");
  pz_must(call, pz_explore_page(&o, &text, &bytes, pz_call_error(call)));
  pz_defer(call, pz_free_text, text);
  pz_file_save(call, s.out, text, bytes);
  if (!s.common.quiet)
    pz_command_say("wrote %s, %.1f MB; it opens offline", s.out, (double)bytes / 1e6);
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
    .body = explore,
};
