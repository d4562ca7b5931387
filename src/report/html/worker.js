// The worker: takes the module once, then jobs { id, files, commands }, each command { words, read } with the name of a file to read after it.
// A job ends with the first command that fails, unless it is marked as one that may.
let phaze = null, module_ = null;

function work(job) {
  if (!phaze) phaze = engine(module_);
  Object.entries(job.files).forEach(([name, text]) => {
    if (phaze.put(name, text)) throw new Error(name + ": the page cannot hold this file");
  });
  const results = [];
  for (const c of job.commands) {
    const began = performance.now(), r = phaze.run(c.words);
    r.ms = performance.now() - began;
    if (c.read && r.out) r.file = phaze.read(c.read);
    results.push(r);
    if (r.code !== 0 && !c.may_fail) break;
  }
  return results;
}

self.onmessage = e => {
  if (e.data.module) {
    module_ = e.data.module;
    return;
  }
  try {
    self.postMessage({ id: e.data.id, results: work(e.data) });
  } catch (error) { // a trap: the module's memory is not to be relied on any more
    phaze = null;
    self.postMessage({ id: e.data.id, trap: String(error && error.message || error) });
  }
};
