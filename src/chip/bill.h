/* What a chip costs to build and to run: area and power, from its description and its technology. */
#ifndef PZ_CHIP_BILL_H
#define PZ_CHIP_BILL_H

#include "chip/chip.h"


#endif
