/* phaze predict: what one training plan takes, or every run of a table. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/machine_options.h"
#include "core/alloc.h"
#include "core/buffer.h"
#include "core/file.h"
#include "core/record.h"
#include "core/text.h"
#include "place/run_table.h"
#include "report/table.h"

struct settings {
  struct pz_common common;
  struct pz_machine_options machine;
  const char *runs, *csv, *framework;
  int64_t tp, pp, vpp, dp, mbs, batch, seq, zero, threads;
  bool sp, overlap;
  int recompute, execution, attention;
};

static const struct settings defaults = {
    .framework = "megatron", .tp = 1, .pp = 1, .vpp = 1, .dp = 1, .mbs = 1, .batch = 1};
static const char *const recompute_names[] = {"none",      "selective", "full",
                                              "alternate", "half",      NULL};
static const char *const execution_names[] = {"eager", "compile", "graph", NULL};

#define AT(field) offsetof(struct settings, field)
/* clang-format off */
static const struct pz_option options[] = {
    PZ_COMMON_OPTIONS(struct settings),
    PZ_MACHINE_OPTIONS(struct settings, machine),
    {.name = "tp", .type = PZ_OPTION_INT, .offset = AT(tp), .arg = "N", .min = 1, .max = 1 << 20, .help = "Tensor-parallel degree"},
    {.name = "sp", .type = PZ_OPTION_FLAG, .offset = AT(sp), .help = "Sequence parallelism in the tensor-parallel group"},
    {.name = "pp", .type = PZ_OPTION_INT, .offset = AT(pp), .arg = "N", .min = 1, .max = 1 << 20, .help = "Pipeline stages"},
    {.name = "vpp", .type = PZ_OPTION_INT, .offset = AT(vpp), .arg = "N", .min = 1, .max = 1 << 20, .help = "Chunks of layers per stage (interleaved pipeline)"},
    {.name = "dp", .type = PZ_OPTION_INT, .offset = AT(dp), .arg = "N", .min = 1, .max = 1 << 20, .help = "Data-parallel replicas"},
    {.name = "mbs", .type = PZ_OPTION_INT, .offset = AT(mbs), .arg = "B", .min = 1, .max = 1 << 20, .help = "Microbatch size (samples)"},
    {.name = "batch", .type = PZ_OPTION_INT, .offset = AT(batch), .arg = "B", .min = 1, .max = 1 << 24, .help = "Global batch size (samples)"},
    {.name = "seq", .type = PZ_OPTION_INT, .offset = AT(seq), .arg = "S", .min = 1, .max = 1 << 24, .help = "Sequence length, tokens per sample (default: the model's, at most 8192)"},
    {.name = "recompute", .type = PZ_OPTION_CHOICE, .offset = AT(recompute), .choices = recompute_names, .help = "Recompute activations (checkpointing): the attention core, every layer, every second product, every second layer"},
    {.name = "zero", .type = PZ_OPTION_INT, .offset = AT(zero), .arg = "N", .min = 0, .max = 3, .help = "ZeRO stage. Shard over the replicas: 1 optimizer state, 2 also gradients, 3 also weights"},
    {.name = "attention", .type = PZ_OPTION_CHOICE, .offset = AT(attention), .choices = pz_attention_names, .help = "Attention kernels"},
    {.name = "execution", .type = PZ_OPTION_CHOICE, .offset = AT(execution), .choices = execution_names, .help = "Kernel execution: launched one by one, compiled, or as a CUDA graph"},
    {.name = "overlap", .type = PZ_OPTION_FLAG, .offset = AT(overlap), .help = "Overlap communication (gradients, weights, tensor parallelism, stage transfers) with compute"},
    {.name = "framework", .type = PZ_OPTION_TEXT, .offset = AT(framework), .arg = "NAME", .help = "Training framework: sets dropout, kernel fusion and launches (default: megatron)"},
    {.name = "runs", .type = PZ_OPTION_TEXT, .offset = AT(runs), .arg = "FILE.csv", .help = "Predict every run of a table instead of a MODEL"},
    {.name = "csv", .type = PZ_OPTION_TEXT, .offset = AT(csv), .arg = "OUT.csv", .help = "With --runs: write the table with predictions, errors and parts to this file"},
    {.name = "threads", .type = PZ_OPTION_INT, .offset = AT(threads), .arg = "T", .min = 0, .max = 1024, .help = "Number of threads for --runs (default: 0, one per processor)"},
};
/* clang-format on */

/* ---- JSON ----------------------------------------------------------------------------------- */

#define PART(f) PZ_FIELD_AS(struct pz_prediction, parts.f, PZ_FIELD_REAL, #f)
static const struct pz_field part_fields[] = {
    PART(products_s), PART(attention_s), PART(elementwise_s), PART(launch_s),   PART(tensor_s),
    PART(transfer_s), PART(bubble_s),    PART(gradient_s),    PART(optimizer_s)};
static const struct pz_record part_record = PZ_RECORD(part_fields, struct pz_prediction);

#define HELD(f) PZ_FIELD_AS(struct pz_prediction, peak.f, PZ_FIELD_REAL, #f)
static const struct pz_field memory_fields[] = {HELD(weight_bytes), HELD(gradient_bytes),
                                                HELD(optimizer_bytes), HELD(activation_bytes),
                                                HELD(logit_bytes)};
static const struct pz_record memory_record = PZ_RECORD(memory_fields, struct pz_prediction);

static const struct pz_field prediction_fields[] = {
    PZ_FIELD(struct pz_prediction, step_s, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_prediction, bound_s, PZ_FIELD_REAL, "pipeline_bound_s"),
    PZ_FIELD(struct pz_prediction, samples_per_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, tokens_per_s_per_device, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, mfu, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, hfu, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, microbatches, PZ_FIELD_INT),
    PZ_FIELD(struct pz_prediction, peak_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, peak_stage, PZ_FIELD_COUNT),
    {.key = "memory", .type = PZ_FIELD_STRUCT, .offset = 0, .record = &memory_record},
    {.key = "parts", .type = PZ_FIELD_STRUCT, .offset = 0, .record = &part_record}};
static const struct pz_record prediction_record =
    PZ_RECORD(prediction_fields, struct pz_prediction);

/* ---- one plan ------------------------------------------------------------------------------- */

static void print_parts(const struct pz_prediction *p) {
  const struct {
    const char *name;
    double s;
  } list[] = {{"products", p->parts.products_s},
              {"attention", p->parts.attention_s},
              {"element-wise", p->parts.elementwise_s},
              {"launches", p->parts.launch_s},
              {"tensor-parallel collectives", p->parts.tensor_s},
              {"stage transfers", p->parts.transfer_s},
              {"pipeline bubble", p->parts.bubble_s},
              {"gradient exchange", p->parts.gradient_s},
              {"optimizer", p->parts.optimizer_s}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    printf("  %-28s %9.4g s  %4.1f%%\n", list[i].name, list[i].s, 100 * list[i].s / p->step_s);
}

static void print_memory(const struct pz_prediction *p, const struct pz_chip *chip) {
  const struct pz_training_memory *m = &p->peak;
  char all[32], has[32], text[5][32];
  const double list[] = {m->weight_bytes, m->gradient_bytes, m->optimizer_bytes,
                         m->activation_bytes, m->logit_bytes};
  for (int i = 0; i < 5; i++) pz_text_si(text[i], sizeof text[i], list[i], "B");
  double hbm = (double)pz_chip_hbm_bytes(chip);
  printf("memory: stage %u holds most, %s of %s%s\n", p->peak_stage + 1,
         pz_text_si(all, sizeof all, p->peak_bytes, "B"), pz_text_si(has, sizeof has, hbm, "B"),
         p->peak_bytes > hbm ? ": does not fit" : "");
  printf("  weights %s, gradients %s, optimizer state %s, activations %s, logits and work %s\n",
         text[0], text[1], text[2], text[3], text[4]);
}

static enum pz_status predict_plan(const struct settings *s, const char *model,
                                   struct pz_error *err) {
  struct pz_machine machine;
  struct pz_machine_use use = {"devices", s->tp * s->pp * s->dp, s->common.quiet};
  struct pz_training_model m = {
      .name = model, .seq = s->seq, .attention = (enum pz_attention)s->attention};
  struct pz_training_plan plan = {.tp = s->tp,
                                  .pp = s->pp,
                                  .vpp = s->vpp,
                                  .dp = s->dp,
                                  .sequence_parallel = s->sp,
                                  .mbs = s->mbs,
                                  .batch = s->batch,
                                  .recompute = (enum pz_recomputation)s->recompute,
                                  .zero = (int)s->zero,
                                  .execution = (enum pz_execution)s->execution,
                                  .overlap = s->overlap ? PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM |
                                                              PZ_OVERLAP_TP | PZ_OVERLAP_P2P
                                                        : 0,
                                  .grad_bytes = 4,
                                  .framework = pz_framework_find(s->framework)};
  struct pz_prediction p;
  char names[400];
  if (!plan.framework)
    return pz_fail(err, PZ_BAD_USE, "unknown framework '%s'; accepted: %s", s->framework,
                   pz_text_join(names, sizeof names, pz_framework_name, NULL));
  enum pz_status status = pz_machine_load(&s->machine, use, &machine, err);
  if (status == PZ_OK)
    status =
        pz_predict(&m, &machine.chip, machine.own_link ? NULL : &machine.net, &plan, &p, NULL, err);
  if (status != PZ_OK) return status;
  if (s->common.json) {
    json_t *o = pz_record_json(&prediction_record, &p);
    return o ? pz_command_json(o, err) : pz_fail(err, PZ_NO_MEMORY, "out of memory");
  }
  printf("%s on %" PRId64 " x %s: %.4g s per step, global batch %" PRId64 "\n", model,
         s->tp * s->pp * s->dp, machine.chip.name, p.step_s, s->batch);
  printf("%.4g samples/s, %.4g tokens/s per device, MFU %.1f%%, HFU %.1f%%\n", p.samples_per_s,
         p.tokens_per_s_per_device, 100 * p.mfu, 100 * p.hfu);
  print_parts(&p);
  print_memory(&p, &machine.chip);
  return PZ_OK;
}

/* ---- a table -------------------------------------------------------------------------------- */

struct group {
  const char *name;
  uint32_t n, skipped;
  double sum, bias, worst;
};

static struct group *group_of(struct group *list, uint32_t *n, const char *name) {
  for (uint32_t i = 0; i < *n; i++)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  list[*n] = (struct group){.name = name};
  return &list[(*n)++];
}

static void add_row(struct group *g, const struct pz_run_row *row) {
  if (!row->predicted || !(row->measured_s > 0)) {
    g->skipped++;
    return;
  }
  double e = row->p.step_s / row->measured_s - 1;
  g->n++;
  g->sum += fabs(e);
  g->bias += e;
  if (fabs(e) > fabs(g->worst)) g->worst = e;
}

static void group_cells(struct pz_table *t, const struct group *g) {
  pz_table_cell(t, "%s", g->name);
  pz_table_cell(t, "%u", g->n);
  pz_table_cell(t, "%u", g->skipped);
  if (!g->n) {
    for (int i = 0; i < 3; i++) pz_table_cell(t, "-");
    return;
  }
  pz_table_cell(t, "%.1f%%", 100 * g->sum / g->n);
  pz_table_cell(t, "%+.1f%%", 100 * g->bias / g->n);
  pz_table_cell(t, "%+.1f%%", 100 * g->worst);
}

static json_t *group_json(const struct group *g) {
  double n = g->n ? g->n : 1;
  return json_pack("{s:s,s:I,s:I,s:f,s:f,s:f}", "group", g->name, "runs", (json_int_t)g->n,
                   "not_predicted", (json_int_t)g->skipped, "mean_error", g->sum / n, "bias",
                   g->bias / n, "worst", g->worst);
}

static enum pz_status print_groups(const struct pz_run_table *t, bool json, struct pz_arena *arena,
                                   struct pz_error *err) {
  static const char *const heads[] = {"group",  ">runs", ">not predicted", ">mean error", ">bias",
                                      ">worst", NULL};
  struct group *list = pz_arena_alloc(arena, t->n_rows + 1, sizeof *list), all = {.name = "all"};
  uint32_t n = 0;
  struct pz_table table;
  if (!list) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < t->n_rows; i++) {
    if (strcmp(t->rows[i].quality, "ok") != 0) continue;
    add_row(group_of(list, &n, t->rows[i].group), &t->rows[i]);
    add_row(&all, &t->rows[i]);
  }
  list[n++] = all;
  if (json) {
    json_t *groups = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(groups, group_json(&list[i]));
    return pz_command_json(groups, err);
  }
  pz_table_init(&table, arena, heads);
  for (uint32_t i = 0; i < n; i++) group_cells(&table, &list[i]);
  return pz_table_print(&table, 0, stdout);
}

/* ---- the table with what was predicted ------------------------------------------------------ */

static void put_row(const struct pz_run_table *t, uint32_t i, FILE *out) {
  const struct pz_run_row *row = &t->rows[i];
  for (uint32_t c = 0; c < t->csv.columns; c++) {
    pz_csv_put(pz_csv_cell(&t->csv, i, c), out);
    fputc(',', out);
  }
  if (row->predicted) {
    const struct pz_training_parts *p = &row->p.parts;
    fprintf(out, "%.6g,", row->p.step_s);
    if (row->measured_s > 0) fprintf(out, "%.5f", row->p.step_s / row->measured_s - 1);
    fprintf(out, ",%.0f", row->p.peak_bytes);
    fprintf(out, ",%.5g,%.5g,%.5g,%.5g,%.5g,%.5g,%.5g,%.5g,%.5g,", p->products_s, p->attention_s,
            p->elementwise_s, p->launch_s, p->tensor_s, p->transfer_s, p->bubble_s, p->gradient_s,
            p->optimizer_s);
  } else {
    fputs(",,,,,,,,,,,,", out);
  }
  pz_csv_put(row->reason, out);
  fputc('\n', out);
}

static enum pz_status write_csv(const struct pz_run_table *t, const char *path,
                                struct pz_error *err) {
  struct pz_buffer text = {0};
  FILE *out = pz_buffer_stream(&text);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", path);
  for (uint32_t c = 0; c < t->csv.columns; c++) {
    pz_csv_put(t->csv.cells[c], out);
    fputc(',', out);
  }
  fputs("predicted_step_s,error,predicted_peak_bytes,products_s,attention_s,elementwise_s,launch_s,"
        "tensor_s,transfer_s,"
        "bubble_s,gradient_s,optimizer_s,not_predicted\n",
        out);
  for (uint32_t i = 0; i < t->n_rows; i++) put_row(t, i, out);
  enum pz_status status = pz_buffer_close(out)
                              ? pz_file_write(path, text.text, text.bytes, err)
                              : pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", path);
  pz_free(text.text);
  return status;
}

static enum pz_status predict_runs(const struct settings *s, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_run_table t;
  enum pz_status status = s->csv ? pz_file_writable(s->csv, err) : PZ_OK;
  if (status == PZ_OK) status = pz_file_read(s->runs, PZ_CSV_MOST_BYTES, &text, &bytes, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&arena, NULL);
  status = pz_run_table_read(s->runs, text, bytes, (unsigned)s->threads, &arena, &t, err);
  if (status == PZ_OK && s->csv) status = write_csv(&t, s->csv, err);
  if (status == PZ_OK) status = print_groups(&t, s->common.json, &arena, err);
  pz_arena_release(&arena);
  pz_free(text);
  return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

static enum pz_exit run(int argc, char **argv) {
  struct settings s = defaults;
  struct pz_error err = {0};
  enum pz_exit code;
  int n_args;
  if (!pz_command_begin(&pz_cmd_predict, argc, argv, &s, &n_args, &code)) return code;
  if (n_args != (s.runs ? 0 : 1))
    return pz_command_misuse(&pz_cmd_predict, "expected one MODEL, or --runs FILE.csv");
  if (s.csv && !s.runs) return pz_command_misuse(&pz_cmd_predict, "--csv requires --runs");
  if (!s.runs && !s.machine.chip)
    return pz_command_misuse(&pz_cmd_predict, "--chip is required with a MODEL");
  enum pz_status status = s.runs ? predict_runs(&s, &err) : predict_plan(&s, argv[1], &err);
  return status == PZ_OK ? pz_command_end() : pz_command_fail(&err);
}

const struct pz_command pz_cmd_predict = {
    .name = "predict",
    .synopsis = "MODEL --chip CHIP [--cluster NET] [plan] | --runs FILE.csv",
    .summary = "Predict the step time of a training plan as frameworks run it",
    .detail =
        "Operators run one after another on each device, as fast as the chip's calibration\n"
        "says or as the host launches them; the pipeline is simulated event by event.\n"
        "--runs predicts every row of a table of runs and shows the errors by group.\n"
        "\n"
        "Examples:\n"
        "  phaze predict llama2-7b --chip h100 --cluster dgx-h100 --tp 4 --dp 16 --batch 512\n"
        "  phaze predict --runs runs.csv\n",
    .table = {options, sizeof options / sizeof *options},
    .defaults = &defaults,
    .run = run,
};
