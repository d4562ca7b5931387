/* Runs that people have, for programs: a plan file, or the words of a framework, read; and written as a plan file. */
#include <ctype.h>
#include <string.h>

#include "core/held.h"
#include "core/status.h"
#include "launch/launch.h"
#include "launch/megatron_args.h"
#include "launch/run_log.h"
#include "launch/run_readers.h"

struct pz_run_plan_options pz_run_plan_options_default(void) {
  return (struct pz_run_plan_options){.size = sizeof(struct pz_run_plan_options)};
}

static bool is_json(const char *text, size_t bytes) {
  size_t i = 0;
  while (i < bytes && isspace((unsigned char)text[i])) i++;
  return i < bytes && text[i] == '{';
}

static enum pz_status read_plan_file(const char *name, const char *text, size_t bytes,
                                     const struct pz_run_plan_options *o, struct pz_arena *arena,
                                     struct pz_run_plan *out, struct pz_error *err) {
  bool set = o->set && o->set[0], ignore = o->ignore && o->ignore[0];
  if (o->vocab || set || ignore)
    return pz_fail(err, PZ_BAD_USE,
                   "--%s is for Megatron's arguments; %s is a plan file, whose model has it",
                   o->vocab ? "vocab" : (set ? "set" : "ignore"), name);
  enum pz_status status = pz_plan_file_read(name, text, bytes, arena, out, err);
  if (status == PZ_OK && o->devices) {
    out->plan.devices = o->devices;
    out->plan.dp = 0;
    out->from[PZ_PLAN_DEVICES] = "--devices";
    out->from[PZ_PLAN_DP] = NULL;
  }
  return status;
}

/* The run of a log by the arguments that it shows. */
static enum pz_status read_log(const char *name, const char *text, size_t bytes,
                               const struct pz_run_plan_options *options, struct pz_arena *arena,
                               struct pz_run_plan *out, struct pz_error *err) {
  struct pz_run_plan_options o = *options;
  const char *arguments;
  int64_t devices;
  enum pz_status status = pz_run_log_arguments(name, text, bytes, arena, &arguments, &devices, err);
  if (status == PZ_OK && !arguments)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "%s: the log does not show the arguments of its run; accepted: its launch "
                     "script or configuration, with the step that it shows (calibrate: --plan "
                     "FILE; tune FILE --measured-s S)",
                     name);
  if (status != PZ_OK) return status;
  if (!o.devices) o.devices = devices;
  status = pz_megatron_read(name, arguments, strlen(arguments), &o, arena, out, err);
  if (status == PZ_OK && !options->devices) out->from[PZ_PLAN_DEVICES] = "world_size of the log";
  return status;
}

/* The step that a log shows for the run. */
static enum pz_status read_step(const char *name, const char *text, size_t bytes,
                                struct pz_run_plan *r, struct pz_error *err) {
  struct pz_logged_step s = {.step_s = 0};
  enum pz_status status = pz_run_log_step(name, text, bytes, &s, err);
  const struct pz_plan *p = &r->plan;
  int64_t devices = pz_plan_asked_devices(p);
  if (status != PZ_OK) return status;
  r->measured_s = s.step_s;
  if (s.step_s > 0) return PZ_OK;
  if (!(p->seq > 0 && p->batch > 0 && devices > 0))
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s: tokens in a second, and the run does not say its %s; accepted: with it",
                   name, devices > 0 ? (p->seq > 0 ? "batch" : "sequence length") : "devices");
  r->measured_s = (double)p->seq * (double)p->batch / (s.tokens_per_s_per_device * (double)devices);
  return PZ_OK;
}

enum pz_status pz_run_plan_read(const char *name, const char *text, size_t bytes,
                                const struct pz_run_plan_options *options, struct pz_run_plan **out,
                                struct pz_error *err) {
  struct pz_run_plan_options o = pz_run_plan_options_default();
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status = PZ_OK;
  if (options) status = pz_sized_take(&o, sizeof o, options, "pz_run_plan_options_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the run", &made, &arena, err);
  if (status != PZ_OK) return status;
  if (is_json(text, bytes))
    status = read_plan_file(name, text, bytes, &o, arena, made, err);
  else if (pz_run_log_is(text, bytes))
    status = read_log(name, text, bytes, &o, arena, made, err);
  else if (pz_torchtitan_is(name, text, bytes))
    status = pz_torchtitan_read(name, text, bytes, &o, arena, made, err);
  else if (pz_bridge_is(text, bytes))
    status = pz_bridge_read(name, text, bytes, &o, arena, made, err);
  else
    status = pz_megatron_read(name, text, bytes, &o, arena, made, err);
  if (status == PZ_OK) status = pz_launch_comments_read(text, bytes, arena, made, err);
  if (status == PZ_OK && (o.log || pz_run_log_is(text, bytes)))
    status = read_step(o.log ? "the log" : name, o.log ? o.log : text,
                       o.log ? strlen(o.log) : bytes, made, err);
  return pz_held_give(status, made, out);
}

void pz_run_plan_free(struct pz_run_plan *r) { pz_held_free(r); }

enum pz_status pz_run_plan_text(const struct pz_run_plan *r, char **text, struct pz_error *err) {
  struct pz_run_plan own = pz_run_plan_default();
  enum pz_status status = pz_sized_take(&own, sizeof own, r, "pz_run_plan_default", err);
  if (status == PZ_OK) status = pz_need(text, "text", err);
  if (status != PZ_OK) return status;
  json_t *j = pz_run_plan_json(&own);
  status = pz_json_text(j, text, err);
  json_decref(j);
  return status;
}
