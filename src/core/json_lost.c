#include "core/json_lost.h"

static _Thread_local bool lost_here;

bool pz_json_lost(void) { return lost_here; }

void pz_json_lost_set(bool lost) { lost_here = lost; }
