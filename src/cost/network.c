#include "cost/network.h"

#include "core/num.h"
#include "cost/constants.h"

/* The innermost level that spans so many consecutive devices. */
static int level_of(const struct pz_cluster *net, int64_t span) {
  int l = 0;
  while (l + 1 < net->n_levels && net->level[l].devices < span) l++;
  return l;
}

double pz_network_rate(const struct pz_constants *k, const struct pz_cluster *net,
                       struct pz_group g) {
  int l = level_of(net, g.devices * g.stride);
  if (l == 0) return net->level[0].bytes_per_s * k->inner_efficiency;
  int64_t inside = net->level[l - 1].devices / pz_max(1, g.stride);
  double members = (double)pz_max(1, pz_min(g.devices, inside));
  double rate = net->level[l].bytes_per_s * k->outer_efficiency * members;
  return pz_fmin(rate, net->level[0].bytes_per_s * k->inner_efficiency);
}

double pz_network_s(const struct pz_constants *k, const struct pz_cluster *net,
                    enum pz_collective kind, double bytes, struct pz_group g) {
  double n = (double)g.devices;
  if (g.devices <= 1 || !net->n_levels) return 0;
  if (kind == PZ_COLLECTIVE_SEND) {
    int l = level_of(net, 2 * g.stride);
    double e = l ? k->outer_efficiency : k->inner_efficiency;
    return k->latency_s + k->hop_s + bytes / (net->level[l].bytes_per_s * e);
  }
  double passes = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  double latency = k->latency_s + k->hop_s * pz_fmin(n - 1, k->most_hops);
  return latency + passes * (n - 1) / n * bytes / pz_network_rate(k, net, g);
}
