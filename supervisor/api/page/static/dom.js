// Makes elements. Whatever a job or a host says becomes text, never markup: this is the only module that makes elements,
// and it puts in text nodes and attributes that the page itself names.

const SVG = "http://www.w3.org/2000/svg";

/** Returns an element. `settings`: `on` has listeners, every other key is an attribute; null and false leave it out. */
export function el(tag, settings = {}, ...children) {
  return filled(document.createElement(tag), settings, children);
}

/** Returns an element of SVG. */
export function svg(tag, settings = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), settings, children);
}

function filled(node, settings, children) {
  for (const [name, value] of Object.entries(settings)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets the text of a node, if it is another one: what is selected stays selected. */
export function setText(node, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** Gives `node` the children that `build` returns, if `facts` differ from those of the time before. */
const shown = new WeakMap();
export function rebuild(node, facts, build) {
  const text = JSON.stringify(facts) ?? "";
  if (shown.get(node) === text) return;
  shown.set(node, text);
  node.replaceChildren(...[build()].flat().filter((child) => child !== null && child !== undefined));
}

/** Makes the children of `parent` those of `items`, in their order; the element of an item is kept as long as there is one
 * of its key, so that focus and selection stay. */
export function reconcile(parent, items, keyOf, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const focused = document.activeElement;
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = known.get(key);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = key;
    }
    known.delete(key);
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of known.values()) child.remove();
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}
