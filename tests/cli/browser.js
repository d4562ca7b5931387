// A headless Chromium by its debugging protocol over two pipes: for tests and pictures of pages.
"use strict";
const { spawn, execSync } = require("child_process");
const fs = require("fs"), os = require("os"), path = require("path");

function find() {
  for (const name of ["chromium", "chromium-browser", "google-chrome"])
    try {
      return execSync(`command -v ${name}`, { encoding: "utf8", shell: "/bin/sh" }).trim();
    } catch (e) { /* the next */ }
  return null;
}

// Opens a page { width, height, dark } and calls f with { send, eval, until, events }; the browser ends with it.
async function withPage(url, size, f) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "phaze-browser-"));
  const browser = spawn(find(), ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run", `--user-data-dir=${folder}`,
    "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", `--window-size=${size.width},${size.height}`, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const waiting = new Map(), events = [];
  let rest = "", last = 0, session;
  browser.stdio[4].setEncoding("utf8");
  browser.stdio[4].on("data", text => {
    const parts = (rest + text).split("\0");
    rest = parts.pop();
    parts.map(p => JSON.parse(p)).forEach(m => {
      if (m.id && waiting.has(m.id)) {
        const { resolve, reject } = waiting.get(m.id);
        waiting.delete(m.id);
        if (m.error) reject(new Error(m.error.message));
        else resolve(m.result);
      } else if (m.method) events.push(m);
    });
  });
  const call = (method, params, sessionId) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    browser.stdio[3].write(JSON.stringify({ id: last, method, params: params || {}, sessionId }) + "\0");
  });
  const send = (method, params) => call(method, params, session);
  const evaluate = async text => {
    const r = await send("Runtime.evaluate", { expression: text, returnByValue: true, awaitPromise: true });
    if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception ? r.exceptionDetails.exception.description : r.exceptionDetails.text);
    return r.result.value;
  };
  const until = async (text, seconds) => {
    for (const end = Date.now() + 1000 * seconds; Date.now() < end;) {
      const v = await evaluate(text);
      if (v) return v;
      await new Promise(r => setTimeout(r, 5));
    }
    throw new Error(`not within ${seconds} s: ${text}`);
  };
  try {
    const { targetInfos } = await call("Target.getTargets"), target = targetInfos.find(t => t.type === "page");
    session = (await call("Target.attachToTarget", { targetId: target.targetId, flatten: true })).sessionId;
    for (const part of ["Runtime", "Log", "Network", "Page"]) await send(part + ".enable");
    await send("Emulation.setDeviceMetricsOverride", { width: size.width, height: size.height, deviceScaleFactor: size.scale || 1, mobile: false });
    await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: size.dark ? "dark" : "light" }] });
    await send("Page.navigate", { url });
    return await f({ send, eval: evaluate, until, events });
  } finally {
    browser.kill();
    await new Promise(r => { browser.on("exit", r); setTimeout(r, 3000); });
    for (let tries = 0; tries < 50 && fs.existsSync(folder); tries++) // its own processes may still write there
      try {
        fs.rmSync(folder, { recursive: true, force: true });
      } catch (e) {
        await new Promise(r => setTimeout(r, 200));
      }
  }
}

// What a page should not do: messages on the console, exceptions, requests other than for itself.
function complaints(events) {
  return events.map(e => e.method === "Runtime.consoleAPICalled" ? "console: " + e.params.args.map(a => a.value || a.description).join(" ")
    : e.method === "Runtime.exceptionThrown" ? "exception: " + (e.params.exceptionDetails.exception ? e.params.exceptionDetails.exception.description : e.params.exceptionDetails.text)
    : e.method === "Log.entryAdded" ? "log: " + e.params.entry.text
    : e.method === "Network.requestWillBeSent" && !/^(file|blob|data|about):/.test(e.params.request.url) ? "request: " + e.params.request.url : null).filter(x => x);
}

async function picture(page, file, whole) {
  const { data } = await page.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: !!whole });
  fs.writeFileSync(file, Buffer.from(data, "base64"));
}

module.exports = { find, withPage, complaints, picture };
