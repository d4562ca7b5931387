/* phaze explore: writes one HTML page that computes predictions and plans by itself
 * (report/explore_page.c).  The options are the initial settings of the page. */

/* This makes <unistd.h> declare readlink(). */
#define _POSIX_C_SOURCE 200809L /* NOLINT(bugprone-reserved-identifier) */

#include <string.h>
#include <unistd.h>

#include "cli/machine_options.h"
#include "core/alloc.h"
#include "core/file.h"
#include "core/text.h"

enum { MOST_MODELS = 64 };

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  struct pz_plan plan; /* initial plan of the page; fields that are not given are unset */
  const char *framework, *out, *wasm;
};

static const struct settings defaults = {.plan =
                                             {
                                                 .size = sizeof(struct pz_plan),
#include "cli/plan_unset.def"
                                             },
                                         .out = "explore.html"};
static const char *const zero_names[] = {"0", "1", "2", "3", NULL};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option option_table[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_MACHINE_OPTIONS(struct settings, machine),
    PZ_INT_OPTION("devices", AT(plan.devices), "N", 1, 1 << 24, "Number of devices to begin with (default: 64)"),
    PZ_INT_OPTION("batch", AT(plan.batch), "B", 1, 1 << 24, "Global batch size to begin with, samples (default: 512)"),
    PZ_INT_OPTION("seq", AT(plan.seq), "S", 1, 1 << 24, "Sequence length to begin with, tokens per sample (default: the model's, at most 8192)"),
    PZ_INT_OPTION("tp", AT(plan.tp), "N", 1, 1 << 20, "Begin with this tensor-parallel degree pinned (default: searched)"),
    PZ_INT_OPTION("pp", AT(plan.pp), "N", 1, 1 << 20, "The same for pipeline stages"),
    PZ_INT_OPTION("vpp", AT(plan.vpp), "N", 1, 1 << 20, "The same for chunks of layers per stage"),
    PZ_INT_OPTION("dp", AT(plan.dp), "N", 1, 1 << 20, "The same for data-parallel replicas"),
    PZ_INT_OPTION("cp", AT(plan.cp), "N", 1, 1 << 20, "The same for the context-parallel degree"),
    PZ_INT_OPTION("ep", AT(plan.ep), "N", 1, 1 << 16, "The same for the expert-parallel degree"),
    PZ_INT_OPTION("mbs", AT(plan.mbs), "B", 1, 1 << 20, "The same for the microbatch size, samples"),
    PZ_CHOICE_OPTION("recompute", AT(plan.recompute), pz_recomputation_names, "The same for recomputation of activations"),
    PZ_CHOICE_OPTION("zero", AT(plan.zero), zero_names, "The same for the ZeRO stage"),
    PZ_CHOICE_OPTION("precision", AT(plan.precision), pz_precision_names, "Precision of the layers' GEMMs (default: bf16; fp16 on chips without it)"),
    PZ_CHOICE_OPTION("fp8-recipe", AT(plan.fp8_recipe), pz_fp8_recipe_names, "With precision fp8: scales of the operands, as for 'phaze predict'"),
    PZ_TEXT_OPTION("peft", AT(plan.peft), "TEXT", "Fine-tuning with frozen weights: lora:RANK:MODULES, as for 'phaze predict'"),
    PZ_SET_OPTION("offload", AT(plan.offload), pz_offload_names, "What may be kept on the host, as for 'phaze place'"),
    PZ_TEXT_OPTION("framework", AT(framework), "NAME", "Training framework, as for 'phaze predict'"),
    PZ_TEXT_OPTION("output", AT(out), "PAGE.html", "Where to write the page", .letter = 'o'),
    PZ_TEXT_OPTION("wasm", AT(wasm), "FILE.wasm", "WebAssembly of the page (default: explore.wasm of the installation)"),
};
/* clang-format on */

/* ---- the command ---------------------------------------------------------------------------- */

/* Returns the path of share/phaze/NAME in the installation of this program, or of wasm/NAME in its
 * build folder, or NULL if neither file exists. */
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

/* Returns the name of framework i, or NULL after the last one (a pz_name_at). */
static const char *framework_name(const void *unused, size_t i) {
  (void)unused;
  return pz_framework_names[i];
}

/* Checks the options and the machine, and writes the page. */
static void explore(struct pz_call *call, struct pz_invocation *invocation) {
  struct settings settings = defaults;
  char *text = NULL, names[400];
  size_t bytes = 0;
  const char *misuse = NULL;
  if (!pz_command_options(call, invocation, &settings)) return;
  const char *out = settings.out;
  bool overwrites = pz_machine_reads(&settings.machine, out);
  if (settings.wasm && pz_file_same(out, settings.wasm)) overwrites = true;
  for (int i = 0; i < invocation->n_args; i++)
    if (pz_file_same(out, invocation->args[i])) overwrites = true;
  if (invocation->n_args < 1 || invocation->n_args > MOST_MODELS)
    misuse = "expected 1 to 64 MODELs";
  else if (!settings.machine.chip)
    misuse = "--chip is required";
  else if (settings.common.json)
    misuse = "--json does not apply: the page has its answers as JSON";
  else if (overwrites)
    misuse = "--output would overwrite the input file";
  if (misuse) pz_command_refuse(call, invocation, misuse);
  invocation->args[invocation->n_args] = NULL; /* ends the list of models */
  struct pz_explore_options options = pz_explore_options_default();
  struct pz_machine_use use = {"devices", settings.plan.devices ? settings.plan.devices : 1,
                               settings.common.quiet, .training = false};
  pz_machine_open(call, &settings.machine, use); /* checks chip and cluster, and warns */
  /* The page begins with the plan of the options; devices and batch have defaults. */
  const struct pz_plan default_plan = options.plan;
  struct pz_plan *plan = &options.plan;
  *plan = settings.plan;
  if (!plan->devices) plan->devices = default_plan.devices;
  if (!plan->batch) plan->batch = default_plan.batch;
  plan->framework = pz_framework_find(settings.framework);
  if (settings.framework && plan->framework < 0)
    pz_raise(call, PZ_BAD_USE, "--framework '%.60s'; accepted: %s", settings.framework,
             pz_text_join(names, sizeof names, framework_name, NULL));
  pz_file_require_output(call, out, NULL, 0);
  options.models = (const char *const *)invocation->args;
  options.chip = settings.machine.chip;
  options.cluster = settings.machine.cluster;
  options.wasm = settings.wasm ? settings.wasm : find_shared_file(call, "explore.wasm");
  if (!options.wasm)
    pz_raise(call, PZ_IO,
             "explore.wasm, the WebAssembly of the page, is not installed; build it with "
             "'cmake --preset wasm && cmake --build --preset wasm' (Debian's emscripten), or "
             "name one with --wasm FILE");
  pz_must(call, pz_explore_page(&options, &text, &bytes, pz_call_error(call)));
  pz_defer(call, pz_free, text);
  pz_file_save(call, out, text, bytes);
  if (!settings.common.quiet)
    pz_command_say("wrote %s, %.1f MB; it opens offline", out, (double)bytes / 1e6);
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
    .table = {option_table, sizeof option_table / sizeof *option_table},
    .defaults = &defaults,
    .n_args = -1,
    .argument = "MODEL",
    .body = explore,
};
