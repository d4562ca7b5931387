#include "cost/spatial.h"

#include "cost/mapping_cost.h"

/* The fewest steps a dimension can take, with tiles that fit the array exactly. */
static double fewest_steps(const struct pz_mapspace *m, const struct pz_spatial *p, enum pz_dim d) {
  if (d == pz_spatial_way[p->way].rows) return pz_fmax(1, m->size[d] * m->per_row * p->per_rows);
  if (d == pz_spatial_way[p->way].cols) return pz_fmax(1, m->size[d] * m->per_col * p->per_cols);
  return 1;
}

/* Values of the operand on the array that fit a multiplier's registers. */
static double register_values(const struct pz_mapspace *m, int way) {
  double bytes = pz_spatial_way[way].streams == PZ_DIM_K ? m->sum_bytes : m->operand_bytes;
  return (double)m->chip->tensor.register_bytes / bytes;
}

/* The lower bounds, from the fewest steps. */
static void set_bounds(const struct pz_mapspace *m, struct pz_spatial *p) {
  static const double whole[PZ_DIMS] = {1, 1, 1};
  double step[PZ_DIMS];
  for (int d = 0; d < PZ_DIMS; d++) step[d] = fewest_steps(m, p, (enum pz_dim)d);
  struct pz_traffic local = pz_local_traffic(m, step, step[PZ_DIM_K]);
  struct pz_traffic glb = pz_glb_traffic(m, whole);
  p->local_s = pz_local_bound_s(m, local.reads, local.writes);
  p->energy_j =
      (local.reads + local.writes) * m->tech->local_j + (glb.reads + glb.writes) * m->tech->glb_j;
}

/* What the registers keep changes local traffic alone: all of it is used. */
void pz_spatial_all(const struct pz_mapspace *m, bool by_energy, struct pz_spatial_list *list) {
  list->n = 0;
  for (int way = 0; way < PZ_SPATIAL_WAYS; way++)
    for (double r = 1, most = register_values(m, way); r <= most && list->n < PZ_SPATIAL_MOST;
         r *= 2) {
      struct pz_spatial p = {.way = way, .keep_rows = r, .keep_cols = 1};
      while (r * p.keep_cols * 2 <= most) p.keep_cols *= 2;
      p.per_rows = 1 / p.keep_rows;
      p.per_cols = 1 / p.keep_cols;
      set_bounds(m, &p);
      int at = list->n++;
      for (; at > 0; at--) {
        const struct pz_spatial *q = &list->item[at - 1];
        if (by_energy ? q->energy_j <= p.energy_j : q->local_s <= p.local_s) break;
        list->item[at] = *q;
      }
      list->item[at] = p;
    }
}
