/* Unpacking an ONNX file, from bytes to a protobuf message, within limits.
 *
 * Before it is unpacked, the message is copied once (copy_message) without the fields that are not
 * needed: contents of large tensors, subgraphs, documentation, and unknown fields.  Therefore,
 * memory does not grow with the weights, and the nesting is checked before protobuf-c, which
 * recurses without limit, reads the bytes.  The wire format is described at
 * protobuf.dev/programming-guides/encoding. */
#include "core/buffer.h"
#include "onnx/passes.h"

/* Wire types of protobuf. */
enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* Fields that are dropped if they have more than `above` bytes. */
static const struct {
  const ProtobufCMessageDescriptor *message;
  unsigned field;
  size_t above;
} dropped_fields[] = {
    {&onnx__tensor_proto__descriptor, 4, PZ_ONNX_MOST_DATA},  /* float_data */
    {&onnx__tensor_proto__descriptor, 5, PZ_ONNX_MOST_DATA},  /* int32_data */
    {&onnx__tensor_proto__descriptor, 6, 0},                  /* string_data */
    {&onnx__tensor_proto__descriptor, 7, PZ_ONNX_MOST_DATA},  /* int64_data */
    {&onnx__tensor_proto__descriptor, 9, PZ_ONNX_MOST_DATA},  /* raw_data */
    {&onnx__tensor_proto__descriptor, 10, PZ_ONNX_MOST_DATA}, /* double_data */
    {&onnx__tensor_proto__descriptor, 11, PZ_ONNX_MOST_DATA}, /* uint64_data */
    {&onnx__tensor_proto__descriptor, 12, 0},                 /* doc_string */
    {&onnx__tensor_proto__descriptor, 13, 0},    /* external_data, which is never opened */
    {&onnx__attribute_proto__descriptor, 6, 0},  /* g: nodes with subgraphs are refused */
    {&onnx__attribute_proto__descriptor, 11, 0}, /* graphs */
    {&onnx__attribute_proto__descriptor, 13, 0}, /* doc_string */
    {&onnx__node_proto__descriptor, 6, 0},       /* doc_string */
    {&onnx__value_info_proto__descriptor, 3, 0}, /* doc_string */
    {&onnx__graph_proto__descriptor, 10, 0},     /* doc_string */
    {&onnx__graph_proto__descriptor, 14, 0},     /* quantization_annotation */
    {&onnx__model_proto__descriptor, 6, 0},      /* doc_string */
    {&onnx__model_proto__descriptor, 14, 0},     /* metadata_props */
    {&onnx__model_proto__descriptor, 20, 0},     /* training_info */
};

/* A file that is copied without unneeded fields. */
struct message_copy {
  struct pz_call *call;
  const char *name; /* name of the file for error messages */
  const uint8_t *data;
  struct pz_buffer *out;
};

/* Raises the error that the file is malformed at byte `at`, for this reason. */
static _Noreturn void raise_malformed(const struct message_copy *copy, size_t at,
                                      const char *reason) {
  pz_raise_at(copy->call, PZ_BAD_INPUT, copy->name, 0, 0,
              "%s: byte %zu: %s; accepted: an ONNX model (protobuf ModelProto)", copy->name, at,
              reason);
}

/* Reads a variable-length number that ends before `end`, and advances *at.  Each byte has seven
 * bits of the number, the lowest ones first. */
static uint64_t read_varint(const struct message_copy *copy, size_t *at, size_t end) {
  uint64_t number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (*at >= end) raise_malformed(copy, *at, "the file is truncated inside a number");
    uint8_t byte = copy->data[*at];
    ++*at;
    number |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return number;
  }
  raise_malformed(copy, *at, "a number has more than 64 bits");
}

/* Advances *at from the end of a field's key to the end of the field.  Returns where the contents
 * of the field begin. */
static size_t skip_field(const struct message_copy *copy, enum wire wire, size_t *at, size_t end) {
  uint64_t bytes = 0;
  size_t contents = *at;
  switch (wire) {
  case VARINT: read_varint(copy, at, end); return contents;
  case FIXED64: bytes = 8; break;
  case FIXED32: bytes = 4; break;
  case BYTES:
    bytes = read_varint(copy, at, end);
    contents = *at;
    break;
  default: raise_malformed(copy, *at, "a field has an invalid wire type");
  }
  if (bytes > end - *at) raise_malformed(copy, *at, "the file is truncated, or a length is wrong");
  *at += (size_t)bytes;
  return contents;
}

/* Returns the wire type that encodes a field of this type, unless the field is packed. */
static enum wire expected_wire(ProtobufCType type) {
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

/* Copies the needed fields of a message, which occupies bytes [at, end) of the file and is nested
 * `depth` levels deep. */
static void copy_message(const struct message_copy *copy, const ProtobufCMessageDescriptor *message,
                         size_t at, size_t end, int depth) {
  enum { LENGTH_BYTES = 5 }; /* enough for a length of 35 bits */
  static const char zeroes[LENGTH_BYTES];
  if (depth > PZ_ONNX_MOST_NESTING)
    pz_raise(copy->call, PZ_LIMIT,
             "%s: byte %zu: messages are nested too deep; accepted: at most %d", copy->name, at,
             PZ_ONNX_MOST_NESTING);
  while (at < end) {
    size_t start = at;
    uint64_t key = read_varint(copy, &at, end), number = key >> 3;
    enum wire wire = (enum wire)(key & 7);
    if (number == 0 || number > (1 << 29))
      raise_malformed(copy, start, "a field has an invalid number");
    size_t key_end = at, contents = skip_field(copy, wire, &at, end);
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(message, (unsigned)number);
    bool is_dropped = !field;
    for (size_t i = 0; i < sizeof dropped_fields / sizeof *dropped_fields && field; i++)
      if (dropped_fields[i].message == message && dropped_fields[i].field == field->id &&
          at - contents > dropped_fields[i].above)
        is_dropped = true;
    if (is_dropped) continue;
    bool packed = field->label == PROTOBUF_C_LABEL_REPEATED && wire == BYTES;
    if (wire != expected_wire(field->type) && !packed) {
      char reason[160];
      snprintf(reason, sizeof reason, "field '%s' has the wrong type", field->name);
      raise_malformed(copy, start, reason);
    }
    bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    size_t n = (is_message ? key_end : at) - start, reserved = is_message ? LENGTH_BYTES : 0;
    if (copy->out->bytes + n + reserved > PZ_ONNX_MOST_KEPT)
      pz_raise(copy->call, PZ_LIMIT, "%s: larger than %d MiB without the weights, the limit",
               copy->name, PZ_ONNX_MOST_KEPT >> 20);
    pz_buffer_add(copy->call, copy->out, (const char *)copy->data + start, n);
    if (!is_message) continue;
    /* The length of an inner message precedes it as a varint, and is known only afterwards. */
    size_t length_at = copy->out->bytes;
    pz_buffer_add(copy->call, copy->out, zeroes, reserved);
    copy_message(copy, field->descriptor, contents, at, depth + 1);
    size_t length = copy->out->bytes - length_at - reserved;
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
      size_t more = i + 1 < LENGTH_BYTES ? 128 : 0;
      ((uint8_t *)copy->out->text)[length_at + i] = (uint8_t)((length & 127) | more);
      length >>= 7;
    }
  }
}

/* The memory in which protobuf-c allocates.  `exhausted` tells a lack of memory from a malformed
 * message, which the result of protobuf-c does not. */
struct message_memory {
  struct pz_arena *arena;
  bool exhausted;
};

/* Allocates memory for protobuf-c.  Returns NULL if memory is exhausted, because no error may be
 * raised across the frames of protobuf-c. */
static void *allocate_message(void *ctx, size_t bytes) {
  struct message_memory *memory = ctx;
  void *block = pz_arena_alloc(memory->arena, 1, bytes);
  if (!block) memory->exhausted = true;
  return block;
}

/* Does nothing, because the arena frees the blocks of protobuf-c. */
static void free_nothing(void *ctx, void *block) {
  (void)ctx;
  (void)block;
}

/* Unpacks a model (protobuf) into the memory of the call; `name` stands for the file in
 * messages. */
const Onnx__ModelProto *pz_onnx_unpack(struct pz_call *call, const char *name, const void *data,
                                       size_t bytes) {
  struct message_copy copy = {call, name, data, pz_buffer_new(call)};
  copy_message(&copy, &onnx__model_proto__descriptor, 0, bytes, 0);
  struct message_memory memory = {call->arena, false};
  ProtobufCAllocator allocator = {allocate_message, free_nothing, &memory};
  const Onnx__ModelProto *model =
      onnx__model_proto__unpack(&allocator, copy.out->bytes, (const uint8_t *)copy.out->text);
  if (!model && memory.exhausted) pz_raise_memory(call, name);
  if (!model)
    pz_raise(call, PZ_BAD_INPUT, "%s: not an ONNX model; accepted: a protocol buffer ModelProto",
             name);
  pz_close(call, copy.out);
  return model;
}
