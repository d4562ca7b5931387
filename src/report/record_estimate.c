/* Records of `phaze estimate`: a matrix product with its mapping onto the cores, and the operators
 * of a model.  The struct definitions are in report/records.h. */
#include "report/records.h"

/* ---- a matrix product ----------------------------------------------------------------------- */

static const struct pz_field tile_fields[] = {
    {.key = "m", .type = PZ_FIELD_INT, .offset = PZ_DIM_M * sizeof(int64_t), .meaning = "Rows"},
    {.key = "n", .type = PZ_FIELD_INT, .offset = PZ_DIM_N * sizeof(int64_t), .meaning = "Columns"},
    {.key = "k", .type = PZ_FIELD_INT, .offset = PZ_DIM_K * sizeof(int64_t), .meaning = "Sums"},
};
static const struct pz_record tile_record = PZ_RECORD(tile_fields, int64_t[PZ_DIMS]);

#define MAPPED struct pz_mapped_product
#define OF_MAPPING(f, t, key, unit, ...)                                                           \
  PZ_ROW_VIA(MAPPED, mapping, struct pz_mapping, f, t, key, unit, __VA_ARGS__)
static const struct pz_field seconds_fields[] = {
    OF_MAPPING(compute_s, PZ_FIELD_REAL, "compute", "s", "Multipliers"),
    OF_MAPPING(local_s, PZ_FIELD_REAL, "local", "s", "Buffers of the cores"),
    OF_MAPPING(glb_s, PZ_FIELD_REAL, "glb", "s", "Global buffer"),
    OF_MAPPING(hbm_s, PZ_FIELD_REAL, "hbm", "s", "HBM"),
    OF_MAPPING(startup_s, PZ_FIELD_REAL, "startup", "s", "Start of the kernel"),
};
static const struct pz_record seconds_record = PZ_RECORD(seconds_fields, MAPPED);

static const struct pz_field bytes_fields[] = {
    OF_MAPPING(local_bytes, PZ_FIELD_REAL, "local", "B", "Buffers of the cores"),
    OF_MAPPING(glb_bytes, PZ_FIELD_REAL, "glb", "B", "Global buffer"),
    OF_MAPPING(hbm_bytes, PZ_FIELD_REAL, "hbm", "B", "HBM"),
};
static const struct pz_record bytes_record = PZ_RECORD(bytes_fields, MAPPED);

static const struct pz_field mapping_fields[] = {
    OF_MAPPING(tile, PZ_FIELD_STRUCT, "tile", NULL, "Tile of one item of work",
               .record = &tile_record),
    OF_MAPPING(items, PZ_FIELD_INT, "items", NULL, "Items of work, which the cores divide"),
    OF_MAPPING(rounds, PZ_FIELD_INT, "rounds", NULL, "Items that one core runs"),
    PZ_ROW(MAPPED, along_rows, PZ_FIELD_TEXT, NULL, "Dimension along the rows of the array"),
    PZ_ROW(MAPPED, along_cols, PZ_FIELD_TEXT, NULL, "Dimension along the columns of the array"),
    OF_MAPPING(keep_rows, PZ_FIELD_INT, "keep_rows", NULL,
               "Values that each multiplier keeps along the rows"),
    OF_MAPPING(keep_cols, PZ_FIELD_INT, "keep_cols", NULL,
               "Values that each multiplier keeps along the columns"),
    PZ_ROW(MAPPED, local_stays, PZ_FIELD_TEXT, NULL, "Operand that stays in the core's buffer"),
    OF_MAPPING(glb_tile, PZ_FIELD_STRUCT, "glb_tile", NULL, "Tile in the global buffer",
               .record = &tile_record),
    OF_MAPPING(glb_batch, PZ_FIELD_INT, "glb_batch", NULL,
               "Products of the batch that are in the global buffer at a time"),
    PZ_ROW(MAPPED, glb_stays, PZ_FIELD_TEXT, NULL, "Operand that stays in the global buffer"),
};
static const struct pz_record mapping_record = PZ_RECORD(mapping_fields, MAPPED);

static const struct pz_field product_fields[] = {
    OF_MAPPING(latency_s, PZ_FIELD_REAL, "latency_s", "s", "Latency"),
    OF_MAPPING(energy_j, PZ_FIELD_REAL, "energy_j", "J", "Energy, with static power"),
    PZ_ROW(MAPPED, bound, PZ_FIELD_TEXT, NULL, "Resource that limits the latency"),
    OF_MAPPING(utilisation, PZ_FIELD_REAL, "utilisation", "ratio",
               "Share of the peak of the tensor cores over the latency"),
    PZ_ROW_PART("seconds", &seconds_record, "Time on each resource"),
    PZ_ROW_PART("bytes", &bytes_record, "Traffic of each memory"),
    PZ_ROW_PART("mapping", &mapping_record, "Mapping onto the cores"),
};
const struct pz_record pz_mapped_product_record = PZ_RECORD(product_fields, MAPPED);

/* ---- operators of a model ------------------------------------------------------------------- */

#define OPERATOR struct pz_operator_estimate
static const struct pz_field operator_fields[] = {
    PZ_ROW(OPERATOR, name, PZ_FIELD_TEXT, NULL, "Operator"),
    PZ_ROW_AS(OPERATOR, op_class, PZ_FIELD_TEXT, "class", NULL, "Units that run it"),
    PZ_ROW(OPERATOR, flop, PZ_FIELD_INT, "FLOP", "Floating-point operations"),
    PZ_ROW(OPERATOR, bytes, PZ_FIELD_INT, "B", "Inputs and outputs, each once"),
    PZ_ROW(OPERATOR, latency_s, PZ_FIELD_REAL, "s", "Latency"),
    PZ_ROW(OPERATOR, energy_j, PZ_FIELD_REAL, "J", "Energy, with static power"),
    PZ_ROW(OPERATOR, bound, PZ_FIELD_TEXT, NULL, "Resource that limits it; none: it moves no data"),
    PZ_ROW(OPERATOR, utilisation, PZ_FIELD_REAL, "ratio", "Share of the tensor cores' peak"),
};
static const struct pz_record operator_record = PZ_RECORD(operator_fields, OPERATOR);

#define LAYER struct pz_layer_estimate
static const struct pz_field layer_fields[] = {
    PZ_ROW(LAYER, name, PZ_FIELD_TEXT, NULL, "Layer"),
    PZ_ROW(LAYER, count, PZ_FIELD_INT, NULL, "Times that the model has it"),
    PZ_ROW_MANY(LAYER, ops[PZ_FORWARD], n_ops[PZ_FORWARD], PZ_FIELD_LIST, "forward",
                &operator_record, "Operators of the forward pass"),
    PZ_ROW_MANY(LAYER, ops[PZ_BACKWARD], n_ops[PZ_BACKWARD], PZ_FIELD_LIST, "backward",
                &operator_record, "Operators of the backward pass"),
};
static const struct pz_record layer_record = PZ_RECORD(layer_fields, LAYER);

#define ESTIMATE struct pz_model_estimate
static const struct pz_field total_fields[] = {
    PZ_ROW_AS(ESTIMATE, latency_s[PZ_FORWARD], PZ_FIELD_REAL, "forward_s", "s", "Forward pass"),
    PZ_ROW_AS(ESTIMATE, latency_s[PZ_BACKWARD], PZ_FIELD_REAL, "backward_s", "s", "Backward pass"),
    PZ_ROW_AS(ESTIMATE, energy_j[PZ_FORWARD], PZ_FIELD_REAL, "forward_j", "J", "Forward pass"),
    PZ_ROW_AS(ESTIMATE, energy_j[PZ_BACKWARD], PZ_FIELD_REAL, "backward_j", "J", "Backward pass"),
    PZ_ROW(ESTIMATE, optimizer_s, PZ_FIELD_REAL, "s", "Optimizer (Adam), once a step"),
};
static const struct pz_record total_record = PZ_RECORD(total_fields, ESTIMATE);

static const struct pz_field estimate_fields[] = {
    PZ_ROW(ESTIMATE, model, PZ_FIELD_TEXT, NULL, "Model"),
    PZ_ROW(ESTIMATE, chip, PZ_FIELD_TEXT, NULL, "Chip"),
    PZ_ROW_MANY(ESTIMATE, layers, n_layers, PZ_FIELD_LIST, "layers", &layer_record, "Layers"),
    PZ_ROW_PART("totals", &total_record, "Sums of one microbatch, operators in sequence"),
};
const struct pz_record pz_model_estimate_record = PZ_RECORD(estimate_fields, ESTIMATE);
