#include "cost/network.h"

#include "core/num.h"

/* Of all networks: facts of collective libraries, not of a cluster. */
static const struct {
  double inner_efficiency; /* bus rate of large collectives over NVLink's one-way rate */
  double outer_efficiency; /* the same between nodes, over the interfaces' rate */
  double latency_s, hop_s; /* of one collective: launch and synchronisation, each further member */
  double most_hops;        /* trees take over from rings */
} RING = {
    .inner_efficiency = 0.77, /* NCCL all-reduce on A100: ref. VIA-Research/vTrain trace/a100 */
    .outer_efficiency = 0.9,  /* fitted to published runs between nodes, 2021 to 2024 */
    .latency_s = 30e-6, /* NCCL all-reduce of 1 MB on 2, 4 and 8 A100: 44, 51, 93 us, same source */
    .hop_s = 8e-6,
    .most_hops = 15,
};

/* The innermost level that spans so many consecutive devices. */
static int level_of(const struct pz_cluster *net, int64_t span) {
  int l = 0;
  while (l + 1 < net->n_levels && net->level[l].devices < span) l++;
  return l;
}

double pz_network_rate(const struct pz_cluster *net, struct pz_group g) {
  int l = level_of(net, g.devices * g.stride);
  if (l == 0) return net->level[0].bytes_per_s * RING.inner_efficiency;
  int64_t inside = net->level[l - 1].devices / pz_max(1, g.stride);
  double members = (double)pz_max(1, pz_min(g.devices, inside));
  double rate = net->level[l].bytes_per_s * RING.outer_efficiency * members;
  return pz_fmin(rate, net->level[0].bytes_per_s * RING.inner_efficiency);
}

double pz_network_s(const struct pz_cluster *net, enum pz_collective kind, double bytes,
                    struct pz_group g) {
  double n = (double)g.devices;
  if (g.devices <= 1 || !net->n_levels) return 0;
  if (kind == PZ_COLLECTIVE_SEND) {
    int l = level_of(net, 2 * g.stride);
    double e = l ? RING.outer_efficiency : RING.inner_efficiency;
    return RING.latency_s + RING.hop_s + bytes / (net->level[l].bytes_per_s * e);
  }
  double passes = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  double latency = RING.latency_s + RING.hop_s * pz_fmin(n - 1, RING.most_hops);
  return latency + passes * (n - 1) / n * bytes / pz_network_rate(net, g);
}
