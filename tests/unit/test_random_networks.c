/* Relations that hold for every network, on random networks of one to five levels: a collective, and a step, is never faster
 * when a rate falls or a latency grows, it does not change when a level is split into two equal ones or when a level is added
 * that nothing crosses, and no collective takes less than the bytes that cross a level over the rate of that level.
 * PHAZE_TEST_NETWORKS is the number of networks, PHAZE_TEST_SEED the seed. */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"
#include "cost/network.h"
#include "plan/framework_rules.h"
#include "step/predict.h"
#include "step_borders.h"
#include "unit/chip_borders.h"

static const struct pz_constants *const K = &pz_constants_default;

enum { DISPATCHES = PZ_COLLECTIVE_SEND + 1, RING = DISPATCHES + 4, KINDS };
enum { STEP_EVERY = 20 }; /* steps are predicted on every twentieth network */

enum relation { RATE, LATENCY, SPLIT, BOUND, RELATIONS };
static const char *const relation_names[] = {
    "never faster when a rate falls", "never faster when a latency grows",
    "unchanged by a split or an idle level", "never below the bytes over a level's rate"};

struct counts {
  long networks, collectives[RELATIONS], steps[RELATIONS];
};

struct random_network {
  struct pz_cluster net;
  struct pz_chip chip;
  struct pz_group group;
  double bytes;
};

static uint32_t below(uint64_t *r, uint32_t n) { return pz_random_below(r, n); }

static double between(uint64_t *r, double low, double high) {
  return low * pow(high / low, (double)below(r, 1 << 20) / (1 << 20));
}

static struct pz_cluster random_levels(uint64_t *r) {
  static const int64_t factors[] = {2, 2, 4, 4, 8, 3, 6};
  struct pz_cluster net = {.n_levels = 1 + (int)below(r, 5)};
  double rate = between(r, 2e10, 2e12);
  int64_t devices = 1;
  snprintf(net.name, sizeof net.name, "random");
  for (int l = 0; l < net.n_levels; l++) {
    struct pz_level *level = &net.level[l];
    devices *= factors[below(r, 7)];
    if (l && below(r, 6)) rate /= between(r, 1.01, l == 1 ? 30 : 6);
    *level = (struct pz_level){.devices = devices,
                               .bytes_per_s = rate,
                               .latency_s = between(r, 1e-7, 1e-4),
                               .mesh = l == 0 && below(r, 5) == 0};
    snprintf(level->name, sizeof level->name, "level%d", l);
  }
  net.devices = net.stated_devices = devices;
  return net;
}

static struct random_network random_network(uint64_t *r) {
  static const char *const chips[] = {"a100-80", "h100", "b200", "mi300x"};
  struct random_network n = {.net = random_levels(r), .bytes = between(r, 1e3, 4e9)};
  struct pz_error err = {0};
  if (pz_test_chip_read(chips[below(r, 4)], &n.chip, &err) != PZ_OK) fail_msg("%s", err.message);
  int64_t stride =
      below(r, 3) ? 1 << below(r, 5) : n.net.level[below(r, (uint32_t)n.net.n_levels)].devices;
  while (2 * stride > n.net.devices) stride = pz_max(1, stride / 2);
  if (n.net.devices / stride < 2) stride = 1;
  n.group.stride = stride;
  n.group.devices = 2 + below(r, (uint32_t)(n.net.devices / stride - 1));
  return n;
}

/* As the cost model sees a network: equal inner levels joined, with what its chip's collectives reach. */
static struct pz_cluster seen(const struct random_network *x, const struct pz_cluster *net) {
  struct pz_cluster n = *net;
  pz_cluster_join_equal(&n);
  n.level[0].collectives = x->chip.collectives;
  return n;
}

static double taken_s(const struct random_network *x, const struct pz_cluster *net, int kind) {
  struct pz_cluster n = seen(x, net);
  if (kind < DISPATCHES)
    return pz_network_time(K, &n, (enum pz_collective)kind, x->bytes, x->group).s;
  if (kind == RING)
    return x->bytes / pz_network_neighbour_rate(K, &n, x->group) +
           pz_network_message_s(K, &n, x->group);
  int which = kind - DISPATCHES;
  struct pz_dispatch d = {.dispatcher = which / 2 ? PZ_DISPATCHER_HYBRIDEP : PZ_DISPATCHER_DEEPEP,
                          .combine = which % 2,
                          .tokens = x->bytes / 7168,
                          .token_bytes = 7168,
                          .experts = 8,
                          .cores = 20,
                          .group = x->group};
  return pz_dispatch_time(K, &n, &d).s;
}

/* ---- changes of a network ------------------------------------------------------------------- */

/* Outer levels are never faster than inner ones. */
static struct pz_cluster slower(const struct pz_cluster *net, int l, double times) {
  struct pz_cluster n = *net;
  n.level[l].bytes_per_s *= times;
  for (int i = l + 1; i < n.n_levels; i++)
    n.level[i].bytes_per_s = pz_fmin(n.level[i].bytes_per_s, n.level[l].bytes_per_s);
  return n;
}

static struct pz_cluster inserted(const struct pz_cluster *net, int l, struct pz_level level) {
  struct pz_cluster n = *net;
  memmove(&n.level[l + 1], &n.level[l], (size_t)(n.n_levels - l) * sizeof level);
  n.level[l] = level;
  n.n_levels++;
  return n;
}

/* A divisor of the level's units that is neither 1 nor all of them; 0: there is none. */
static int64_t inner_units(const struct pz_cluster *net, int l) {
  int64_t inner = l ? net->level[l - 1].devices : 1, units = net->level[l].devices / inner;
  for (int64_t d = 2; d < units; d++)
    if (units % d == 0) return d * inner;
  return 0;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Two plans that use all devices: tensor, pipeline, data and expert parallelism and context rings. */
static bool step_of(const struct random_network *x, const struct pz_cluster *net, int which,
                    double *step_s) {
  static const char config[] =
      "{\"model_type\":\"mixtral\",\"hidden_size\":2048,\"intermediate_size\":4096,"
      "\"num_hidden_layers\":8,\"num_attention_heads\":16,\"num_key_value_heads\":8,"
      "\"vocab_size\":32000,\"num_local_experts\":8,\"num_experts_per_tok\":2}";
  int64_t n = x->net.devices;
  struct pz_plan plan = {.tp = which ? 1 : 2,
                         .pp = 2,
                         .vpp = 1,
                         .cp = which ? 2 : 1,
                         .ep = which ? 2 : 1,
                         .dp = n / 4,
                         .mbs = 1,
                         .batch = n,
                         .seq = 1024,
                         .attention = PZ_ATTENTION_FLASH,
                         .zero = which ? 1 : 0,
                         .devices = n,
                         .execution = PZ_EXECUTION_GRAPH,
                         .grad_bytes = 4,
                         .framework = pz_framework_find("megatron")};
  struct pz_job job = {.model = "random", .config = config, .chip = &x->chip, .net = net};
  struct pz_prediction p;
  struct pz_error err = {0};
  if (n % 8) return false;
  if (try_predict(&job, &plan, &p, &err) != PZ_OK) fail_msg("%s", err.message);
  *step_s = p.step_s;
  return true;
}

/* ---- relations ------------------------------------------------------------------------------ */

static bool holds(enum relation which, double before, double after) {
  static const double SAME = 1e-9;
  return which == SPLIT ? fabs(after / before - 1) < SAME : after > before * (1 - SAME);
}

static void refuse(const struct random_network *x, const struct pz_cluster *net,
                   enum relation which, const char *what, double before, double after) {
  print_message("%s: %s, %s: %.9g s, then %.9g s; %d of every %d-th device, %g bytes\n",
                relation_names[which], x->chip.name, what, before, after, (int)x->group.devices,
                (int)x->group.stride, x->bytes);
  for (int l = 0; l < net->n_levels; l++)
    print_message("  level %d: %d devices, %g bytes/s, %g s%s\n", l, (int)net->level[l].devices,
                  net->level[l].bytes_per_s, net->level[l].latency_s,
                  net->level[l].mesh ? ", mesh" : "");
  fail_msg("%s", relation_names[which]);
}

static void compare(const struct random_network *x, const struct pz_cluster *net,
                    enum relation which, bool idle_for_steps, bool step, struct counts *c) {
  for (int kind = 0; kind < KINDS; kind++) {
    char what[32];
    double before = taken_s(x, &x->net, kind), after = taken_s(x, net, kind);
    snprintf(what, sizeof what, "collective %d", kind);
    if (!holds(which, before, after)) refuse(x, net, which, what, before, after);
    c->collectives[which]++;
  }
  for (int i = 0; i < 2 && step && idle_for_steps; i++) {
    double before, after;
    if (!step_of(x, &x->net, i, &before) || !step_of(x, net, i, &after)) continue;
    if (!holds(which, before, after)) refuse(x, net, which, "a step", before, after);
    c->steps[which]++;
  }
}

/* Members of the group in one unit of level l, devices for l = -1. */
static double members(const struct random_network *x, int l) {
  int64_t unit = l < 0 ? 1 : x->net.level[l].devices / x->group.stride;
  return (double)pz_max(1, pz_min(x->group.devices, unit));
}

/* What leaves a unit with m of n members passes their interfaces: of a tensor of B, (1 - m/n) B each way. */
static void check_bounds(const struct random_network *x, struct counts *c) {
  double n = (double)x->group.devices;
  for (int kind = 0; kind <= PZ_COLLECTIVE_ALL_TO_ALL; kind++)
    for (int l = 0; l < x->net.n_levels; l++) {
      double m = members(x, l - 1);
      if (!(members(x, l) > m)) continue;
      double interfaces = kind == PZ_COLLECTIVE_ALL_TO_ALL ? 1 : m;
      bool inside = l == 0 && kind == PZ_COLLECTIVE_ALL_TO_ALL;
      double outside = inside ? members(x, 0) - 1 : n - m;
      double least = outside / n * x->bytes / (interfaces * x->net.level[l].bytes_per_s);
      double s = taken_s(x, &x->net, kind);
      if (l == 0 && kind != PZ_COLLECTIVE_ALL_TO_ALL) least *= members(x, 0) > 1;
      if (s < least) refuse(x, &x->net, BOUND, "a collective", least, s);
      c->collectives[BOUND]++;
    }
}

static void check_network(uint64_t *r, struct random_network *x, bool step, struct counts *c) {
  for (int l = 0; l < x->net.n_levels; l++) {
    struct pz_cluster n = slower(&x->net, l, between(r, 0.1, 0.999)), late = x->net;
    late.level[l].latency_s *= between(r, 1.001, 1e3);
    compare(x, &n, RATE, true, step, c);
    compare(x, &late, LATENCY, true, step, c);
    int64_t units = inner_units(&x->net, l);
    if (units && !x->net.level[l].mesh) {
      struct pz_level half = x->net.level[l];
      half.devices = units;
      n = inserted(&x->net, l, half);
      compare(x, &n, SPLIT, true, step, c);
    }
    if (units && units <= x->group.stride && l) { /* its units hold one member each */
      struct pz_level idle = x->net.level[l - 1];
      idle.devices = units;
      idle.bytes_per_s = between(r, x->net.level[l].bytes_per_s, idle.bytes_per_s);
      n = inserted(&x->net, l, idle);
      compare(x, &n, SPLIT, false, step, c);
    }
  }
  struct pz_level outer = x->net.level[x->net.n_levels - 1];
  outer.devices *= 4;
  outer.bytes_per_s /= between(r, 1.01, 10);
  outer.latency_s *= 3;
  struct pz_cluster wide = inserted(&x->net, x->net.n_levels, outer);
  compare(x, &wide, SPLIT, true, step, c);
  check_bounds(x, c);
}

static void random_networks(void **state) {
  (void)state;
  const char *asked = getenv("PHAZE_TEST_NETWORKS"), *from = getenv("PHAZE_TEST_SEED");
  long networks = asked ? atol(asked) : 400;
  uint64_t r = from ? (uint64_t)atoll(from) : 1;
  struct counts c = {.networks = networks};
  for (long i = 0; i < networks; i++) {
    struct random_network x = random_network(&r);
    check_network(&r, &x, i % STEP_EVERY == 0, &c);
  }
  assert_true(networks > 0);
  print_message("relation,networks,collectives,steps\n");
  for (int i = 0; i < RELATIONS; i++)
    print_message("%s,%ld,%ld,%ld\n", relation_names[i], c.networks, c.collectives[i], c.steps[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_networks)};
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
