/**
 * The elements of the page. A value enters as text or as an attribute, never as markup: this is the
 * one place where elements are made, and it cannot parse any.
 */

const SVG = "http://www.w3.org/2000/svg";
const HANDLERS = ["onclick", "onchange", "oninput", "onsubmit"];

/** An element: `h("a.button", {href}, "text", node, …)`. Children that are null or false are left out. */
export function h(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElement(tag), classes, attributes, children);
}

/** The same for drawings. */
export function s(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElementNS(SVG, tag), classes, attributes, children);
}

function filled(element, classes, attributes, children) {
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (HANDLERS.includes(name)) element[name] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, value);
  }
  const absent = [null, undefined, false];
  element.append(...children.flat(Infinity).filter((child) => !absent.includes(child)));
  return element;
}

/**
 * Makes `from` look like `to` with the fewest changes, so that focus, selections and what has been
 * typed outlive an update. Children with the same `data-key` are the same child.
 */
export function morph(from, to) {
  if (from.nodeName !== to.nodeName || from.dataset?.key !== to.dataset?.key) {
    from.replaceWith(to);
  } else if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
  } else {
    morphAttributes(from, to);
    morphChildren(from, to);
  }
}

function morphAttributes(from, to) {
  const kept = (name) => name === "open" && from.nodeName === "DETAILS"; // it is the reader's
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !kept(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !kept(name)) from.setAttribute(name, value);
  }
  for (const name of HANDLERS) {
    if (from[name] !== to[name]) from[name] = to[name];
  }
  if (from.type === "checkbox") from.checked = to.checked;
}

function morphChildren(from, to) {
  const keyed = new Map();
  for (const child of from.children) {
    if (child.dataset.key !== undefined) keyed.set(child.dataset.key, child);
  }
  let place = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const key = wanted.dataset?.key;
    const found = key === undefined ? place : keyed.get(key);
    if (!found || (key === undefined && found.dataset?.key !== undefined)) {
      from.insertBefore(wanted, place);
    } else {
      if (found === place) place = place.nextSibling;
      else from.insertBefore(found, place);
      morph(found, wanted);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}
