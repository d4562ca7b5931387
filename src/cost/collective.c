#include "cost/collective.h"

#include <stdio.h>

/* How many of the groups inside it a level joins, for a collective over `devices`. */
static int64_t joined(const struct pz_cluster *net, int l, int64_t devices) {
  int64_t inner = l ? net->level[l - 1].devices : 1;
  int64_t reach = net->level[l].devices < devices ? net->level[l].devices : devices;
  return reach <= inner ? 1 : reach / inner + (reach % inner != 0);
}

static double halves(enum pz_collective kind) { return kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1; }

static double send_s(const struct pz_cluster *net, double bytes, int64_t devices) {
  const struct pz_level *l = pz_cluster_level(net, devices);
  return l ? bytes / l->bytes_per_s + l->latency_s : 0;
}

double pz_collective_s(const struct pz_cluster *net, enum pz_collective kind, double bytes,
                       int64_t devices) {
  double s = 0, left = bytes;
  if (devices <= 1) return 0;
  if (kind == PZ_COLLECTIVE_SEND) return send_s(net, bytes, devices);
  for (int l = 0; l < net->n_levels; l++) {
    double g = (double)joined(net, l, devices);
    s += halves(kind) * (g - 1) * (left / g / net->level[l].bytes_per_s + net->level[l].latency_s);
    /* every device keeps its own part of an all-to-all: nothing is summed on the way out */
    if (kind != PZ_COLLECTIVE_ALL_TO_ALL) left /= g;
  }
  return s;
}

struct pz_cluster pz_cluster_flat(int64_t devices, double bytes_per_s, double latency_s) {
  struct pz_cluster c = {.devices = devices, .n_levels = 1};
  snprintf(c.name, sizeof c.name, "flat");
  c.level[0] = (struct pz_level){
      .name = "link", .devices = devices, .bytes_per_s = bytes_per_s, .latency_s = latency_s};
  return c;
}
