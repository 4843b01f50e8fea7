/** A traceback as Python prints it, with the reader's own code in sight and library frames folded. */

import { h } from "./dom.js";
import { counted } from "./format.js";
import { copyButton } from "./parts.js";

const FRAME = /^\s*File "(.*)", line (\d+), in (.*)$/;
const LIBRARY = /[\\/](?:site-packages|dist-packages|lib[\\/]python[\d.]+)[\\/]|^<(?!string>|stdin>)/;

/** The traceback, the frame of the reader's own code that failed before it, and a button that copies it. */
export function tracebackView(text) {
  const parts = partsOf(text);
  const own = parts.filter((part) => part.frame && !part.frame.library).at(-1);
  return h("div.traceback", {},
    h("div.own", {}, own && [h("span.below", {}, "in your code"), frameView(own.frame)], copyButton(text, "the traceback")),
    h("div.frames", { tabindex: "0", role: "group", "aria-label": "Traceback" }, folded(parts).map(partView)));
}

/** Frames, and the lines between them as they are. */
function partsOf(text) {
  const parts = [];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const found = FRAME.exec(line);
    const last = parts.at(-1);
    if (found) {
      const [, file, number, name] = found;
      parts.push({ frame: { file, number, name, source: "", library: LIBRARY.test(file) } });
    } else if (last?.frame && /^ {4}\S/.test(line) && !last.frame.source) last.frame.source = line.trim();
    else if (last && !last.frame) last.text += `\n${line}`;
    else parts.push({ text: line });
  }
  return parts;
}

/** Library frames that follow each other are one part. */
function folded(parts) {
  const found = [];
  for (const part of parts) {
    const last = found.at(-1);
    if (!part.frame?.library) found.push(part);
    else if (last?.frames) last.frames.push(part.frame);
    else found.push({ frames: [part.frame] });
  }
  return found;
}

function partView({ text, frame, frames }) {
  if (text !== undefined) return h("pre.said", {}, text);
  if (frame) return frameView(frame);
  return h("details", {},
    h("summary", {}, `${counted(frames.length, "frame")} of ${packagesOf(frames)}`), frames.map(frameView));
}

function frameView({ file, number, name, source, library }) {
  return h(library ? "div.frame.library" : "div.frame", {},
    h("span.where", {}, file, ":", h("strong", {}, number), " in ", h("strong", {}, name)),
    source && h("code", {}, source));
}

/** The packages of library frames: `httpx, anyio`; `Python` for the standard library. */
function packagesOf(frames) {
  const names = frames.map(({ file }) => /[\\/](?:site|dist)-packages[\\/]([^\\/]+)/.exec(file)?.[1] ?? "Python");
  return [...new Set(names.map((name) => name.replace(/\.py$/, "")))].join(", ");
}
