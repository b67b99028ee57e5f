#!/usr/bin/env python3
"""Check pages of `eitp report` in Chromium: tools/check_report.py [--screenshots DIR] [--browser PROGRAM] PAGE...

Shows each page 1400 and 400 pixels wide, light, dark, with other axes, and as for print. Fails on messages in the
console, on loads from elsewhere, on a page wider than its window, on text smaller than 11 pixels, and on contrast below
4.5:1. Needs chromium-headless-shell or another Chromium, and only Python's standard library.
"""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
LEAST_TEXT = 11
LEAST_CONTRAST = 4.5

# Returns [{kind, text}] for each fault. The background of a text is what lies below its center: HTML boxes with a
# background and SVG rectangles with a fill, each with its opacity.
LOOK = """
(() => {
  const found = [];
  const parse = (colour) => {
    let m = colour.match(/^rgba?\\(([\\d.]+), ([\\d.]+), ([\\d.]+)(?:, ([\\d.]+))?\\)$/);
    if (m) return [+m[1], +m[2], +m[3], m[4] === undefined ? 1 : +m[4]];
    m = colour.match(/^color\\(srgb ([\\d.]+) ([\\d.]+) ([\\d.]+)(?: \\/ ([\\d.]+))?\\)$/);
    if (m) return [255 * m[1], 255 * m[2], 255 * m[3], m[4] === undefined ? 1 : +m[4]];
    return null;
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat([1]);
  const light = (c) => {
    const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const layer = (element) => {
    const s = getComputedStyle(element);
    if (element.namespaceURI.endsWith("svg")) {
      if (element.tagName !== "rect") return null;
      const c = parse(s.fill);
      return c && [c[0], c[1], c[2], c[3] * s.fillOpacity * s.opacity];
    }
    return parse(s.backgroundColor);
  };
  const background = (element, box) => {
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const inside = x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
    let stack = inside ? document.elementsFromPoint(x, y) : [];
    for (let e = element; e; e = e.parentElement) if (!stack.includes(e)) stack.push(e);
    let colour = [255, 255, 255, 1];
    for (const e of stack.reverse()) {
      const c = e === element && e.namespaceURI.endsWith("svg") ? null : layer(e);
      if (c) colour = over(c, colour);
    }
    return colour;
  };
  if (document.documentElement.scrollWidth > innerWidth)
    found.push({kind: "wider than the window", text: document.documentElement.scrollWidth + " of " + innerWidth});
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || element.closest("title, desc, style, script")) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    const s = getComputedStyle(element);
    if (!box.width || !box.height || s.visibility !== "visible") continue;
    texts++;
    const svg = element.namespaceURI.endsWith("svg");
    const scale = svg && element.getScreenCTM ? Math.hypot(element.getScreenCTM().c, element.getScreenCTM().d) : 1;
    const size = parseFloat(s.fontSize) * scale;
    if (size < LEAST_TEXT) found.push({kind: "text of " + size.toFixed(1) + " pixels", text: text.slice(0, 60)});
    const below = background(element, box), own = parse(svg ? s.fill : s.color);
    if (!own) { found.push({kind: "unknown colour " + s.color, text: text.slice(0, 60)}); continue; }
    const ratio = contrast(over(own, below), below);
    if (ratio < LEAST_CONTRAST) found.push({kind: "contrast " + ratio.toFixed(2), text: text.slice(0, 60)});
    if (svg) {
      const outer = element.closest("svg.chart").getBoundingClientRect();
      if (box.left < outer.left - 1 || box.right > Math.max(outer.right + 1, outer.left + 1))
        found.push({kind: "text outside its picture", text: text.slice(0, 60)});
    }
  }
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map(h => +h.tagName[1]);
  levels.forEach((l, i) => { if (l > (i ? levels[i - 1] : 0) + 1) found.push({kind: "heading skips a level", text: "h" + l}); });
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  if (new Set(ids).size !== ids.length) found.push({kind: "an id twice", text: ids.find((d, i) => ids.indexOf(d) !== i)});
  if (!texts) found.push({kind: "no text", text: ""});
  return JSON.stringify(found.slice(0, 40));
})()
"""


class Browser:
    """Chromium, controlled through a pair of pipes, with zero-terminated JSON messages."""

    def __init__(self, program, directory):
        there, self.write_end = os.pipe()
        self.read_end, back = os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--remote-debugging-pipe", "--user-data-dir=" + directory, "about:blank"]
        # The browser reads from descriptor 3 and writes to 4.
        shell = ["sh", "-c", f'exec "$@" 3<&{there} 4>&{back}', "sh"]
        self.process = subprocess.Popen(shell + command, pass_fds=(there, back), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(there)
        os.close(back)
        self.buffer = b""
        self.count = 0
        self.messages = []
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            data = os.read(self.read_end, 1 << 16)
            if not data:
                raise RuntimeError("the browser exited")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, parameters=None):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters or {}}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.messages.append(answer)

    def wait_for(self, method):
        while not any(m.get("method") == method for m in self.messages):
            self.messages.append(self.receive())

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True})
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "script failed"))
        return result["result"].get("value")

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(30)


def complaints(messages, url):
    """Collect errors and warnings of the console, and loads of anything except the page."""
    for message in messages:
        parameters = message.get("params", {})
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            yield "console: " + parameters["entry"]["text"]
        elif message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            yield "console: " + str(parameters["args"])
        elif message.get("method") == "Runtime.exceptionThrown":
            yield "exception: " + str(parameters["exceptionDetails"].get("text"))
        elif message.get("method") == "Network.requestWillBeSent" and parameters["request"]["url"] != url:
            if not parameters["request"]["url"].startswith("data:"):
                yield "load: " + parameters["request"]["url"]


# Width in pixels, color scheme, medium, and whether the last axes are selected instead of the first.
VIEWS = {"light": (1400, "light", "screen", False), "dark": (1400, "dark", "screen", False),
         "other axes": (1400, "dark", "screen", True), "narrow, light": (400, "light", "screen", False),
         "narrow, dark": (400, "dark", "screen", False), "narrow, other axes": (400, "light", "screen", True),
         "print": (700, "dark", "print", False)}


def look(browser, page, view, screenshot):
    """Show a page and return its faults."""
    width, scheme, medium, choose = VIEWS[view]
    url = page.resolve().as_uri()
    browser.messages.clear()
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", {"media": medium, "features": features})
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", metrics)
    browser.call("Page.navigate", {"url": url})
    browser.wait_for("Page.loadEventFired")
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    if choose:
        browser.evaluate("for (const n of ['x', 'y']) [...document.querySelectorAll(`input[name=${n}]`)].pop()?.click()")
    metrics["height"] = min(int(browser.evaluate("document.documentElement.scrollHeight")), 16000)
    browser.call("Emulation.setDeviceMetricsOverride", metrics)
    script = LOOK.replace("LEAST_TEXT", str(LEAST_TEXT)).replace("LEAST_CONTRAST", str(LEAST_CONTRAST))
    wrong = [f"{w['kind']}: {w['text']}" for w in json.loads(browser.evaluate(script))]
    if screenshot:
        data = browser.call("Page.captureScreenshot", {"format": "png"})["data"]
        screenshot.write_bytes(base64.b64decode(data))
    return wrong + list(complaints(browser.messages, url))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path, help="directory for a screenshot of each view")
    parser.add_argument("--browser", default=next(filter(shutil.which, BROWSERS), None))
    arguments = parser.parse_args()
    if not arguments.browser:
        print("skipped: pages in a browser: Chromium is not installed (chromium-headless-shell)")
        return 0
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        browser = Browser(arguments.browser, directory)
        for index, page in enumerate(arguments.pages):
            for view in VIEWS:
                name = f"{index}-{page.stem}-{view.replace(', ', '-').replace(' ', '-')}.png"
                picture = arguments.screenshots / name if arguments.screenshots else None
                wrong = look(browser, page, view, picture)
                failed += bool(wrong)
                print(f"{page}: {view}: {'FAILED' if wrong else 'passed'}")
                for line in wrong:
                    print("    " + line)
        browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
