/* Values from a format. */
#include <jansson.h>

/* Goes on after an error, so that every reference among the arguments is taken. */
struct packing {
  const char *at;
  bool failed;
  va_list args;
};

static json_t *pack_value(struct packing *p);

static char next_letter(struct packing *p) {
  while (*p->at == ' ' || *p->at == ',' || *p->at == ':') p->at++;
  return *p->at ? *p->at++ : '\0';
}

static json_t *pack_object(struct packing *p) {
  json_t *o = json_object();
  for (char c; (c = next_letter(p)) != '}';) {
    if (c != 's') {
      p->failed = true;
      return o;
    }
    const char *key = va_arg(p->args, const char *);
    if (json_object_set_new(o, key, pack_value(p)) != 0) p->failed = true;
  }
  return o;
}

static json_t *pack_array(struct packing *p) {
  json_t *a = json_array();
  while (*p->at == ' ' || *p->at == ',') p->at++;
  while (*p->at && *p->at != ']') {
    if (json_array_append_new(a, pack_value(p)) != 0) p->failed = true;
    while (*p->at == ' ' || *p->at == ',') p->at++;
  }
  next_letter(p);
  return a;
}

static json_t *pack_string(struct packing *p) {
  bool may_be_null = *p->at == '?';
  if (may_be_null) p->at++;
  const char *text = va_arg(p->args, const char *);
  return text || !may_be_null ? json_string(text) : json_null();
}

static json_t *pack_value(struct packing *p) {
  switch (next_letter(p)) {
  case '{': return pack_object(p);
  case '[': return pack_array(p);
  case 's': return pack_string(p);
  case 'n': return json_null();
  case 'b': return json_boolean(va_arg(p->args, int));
  case 'i': return json_integer(va_arg(p->args, int));
  case 'I': return json_integer(va_arg(p->args, json_int_t));
  case 'f': return json_real(va_arg(p->args, double));
  case 'o': return va_arg(p->args, json_t *);
  case 'O': return json_incref(va_arg(p->args, json_t *));
  default: p->failed = true; return NULL;
  }
}

json_t *json_pack(const char *format, ...) {
  struct packing p = {.at = format};
  va_start(p.args, format);
  json_t *value = pack_value(&p);
  va_end(p.args);
  if (!p.failed) return value;
  json_decref(value);
  return NULL;
}
