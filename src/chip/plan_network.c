/* The network that a plan on some devices of a chip has. */
#include <stdio.h>

#include "chip/chip.h"
#include "core/num.h"
#include "core/text.h"

static const char *cluster_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_cluster_preset_name(i);
}

/* Without a name: where the chip stands, or at the rate of its own link. */
static enum pz_status find_standard(const struct pz_chip *c, int64_t devices, struct pz_network *n,
                                    struct pz_error *err) {
  char list[400];
  bool known = pz_cluster_standard(c->name, &n->cluster);
  n->standard = known && pz_cluster_needed(&n->cluster, devices);
  n->own_link = !n->standard;
  if (n->standard) return PZ_OK;
  if (devices > 1 && !(c->link_bytes_per_s > 0))
    return pz_fail(err, PZ_BAD_USE,
                   "%lld devices: %s has no link and stands in no known cluster; accepted: "
                   "--cluster with one of %s, or the path of a cluster.json",
                   (long long)devices, c->name,
                   pz_text_join(list, sizeof list, cluster_name, NULL));
  if (!known && pz_chip_built(c) && devices > PZ_SERVER_DEVICES)
    snprintf(
        n->warning, sizeof n->warning,
        "no --cluster, and none is known for %s: all %lld devices are linked at the chip's own "
        "rate",
        c->name, (long long)devices);
  return PZ_OK;
}

void pz_network_make_instant(struct pz_network *n, const struct pz_chip *chip, int64_t devices) {
  if (n->own_link) {
    n->cluster = (struct pz_cluster){.name = "link", .n_levels = 1};
    n->cluster.devices = n->cluster.stated_devices = devices > 1 ? devices : 1;
    n->cluster.level[0] = (struct pz_level){.name = "link",
                                            .devices = n->cluster.devices,
                                            .bytes_per_s = pz_fmax(1, chip->link_bytes_per_s)};
  }
  n->cluster.instant = true;
  n->warning[0] = '\0';
}

enum pz_status pz_network_find(const struct pz_chip *chip, const struct pz_cluster *named,
                               int64_t devices, const char *option, struct pz_network *out,
                               struct pz_error *err) {
  struct pz_network n = {.own_link = false};
  enum pz_status status = pz_chip_check(chip, err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK && named) status = pz_cluster_check(named, err);
  if (status != PZ_OK) return status;
  if (named) n.cluster = *named;
  if (!named) status = find_standard(chip, devices, &n, err);
  if (status == PZ_OK && !n.own_link)
    status = pz_cluster_reach(&n.cluster, devices, option ? option : "devices", err);
  if (status != PZ_OK) return status;
  if (!n.own_link && !pz_cluster_has_chip(&n.cluster, chip->name))
    snprintf(n.warning, sizeof n.warning, "%.60s in cluster %s, which has %s", chip->name,
             n.cluster.name, n.cluster.chips);
  *out = n;
  return PZ_OK;
}
