/* ONNX files as models: from bytes to a workload. */
#ifndef PZ_WORKLOAD_ONNX_H
#define PZ_WORKLOAD_ONNX_H

#include "workload/onnx_file.h"
#include "workload/workload.h"

#endif
