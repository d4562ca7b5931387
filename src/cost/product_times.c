/* A cache of GEMM times over many chips.  Times on the cores are cached for a clock of CLOCK_HZ and
 * times at the memory for a rate of HBM_BYTES_PER_S, and scaled to the chip of a question, because
 * the fastest mapping does not depend on clock and rate. */
#include "cost/product_times.h"

#include <string.h>

#include "core/map.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/mapper.h"

/* The cache is emptied when it has more entries than this. */
enum { MOST_SECONDS = 1 << 21, MOST_MAPPINGS = 1 << 19 };

static const double CLOCK_HZ = 1e9, HBM_BYTES_PER_S = 1e12;

struct pz_product_times {
  const struct pz_shared_table *shared;
  struct pz_arena arena;    /* memory of the cache */
  struct pz_map cores, hbm; /* keys of times on the cores and at the memory to indices of seconds */
  struct pz_map nested;     /* keys of nested mappings to indices of mappings */
  struct pz_vec seconds;    /* times, double */
  struct pz_vec mappings;   /* nested mappings, struct pz_mapping */
};

/* Initialises an empty cache. */
static void init_cache(struct pz_product_times *times) {
  pz_arena_init(&times->arena);
  pz_map_init(&times->cores, &times->arena);
  pz_map_init(&times->hbm, &times->arena);
  pz_map_init(&times->nested, &times->arena);
  pz_vec_init(&times->seconds, &times->arena, sizeof(double));
  pz_vec_init(&times->mappings, &times->arena, sizeof(struct pz_mapping));
}

struct pz_product_times *pz_product_times_new(struct pz_call *call,
                                              const struct pz_shared_table *shared) {
  struct pz_call own;
  struct pz_product_times *times = pz_object_new(call, sizeof *times, &own);
  times->shared = shared;
  init_cache(times);
  return pz_object_keep(call, times);
}

void pz_product_times_free(struct pz_product_times *times) {
  if (times) pz_arena_release(&times->arena);
  pz_object_free(times);
}

/* ---- keys: everything that a time depends on ------------------------------------------------- */

/* Packs the rules and sizes of values that a time depends on into a number. */
static int64_t rules_key(const struct pz_chip *chip) {
  const struct pz_rules *rules = &chip->rules;
  return rules->fill | rules->duplex << 1 | rules->partitioned << 2 | rules->double_buffer << 3 |
         rules->operand_bytes << 8 | rules->sum_bytes << 16;
}

/* Returns the bits of a number, as a part of a key. */
static int64_t bits(double number) {
  int64_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

/* The numbers that the time on the cores depends on, besides the clock. */
enum { CORE_KEY = 14 };

/* Sets key[] to the numbers of a GEMM and a chip that the time on the cores depends on. */
static void set_core_key(const struct pz_product *product, const struct pz_chip *chip,
                         int64_t key[CORE_KEY]) {
  const struct pz_tensor_cores *tensor = &chip->tensor;
  int64_t glb_rate = bits(chip->glb_bytes_per_s), local_rate = bits(tensor->local_bytes_per_s);
  int64_t local_total_rate = bits(tensor->local_total_bytes_per_s);
  int64_t efficiency = bits(chip->calibration.tensor_efficiency);
  const int64_t values[CORE_KEY] = {
      product->batch,         product->m,      product->n,    product->k,
      tensor->rows,           tensor->cols,    tensor->cores, tensor->local_bytes,
      tensor->register_bytes, rules_key(chip), glb_rate,      local_rate,
      local_total_rate,       efficiency};
  memcpy(key, values, sizeof values);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Returns the seconds of a GEMM on the cores in the relaxation, without a cache. */
double pz_product_core_s(struct pz_call *call, const struct pz_product *product,
                         const struct pz_chip *chip) {
  struct pz_sweep sweep = {.cores = &chip->tensor.cores, .n_cores = 1};
  double core_s;
  (void)pz_sweep_mappings(call, product, chip, &sweep, &core_s, NULL);
  return core_s;
}

/* Returns the seconds of HBM traffic at a rate of HBM_BYTES_PER_S. */
static double hbm_s_at_rate(struct pz_call *call, struct pz_product_times *times,
                            const struct pz_product *product, const struct pz_chip *chip) {
  int64_t read_efficiency = bits(chip->calibration.hbm_read_efficiency);
  int64_t write_efficiency = bits(chip->calibration.hbm_write_efficiency);
  const int64_t key[] = {product->batch,    product->m,        product->n,      product->k,
                         chip->tensor.rows, chip->tensor.cols, chip->glb_bytes, rules_key(chip),
                         read_efficiency,   write_efficiency};
  uint32_t at = pz_map_get(&times->hbm, key, sizeof key);
  if (at != PZ_NONE) return *pz_vec_at(&times->seconds, double, at);
  struct pz_chip rated = *chip;
  rated.hbm.stacks = 1;
  rated.hbm.bytes_per_s_per_stack = HBM_BYTES_PER_S;
  struct pz_sweep sweep = {.glb_bytes = &rated.glb_bytes, .n_glb = 1};
  double s;
  (void)pz_sweep_mappings(call, product, &rated, &sweep, NULL, &s);
  at = times->seconds.n;
  pz_append(call, &times->seconds, &s);
  pz_map_set(call, &times->hbm, key, sizeof key, at);
  return s;
}

/* Returns the best nested mapping from the cache, the shared table or a new search. */
static struct pz_mapping nested_mapping(struct pz_call *call, struct pz_product_times *times,
                                        const struct pz_product *product,
                                        const struct pz_chip *chip) {
  enum { OWN_KEY = 8 }; /* the numbers that the time on the cores does not depend on */
  int64_t clock = bits(chip->clock_hz), hbm_rate = bits(pz_chip_hbm_bytes_per_s(chip));
  int64_t read_efficiency = bits(chip->calibration.hbm_read_efficiency);
  int64_t write_efficiency = bits(chip->calibration.hbm_write_efficiency);
  int64_t key[OWN_KEY + CORE_KEY] = {PZ_SHARED_MAPPING,   product->warm,   chip->glb_bytes,
                                     (int64_t)chip->tech, clock,           hbm_rate,
                                     read_efficiency,     write_efficiency};
  set_core_key(product, chip, key + OWN_KEY);
  uint32_t at = pz_map_get(&times->nested, key, sizeof key);
  if (at != PZ_NONE) return *pz_vec_at(&times->mappings, struct pz_mapping, at);
  const struct pz_mapping *shared = pz_shared_table_get(times->shared, key, sizeof key);
  struct pz_mapping mapping = shared ? *shared : pz_find_mapping(call, product, chip);
  if (!shared) pz_shared_table_put(times->shared, key, sizeof key, &mapping, sizeof mapping);
  at = times->mappings.n;
  pz_append(call, &times->mappings, &mapping);
  pz_map_set(call, &times->nested, key, sizeof key, at);
  return mapping;
}

/* Returns the mapping of a GEMM, or in the relaxation only its times. */
struct pz_mapping pz_product_times_mapping(struct pz_call *call, struct pz_product_times *times,
                                           const struct pz_product *product,
                                           const struct pz_chip *chip) {
  if (times->seconds.n > MOST_SECONDS || times->mappings.n > MOST_MAPPINGS) {
    pz_arena_release(&times->arena);
    init_cache(times);
  }
  if (chip->rules.nested_mapping) return nested_mapping(call, times, product, chip);
  /* The seconds on the cores at a clock of CLOCK_HZ with the same bytes per cycle. */
  double clock_ratio = CLOCK_HZ / chip->clock_hz, core_s;
  struct pz_chip clocked = *chip;
  clocked.clock_hz = CLOCK_HZ;
  clocked.glb_bytes_per_s *= clock_ratio;
  clocked.tensor.local_bytes_per_s *= clock_ratio;
  clocked.tensor.local_total_bytes_per_s *= clock_ratio;
  int64_t key[CORE_KEY];
  set_core_key(product, &clocked, key);
  uint32_t at = pz_map_get(&times->cores, key, sizeof key);
  if (at != PZ_NONE) {
    core_s = *pz_vec_at(&times->seconds, double, at);
  } else {
    core_s = pz_product_core_s(call, product, &clocked);
    at = times->seconds.n;
    pz_append(call, &times->seconds, &core_s);
    pz_map_set(call, &times->cores, key, sizeof key, at);
  }
  const struct pz_calibration *calibration = &chip->calibration;
  struct pz_mapping mapping = {.compute_s = core_s * clock_ratio};
  mapping.startup_s = product->batch > 1 ? calibration->batched_startup_s : calibration->startup_s;
  mapping.hbm_s = hbm_s_at_rate(call, times, product, chip);
  mapping.hbm_s *= HBM_BYTES_PER_S / pz_chip_hbm_bytes_per_s(chip);
  mapping.least_hbm_s = mapping.hbm_s;
  mapping.latency_s = mapping.startup_s + pz_fmax(mapping.compute_s, mapping.hbm_s);
  mapping.bound = mapping.hbm_s > mapping.compute_s ? PZ_BOUND_HBM : PZ_BOUND_COMPUTE;
  return mapping;
}

/* Returns the least bytes of HBM traffic of a GEMM in the relaxation. */
double pz_product_times_hbm_bytes(struct pz_call *call, struct pz_product_times *times,
                                  const struct pz_product *product, const struct pz_chip *chip) {
  return hbm_s_at_rate(call, times, product, chip) * HBM_BYTES_PER_S;
}
