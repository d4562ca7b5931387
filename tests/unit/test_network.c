/* Collectives of training runs: against published all-reduces, on a torus, and what must hold for
 * all of them. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "cost/constants.h"
#include "cost/cost.h"
#include "cost/network.h"
#include "unit/chip_borders.h"

static const struct pz_constants *const K = &pz_constants_default;

static struct pz_cluster cluster(const char *name, int64_t devices) {
  struct pz_cluster n;
  struct pz_error err = {0};
  if (pz_cluster_load(name, &n, &err) != PZ_OK) fail_msg("%s", err.message);
  if (pz_cluster_reach(&n, devices, "devices", &err) != PZ_OK) fail_msg("%s", err.message);
  n.devices = devices;
  return n;
}

static double seconds(const struct pz_cluster *n, enum pz_collective kind, double bytes,
                      int64_t devices, int64_t stride) {
  return pz_network_time(K, n, kind, bytes, (struct pz_group){devices, stride}).s;
}

/* All-reduces of NCCL on A100 by NVLink: VIA-Research/vTrain, trace/a100 (@f8dda8473a). */
static void all_reduces_take_as_long_as_published(void **state) {
  (void)state;
  static const struct {
    int64_t devices;
    double bytes, us;
  } rows[] = {{2, 4 << 20, 61.18}, {2, 64 << 20, 404.7}, {2, 1 << 30, 5443},
              {4, 4 << 20, 77.32}, {4, 64 << 20, 543.8}, {4, 1 << 30, 7259},
              {8, 4 << 20, 95.8},  {8, 64 << 20, 580},   {8, 1 << 30, 8193}};
  struct pz_cluster n = cluster("dgx-a100", 8);
  double sum = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double s = seconds(&n, PZ_COLLECTIVE_ALL_REDUCE, rows[i].bytes, rows[i].devices, 1);
    double e = s / (rows[i].us * 1e-6) - 1;
    if (fabs(e) > 0.25) fail_msg("row %zu: %+.1f%%", i, 100 * e);
    sum += fabs(e);
  }
  assert_true(sum / (sizeof rows / sizeof *rows) < 0.1);
}

/* The whole table, where it is: 63 all-reduces of 4 MB and more.  Smaller ones had another protocol in the NCCL of then:
 * 93 us for 1 MB on 8 A100, where NCCL 2.27 takes 77 us for 4 MB. */
static void the_published_table(void **state) {
  (void)state;
  static const char path[] = PZ_TEST_SHARED "published/allreduce_a100_v100.csv";
  char *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_csv csv;
  struct pz_cluster n = cluster("dgx-a100", 8);
  double sum = 0;
  int rows = 0;
  pz_arena_init(&arena);
  if (!pz_test_has(path)) skip();
  assert_int_equal(pz_file_read(path, 1 << 20, &text, &bytes, NULL), PZ_OK);
  assert_int_equal(pz_csv_parse(path, text, bytes, &arena, &csv, NULL), PZ_OK);
  uint32_t gpu = pz_csv_column(&csv, "gpu"), members = pz_csv_column(&csv, "n_gpus"),
           size = pz_csv_column(&csv, "bytes"), time = pz_csv_column(&csv, "time_us");
  for (uint32_t i = 0; i < csv.rows; i++) {
    if (strcmp(pz_csv_cell(&csv, i, gpu), "a100") != 0) continue; /* V100s have no switch */
    if (atof(pz_csv_cell(&csv, i, size)) < 4 << 20) continue;
    double s = seconds(&n, PZ_COLLECTIVE_ALL_REDUCE, atof(pz_csv_cell(&csv, i, size)),
                       atol(pz_csv_cell(&csv, i, members)), 1);
    sum += fabs(s / (atof(pz_csv_cell(&csv, i, time)) * 1e-6) - 1);
    rows++;
  }
  print_message("  %d all-reduces, mean error %.1f%%\n", rows, 100 * sum / rows);
  assert_int_equal(rows, 63);
  assert_true(sum / rows < 0.05);
  pz_free(text);
  pz_arena_release(&arena);
}

/* A node of one chip, with the facts of its collectives. */
static struct pz_cluster node_of(const char *chip, int64_t devices) {
  struct pz_chip c;
  struct pz_cost *cost = NULL;
  struct pz_error err = {0};
  if (pz_test_chip_read(chip, &c, &err) != PZ_OK) fail_msg("%s", err.message);
  struct pz_cluster n = pz_cluster_flat(devices, c.link_bytes_per_s, c.link_latency_s);
  if (pz_cost_new(&c, &n, &cost, &err) != PZ_OK) fail_msg("%s", err.message);
  n = cost->net;
  pz_cost_free(cost);
  return n;
}

/* Rows of nccl-tests on each generation: NVIDIA AIConfigurator, Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES.
 * All rights reserved. SPDX-License-Identifier: Apache-2.0.  Selected. */
static void collectives_of_each_generation(void **state) {
  (void)state;
  enum { AR = PZ_COLLECTIVE_ALL_REDUCE, AG = PZ_COLLECTIVE_ALL_GATHER };
  enum { RS = PZ_COLLECTIVE_REDUCE_SCATTER, AA = PZ_COLLECTIVE_ALL_TO_ALL };
  static const struct {
    const char *chip;
    int kind;
    int64_t devices;
    double bytes, us;
  } rows[] = {{"a100-80", AR, 4, 134217728, 1000.5}, {"a100-80", AG, 4, 536870912, 2102.0},
              {"a100-80", RS, 8, 268435456, 1149.5}, {"a100-80", AA, 8, 8388608, 67.8},
              {"a100-80", AG, 4, 262144, 15.9},      {"h100", AR, 8, 67108864, 324.5},
              {"h100", AR, 4, 536870912, 2299.7},    {"h100", AG, 8, 8388608, 44.9},
              {"h100", RS, 8, 536870912, 1399.4},    {"h100", AA, 4, 8388608, 39.3},
              {"h200", AR, 8, 536870912, 2040.3},    {"h200", AG, 4, 134217728, 344.5},
              {"b200", AR, 8, 536870912, 1334.6},    {"b200", AR, 8, 2048, 25.6},
              {"b200", AG, 4, 536870912, 710.6},     {"b200", RS, 8, 268435456, 396.0},
              {"b200", AA, 8, 134217728, 236.6},     {"gb200", AR, 4, 268435456, 662.9},
              {"gb200", AA, 4, 67108864, 124.9},     {"gb300", AG, 4, 134217728, 191.8},
              {"gb300", RS, 4, 1048576, 14.1},       {"gb300", AA, 4, 536870912, 786.5}};
  double sum = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct pz_cluster n = node_of(rows[i].chip, 8);
    double s = seconds(&n, (enum pz_collective)rows[i].kind, rows[i].bytes, rows[i].devices, 1);
    double e = s / (rows[i].us * 1e-6) - 1;
    if (fabs(e) > 0.2) fail_msg("row %zu: %+.1f%%", i, 100 * e);
    sum += fabs(e);
  }
  assert_true(sum / (sizeof rows / sizeof *rows) < 0.08);
  /* sums in switches do not slow with the number of members as rings and trees do */
  struct pz_cluster rack = node_of("gb200", 72), rings = rack;
  rings.level[0].collectives.switch_efficiency = 0;
  assert_true(seconds(&rack, PZ_COLLECTIVE_ALL_REDUCE, 1e6, 72, 1) <
              0.8 * seconds(&rings, PZ_COLLECTIVE_ALL_REDUCE, 1e6, 72, 1));
  assert_true(seconds(&rack, PZ_COLLECTIVE_ALL_REDUCE, 1e9, 72, 1) <
              0.8 * seconds(&rings, PZ_COLLECTIVE_ALL_REDUCE, 1e9, 72, 1));
}

static double dispatch_s(const struct pz_cluster *n, enum pz_dispatcher dispatcher, bool combine,
                         const double x[5]) {
  struct pz_dispatch d = {.dispatcher = dispatcher,
                          .combine = combine,
                          .tokens = x[0],
                          .token_bytes = x[1],
                          .experts = x[2],
                          .cores = x[3],
                          .group = {(int64_t)x[4], 1}};
  return pz_dispatch_time(K, n, &d).s;
}

/* DeepEP's normal kernels, source as above; HybridEP: docs/README_Hybrid-EP.md of deepseek-ai/DeepEP (@41cad94449), kernels
 * alone.  Tokens, bytes of one, experts of one, SMs, devices. */
static void dispatchers_take_as_long_as_measured(void **state) {
  (void)state;
  static const struct {
    const char *chip;
    enum pz_dispatcher dispatcher;
    bool combine;
    double x[5], us;
  } rows[] = {{"h100", PZ_DISPATCHER_DEEPEP, false, {32768, 7392, 8, 24, 8}, 3772.83},
              {"b200", PZ_DISPATCHER_DEEPEP, false, {65536, 6336, 2, 16, 8}, 4183.8},
              {"gb300", PZ_DISPATCHER_DEEPEP, true, {16384, 12288, 2, 16, 4}, 1960.02},
              {"h200", PZ_DISPATCHER_DEEPEP, true, {131072, 8192, 2, 16, 8}, 12326.5},
              {"h100", PZ_DISPATCHER_DEEPEP, false, {16384, 6336, 2, 16, 8}, 989.565},
              {"h200", PZ_DISPATCHER_DEEPEP, true, {4096, 12288, 2, 16, 8}, 593.688},
              {"b200", PZ_DISPATCHER_DEEPEP, true, {65536, 14336, 6, 20, 8}, 10626.2},
              {"b200", PZ_DISPATCHER_HYBRIDEP, false, {4096, 14336, 8, 16, 8}, 419.5},
              {"b200", PZ_DISPATCHER_HYBRIDEP, true, {4096, 14336, 8, 16, 8}, 457.6},
              {"gb200", PZ_DISPATCHER_HYBRIDEP, false, {4096, 14336, 8, 16, 16}, 572.4},
              {"gb200", PZ_DISPATCHER_HYBRIDEP, false, {4096, 14336, 8, 16, 32}, 669.2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct pz_cluster n = node_of(rows[i].chip, 72);
    double e =
        dispatch_s(&n, rows[i].dispatcher, rows[i].combine, rows[i].x) / (rows[i].us * 1e-6) - 1;
    if (fabs(e) > 0.2) fail_msg("row %zu: %+.1f%%", i, 100 * e);
  }
}

/* A token for several experts of a device or a node goes there once; where each is on its own, dispatchers are alike but
 * for their cores. */
static void dispatchers_differ_by_what_they_move(void **state) {
  (void)state;
  struct pz_cluster nodes = cluster("dgx-h100", 64);
  double many[] = {8192, 14336, 8, 20, 64}, inside[] = {8192, 14336, 8, 20, 8},
         one[] = {8192, 14336, 1, 20, 8};
  for (int combine = 0; combine < 2; combine++) {
    double all = dispatch_s(&nodes, PZ_DISPATCHER_ALLTOALL, combine, many);
    assert_true(dispatch_s(&nodes, PZ_DISPATCHER_DEEPEP, combine, many) < 0.8 * all);
    assert_true(dispatch_s(&nodes, PZ_DISPATCHER_HYBRIDEP, combine, many) <=
                dispatch_s(&nodes, PZ_DISPATCHER_DEEPEP, combine, many));
    all = dispatch_s(&nodes, PZ_DISPATCHER_ALLTOALL, combine, inside);
    assert_true(dispatch_s(&nodes, PZ_DISPATCHER_HYBRIDEP, combine, inside) < 0.75 * all);
    double alone = dispatch_s(&nodes, PZ_DISPATCHER_HYBRIDEP, combine, one) /
                   dispatch_s(&nodes, PZ_DISPATCHER_ALLTOALL, combine, one);
    assert_true(0.8 < alone && alone < 1.2);
  }
}

/* Bytes/s on a torus in links of one direction, latencies and the part that links reach aside. */
static void groups_have_the_axes_that_align(void **state) {
  (void)state;
  static const struct {
    const char *cluster;
    int64_t job, devices, stride;
    double links;
  } want[] = {
      {"tpuv5e-pod", 256, 256, 1, 4},    /* both axes, rings */
      {"tpuv5e-pod", 256, 16, 1, 2},     /* one axis, */
      {"tpuv5e-pod", 256, 16, 16, 2},    /* and the other */
      {"tpuv5e-pod", 64, 64, 1, 2},      /* 8 x 8: lines */
      {"tpuv5e-pod", 128, 128, 1, 3},    /* 8 x 16: a line and a ring */
      {"tpuv5e-pod", 4, 4, 1, 2},        /* 2 x 2 */
      {"tpuv5p-pod", 64, 64, 1, 6},      /* a cube: three rings */
      {"tpuv5p-pod", 128, 8, 1, 2},      /* 4 x 4 x 8: the axis of 8, */
      {"tpuv5p-pod", 128, 16, 8, 4},     /* and the others */
      {"tpuv5p-pod", 16, 16, 1, 3},      /* below a cube: lines */
      {"tpuv4-real-pod", 384, 384, 1, 6} /* six cubes */
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    struct pz_cluster n = cluster(want[i].cluster, want[i].job);
    const struct pz_level *l = &n.level[0];
    double link = l->bytes_per_s / (2 * l->n_axes) * K->torus_efficiency;
    double rate = pz_network_rate(K, &n, (struct pz_group){want[i].devices, want[i].stride});
    if (fabs(rate / link - want[i].links) > 1e-9)
      fail_msg("row %zu: %g links, want %g", i, rate / link, want[i].links);
  }
}

/* A ring of 16 on a torus: what all devices exchange travels a quarter of it, so an all-to-all of
 * what one device holds takes four times as long as a pass of a ring would over as many bytes. */
static void all_to_all_on_a_ring(void **state) {
  (void)state;
  struct pz_cluster n = cluster("tpuv5e-pod", 256);
  n.level[0].latency_s = 0;
  double all = seconds(&n, PZ_COLLECTIVE_ALL_TO_ALL, 1e9, 16, 1);
  double gather = seconds(&n, PZ_COLLECTIVE_ALL_GATHER, 1e9, 16, 1);
  double link = n.level[0].bytes_per_s / 4 * K->torus_efficiency;
  assert_true(fabs(all / (1e9 * 16 / 4 / (2 * link)) - 1) < 1e-9);
  assert_true(fabs(gather / (1e9 * 15 / 16 / (2 * link)) - 1) < 1e-9);
}

/* A mesh of pairs: g of n devices have g-1 of a device's n-1 links, a message and a ring of neighbours one. */
static void groups_of_a_mesh_have_the_links_of_their_pairs(void **state) {
  (void)state;
  struct pz_cluster mesh = cluster("mi300x-8", 64), any = mesh;
  const double bytes = 1e12; /* so that start-ups do not matter */
  any.level[0].mesh = false;
  for (int64_t g = 2; g <= 8; g++)
    for (enum pz_collective kind = 0; kind <= PZ_COLLECTIVE_SEND; kind++) {
      double links = kind == PZ_COLLECTIVE_SEND ? 1 : (double)(g - 1);
      double ratio = seconds(&any, kind, bytes, g, 1) / seconds(&mesh, kind, bytes, g, 1);
      assert_true(fabs(ratio * 7 / links - 1) < 1e-3);
      ratio = pz_collective_s(&any, kind, bytes, g) / pz_collective_s(&mesh, kind, bytes, g);
      assert_true(fabs(ratio * 7 / links - 1) < 1e-3);
      struct pz_group ring = {g, 1};
      ratio = pz_network_neighbour_rate(K, &mesh, ring) / pz_network_neighbour_rate(K, &any, ring);
      assert_true(fabs(ratio * 7 - 1) < 1e-9);
    }
  /* every second device: members count, not where they stand; over nodes the outer level is slower than the pairs */
  assert_true(seconds(&mesh, PZ_COLLECTIVE_ALL_REDUCE, bytes, 4, 2) ==
              seconds(&mesh, PZ_COLLECTIVE_ALL_REDUCE, bytes, 4, 1));
  assert_true(seconds(&mesh, PZ_COLLECTIVE_ALL_REDUCE, bytes, 8, 8) ==
              seconds(&any, PZ_COLLECTIVE_ALL_REDUCE, bytes, 8, 8));
}

/* More bytes never take less; an all-reduce is two passes; faster levels are never slower; nothing
 * beats the links. */
static void collectives_are_monotone(void **state) {
  (void)state;
  static const int64_t groups[][2] = {{2, 1}, {8, 1}, {4, 2}, {16, 1}, {32, 4}, {64, 8}, {512, 2}};
  for (size_t c = 0; pz_cluster_preset_name(c); c++)
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
      for (enum pz_collective kind = 0; kind <= PZ_COLLECTIVE_SEND; kind++) {
        struct pz_cluster n = cluster(pz_cluster_preset_name(c), 1024), fast = n;
        int64_t members = groups[g][0], stride = groups[g][1];
        for (int l = 0; l < fast.n_levels; l++) fast.level[l].bytes_per_s *= 2;
        double few = seconds(&n, kind, 1e6, members, stride),
               many = seconds(&n, kind, 1e9, members, stride),
               faster = seconds(&fast, kind, 1e9, members, stride);
        assert_true(0 < few && few < many && faster < many);
        double part = kind == PZ_COLLECTIVE_SEND ? 1 : (double)(members - 1) / (double)members;
        assert_true(many >= 1e9 * part / n.level[0].bytes_per_s);
      }
  struct pz_cluster n = cluster("dgx-h100", 1024);
  assert_true(seconds(&n, PZ_COLLECTIVE_ALL_REDUCE, 1e9, 1, 1) == 0);
  /* eight members in a node use eight interfaces, one of each node uses one */
  double eight = pz_network_rate(K, &n, (struct pz_group){64, 1}),
         one = pz_network_rate(K, &n, (struct pz_group){8, 8});
  assert_true(fabs(one / (50e9 * K->outer_efficiency) - 1) < 1e-9 && eight > 4 * one);
}

static struct pz_cluster levels_of(int n, const double list[][3]) {
  struct pz_cluster net = {.n_levels = n};
  for (int l = 0; l < n; l++)
    net.level[l] = (struct pz_level){
        .devices = (int64_t)list[l][0], .bytes_per_s = list[l][1], .latency_s = list[l][2]};
  net.devices = net.level[n - 1].devices;
  return net;
}

/* 128 groups of one device of each node share nothing: each has its own 3 GB/s interface, however many levels of switches
 * lie above it.  An oversubscribed spine has 1/4 of the rate for each of the 32 members below it, 3/4 x 32 = 24 GB/s, and a
 * spine with 1/64 of the rate is what bounds the ring. */
static void every_level_that_a_group_crosses_bounds_it(void **state) {
  (void)state;
  const double two[][3] = {{8, 450e9, 1e-6}, {1024, 3e9, 5e-6}};
  const double three[][3] = {{8, 450e9, 1e-6}, {256, 3e9, 5e-6}, {1024, 3e9, 5e-6}};
  struct pz_cluster flat = levels_of(2, two), spine = levels_of(3, three);
  struct pz_group g = {128, 8};
  assert_true(fabs(pz_network_rate(K, &flat, g) / (3e9 * K->outer_efficiency) - 1) < 1e-12);
  assert_true(pz_network_rate(K, &spine, g) == pz_network_rate(K, &flat, g));
  for (enum pz_collective kind = 0; kind <= PZ_COLLECTIVE_SEND; kind++)
    assert_true(fabs(seconds(&spine, kind, 1e9, 128, 8) / seconds(&flat, kind, 1e9, 128, 8) - 1) <
                1e-12);
  spine.level[2].bytes_per_s = 3e9 / 4;
  assert_true(pz_network_rate(K, &spine, g) == pz_network_rate(K, &flat, g));
  spine.level[2].bytes_per_s = 3e9 / 64;
  double want = 32 * 3e9 / 64 * K->outer_efficiency;
  assert_true(fabs(pz_network_rate(K, &spine, g) / want - 1) < 1e-12);
  /* two pairs of bridges behind PCIe, a package of two behind xGMI */
  static const char *const middle[] = {"h200-nvl-8", "lumi-mi250x"};
  for (int i = 0; i < 2; i++) {
    struct pz_cluster n = cluster(middle[i], 64), slow = n;
    slow.level[1].bytes_per_s /= 2;
    for (enum pz_collective kind = 0; kind <= PZ_COLLECTIVE_ALL_TO_ALL; kind++)
      assert_true(seconds(&slow, kind, 1e9, 8, 1) > 1.5 * seconds(&n, kind, 1e9, 8, 1));
  }
}

/* The description's latency is paid for every hop: once by a message, 2 x 7 times by an all-reduce round a ring of 8. */
static void latency_of_the_description_counts(void **state) {
  (void)state;
  struct pz_cluster n = cluster("dgx-h100", 64), late = n;
  late.level[1].latency_s += 1;
  const double bytes = 1e9;
  struct {
    enum pz_collective kind;
    int64_t devices, stride;
    double hops;
  } rows[] = {{PZ_COLLECTIVE_SEND, 2, 8, 1}, {PZ_COLLECTIVE_ALL_TO_ALL, 8, 8, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_true(fabs(seconds(&late, rows[i].kind, bytes, rows[i].devices, rows[i].stride) -
                     seconds(&n, rows[i].kind, bytes, rows[i].devices, rows[i].stride) -
                     rows[i].hops) < 1e-9);
  /* of large messages, whose latency is small beside the bytes, all hops of the ring */
  late.level[1].latency_s = n.level[1].latency_s + 1e-6;
  double more = seconds(&late, PZ_COLLECTIVE_ALL_REDUCE, bytes, 8, 8) -
                seconds(&n, PZ_COLLECTIVE_ALL_REDUCE, bytes, 8, 8);
  assert_true(fabs(more / 14e-6 - 1) < 1e-6);
  /* inside the node: 14 hops of a ring */
  late.level[0].latency_s += 1e-6;
  more = seconds(&late, PZ_COLLECTIVE_ALL_REDUCE, bytes, 8, 1) -
         seconds(&n, PZ_COLLECTIVE_ALL_REDUCE, bytes, 8, 1);
  assert_true(fabs(more / 14e-6 - 1) < 1e-6);
}

/* Between nodes an all-reduce is a reduce-scatter and an all-gather; in a node it saves at most one start. */
static void an_all_reduce_is_two_passes(void **state) {
  (void)state;
  static const int64_t groups[][2] = {{8, 1}, {64, 1}, {8, 8}, {128, 8}, {16, 4}};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    for (double bytes = 1e3; bytes < 1e10; bytes *= 7) {
      struct pz_cluster n = cluster("dgx-a100", 1024);
      double both = seconds(&n, PZ_COLLECTIVE_REDUCE_SCATTER, bytes, groups[i][0], groups[i][1]) +
                    seconds(&n, PZ_COLLECTIVE_ALL_GATHER, bytes, groups[i][0], groups[i][1]),
             all = seconds(&n, PZ_COLLECTIVE_ALL_REDUCE, bytes, groups[i][0], groups[i][1]);
      double start = K->ring_startup_s * (1 + K->large_startup);
      if (i)
        assert_true(fabs(all / both - 1) < 1e-12);
      else
        assert_true(all <= both && all > both - start - 0.06 * both);
    }
}

/* ---- every size, rate and group --------------------------------------------------------------- */

enum { DISPATCHES = PZ_COLLECTIVE_SEND + 1, KINDS = DISPATCHES + 4 };

/* A collective, or the tokens of a device to its experts or back. */
static double taken_s(const struct pz_cluster *n, int kind, double bytes, int64_t devices,
                      int64_t stride) {
  if (kind < DISPATCHES) return seconds(n, (enum pz_collective)kind, bytes, devices, stride);
  int which = kind - DISPATCHES;
  struct pz_dispatch d = {.dispatcher = which / 2 ? PZ_DISPATCHER_HYBRIDEP : PZ_DISPATCHER_DEEPEP,
                          .combine = which % 2,
                          .tokens = bytes / 7168,
                          .token_bytes = 7168,
                          .experts = 8,
                          .most_nodes = stride > 1 ? 4 : 0,
                          .cores = 20,
                          .group = {devices, stride}};
  return pz_dispatch_time(K, n, &d).s;
}

/* By how much a group that is larger may be faster: in sums in switches a device has less to read of its own part. */
static double may_be_faster(const struct pz_cluster *n, int kind, double few, double many) {
  bool switches = kind == PZ_COLLECTIVE_ALL_REDUCE && n->level[0].collectives.switch_efficiency > 0;
  return switches ? (1 + 1 / few) / (1 + 1 / many) : 1;
}

static void check_size(const struct pz_cluster *n, int kind, double bytes, int64_t devices,
                       int64_t stride) {
  double s = taken_s(n, kind, bytes, devices, stride);
  bool adds_links = n->level[0].n_axes || n->level[0].mesh;
  if (!(0 < s && s < taken_s(n, kind, 1.5 * bytes, devices, stride)))
    fail_msg("%s: collective %d, %g bytes are not faster", n->name, kind, bytes);
  for (int l = 0; l < n->n_levels; l++) {
    struct pz_cluster fast = *n;
    fast.level[l].bytes_per_s *= 1.1;
    if (taken_s(&fast, kind, bytes, devices, stride) > s * (1 + 1e-12))
      fail_msg("%s: collective %d, a faster level %d is slower", n->name, kind, l);
  }
  /* axes of a torus and pairs of a mesh that a larger group has add their links */
  for (int64_t m = 2 * devices; !adds_links && m * stride <= n->devices && m <= 4 * devices;
       m += devices)
    if (s > may_be_faster(n, kind, (double)devices, (double)m) * (1 + 1e-12) *
                taken_s(n, kind, bytes, m, stride))
      fail_msg("%s: collective %d of %g bytes, %d of every %d-th are slower than %d", n->name, kind,
               bytes, (int)devices, (int)stride, (int)m);
}

static void check_network(const struct pz_cluster *n) {
  for (int kind = 0; kind < KINDS; kind++)
    for (int64_t stride = 1; stride <= 8; stride *= 2)
      for (int64_t devices = 2; devices * stride <= n->devices;
           devices += devices < 72 ? 1 : devices) {
        if (n->level[0].n_axes && n->devices % (devices * stride)) continue;
        for (double bytes = 1e3; bytes < 1e10; bytes *= 2.7)
          check_size(n, kind, bytes, devices, stride);
      }
}

/* Chips with facts of their own and without, alone in a domain and over nodes. */
static void collectives_of_every_size(void **state) {
  (void)state;
  static const char *const chips[] = {"a100-80", "h100", "h800", "b200", "gb300", "mi300x", "l40s"};
  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
    struct pz_cluster n = node_of(chips[i], 72);
    check_network(&n);
    for (size_t c = 0; pz_cluster_preset_name(c); c++) {
      struct pz_cluster nodes = cluster(pz_cluster_preset_name(c), 256);
      if (!nodes.level[0].n_axes) nodes.level[0].collectives = n.level[0].collectives;
      if (nodes.n_levels > 1 || i == 0) check_network(&nodes);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_reduces_take_as_long_as_published),
      cmocka_unit_test(the_published_table),
      cmocka_unit_test(groups_have_the_axes_that_align),
      cmocka_unit_test(collectives_of_each_generation),
      cmocka_unit_test(dispatchers_take_as_long_as_measured),
      cmocka_unit_test(dispatchers_differ_by_what_they_move),
      cmocka_unit_test(all_to_all_on_a_ring),
      cmocka_unit_test(groups_of_a_mesh_have_the_links_of_their_pairs),
      cmocka_unit_test(collectives_are_monotone),
      cmocka_unit_test(every_level_that_a_group_crosses_bounds_it),
      cmocka_unit_test(latency_of_the_description_counts),
      cmocka_unit_test(an_all_reduce_is_two_passes),
      cmocka_unit_test(collectives_of_every_size)};
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
