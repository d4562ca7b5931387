/* Reading an ONNX file: bytes in, the protobuf message out, with limits.
 *
 * The message is copied once before it is unpacked, without what is not needed: contents of large
 * tensors, subgraphs, doc strings and fields this reader does not know.  So memory does not grow
 * with the weights, and nesting is checked before protobuf-c, which recurses without limit, sees
 * the bytes.  Knows nothing of graphs. */
#ifndef PZ_ONNX_FILE_H
#define PZ_ONNX_FILE_H

#include <onnx.pb-c.h>

#include "core/arena.h"

enum {
  PZ_ONNX_MOST_FILE = INT32_MAX, /* bytes of a file: what protobuf allows */
  PZ_ONNX_MOST_KEPT = 128 << 20, /* bytes that are left of it without the weights */
  PZ_ONNX_MOST_DATA = 4096,      /* contents of a tensor that are kept, bytes */
  PZ_ONNX_MOST_NESTING = 24,     /* messages inside messages */
};

/* Unpack a model; all of it lives in the arena.  `name` stands for the file in messages. */
PZ_NODISCARD enum pz_status pz_onnx_read(const char *name, const void *data, size_t bytes,
                                         struct pz_arena *arena, Onnx__ModelProto **out,
                                         struct pz_error *err);

#endif
