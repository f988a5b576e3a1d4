const SLACK = 1;  // rounding
const root = document.documentElement;
const screen = arguments[0];
const found = [];

// Clipped to nothing or transparent: for screen readers, or not there at the moment.
function hidden(element) {
  if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) return true;
  for (let e = element; e && e !== document.body; e = e.parentElement) {
    const style = getComputedStyle(e);
    if (style.position === 'absolute' && /^rect\((0px|1px)/.test(style.clip)) return true;
    if (/^inset\((50|100)%/.test(style.clipPath)) return true;
    const closed = e.clientWidth <= 1 || e.clientHeight <= 1;
    if (closed && style.display !== 'inline' && /hidden|clip/.test(style.overflow)) return true;
  }
  return false;
}

// The boxes around an element that clip or scroll it, from the inside out. The body's and the root's
// overflow is the screen's own.
function frames(element, self) {
  const list = [];
  let position = 'relative';
  for (let e = element; e && e !== document.body && e !== root; e = e.parentElement) {
    const style = getComputedStyle(e);
    const around = style.position !== 'static' || style.transform !== 'none';
    if (position === 'fixed' || (position === 'absolute' && !around)) continue;
    // Overflow means nothing for a piece of running text; a drawing stands in it as a box.
    const boxed = style.display !== 'inline' || e.tagName === 'svg';
    const clips = style.overflowX !== 'visible' || style.overflowY !== 'visible';
    if (clips && boxed && !e.ownerSVGElement && (self || e !== element)) {
      list.push([e, style]);
    }
    position = style.position;
  }
  return list;
}

function past(rect, left, right) {
  // What lies wholly to the left cannot be scrolled to: the usual place of skip links.
  if (rect.right + scrollX <= 0) return 0;
  return Math.max(rect.right - right, left - rect.left);
}

const stuck = new Map();
function screenEdge(element, rect, what) {
  const over = past(rect, -scrollX, root.clientWidth - scrollX);
  if (over <= SLACK) return;
  stuck.set(element, over);
  // The outermost element says it for those inside that reach no further.
  for (let e = element.parentElement; e; e = e.parentElement) {
    if (stuck.get(e) >= over - SLACK) return;
  }
  found.push(`${where(element)} "${words(element)}": ${what} ${Math.round(over)} px outside of the screen`);
}

function cutOff(element, rect, self, what) {
  let freeX = false, freeY = false;
  for (const [frame, style] of frames(element, self)) {
    const outer = frame.getBoundingClientRect();
    const left = outer.left + frame.clientLeft, top = outer.top + frame.clientTop;
    const shortened = style.textOverflow === 'ellipsis' || style.webkitLineClamp !== 'none';
    const say = side => found.push(
      `${where(element)} "${words(element)}": ${what} cut off ${side} by ${where(frame)}`);
    if (/auto|scroll/.test(style.overflowX)) freeX = true;
    if (/auto|scroll/.test(style.overflowY)) freeY = true;
    if (!freeX && /hidden|clip/.test(style.overflowX)) {
      if (shortened) return true;
      if (Math.max(rect.right - left - frame.clientWidth, left - rect.left) > SLACK) {
        say('sideways');
        return true;
      }
    }
    // Letters are lower than their line's box, so a little of the box may be missing.
    const low = what === 'text' ? 0.3 * rect.height : SLACK;
    if (!freeY && /hidden|clip/.test(style.overflowY) && !shortened) {
      if (Math.max(rect.bottom - top - frame.clientHeight, top - rect.top) > low) {
        say('in height');
        return true;
      }
    }
  }
  return freeX;
}

if (root.clientWidth > screen + SLACK) {
  found.push(`document: laid out for ${root.clientWidth} px on a screen of ${screen} px (viewport meta?)`);
}
if (document.scrollingElement.scrollWidth > root.clientWidth) {
  found.push(
    `document: scrolls sideways, ${document.scrollingElement.scrollWidth} px in ${root.clientWidth} px`);
}

const SOLID = /^(img|svg|canvas|video|iframe|button|input|select|textarea|meter|progress)$/i;
const SILENT = /^(script|style|noscript|template|option|textarea|title|desc)$/i;
for (const element of document.body.querySelectorAll('*')) {
  if (element.ownerSVGElement || SILENT.test(element.tagName)) continue;
  const rect = element.getBoundingClientRect();
  if (rect.width <= 1 || rect.height <= 1 || hidden(element)) continue;
  if (SOLID.test(element.tagName) && cutOff(element, rect, false, 'box')) continue;
  if (frames(element, false).some(([, style]) => style.overflowX !== 'visible')) continue;
  screenEdge(element, rect, 'box');
}

const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const spoken = new Set();
for (let node = texts.nextNode(); node; node = texts.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || SILENT.test(element.tagName) || spoken.has(element)) continue;
  if (hidden(element)) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const drawn = element.ownerSVGElement ? [element.getBoundingClientRect()] : range.getClientRects();
  for (const rect of drawn) {
    if (rect.width === 0) continue;
    const before = found.length;
    if (!cutOff(element, rect, true, 'text')
        && !frames(element, true).some(([, style]) => style.overflowX !== 'visible')) {
      screenEdge(element, rect, 'text');
    }
    if (found.length > before) { spoken.add(element); break; }
  }
}
return found;
