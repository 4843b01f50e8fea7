/** Questions and notices. A dialog keeps the focus until it is answered, and gives it back. */

import { h } from "./dom.js";

/** Asks before something is done; resolves to whether to do it. */
export function confirm({ title, text, items = [], action, danger = false }) {
  const content = [
    h("p", {}, text),
    items.length > 0 && h("ul.plain", {}, items.map((item) => h("li", {}, item))),
  ];
  return ask({ title, content, action, danger, refusal: "Keep as it is", answer: () => true });
}

/** Asks for a secret; resolves to it, or to null. */
export function askForSecret({ title, text, label, action }) {
  const input = h("input", {
    id: "answer", name: "answer", required: true, autocomplete: "off", spellcheck: "false",
    type: "password",
  });
  const content = [h("p", {}, text), h("label", { for: "answer" }, label), input];
  return ask({ title, content, action, refusal: "Not now", answer: () => input.value.trim() || null });
}

/** Asks for numbers, each `{key, label, value, …}` with attributes; resolves to texts by key, or to null. */
export function askFor({ title, text, fields, action }) {
  const inputs = fields.map(({ key, label, value, ...more }) => ({
    key, label,
    input: h("input", { id: `answer-${key}`, name: key, type: "number", value: value ?? "", autocomplete: "off", ...more }),
  }));
  const content = [h("p", {}, text), ...inputs.flatMap(({ key, label, input }) => [h("label", { for: `answer-${key}` }, label), input])];
  const answer = () => Object.fromEntries(inputs.map(({ key, input }) => [key, input.value.trim()]));
  return ask({ title, content, action, refusal: "Keep as it is", answer });
}

function ask({ title, content, action, danger, refusal, answer }) {
  return new Promise((resolve) => {
    let given = null;
    const close = (value) => {
      given = value;
      dialog.close();
    };
    const submit = (event) => {
      event.preventDefault();
      close(answer());
    };
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
      h("form", { onsubmit: submit },
        h("h2", { id: "dialog-title" }, title),
        content.filter(Boolean),
        h("div.actions", {},
          h("button", { type: "button", onclick: () => close(null) }, refusal),
          h(danger ? "button.danger" : "button.primary", { type: "submit" }, action),
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Says what became of something; it is read aloud, and goes by itself unless it is a problem. */
export function notify(text, { title = null, items = [], bad = false } = {}) {
  const notice = h(bad ? "div.notice.bad" : "div.notice", {},
    h("div", {}, title && h("strong", {}, title), h("p", {}, text),
      items.length > 0 && h("ul.plain", {}, items.map((item) => h("li", {}, item)))),
    h("button.quiet", { type: "button", "aria-label": "Dismiss", onclick: () => notice.remove() }, "×"),
  );
  document.getElementById("notices").append(notice);
  if (!bad) setTimeout(() => notice.remove(), 8000);
}

/** Runs an action; a refusal is shown in the server's own words. */
export async function attempt(action) {
  try {
    return await action();
  } catch (problem) {
    notify(problem.message, { title: problem.title ?? "A mistake in the dashboard", bad: true });
    return null;
  }
}
