"""Opens pages in headless Chromium and reports what a reader would stumble over.

A page of our own loads each page of the book into a frame, at the width of a desk and of a phone, looks at it from
inside and posts what it found to the server that handed it out. What the browser logs comes from its stderr."""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from urllib.parse import quote

WIDTHS = (1280, 390)

INSPECTOR = """<!doctype html><meta charset="utf-8"><title>inspector</title><script>
const pages = PAGES, widths = WIDTHS, found = [];
async function inspect(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 900px; border: 0`;
  frame.src = page;
  await new Promise((done) => { frame.onload = done; document.body.append(frame); });
  const view = frame.contentWindow, inside = frame.contentDocument;
  if (view.MathJax?.startup?.promise) await view.MathJax.startup.promise;
  const results = () => inside.querySelectorAll("#search-results li").length;
  for (let wait = 0; page.includes("?q=") && !results() && wait < 100; wait++)
    await new Promise((again) => setTimeout(again, 200));
  const images = [...inside.images];
  for (const image of images) { image.loading = "eager"; await image.decode().catch(() => {}); }
  const written = new DOMParser().parseFromString(await (await fetch(page)).text(), "text/html");
  const [served, shown] = [written, inside].map((one) => [...one.querySelectorAll(".highlight pre")]);
  const formulas = [...inside.querySelectorAll(".math")];
  const prose = inside.body.cloneNode(true);
  prose.querySelectorAll("code, pre, mjx-container, script, style").forEach((part) => part.remove());
  const raw = prose.textContent.match(/\\$[^$\\n]+\\$|\\\\(?:frac|bar|sqrt|mathrm|times|top|begin)\\b/g) || [];
  found.push({
    page, width,
    title: inside.querySelector("h1")?.textContent ?? "",
    results: results(),
    formulas: formulas.length,
    unrendered: formulas.filter((f) => !f.querySelector("mjx-container svg")).length,
    faulty: inside.querySelectorAll("[data-mjx-error], merror, [data-mml-node=merror]").length,
    raw: raw.slice(0, 3),
    altered: served.filter((block, i) => block.textContent !== shown[i]?.textContent).length,
    images: images.length,
    missing: images.filter((i) => !i.naturalWidth).map((i) => i.src),
    unnamed: images.filter((i) => !i.alt).map((i) => i.src),
    overflow: Math.max(0, inside.documentElement.scrollWidth - width),
    foreign: view.performance.getEntriesByType("resource").map((e) => e.name)
      .filter((name) => !name.startsWith(location.origin) && !name.startsWith("data:")),
  });
  frame.remove();
}
async function run() {
  try { for (const page of pages) for (const width of widths) await inspect(page, width); }
  catch (error) { found.push({ error: String(error) }); }
  await fetch("/__found", { method: "POST", body: JSON.stringify(found) });
}
window.onload = run;
</script><body></body>"""


def chromium() -> str | None:
    """The browser's path, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/__inspect.html":
            body = self.server.inspector.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/favicon.ico":  # the browser's own idea
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def do_POST(self):
        self.server.found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()

    def log_message(self, *_arguments):
        pass


def opened_as_file(file: Path, query: str, scratch: Path) -> tuple[str, list[str]]:
    """A page as a browser shows it that opens it from the disk, without a server; and what the browser logged."""
    command = [*_command(scratch), "--virtual-time-budget=20000", "--dump-dom", f"{file.resolve().as_uri()}{query}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.stdout, re.findall(r".*:CONSOLE[(:].*", result.stderr)


def _command(scratch: Path) -> list[str]:
    command = [chromium() or "", "--headless", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={scratch / 'profile'}", "--no-first-run", "--disable-dev-shm-usage"]
    return command + (["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else [])


def inspect(folder: Path, pages: list[str], scratch: Path, patience: float = 900) -> tuple[list[dict], list[str]]:
    """What was found on each page at each width, and what the browser logged meanwhile."""
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        listed = json.dumps([f"/{quote(page, safe='/?=')}" for page in pages])
        server.inspector = INSPECTOR.replace("PAGES", listed).replace("WIDTHS", json.dumps(WIDTHS))
        server.found, server.done = [], threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [*_command(scratch), "--remote-debugging-port=0"]
        log = scratch / "chromium.log"
        with log.open("w") as stderr:
            url = f"http://127.0.0.1:{server.server_port}/__inspect.html"
            browser = subprocess.Popen([*command, url], stdout=subprocess.DEVNULL, stderr=stderr)
            try:
                waited = 0.0
                while not server.done.wait(1.0) and browser.poll() is None and waited < patience:
                    waited += 1.0
            finally:
                browser.terminate()
                browser.wait()
                server.shutdown()
        text = log.read_text(errors="replace")
        assert server.done.is_set(), f"the browser gave no answer in {waited:.0f} s:\n{text[-2000:]}"
    return server.found, re.findall(r".*:CONSOLE[(:].*", text)
