#include "partition/partition_json.h"

static const struct pz_field parts_fields[] = {
    PZ_FIELD(struct pz_step_parts, compute_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, collectives_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, transfers_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, bubble_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_step_parts, exchange_s, PZ_FIELD_REAL)};
static const struct pz_record parts_record = PZ_RECORD(parts_fields, struct pz_step_parts);

static const struct pz_field layers_fields[] = {
    PZ_FIELD(struct pz_partition_layers, name, PZ_FIELD_TEXT),
    PZ_FIELD(struct pz_partition_layers, count, PZ_FIELD_COUNT)};
static const struct pz_record layers_record = PZ_RECORD(layers_fields, struct pz_partition_layers);

/* The layers in words, for people: not read back. */
static json_t *write_layers(const void *value) {
  const struct pz_partition_stage *s = value;
  char text[256];
  return json_string(pz_partition_stage_text(s, text, sizeof text));
}

static enum pz_status skip_layers(const json_t *json, struct pz_arena *arena, void *value,
                                  struct pz_error *err) {
  (void)json, (void)arena, (void)value, (void)err;
  return PZ_OK;
}

static const struct pz_field_codec layers_codec = {write_layers, skip_layers};

static const struct pz_field stage_fields[] = {
    {.key = "layers", .type = PZ_FIELD_CUSTOM, .offset = 0, .codec = &layers_codec},
    PZ_FIELD_AS(struct pz_partition_stage, layer_count, PZ_FIELD_COUNT, "count"),
    PZ_FIELD(struct pz_partition_stage, devices, PZ_FIELD_INT),
    PZ_FIELD(struct pz_partition_stage, load_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, memory_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, forward_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, backward_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, param_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, optimizer_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, activation_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition_stage, in_flight_bytes, PZ_FIELD_REAL),
    PZ_FIELD_MANY(struct pz_partition_stage, layers, PZ_FIELD_LIST, "layer_runs", &layers_record)};
static const struct pz_record stage_record = PZ_RECORD(stage_fields, struct pz_partition_stage);

static const struct pz_field plan_fields[] = {
    PZ_FIELD(struct pz_partition, step_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, lower_bound_s, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_partition, tp, PZ_FIELD_INT, "tensor_parallel"),
    PZ_FIELD_AS(struct pz_partition, dp, PZ_FIELD_INT, "data_parallel"),
    PZ_FIELD_AS(struct pz_partition, mbs, PZ_FIELD_INT, "microbatch"),
    PZ_FIELD(struct pz_partition, recompute, PZ_FIELD_BOOL),
    PZ_FIELD(struct pz_partition, samples_per_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, tokens_per_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, flop_utilisation, PZ_FIELD_REAL),
    PZ_FIELD_IN(struct pz_partition, parts, PZ_FIELD_STRUCT, "parts", &parts_record),
    PZ_FIELD(struct pz_partition, worst_schedule_gap, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_partition, n_open_schedules, PZ_FIELD_COUNT, "open_schedules"),
    PZ_FIELD(struct pz_partition, devices_used, PZ_FIELD_INT),
    PZ_FIELD_AS(struct pz_partition, pp, PZ_FIELD_COUNT, "n_stages"),
    PZ_FIELD_AS(struct pz_partition, batch, PZ_FIELD_INT, "batch_samples"),
    PZ_FIELD_AS(struct pz_partition, seq, PZ_FIELD_INT, "seq_tokens"),
    PZ_FIELD(struct pz_partition, microbatches, PZ_FIELD_INT),
    PZ_FIELD(struct pz_partition, slowest_stage_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_partition, hbm_bytes, PZ_FIELD_REAL),
    PZ_FIELD_MANY_AS(struct pz_partition, stages, pp, PZ_FIELD_LIST, "stages", &stage_record)};
const struct pz_record pz_partition_record = PZ_RECORD(plan_fields, struct pz_partition);

json_t *pz_partition_json(const struct pz_partition *p, bool whole) {
  json_t *o = pz_record_json(&pz_partition_record, p);
  if (o && !whole) json_object_del(o, "stages");
  return o;
}
