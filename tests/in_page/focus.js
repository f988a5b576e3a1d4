// Called as "start", "step" after each Tab, and "end"; what was seen is kept on the window between.
const KEPT = Symbol.for('tests.tabStops');

function backdrop(element) {
  for (let e = element.parentElement; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\)$/.test(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
}

// The outline and shadow of an element as one text, empty where nothing is seen of them.
function marks(element) {
  // A transition would show the colours of before.
  for (const running of element.getAnimations()) {
    if (running instanceof CSSTransition) running.finish();
  }
  const style = getComputedStyle(element);
  if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) return '';
  const clear = /, 0\)$/.test(style.outlineColor) || style.outlineColor === backdrop(element);
  const outlined = style.outlineStyle === 'auto'
    || (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 && !clear);
  const outline = outlined ? `${style.outlineStyle} ${style.outlineWidth} ${style.outlineColor}` : '';
  const shadow = style.boxShadow === 'none' ? '' : style.boxShadow;
  return outline || shadow ? `${outline}|${shadow}` : '';
}

// A label, a frame around the field or a drawing inside it may show the focus as well.
function showing(element) {
  return [element, element.parentElement, element.nextElementSibling, ...(element.labels ?? []),
    ...element.children].filter(Boolean);
}

if (arguments[0] === 'start') {
  window[KEPT] = [];
  // Chromium goes on from where the focus was last: let that be the body.
  const index = document.body.getAttribute('tabindex');
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.blur();
  if (index === null) document.body.removeAttribute('tabindex');
  else document.body.setAttribute('tabindex', index);
  scrollTo({top: 0, left: 0, behavior: 'instant'});
  return true;
}

const kept = window[KEPT];
if (arguments[0] === 'step') {
  const element = document.activeElement;
  const left = !document.hasFocus() || !element || element === document.body;
  if (left || kept.some(stop => stop.element === element)) return false;
  const parts = showing(element);
  kept.push({element, parts, where: where(element), text: words(element), focused: parts.map(marks)});
  return true;
}

document.activeElement?.blur();
delete window[KEPT];
return kept.map(({parts, where, text, focused}) => ({
  where,
  text,
  indicator: parts.some((part, index) => focused[index] && focused[index] !== marks(part)),
}));
