#include "chip/tech.h"

/* Areas.  22 nm: the library of the original system (760.041386 um2 a multiplier with 32 B of
 * registers, 759.823853 a lane; SRAM macros below); it has no HBM interface.  Others: logic by the
 * published scaling from 45 nm (Stillmaker and Baas, Integration 2017: 16 nm 0.19, 7 nm 0.059, 22
 * nm 0.246 between 32 and 20 nm; N5 1.8 times denser than N7, doi 10.1109/IEDM13553.2020.9372009),
 * SRAM by bit cells (45 nm 0.346, 16 nm 0.074, 7 nm 0.027, 5 nm 0.021 um2) at the 78.8% array
 * efficiency of a published 7 nm macro (29.2 Mb/mm2); HBM interface 10.45 mm2 and 552.7 M
 * transistors of controller a stack (LLMCompass), at 96.3 M/mm2 in 7 nm.
 *
 * Energies.  45 and 7 nm: Jouppi et al., ISCA 2021, table 2 (16-bit multiply and 32-bit add; 32-bit
 * multiply and add; 32 KB and 1 MB SRAM, 64-bit access); 22 and 16 nm between them on a line in
 * log(node); 5 nm 30% below 7 nm (the same IEDM paper).  HBM 3.92 pJ/bit (O'Connor et al., MICRO
 * 2017); link 5.4 pJ/bit (112 Gb/s SerDes in 7 nm, JSSC 2021, doi 10.1109/JSSC.2020.3024261). */
static const struct pz_tech_info table[PZ_TECHS] = {
    [PZ_TECH_45NM] = {"45nm", 3089.6, 3088.7, 3.513, 107.8e6, 2.00e-12, 4.60e-12, 2.50e-12,
                      12.5e-12, 31.36e-12, 43.2e-12},
    [PZ_TECH_22NM] = {"22nm", 760.041386, 759.823853, 0, 0, 1.25e-12, 3.13e-12, 1.80e-12, 5.87e-12,
                      31.36e-12, 43.2e-12},
    [PZ_TECH_16NM] = {"16nm", 587.0, 586.9, 0.751, 29.0e6, 1.01e-12, 2.64e-12, 1.55e-12, 4.19e-12,
                      31.36e-12, 43.2e-12},
    [PZ_TECH_7NM] = {"7nm", 182.3, 182.2, 0.274, 16.2e6, 0.59e-12, 1.69e-12, 1.06e-12, 1.75e-12,
                     31.36e-12, 43.2e-12},
    [PZ_TECH_5NM] = {"5nm", 101.3, 101.2, 0.213, 13.6e6, 0.41e-12, 1.18e-12, 0.74e-12, 1.23e-12,
                     31.36e-12, 43.2e-12},
};

struct macro {
  int64_t bytes;
  double um2;
};

/* SRAM macros of the 22 nm library. */
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

/* A size of the table as it stands there; between two, on the line between them; outside, in
 * proportion. */
static double macro_um2(const struct macro *m, size_t n, int64_t bytes) {
  if (bytes <= m[0].bytes) return m[0].um2 * (double)bytes / (double)m[0].bytes;
  for (size_t i = 1; i < n; i++) {
    if (bytes > m[i].bytes) continue;
    if (bytes == m[i].bytes) return m[i].um2;
    double part = (double)(bytes - m[i - 1].bytes) / (double)(m[i].bytes - m[i - 1].bytes);
    return m[i - 1].um2 + part * (m[i].um2 - m[i - 1].um2);
  }
  return m[n - 1].um2 * (double)bytes / (double)m[n - 1].bytes;
}

double pz_tech_local_um2(const struct pz_tech_info *t, int64_t bytes) {
  if (t->sram_um2_per_byte > 0) return t->sram_um2_per_byte * (double)bytes;
  /* the library's smallest macro is 1 KiB */
  int64_t least = bytes < local_22nm[0].bytes ? local_22nm[0].bytes : bytes;
  return macro_um2(local_22nm, sizeof local_22nm / sizeof *local_22nm, least);
}

double pz_tech_glb_um2(const struct pz_tech_info *t, int64_t bytes) {
  if (t->sram_um2_per_byte > 0) return t->sram_um2_per_byte * (double)bytes;
  return macro_um2(glb_22nm, sizeof glb_22nm / sizeof *glb_22nm, bytes);
}
