/* Technologies: area, energy and price of chip components at each node.
 *
 * The constants of 16 nm and below come from silicon.def, those of 45 and 22 nm from the original
 * system's library. */
#include "chip/chip.h"

/* 22 nm is the original system's library: the area of a multiplier with 32 B of registers, of a
 * lane, and the SRAM macros below.  It has no HBM interface, links or network.  45 nm is scaled
 * from it: logic by the published factors (Stillmaker and Baas, Integration 2017), SRAM by bit
 * cells of 0.346 um2, and the HBM interface by LLMCompass.  Energies are from Jouppi et al., ISCA
 * 2021, table 2, where 22 nm is on a line in log(node) between 45 and 7 nm.  HBM takes 3.92 pJ/bit
 * (O'Connor et al., MICRO 2017), and a link takes 5.4 pJ/bit (doi 10.1109/JSSC.2020.3024261). */
static const struct pz_tech_info table[PZ_TECHS] = {
    [PZ_TECH_45NM] = {.name = "45nm",
                      .mac_um2 = 3089.6,
                      .lane_um2 = 3088.7,
                      .sram_um2_per_byte = 3.513,
                      .glb_um2_per_byte = 3.513,
                      .hbm_phy_um2 = 107.8e6,
                      .mac_j = 2.00e-12,
                      .lane_j = 4.60e-12,
                      .local_j = 2.50e-12,
                      .glb_j = 12.5e-12,
                      .hbm_j = 31.36e-12,
                      .link_j = 43.2e-12},
    [PZ_TECH_22NM] = {.name = "22nm",
                      .mac_um2 = 760.041386,
                      .lane_um2 = 759.823853,
                      .mac_j = 1.25e-12,
                      .lane_j = 3.13e-12,
                      .local_j = 1.80e-12,
                      .glb_j = 5.87e-12,
                      .hbm_j = 31.36e-12,
                      .link_j = 43.2e-12},
#define SILICON(field, unit, n16, n7, n5, n3, low, high, kind, source) .field = (n16),
    [PZ_TECH_16NM] =
        {
            .name = "16nm",
#include "chip/silicon.def"
        },
#define SILICON(field, unit, n16, n7, n5, n3, low, high, kind, source) .field = (n7),
    [PZ_TECH_7NM] =
        {
            .name = "7nm",
#include "chip/silicon.def"
        },
#define SILICON(field, unit, n16, n7, n5, n3, low, high, kind, source) .field = (n5),
    [PZ_TECH_5NM] =
        {
            .name = "5nm",
#include "chip/silicon.def"
        },
#define SILICON(field, unit, n16, n7, n5, n3, low, high, kind, source) .field = (n3),
    [PZ_TECH_3NM] =
        {
            .name = "3nm",
#include "chip/silicon.def"
        },
};

static const struct pz_silicon constants[] = {
#define SILICON(field, unit, n16, n7, n5, n3, low, high, kind, source)                             \
  {#field, unit, kind, source, {n16, n7, n5, n3}, low, high, offsetof(struct pz_tech_info, field)},
#include "chip/silicon.def"
};

const struct pz_silicon *pz_silicon_at(size_t i) {
  return i < sizeof constants / sizeof *constants ? &constants[i] : NULL;
}

/* Returns whether a technology is of the original library, which alone has no static power. */
bool pz_tech_is_library(const struct pz_tech_info *tech) { return tech->static_w_per_mm2 == 0; }

/* Returns the constants of a technology.  With PZ_BILL_LOW and PZ_BILL_HIGH, each constant is
 * multiplied by the lower or the upper factor of its range (silicon.def). */
struct pz_tech_info pz_tech_range(enum pz_tech tech, enum pz_bill_range range) {
  struct pz_tech_info info = table[tech];
  if (range == PZ_BILL_LIKELY || pz_tech_is_library(&info)) return info;
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    double *value = (double *)((char *)&info + constants[i].offset);
    *value *= range == PZ_BILL_LOW ? constants[i].low : constants[i].high;
  }
  return info;
}

/* An SRAM macro of the 22 nm library, with a fixed size. */
struct macro {
  int64_t bytes;
  double um2;
};

static const struct macro local_22nm[] = {
    {1 << 10, 6133.98},  {2 << 10, 8248.43},  {4 << 10, 12610.5}, {8 << 10, 22139.9},
    {16 << 10, 38583},   {32 << 10, 63338.4}, {64 << 10, 115579}, {128 << 10, 204764},
    {256 << 10, 446565}, {512 << 10, 897890}, {1 << 20, 1634130},
};
static const struct macro glb_22nm[] = {
    {2 << 20, 3338220},   {4 << 20, 6078640},   {8 << 20, 11952400},    {16 << 20, 23745200},
    {32 << 20, 46750900}, {64 << 20, 88605700}, {128 << 20, 175423000},
};

const struct pz_tech_info *pz_tech_at(enum pz_tech tech) {
  return (size_t)tech < PZ_TECHS ? &table[tech] : NULL;
}

const char *pz_tech_name_at(const void *ctx, size_t i) {
  (void)ctx;
  return i < PZ_TECHS ? table[i].name : NULL;
}

/* Returns the area in um2 of a core's buffer or a global buffer: in proportion to its bytes, or at
 * 22 nm by linear interpolation between macros, which are sorted by size.  Beyond the smallest and
 * the largest macro, the area is in proportion to the bytes, but no core's buffer is smaller than
 * the smallest macro, of 1 KiB. */
double pz_tech_buffer_um2(const struct pz_tech_info *tech, int64_t bytes, bool is_global) {
  double um2_per_byte = is_global ? tech->glb_um2_per_byte : tech->sram_um2_per_byte;
  const struct macro *macros = is_global ? glb_22nm : local_22nm;
  size_t n_macros =
      is_global ? sizeof glb_22nm / sizeof *glb_22nm : sizeof local_22nm / sizeof *local_22nm;
  if (um2_per_byte > 0) return um2_per_byte * (double)bytes;
  if (!is_global && bytes < macros[0].bytes) bytes = macros[0].bytes;
  if (bytes <= macros[0].bytes) return macros[0].um2 * (double)bytes / (double)macros[0].bytes;
  for (size_t i = 1; i < n_macros; i++) {
    const struct macro *lower = &macros[i - 1], *upper = &macros[i];
    if (bytes > upper->bytes) continue;
    if (bytes == upper->bytes) return upper->um2;
    double part = (double)(bytes - lower->bytes) / (double)(upper->bytes - lower->bytes);
    return lower->um2 + part * (upper->um2 - lower->um2);
  }
  return macros[n_macros - 1].um2 * (double)bytes / (double)macros[n_macros - 1].bytes;
}
