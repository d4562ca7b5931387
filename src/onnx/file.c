#include "onnx/passes.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* Fields that are left out where they are longer than `above` bytes. */
static const struct {
  const ProtobufCMessageDescriptor *message;
  unsigned field;
  size_t above;
} left_out[] = {
    {&onnx__tensor_proto__descriptor, 4, PZ_ONNX_MOST_DATA},  /* float_data */
    {&onnx__tensor_proto__descriptor, 5, PZ_ONNX_MOST_DATA},  /* int32_data */
    {&onnx__tensor_proto__descriptor, 6, 0},                  /* string_data */
    {&onnx__tensor_proto__descriptor, 7, PZ_ONNX_MOST_DATA},  /* int64_data */
    {&onnx__tensor_proto__descriptor, 9, PZ_ONNX_MOST_DATA},  /* raw_data */
    {&onnx__tensor_proto__descriptor, 10, PZ_ONNX_MOST_DATA}, /* double_data */
    {&onnx__tensor_proto__descriptor, 11, PZ_ONNX_MOST_DATA}, /* uint64_data */
    {&onnx__tensor_proto__descriptor, 12, 0},                 /* doc_string */
    {&onnx__tensor_proto__descriptor, 13, 0},                 /* external_data: never opened */
    {&onnx__attribute_proto__descriptor, 6, 0},               /* g: nodes with one are refused */
    {&onnx__attribute_proto__descriptor, 11, 0},              /* graphs */
    {&onnx__attribute_proto__descriptor, 13, 0},              /* doc_string */
    {&onnx__node_proto__descriptor, 6, 0},                    /* doc_string */
    {&onnx__value_info_proto__descriptor, 3, 0},              /* doc_string */
    {&onnx__graph_proto__descriptor, 10, 0},                  /* doc_string */
    {&onnx__graph_proto__descriptor, 14, 0},                  /* quantization_annotation */
    {&onnx__model_proto__descriptor, 6, 0},                   /* doc_string */
    {&onnx__model_proto__descriptor, 14, 0},                  /* metadata_props */
    {&onnx__model_proto__descriptor, 20, 0},                  /* training_info */
};

struct copy {
  const char *name;
  const uint8_t *data;
  uint8_t *out;
  size_t n, cap;
  struct pz_error *err;
};

static bool bad(struct copy *c, size_t at, const char *what) {
  pz_fail(c->err, PZ_BAD_INPUT, "%s: byte %zu: %s; accepted: an ONNX model (protobuf ModelProto)",
          c->name, at, what);
  pz_error_at(c->err, c->name, 0, 0);
  return false;
}

static bool put(struct copy *c, const void *bytes, size_t n) {
  if (c->n + n > PZ_ONNX_MOST_KEPT) {
    pz_fail(c->err, PZ_LIMIT, "%s: larger than %d MiB without the weights, the limit", c->name,
            PZ_ONNX_MOST_KEPT >> 20);
    return false;
  }
  if (c->n + n > c->cap) {
    size_t cap = c->cap * 2 > c->n + n ? c->cap * 2 : c->n + n;
    uint8_t *more = pz_realloc(c->out, cap);
    if (!more) {
      pz_fail(c->err, PZ_NO_MEMORY, "%s: out of memory while reading", c->name);
      return false;
    }
    c->out = more;
    c->cap = cap;
  }
  if (n) memcpy(c->out + c->n, bytes, n);
  c->n += n;
  return true;
}

static bool get_varint(struct copy *c, size_t *at, size_t end, uint64_t *v) {
  *v = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (*at >= end) return bad(c, *at, "the file is truncated inside a number");
    uint8_t byte = c->data[(*at)++];
    *v |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return bad(c, *at, "a number has more than 64 bits");
}

/* Where the field that begins at *at, after its key, ends; `inner` begins its contents. */
static bool field_end(struct copy *c, enum wire wire, size_t *at, size_t end, size_t *inner) {
  uint64_t v = 0;
  *inner = *at;
  switch (wire) {
  case VARINT: return get_varint(c, at, end, &v);
  case FIXED64: v = 8; break;
  case FIXED32: v = 4; break;
  case BYTES:
    if (!get_varint(c, at, end, &v)) return false;
    *inner = *at;
    break;
  default: return bad(c, *at, "a field has an invalid wire type");
  }
  if (v > end - *at) return bad(c, *at, "the file is truncated, or a length is wrong");
  *at += (size_t)v;
  return true;
}

static bool is_left_out(const ProtobufCMessageDescriptor *m, unsigned field, size_t bytes) {
  for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (left_out[i].message == m && left_out[i].field == field && bytes > left_out[i].above)
      return true;
  return false;
}

static enum wire wire_of(ProtobufCType type) {
  switch (type) {
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_BYTES:
  case PROTOBUF_C_TYPE_MESSAGE: return BYTES;
  case PROTOBUF_C_TYPE_FLOAT:
  case PROTOBUF_C_TYPE_FIXED32:
  case PROTOBUF_C_TYPE_SFIXED32: return FIXED32;
  case PROTOBUF_C_TYPE_DOUBLE:
  case PROTOBUF_C_TYPE_FIXED64:
  case PROTOBUF_C_TYPE_SFIXED64: return FIXED64;
  default: return VARINT;
  }
}

/* Is the field written as its type wants?  Repeated numbers may be packed. */
static bool right_kind(struct copy *c, const ProtobufCFieldDescriptor *f, enum wire wire,
                       size_t at) {
  bool packed = f->label == PROTOBUF_C_LABEL_REPEATED && wire == BYTES;
  if (wire == wire_of(f->type) || packed) return true;
  char what[160];
  snprintf(what, sizeof what, "field '%s' has the wrong type", f->name);
  return bad(c, at, what);
}

static bool copy_message(struct copy *c, const ProtobufCMessageDescriptor *m, size_t at, size_t end,
                         int depth);

/* A message inside: its length comes before it and is known after it, so five bytes are kept for
 * it. */
static bool copy_inside(struct copy *c, const ProtobufCFieldDescriptor *f, size_t at, size_t end,
                        int depth) {
  static const uint8_t unknown[5];
  size_t length = c->n;
  if (!put(c, unknown, sizeof unknown) || !copy_message(c, f->descriptor, at, end, depth))
    return false;
  size_t n = c->n - length - sizeof unknown;
  for (int i = 0; i < 5; i++, n >>= 7) c->out[length + (size_t)i] = (uint8_t)((n & 127) | 128);
  c->out[length + 4] &= 127;
  return true;
}

static bool copy_field(struct copy *c, const ProtobufCMessageDescriptor *m, size_t *at, size_t end,
                       int depth) {
  uint64_t key = 0;
  size_t start = *at, inner;
  if (!get_varint(c, at, end, &key)) return false;
  enum wire wire = (enum wire)(key & 7);
  if (key >> 3 == 0 || key >> 3 > (1 << 29)) return bad(c, start, "a field has an invalid number");
  size_t key_end = *at;
  if (!field_end(c, wire, at, end, &inner)) return false;
  const ProtobufCFieldDescriptor *f =
      protobuf_c_message_descriptor_get_field(m, (unsigned)(key >> 3));
  if (!f || is_left_out(m, f->id, *at - inner)) return true;
  if (!right_kind(c, f, wire, start)) return false;
  if (f->type != PROTOBUF_C_TYPE_MESSAGE) return put(c, c->data + start, *at - start);
  return put(c, c->data + start, key_end - start) && copy_inside(c, f, inner, *at, depth + 1);
}

static bool copy_message(struct copy *c, const ProtobufCMessageDescriptor *m, size_t at, size_t end,
                         int depth) {
  if (depth > PZ_ONNX_MOST_NESTING) {
    pz_fail(c->err, PZ_LIMIT, "%s: byte %zu: messages are nested too deep; accepted: at most %d",
            c->name, at, PZ_ONNX_MOST_NESTING);
    return false;
  }
  while (at < end)
    if (!copy_field(c, m, &at, end, depth)) return false;
  return true;
}

/* Where protobuf-c allocates; it does not tell a lack of memory from a wrong message. */
struct memory {
  struct pz_arena *arena;
  bool failed;
};

static void *memory_alloc(void *memory, size_t bytes) {
  struct memory *m = memory;
  void *p = pz_arena_alloc(m->arena, 1, bytes);
  if (!p) m->failed = true;
  return p;
}

static void memory_free(void *memory, void *p) {
  (void)memory;
  (void)p;
}

enum pz_status pz_onnx_read(const char *name, const void *data, size_t bytes,
                            struct pz_arena *arena, Onnx__ModelProto **out, struct pz_error *err) {
  struct copy c = {.name = name, .data = data, .err = err};
  struct memory memory = {arena, false};
  ProtobufCAllocator allocator = {memory_alloc, memory_free, &memory};
  enum pz_status status = PZ_OK;
  if (!copy_message(&c, &onnx__model_proto__descriptor, 0, bytes, 0)) {
    status = err->status;
  } else {
    *out = onnx__model_proto__unpack(&allocator, c.n, c.out);
    if (!*out && memory.failed)
      status = pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", name);
    else if (!*out)
      status = pz_fail(err, PZ_BAD_INPUT,
                       "%s: not an ONNX model; accepted: a protocol buffer ModelProto", name);
  }
  pz_free(c.out);
  return status;
}
