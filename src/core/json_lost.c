#include "core/json_lost.h"

static _Thread_local bool lost_here;

bool pz_json_lost(void) { return lost_here; }

void pz_json_lost_set(bool lost) { lost_here = lost; }

static _Thread_local struct {
  void *block;
  size_t bytes;
} reserve;

void pz_json_reserve_set(void *block, size_t bytes) {
  reserve.block = block;
  reserve.bytes = bytes;
}

void *pz_json_reserve_take(size_t bytes) {
  void *block = bytes <= reserve.bytes ? reserve.block : NULL;
  if (block) pz_json_reserve_set(NULL, 0);
  return block;
}
