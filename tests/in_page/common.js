// A selector that finds the element, short where an id helps.
function where(element) {
  const parts = [];
  for (let e = element; e; e = e.parentElement) {
    const tag = e.tagName.toLowerCase();
    if (e.id) { parts.unshift(`${tag}#${CSS.escape(e.id)}`); break; }
    const alike = e.parentElement
      ? [...e.parentElement.children].filter(other => other.tagName === e.tagName) : [e];
    parts.unshift(alike.length > 1 ? `${tag}:nth-of-type(${alike.indexOf(e) + 1})` : tag);
    if (e === document.body || e === document.documentElement) break;
  }
  return parts.join(' > ');
}

function words(element) {
  const text = element.getAttribute('aria-label') || element.textContent.trim() || element.value || '';
  return String(text).replace(/\s+/g, ' ').slice(0, 60);
}
