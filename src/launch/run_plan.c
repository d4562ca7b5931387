/* Reader and writer of training runs.
 *
 * pz_run_plan_read() recognises a plan file, a log, or a launch script or configuration of a
 * framework, calls its reader, and adds what comments and a log say.  pz_run_plan_text() writes a
 * run as a plan file. */
#include <ctype.h>
#include <string.h>

#include "launch/launch.h"
#include "launch/megatron_args.h"
#include "launch/run_log.h"
#include "launch/run_readers.h"

struct pz_run_plan_options pz_run_plan_options_default(void) {
  return (struct pz_run_plan_options){.size = sizeof(struct pz_run_plan_options)};
}

/* Arguments of pz_run_plan_read(). */
struct run_reading {
  const char *name, *text;
  size_t bytes;
  const struct pz_run_plan_options *options;
  struct pz_run_plan **out;
};

/* Reads a plan file in JSON.  Options that apply to launch scripts only are errors. */
static void read_plan_file(struct pz_call *call, const struct run_reading *reading,
                           const struct pz_run_plan_options *options, struct pz_run_plan *run) {
  const char *misplaced = NULL;
  if (options->ignore && options->ignore[0]) misplaced = "ignore";
  if (options->set && options->set[0]) misplaced = "set";
  if (options->vocab) misplaced = "vocab";
  if (misplaced)
    pz_raise(call, PZ_BAD_USE,
             "--%s is for Megatron's arguments; %s is a plan file, whose model has it", misplaced,
             reading->name);
  pz_read_plan_file(call, reading->name, reading->text, reading->bytes, run);
  if (options->devices) {
    run->plan.devices = options->devices;
    run->plan.dp = 0;
    run->from[PZ_PLAN_DEVICES] = "--devices";
    run->from[PZ_PLAN_DP] = NULL;
  }
}

/* Reads a run from the arguments and, unless the options state it, the world_size of its log. */
static void read_log(struct pz_call *call, const struct run_reading *reading,
                     const struct pz_run_plan_options *options, struct pz_run_plan *run) {
  struct pz_run_plan_options log_options = *options;
  struct pz_logged_run logged =
      pz_run_log_arguments(call, reading->name, reading->text, reading->bytes);
  if (!logged.arguments)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: the log does not show the arguments of its run; accepted: its launch "
             "script or configuration, with the step that it shows (calibrate: --plan "
             "FILE; tune FILE --measured-s S)",
             reading->name);
  if (!log_options.devices) log_options.devices = logged.devices;
  pz_megatron_read(call, reading->name, logged.arguments, strlen(logged.arguments), &log_options,
                   run);
  if (!options->devices) run->from[PZ_PLAN_DEVICES] = "world_size of the log";
}

/* Stores the measured seconds of a step from a log.  torchtitan logs tokens per second and device,
 * which are converted with the run's batch size and sequence length. */
static void read_measured_step(struct pz_call *call, const char *name, const char *text,
                               size_t bytes, struct pz_run_plan *run) {
  struct pz_logged_step logged = pz_run_log_step(call, name, text, bytes);
  const struct pz_plan *plan = &run->plan;
  int64_t devices = pz_plan_asked_devices(plan);
  run->measured_s = logged.step_s;
  if (logged.step_s > 0) return;
  const char *missing = NULL;
  if (plan->batch <= 0) missing = "batch";
  if (plan->seq <= 0) missing = "sequence length";
  if (devices <= 0) missing = "devices";
  if (missing)
    pz_raise(call, PZ_BAD_INPUT,
             "%s: tokens in a second, and the run does not say its %s; accepted: with it", name,
             missing);
  run->measured_s =
      (double)plan->seq * (double)plan->batch / (logged.tokens_per_s_per_device * (double)devices);
}

/* Recognises the form of a run's text (plan file, log, script or configuration) and reads it. */
static void read_run(struct pz_call *call, void *ctx) {
  const struct run_reading *reading = ctx;
  struct pz_run_plan_options options = pz_run_plan_options_default();
  const char *name = reading->name, *text = reading->text;
  size_t bytes = reading->bytes, start = 0;
  if (reading->options)
    pz_require_options(call, &options, sizeof options, reading->options,
                       "pz_run_plan_options_default");
  pz_require(call, name, "name");
  pz_require(call, text, "text");
  pz_require(call, reading->out, "out");
  const char *nul = bytes ? memchr(text, '\0', bytes) : NULL;
  if (nul) {
    int line = 1;
    for (const char *c = text; c < nul; c++) line += *c == '\n';
    pz_raise(call, PZ_BAD_INPUT, "%s:%d: a NUL byte; accepted: text", name, line);
  }
  struct pz_call own;
  struct pz_run_plan *run = pz_object_new(call, sizeof *run, &own);
  while (start < bytes && isspace((unsigned char)text[start])) start++;
  bool is_json = start < bytes && text[start] == '{', is_log = pz_run_log_is(text, bytes);
  bool is_bridge = pz_find_text(text, bytes, "from megatron.bridge.");
  if (is_json)
    read_plan_file(&own, reading, &options, run);
  else if (is_log)
    read_log(&own, reading, &options, run);
  else if (pz_torchtitan_is(name, text, bytes))
    pz_torchtitan_read(&own, name, text, bytes, &options, run);
  else if (is_bridge)
    pz_bridge_read(&own, name, text, bytes, &options, run);
  else
    pz_megatron_read(&own, name, text, bytes, &options, run);
  pz_launch_comments_read(&own, text, bytes, run);
  if (options.log)
    read_measured_step(call, options.log_name ? options.log_name : "the log", options.log,
                       strlen(options.log), run);
  else if (is_log)
    read_measured_step(call, name, text, bytes, run);
  *reading->out = pz_object_keep(call, run);
}

/* Reads a run from a text in any of the known forms into *out. */
enum pz_status pz_run_plan_read(const char *name, const char *text, size_t bytes,
                                const struct pz_run_plan_options *options, struct pz_run_plan **out,
                                struct pz_error *err) {
  struct run_reading reading = {name, text, bytes, options, out};
  return pz_border(read_run, &reading, err);
}

void pz_run_plan_free(struct pz_run_plan *run) { pz_object_free(run); }

/* Arguments of pz_run_plan_text(). */
struct run_writing {
  const struct pz_run_plan *run;
  char **text;
};

/* Writes a run as a plan file. */
static void write_run(struct pz_call *call, void *ctx) {
  const struct run_writing *writing = ctx;
  struct pz_run_plan run = pz_run_plan_default();
  pz_require_options(call, &run, sizeof run, writing->run, "pz_run_plan_default");
  pz_require(call, writing->text, "text");
  struct pz_buffer *out = pz_buffer_new(call);
  pz_json_print(call, out, pz_json_built(call, pz_run_plan_json(&run)));
  *writing->text = pz_buffer_take(call, out);
}

/* Stores a run as the text of a plan file in *text. */
enum pz_status pz_run_plan_text(const struct pz_run_plan *run, char **text, struct pz_error *err) {
  struct run_writing writing = {run, text};
  return pz_border(write_run, &writing, err);
}
