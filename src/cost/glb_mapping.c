#include "cost/glb_mapping.h"

#include <float.h>

#include "cost/mapping_cost.h"

/* Between HBM and the global buffer steps are tiles. */
static struct pz_glb_mapping mapping_at(const struct pz_mapspace *m, enum pz_stationary s, int u,
                                        int v) {
  enum pz_dim first = pz_stationary_first(s), second = pz_stationary_second(s);
  double tiles[PZ_DIMS] = {1, 1, 1};
  tiles[first] = m->glb_tile[first].tiles[u];
  tiles[second] = m->glb_tile[second].tiles[v];
  struct pz_traffic t = pz_boundary_traffic(m, tiles, 1, m->operand_bytes);
  return (struct pz_glb_mapping){t.reads + t.writes, pz_hbm_s(m, t), u, v, s};
}

/* For each size of the one dimension the largest of the other that fits is the best. */
struct pz_glb_mapping pz_glb_mapping_best(const struct pz_mapspace *m, double glb_bytes,
                                          double limit_s) {
  struct pz_glb_mapping best = {.bytes = DBL_MAX, .s = DBL_MAX};
  for (enum pz_stationary s = 0; s < PZ_STATIONARITIES; s++) {
    const struct pz_tile_sizes *tu = &m->glb_tile[pz_stationary_first(s)],
                               *tv = &m->glb_tile[pz_stationary_second(s)];
    for (int u = 0, v = tv->n - 1; u < tu->n; u++) {
      while (v >= 0 && !pz_mapspace_fits(m, s, tu->size[u], tv->size[v], glb_bytes, false)) v--;
      if (v < 0) break;
      struct pz_glb_mapping g = mapping_at(m, s, u, v);
      if (limit_s < 0 ? g.s < best.s : g.s <= limit_s && g.bytes < best.bytes) best = g;
    }
  }
  return best;
}
