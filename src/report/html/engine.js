// Commands of phaze inside a page: a WebAssembly module (src/wasm/page.c) with files in memory.  Runs in a worker, where it is the
// whole script, and knows nothing of the page.

// What the module's C library asks of a system: two streams to write to, a clock, no environment.
function engine(module) {
  const out = { 1: [], 2: [] };
  let exports;
  const view = () => new DataView(exports.memory.buffer);
  const bad = 8; // EBADF of WASI
  const system = {
    fd_write(fd, list, n, written) {
      if (!out[fd]) return bad;
      let all = 0;
      for (let i = 0; i < n; i++) {
        const at = view().getUint32(list + 8 * i, true), bytes = view().getUint32(list + 8 * i + 4, true);
        out[fd].push(new Uint8Array(exports.memory.buffer, at, bytes).slice());
        all += bytes;
      }
      view().setUint32(written, all, true);
      return 0;
    },
    clock_time_get(id, precision, to) {
      view().setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true);
      return 0;
    },
    environ_sizes_get(n, bytes) {
      view().setUint32(n, 0, true);
      view().setUint32(bytes, 0, true);
      return 0;
    },
    environ_get: () => 0, fd_fdstat_get: () => bad, fd_close: () => bad, fd_seek: () => 70,
  };
  // The C library asks for memory as it needs it, and each time costs a new view of all of it: 64 MiB more are put by.
  function growMore() {
    try {
      exports.memory.grow(1024);
    } catch (e) { /* there is no more: the C library has got what it asked for */ }
  }
  // The upper half of a 64-bit result, where emscripten's longjmp keeps the value of setjmp.
  let upperHalf = 0;
  const env = { emscripten_notify_memory_growth: growMore, getTempRet0: () => upperHalf, setTempRet0: value => { upperHalf = value; } };
  exports = new WebAssembly.Instance(module, { wasi_snapshot_preview1: system, env }).exports;
  exports._initialize();

  // Bytes in the module's memory while f runs.
  function lent(bytes, f) {
    const at = exports.allocate(bytes.length || 1);
    if (!at) throw new Error("out of memory");
    new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
    const result = f(at);
    exports.release(at);
    return result;
  }
  const utf8 = new TextEncoder(), text = new TextDecoder();
  const word = s => utf8.encode(s.replace(/\0/g, "") + "\0");
  function taken(fd) {
    const list = out[fd], all = new Uint8Array(list.reduce((n, b) => n + b.length, 0));
    list.reduce((at, b) => (all.set(b, at), at + b.length), 0);
    out[fd] = [];
    return text.decode(all);
  }
  const upTo = (at, n) => text.decode(new Uint8Array(exports.memory.buffer, at, n));
  return {
    put: (name, content) => lent(word(name), n => lent(utf8.encode(content), t => exports.put(n, t, utf8.encode(content).length))),
    read: name => lent(word(name), n => exports.text(n) ? upTo(exports.text(n), exports.bytes(n)) : null),
    // { code, out, err } of a command, its words without the program's.
    run(words) {
      const parts = words.map(w => word(String(w))), all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
      parts.reduce((at, p) => (all.set(p, at), at + p.length), 0);
      const code = lent(all, at => exports.run(at, all.length));
      return { code, out: taken(1), err: taken(2) };
    },
  };
}
